"""The ledger's topic: made and checked on the driver, before tasks begin.

    cleanup.policy       compact, and nothing else: retention would delete decisions
    segment.bytes        small, for a new process reads a partition from its beginning
    partitions           `PARTITIONS`; a prefix has one, by the hash of Kafka's partitioner. Adding
                         partitions later would hide what is decided

All queries of a cluster can share one topic. `LedgerTopic` is what the driver learnt; it travels to
the tasks, which refuse a topic with another id: it was deleted and made again.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from odradek.client.admin.results import Topic
from odradek.client.errors import (
    ClusterAuthorizationError,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from odradek.client.producer.partitioner import partition_for_key
from odradek.model.topics import TopicPartition, uuid_text
from odradek.spark.exactly_once.errors import (
    LedgerNotCompacted,
    TransactionsMissing,
    TransactionTimeoutTooLong,
)
from odradek.spark.exactly_once.reading import LogAdmin, log_admin_of
from odradek.spark.options import WriteOptions

PARTITIONS = 16
CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.1",
}
TIMEOUT, MAX_TIMEOUT = "transaction.timeout.ms", "transaction.max.timeout.ms"
KAFKAS_MAX_TIMEOUT_MS = 900_000
CREATION_WAIT_S = 10.0
MAX_AGE_S = 10.0
"""How long the checks of a topic are believed: a query checks twice for each micro-batch."""


@dataclass(frozen=True, slots=True)
class LedgerTopic:
    """The topic, and how long the brokers let a transaction be open."""

    name: str
    topic_id: str
    partitions: int
    transaction_timeout_ms: int

    def partition(self, prefix: str) -> TopicPartition:
        """Return the partition that has the entry of a prefix."""
        return TopicPartition(self.name, partition_for_key(prefix.encode(), self.partitions))


_checked: dict[tuple[int, WriteOptions], tuple[LedgerTopic, float]] = {}


def ledger_topic(options: WriteOptions) -> LedgerTopic:
    """Return the ledger's topic, which is created if it is missing. Raises `LedgerNotCompacted`,
    `TransactionsMissing`, `TransactionTimeoutTooLong`."""
    key = (os.getpid(), options.of_clients())
    found, until_s = _checked.get(key, (None, 0.0))
    if found is None or time.monotonic() >= until_s:
        found = check(log_admin_of(options.client), options)
        _checked[key] = found, time.monotonic() + MAX_AGE_S
    return found


def check(admin: LogAdmin, options: WriteOptions) -> LedgerTopic:
    name = options.ledger_topic
    try:
        admin.list_transactions(states=["Ongoing"], producer_ids=[0])
    except UnsupportedVersion as error:
        raise TransactionsMissing(
            f"delivery=exactly_once needs brokers with transactions, Kafka 3.0 or later: {error}. "
            "Nothing was written. What to do: write to newer brokers, or set delivery to "
            "at_least_once"
        ) from None
    topic, policy = existing_or_created(admin, name)
    if policy != "compact":
        raise LedgerNotCompacted(
            f"the ledger topic {name} has cleanup.policy={policy}: decisions would be deleted in "
            "time, and rows written twice after that. Nothing was written. What to do: odradek "
            f"topic config {name} cleanup.policy=compact -b {options.client.bootstrap_servers}; or "
            "name another topic with the option ledgerTopic"
        )
    timeout_ms = timeout_of_transactions(admin, options)
    return LedgerTopic(name, uuid_text(topic.topic_id), len(topic.partitions), timeout_ms)


def existing_or_created(admin: LogAdmin, name: str) -> tuple[Topic, str | None]:
    """Return the topic, which is created if it is missing, and its cleanup policy."""
    deadline_s = time.monotonic() + CREATION_WAIT_S
    while True:
        try:
            return admin.topic(name), admin.describe_config(topic=name)["cleanup.policy"].value
        except UnknownTopicOrPartition:
            if time.monotonic() >= deadline_s:
                raise
        # A broker that does not know it yet may have been asked.
        admin.create_topic(name, partitions=PARTITIONS, config=CONFIG, exist_ok=True)


def timeout_of_transactions(admin: LogAdmin, options: WriteOptions) -> int:
    """Return for how long transactions may be open. Raises `TransactionTimeoutTooLong`."""
    longest_ms, wanted_ms = broker_timeout_ms(admin), options.transaction_timeout_ms
    if wanted_ms and longest_ms is not None and wanted_ms > longest_ms:
        raise TransactionTimeoutTooLong(
            f"the option kafka.{TIMEOUT} is {wanted_ms}, and the brokers "
            f"({options.client.bootstrap_servers}) have {MAX_TIMEOUT}={longest_ms}: they would "
            f"refuse each transaction. Nothing was written. What to do: set kafka.{TIMEOUT} to "
            f"{longest_ms} or less, or leave it out, which means the most that the brokers allow; "
            f"or set {MAX_TIMEOUT} of all brokers to {wanted_ms} or more"
        )
    return wanted_ms or longest_ms or KAFKAS_MAX_TIMEOUT_MS


def broker_timeout_ms(admin: LogAdmin) -> int | None:
    """Return the longest that the brokers let a transaction be open; None if they do not say."""
    broker = admin.cluster().nodes[0].id
    try:
        entry = admin.describe_config(broker=broker).get(MAX_TIMEOUT)
    except ClusterAuthorizationError:
        return None
    return None if entry is None or entry.value is None else int(entry.value)
