"""The producers of this process, kept from task to task.

A producer is lent to one task at a time, and kept if that came to its end: with it its connections,
its producer id and what it knows of topics. They are kept by the process id for the same reason as
the clients of `connections`, and whatever the topic: one writes to any.
"""

from __future__ import annotations

import dataclasses
import os
import time

from odradek import Producer
from odradek.client.errors import UnknownTopicOrPartition
from odradek.config.client import ClientConfig
from odradek.spark.connections import admin_of
from odradek.spark.options import ClientOptions, WriteOptions, those_of

LINGER_MS = 100
"""Batches leave when they are full, or when the task is at its end."""
MAX_REQUEST_BYTES = 16 * 1024 * 1024
"""How large a record may be is for the broker to say."""
CREATION_WAIT_MS = 10_000
"""How long a missing topic is waited for, which the brokers may make."""
COUNT_MAX_AGE_S = 10.0
"""How long the number of a topic's partitions is believed: a query of short micro-batches does not
ask in each of them."""

SparkProducer = Producer[bytes | str, bytes | str]


class KeptProducer:
    """A producer, with the number of partitions of the topics it wrote to."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options
        self.producer = new_producer(options)
        self._counts: dict[str, tuple[int, float]] = {}

    def partition_count(self, topic: str, at_least: int = 1) -> int:
        """Of a topic; asked again when it was fewer than `at_least`.

        As with Spark's own sink, a missing topic is made if the brokers make topics. Raises
        `UnknownTopicOrPartition` if they do not: the task's producer would wait much longer.
        """
        now_s = time.monotonic()
        count, until_s = self._counts.get(topic, (0, now_s))
        if count < at_least or now_s >= until_s:
            count = partition_count(self.options.client, topic)
            self._counts[topic] = (count, now_s + COUNT_MAX_AGE_S)
        return count


_kept: dict[tuple[int, WriteOptions], KeptProducer] = {}


def take_producer(options: WriteOptions) -> KeptProducer:
    """One for nobody else: one that was kept, or a new one."""
    wanted = dataclasses.replace(options, topic=None, replay_headers=False)
    return _kept.pop((os.getpid(), wanted), None) or KeptProducer(wanted)


def keep(producer: KeptProducer) -> None:
    """Nothing is under way: the next task may have it."""
    key = (os.getpid(), producer.options)
    if key in _kept:
        producer.producer.close()
    else:
        _kept[key] = producer


def new_producer(options: WriteOptions) -> SparkProducer:
    """One that writes in order, with or without idempotence."""
    within_ms = max(1, options.delivery_timeout_ms - LINGER_MS)
    return Producer(
        {
            "bootstrap.servers": options.client.bootstrap_servers,
            "client.id": options.client.client_id,
            "request.timeout.ms": min(options.client.request_timeout_ms, within_ms),
            "max.block.ms": options.client.api_timeout_ms,
            "delivery.timeout.ms": max(options.delivery_timeout_ms, LINGER_MS + 1),
            "linger.ms": LINGER_MS,
            "compression.type": options.compression,
            "batch.size": options.batch_size,
            "max.request.size": MAX_REQUEST_BYTES,
            "enable.idempotence": options.idempotence,
            "max.in.flight.requests.per.connection": 5 if options.idempotence else 1,
            **dict(options.client.settings),
        }
    )


def partition_count(client: ClientOptions, topic: str) -> int:
    """As the brokers say now."""
    try:
        return len(admin_of(client).topic(topic).partitions)
    except UnknownTopicOrPartition:
        return made_by_brokers(client, topic)


def made_by_brokers(client: ClientOptions, topic: str) -> int:
    """Ask for a missing topic as producers do, whereupon it may be made; its partitions."""
    try:
        with Producer(
            those_of(client.settings, ClientConfig),
            brokers=client.bootstrap_servers,
            client_id=client.client_id,
            request_timeout_ms=client.request_timeout_ms,
            max_block_ms=min(CREATION_WAIT_MS, client.api_timeout_ms),
        ) as producer:
            return len(producer.partitions_for(topic))
    except UnknownTopicOrPartition as error:
        raise UnknownTopicOrPartition(
            f"{topic}: UNKNOWN_TOPIC_OR_PARTITION: there is no topic {topic}, and the brokers make "
            f"none (auto.create.topics.enable). What to do: odradek topic create {topic} "
            f"-b {client.bootstrap_servers}",
            error.code,
        ) from None
