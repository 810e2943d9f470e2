"""What the driver checks before tasks begin: transactions, and the ledger's topic."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from odradek.client.errors import (
    ClusterAuthorizationError,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from odradek.model.topics import TopicPartition
from odradek.spark.exactly_once.errors import (
    LedgerNotCompacted,
    TransactionsMissing,
    TransactionTimeoutTooLong,
)
from odradek.spark.exactly_once.ledger_topic import CONFIG, KAFKAS_MAX_TIMEOUT_MS, PARTITIONS, check
from odradek.spark.options import write_options

GIVEN = {"kafka.bootstrap.servers": "h:1", "topic": "t", "delivery": "exactly_once"}


class ScriptedAdmin:
    """A cluster with one broker."""

    def __init__(self, *, policy="compact", transactions=True, exists=True, describes_brokers=True):
        self.policy = policy
        self.transactions = transactions
        self.created: dict[str, Any] = {}
        self.exists = exists
        self.describes_brokers = describes_brokers

    def list_transactions(self, **_):
        if not self.transactions:
            raise UnsupportedVersion("ListTransactions: the broker does not know it")
        return []

    def topic(self, name):
        if not self.exists:
            raise UnknownTopicOrPartition(name)
        return SimpleNamespace(topic_id=UUID(int=1), partitions=range(PARTITIONS))

    def create_topic(self, name, **given):
        self.created[name] = given
        self.exists = True

    def cluster(self):
        return SimpleNamespace(nodes=[SimpleNamespace(id=1)])

    def describe_config(self, *, topic=None, broker=None):
        if broker is not None and not self.describes_brokers:
            raise ClusterAuthorizationError("describing the settings of broker 1")
        found = {"cleanup.policy": self.policy, "transaction.max.timeout.ms": "70000"}
        return {name: SimpleNamespace(value=value) for name, value in found.items()}


def checked(admin, **options):
    return check(admin, write_options({**GIVEN, **options}, streaming=True))


def test_a_missing_ledger_is_created_compacted():
    admin = ScriptedAdmin(exists=False)
    ledger = checked(admin, ledgerTopic="mine")
    assert admin.created["mine"]["config"] == CONFIG
    assert ledger.partition("a prefix") == TopicPartition("mine", 12)


def test_transactions_last_as_long_as_the_brokers_allow_or_as_told():
    assert checked(ScriptedAdmin()).transaction_timeout_ms == 70_000
    told = checked(ScriptedAdmin(), **{"kafka.transaction.timeout.ms": "5000"})
    assert told.transaction_timeout_ms == 5000


def test_a_timeout_is_believed_where_the_brokers_do_not_tell_theirs():
    admin = ScriptedAdmin(describes_brokers=False)
    assert checked(admin).transaction_timeout_ms == KAFKAS_MAX_TIMEOUT_MS
    told = checked(admin, **{"kafka.transaction.timeout.ms": "1000000"})
    assert told.transaction_timeout_ms == 1_000_000


def test_a_timeout_that_brokers_would_refuse_is_refused_before_anything_is_written():
    longest = checked(ScriptedAdmin(), **{"kafka.transaction.timeout.ms": "70000"})
    assert longest.transaction_timeout_ms == 70_000
    expected = (
        r"kafka.transaction.timeout.ms is 70001.*\(h:1\) have transaction.max.timeout.ms=70000"
        r".*Nothing was written.*to 70000 or less"
    )
    with pytest.raises(TransactionTimeoutTooLong, match=expected):
        checked(ScriptedAdmin(), **{"kafka.transaction.timeout.ms": "70001"})


def test_brokers_without_transactions_are_refused():
    with pytest.raises(TransactionsMissing, match=r"Nothing was written.*at_least_once"):
        checked(ScriptedAdmin(transactions=False))


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_ledger_that_is_not_only_compacted_is_refused(policy):
    with pytest.raises(LedgerNotCompacted, match="topic config odradek-spark-ledger"):
        checked(ScriptedAdmin(policy=policy))
