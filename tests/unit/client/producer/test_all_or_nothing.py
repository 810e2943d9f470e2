"""Transactions of a producer with failing brokers: a commit that returned has all its records, each
once; what was aborted, or failed, has none that count.

Each seed is another run: answers that are errors or are lost, before or after they took effect;
connections that break; a coordinator that loads or is busy; records that are refused or expire.
"""

from __future__ import annotations

import itertools
import random

import pytest

from odradek.client.errors import TransactionFailed
from odradek.model.errors import ErrorCode
from odradek.protocol.api.end_txn import EndTxnRequest
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest
from odradek.protocol.api.produce import ProduceRequest
from odradek.protocol.api.txn_offset_commit import TxnOffsetCommitRequest
from odradek.testing.scripted import CLOSE
from unit.client.producer.transacting import LOST, Transacting

TRANSACTIONS = 12
PASSING = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    CLOSE,
    LOST,
)
OF_RECORDS = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.INVALID_RECORD,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)


class Story:
    """The run of one seed, in version 2, where each transaction has an epoch of its own."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.t = Transacting(
            brokers=2,
            leaders={"t": [1, 2, 1]},
            batch_bytes=self.chance.choice((1, 200, 16_384)),
            linger_ms=self.chance.choice((0, 5)),
            delivery_timeout_ms=self.chance.choice((1_000, 60_000)),
            engine={"request_timeout_ms": 500},
        )
        self.committed: list[set[bytes]] = []
        self.others: set[bytes] = set()
        self.number = 0

    def trouble(self) -> None:
        """Let some of the next requests fail."""
        chance, t = self.chance, self.t
        for kind in (EndTxnRequest, TxnOffsetCommitRequest):
            if chance.random() < 0.4:
                t.fail_next(kind, *chance.choices(PASSING, k=chance.randrange(1, 4)))
        if chance.random() < 0.3:
            t.fail_next(FindCoordinatorRequest, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if chance.random() < 0.4:
            t.fail_next(ProduceRequest, *chance.choices((CLOSE, LOST, None), k=2))
        if chance.random() < 0.4:
            t.brokers.fail_next("t", chance.randrange(3), chance.choice(OF_RECORDS))
        if chance.random() < 0.1:
            t.cluster.move("t", chance.randrange(3), chance.choice((1, 2)))

    def send(self) -> set[bytes]:
        values = set()
        for _ in range(self.chance.randrange(8)):
            self.number += 1
            value = b"%d" % self.number
            self.t.send(value, partition=self.chance.randrange(3))
            values.add(value)
            if self.chance.random() < 0.2:
                self.t.flush()
        return values

    def transaction(self) -> None:
        t = self.t
        t.begin_transaction()
        self.trouble()
        before = self.number
        try:
            values = self.send()
            if self.chance.random() < 0.3:
                t.offsets(self.number)
            if self.chance.random() < 0.2:
                raise TransactionFailed("the application gives up")
            t.commit()
            self.committed.append(values)
        except TransactionFailed:
            t.abort()
            self.others |= {b"%d" % n for n in range(before + 1, self.number + 1)}

    def run(self) -> None:
        self.t.init_transactions()
        for _ in range(TRANSACTIONS):
            self.transaction()
        self.t.cluster.run(10_000)  # Late answers.


@pytest.mark.parametrize("seed", range(25))
def test_a_commit_has_all_its_records_once_and_an_abort_none(seed: int) -> None:
    story = Story(seed)
    story.run()
    visible: list[bytes] = []
    for partition in range(3):
        log = story.t.brokers.log("t", partition)
        values = iter(log.values)
        for header in log.batches:
            batch = list(itertools.islice(values, header.count))
            assert header.is_transactional
            if story.t.ends[header.producer_epoch]:
                visible += [value for value in batch if value is not None]
    expected = [value for values in story.committed for value in values]
    assert sorted(visible) == sorted(expected)
    assert not story.others & set(visible)
