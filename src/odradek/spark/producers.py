"""The producers of this process, kept from task to task.

A producer is lent to one task at a time, and kept if the task ended well, with its connections, its
producer id and its metadata. The key has the process id for the same reason as in `connections`,
and no topic: a producer can write to any.
"""

from __future__ import annotations

import os
import time

from odradek import Producer
from odradek.client.admin.results import Topic
from odradek.client.errors import UnknownTopicOrPartition
from odradek.config.client import ClientConfig
from odradek.model.topics import uuid_text
from odradek.spark.connections import admin_of
from odradek.spark.options import ClientOptions, WriteOptions, settings_for

LINGER_MS = 100
"""Long: batches are sent when they are full, or at the end of the task."""
MAX_REQUEST_BYTES = 16 * 1024 * 1024
"""Large: the broker's limit decides how large a record may be."""
CREATION_WAIT_MS = 10_000
"""How long to wait for the brokers to create a missing topic."""
ANNOUNCEMENT_PAUSE_S = 0.02
COUNT_MAX_AGE_S = 10.0
"""How long the number of a topic's partitions is cached, so that short micro-batches need not ask.
"""

SparkProducer = Producer[bytes | str, bytes | str]


class CachedProducer:
    """A producer with its topics, as they were a moment ago."""

    def __init__(self, options: WriteOptions, producer: SparkProducer) -> None:
        self.options = options
        self.producer = producer
        self._topics: dict[str, tuple[Topic, float]] = {}

    def partition_count(self, topic: str, at_least: int = 1) -> int:
        """Return the number of a topic's partitions; asks again if it was less than `at_least`.

        As with Spark's own sink, a missing topic is created if the brokers create topics. Otherwise
        raises `UnknownTopicOrPartition`: the task's producer would wait much longer.
        """
        now_s = time.monotonic()
        known = self._topics.get(topic)
        if known is None or len(known[0].partitions) < at_least or now_s >= known[1]:
            known = existing_topic(self.options.client, topic), now_s + COUNT_MAX_AGE_S
            self._topics[topic] = known
        return len(known[0].partitions)

    def forget_topics(self) -> None:
        """Ask for topics anew."""
        self._topics.clear()

    def topic_id(self, topic: str) -> str:
        """Return the id of a topic that was written to, as text."""
        return uuid_text(self._topics[topic][0].topic_id)


_cached: dict[tuple[int, WriteOptions], CachedProducer] = {}


def take_producer(
    options: WriteOptions, transactional_id: str | None = None, transaction_timeout_ms: int = 0
) -> CachedProducer:
    """Return a producer for one task: a cached one, or a new one. A cached transactional one may
    have had another id."""
    wanted = options.of_clients()
    found = _cached.pop((os.getpid(), wanted), None)
    if found is None:
        made = new_producer(wanted, transactional_id, transaction_timeout_ms)
        found = CachedProducer(wanted, made)
    return found


def return_producer(producer: CachedProducer) -> None:
    """Return a producer without open records for the next task."""
    key = (os.getpid(), producer.options)
    if key in _cached:
        producer.producer.close()
    else:
        _cached[key] = producer


def new_producer(
    options: WriteOptions,
    transactional_id: str | None = None,
    transaction_timeout_ms: int = 0,
    linger_ms: int = LINGER_MS,
) -> SparkProducer:
    """Open a producer that writes in order, with or without idempotence, or in transactions."""
    return Producer(producer_settings(options, transactional_id, transaction_timeout_ms, linger_ms))


def producer_settings(
    options: WriteOptions,
    transactional_id: str | None,
    transaction_timeout_ms: int,
    linger_ms: int,
) -> dict[str, object]:
    """Return the settings of such a producer."""
    within_ms = max(1, options.delivery_timeout_ms - linger_ms)
    transactional: dict[str, object] = {}
    if transactional_id is not None:
        transactional["transactional.id"] = transactional_id
        transactional["transaction.timeout.ms"] = transaction_timeout_ms
    return {
        "bootstrap.servers": options.client.bootstrap_servers,
        "client.id": options.client.client_id,
        "request.timeout.ms": min(options.client.request_timeout_ms, within_ms),
        "max.block.ms": options.client.api_timeout_ms,
        "delivery.timeout.ms": max(options.delivery_timeout_ms, linger_ms + 1),
        "linger.ms": linger_ms,
        "compression.type": options.compression,
        "batch.size": options.batch_size,
        "max.request.size": MAX_REQUEST_BYTES,
        "enable.idempotence": options.idempotence,
        "max.in.flight.requests.per.connection": options.max_in_flight,
        **dict(options.client.settings),
        **transactional,
    }


def existing_topic(client: ClientOptions, topic: str) -> Topic:
    """Return a topic in current metadata."""
    try:
        return admin_of(client).topic(topic)
    except UnknownTopicOrPartition:
        return made_by_brokers(client, topic)


def made_by_brokers(client: ClientOptions, topic: str) -> Topic:
    """Request metadata of a missing topic as producers do, so that brokers may create it; return
    it."""
    try:
        with Producer(
            settings_for(client.settings, ClientConfig),
            brokers=client.bootstrap_servers,
            client_id=client.client_id,
            request_timeout_ms=client.request_timeout_ms,
            max_block_ms=min(CREATION_WAIT_MS, client.api_timeout_ms),
        ) as producer:
            producer.partitions_for(topic)
    except UnknownTopicOrPartition as error:
        raise UnknownTopicOrPartition(
            f"{topic}: UNKNOWN_TOPIC_OR_PARTITION: the topic does not exist, and brokers create "
            f"none (auto.create.topics.enable). What to do: odradek topic create {topic} "
            f"-b {client.bootstrap_servers}",
            error.code,
        ) from None
    return announced_topic(client, topic)


def announced_topic(client: ClientOptions, topic: str) -> Topic:
    """Return a topic that was just created. The broker that is asked may not know it yet: a broker
    learns of a topic from the controller's log."""
    deadline = time.monotonic() + client.api_timeout_ms / 1000
    while True:
        try:
            return admin_of(client).topic(topic)
        except UnknownTopicOrPartition:
            if time.monotonic() >= deadline:
                raise
        time.sleep(ANNOUNCEMENT_PAUSE_S)
