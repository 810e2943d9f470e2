"""The producers of this process, kept from task to task.

A producer is lent to one task at a time, and kept if the task ended well, with its connections, its
producer id and its metadata. The key has the process id for the same reason as in `connections`,
and no topic: a producer can write to any for which its `batch.size` is right.

Large batches cost less: with 1,000,000 bytes instead of 262,144 a broker takes a quarter less
processor time for records of 100 bytes. But each partition with records to send takes `batch.size`
of `buffer.memory`, and where that is used up, batches are sent before they are full. So
`batch.size` depends on the number of partitions, unless it is given. Rows without keys fill the
batch of one partition, and then that of another; so for these the number does not matter.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace

from odradek import Producer
from odradek.client.admin.results import Topic
from odradek.client.errors import UnknownTopicOrPartition
from odradek.config.client import ClientConfig
from odradek.config.producer import ProducerConfig
from odradek.model.topics import uuid_text
from odradek.spark.connections import admin_of
from odradek.spark.options import ClientOptions, WriteOptions, settings_for

LINGER_MS = 100
"""Long: batches are sent when they are full, or at the end of the task."""
MAX_REQUEST_BYTES = 16 * 1024 * 1024
"""Large: the broker's limit decides how large a record may be."""
BATCH_SIZES = (1_000_000, 250_000, 62_500, ProducerConfig.batch_size.default)
"""The first is less than the default `max.message.bytes`, the largest batch that a broker takes."""
BATCH_BYTES = 250_000
"""If a column names the topics: how many partitions there are is not known."""
CREATION_WAIT_MS = 10_000
"""How long to wait for the brokers to create a missing topic."""
ANNOUNCEMENT_PAUSE_S = 0.02
COUNT_MAX_AGE_S = 10.0
"""How long the number of a topic's partitions is cached, so that short micro-batches need not ask.
"""

SparkProducer = Producer[bytes | str, bytes | str]


class KnownTopics:
    """The topics that this process writes to, as they were a moment ago."""

    def __init__(self, client: ClientOptions) -> None:
        self._client = client
        self._topics: dict[str, tuple[Topic, float]] = {}

    def partition_count(self, topic: str, at_least: int = 1) -> int:
        """Return the number of a topic's partitions; asks again if it was less than `at_least`.

        As with Spark's own sink, a missing topic is created if the brokers create topics. Otherwise
        raises `UnknownTopicOrPartition`: the task's producer would wait much longer.
        """
        now_s = time.monotonic()
        known = self._topics.get(topic)
        if known is None or len(known[0].partitions) < at_least or now_s >= known[1]:
            known = existing_topic(self._client, topic), now_s + COUNT_MAX_AGE_S
            self._topics[topic] = known
        return len(known[0].partitions)

    def topic_id(self, topic: str) -> str:
        """Return the id of a topic that was written to, as text."""
        return uuid_text(self._topics[topic][0].topic_id)

    def forget(self) -> None:
        """Ask for topics anew."""
        self._topics.clear()


class CachedProducer:
    """A producer with the options by which it is kept, and the topics of its cluster."""

    def __init__(self, options: WriteOptions, producer: SparkProducer, topics: KnownTopics) -> None:
        self.options = options
        self.producer = producer
        self.topics = topics


_cached: dict[tuple[int, WriteOptions], CachedProducer] = {}
_topics: dict[tuple[int, ClientOptions], KnownTopics] = {}


def topics_of(client: ClientOptions) -> KnownTopics:
    """Return the topics of the cluster that this process knows."""
    return _topics.setdefault((os.getpid(), client), KnownTopics(client))


def take_producer(
    options: WriteOptions, transactional_id: str | None = None, transaction_timeout_ms: int = 0
) -> CachedProducer:
    """Return a producer for one task: a cached one, or a new one. A cached transactional one may
    have had another id. Raises `UnknownTopicOrPartition` if the options name a topic that does not
    exist and is not created."""
    topics = topics_of(options.client)
    wanted = replace(options.of_clients(), batch_size=batch_size_for(options, topics))
    found = _cached.pop((os.getpid(), wanted), None)
    if found is None:
        made = new_producer(wanted, transactional_id, transaction_timeout_ms)
        found = CachedProducer(wanted, made, topics)
    return found


def batch_size_for(options: WriteOptions, topics: KnownTopics) -> int:
    """Return `batch.size`: the one given, or the one for the number of the topic's partitions."""
    if options.batch_size is not None:
        return options.batch_size
    if options.topic is None:
        return BATCH_BYTES
    memory = dict(options.client.settings).get("buffer.memory")
    memory_bytes = ProducerConfig.buffer_memory.default if memory is None else int(memory)
    partitions = 1 if options.keyless else topics.partition_count(options.topic)
    return fitting_batch_size(partitions, memory_bytes)


def fitting_batch_size(partitions: int, memory_bytes: int) -> int:
    """Return the largest `batch.size` with which batches of so many partitions take at most half of
    `buffer.memory`; the other half has those that are being sent. One of a few sizes, so that a
    process has few producers."""
    fitting = (size for size in BATCH_SIZES if partitions * size <= memory_bytes // 2)
    return next(fitting, BATCH_SIZES[-1])


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
        "batch.size": options.batch_size or BATCH_BYTES,
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
