"""What the driver checks before tasks begin: transactions, and the ledger's topic."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from odradek.client.errors import UnknownTopicOrPartition, UnsupportedVersion
from odradek.model.topics import TopicPartition
from odradek.spark.exactly_once.errors import LedgerNotCompacted, TransactionsMissing
from odradek.spark.exactly_once.ledger_topic import CONFIG, PARTITIONS, check
from odradek.spark.options import write_options

GIVEN = {"kafka.bootstrap.servers": "h:1", "topic": "t", "delivery": "exactly_once"}


class ScriptedAdmin:
    """A cluster with one broker."""

    def __init__(self, *, policy="compact", transactions=True, exists=True):
        self.policy = policy
        self.transactions = transactions
        self.created: dict[str, Any] = {}
        self.exists = exists

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


def test_brokers_without_transactions_are_refused():
    with pytest.raises(TransactionsMissing, match=r"Nothing was written.*at_least_once"):
        checked(ScriptedAdmin(transactions=False))


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_ledger_that_is_not_only_compacted_is_refused(policy):
    with pytest.raises(LedgerNotCompacted, match="topic config odradek-spark-ledger"):
        checked(ScriptedAdmin(policy=policy))
