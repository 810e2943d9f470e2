"""Transactions in a simulation: what clients observed, and the rules that it must keep.

A client notes each of its transactions, with the outcome that it knows:

    open ──► ended by nobody who would know: its client crashed or was fenced before it asked for
      │      a commit. It must be aborted
      ├────► aborted: the coordinator has acknowledged that
      ├────► committed: acknowledged
      └────► unknown: a commit was sent, and no answer came that decides

| rule                   | says                                                                    |
|------------------------|-------------------------------------------------------------------------|
| all or nothing         | final readers see all records of a transaction, or none; its offsets    |
|                        | are committed exactly if its records are                                |
| acknowledged           | a committed one is seen, an aborted or open one is not                  |
| never too early        | nobody who reads committed sees a record before its commit was sent     |
| offsets likewise       | nobody is told the offset of a transaction before its commit was sent,  |
|                        | or of one that is not there at the end. At one broker it never goes     |
|                        | back; among several, one that is cut off may tell an old one            |
| once                   | no record is read twice, and no other one is there                      |
| in order               | of one producer's transactions the records of a partition keep order    |
| fenced                 | after a producer was answered its id, nothing that its predecessors     |
|                        | sent later is acknowledged                                              |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from odradek.model.topics import TopicPartition


class TransactionOutcome(Enum):
    """What the client knows of the end of its transaction."""

    OPEN = "open"
    ABORTED = "aborted"
    COMMITTED = "committed"
    UNKNOWN = "unknown"


@dataclass(slots=True, eq=False)
class ClientTransaction:
    """What a client did in a transaction, and which outcome it was told."""

    transactional_id: str
    client: str
    number: int
    """In the order in which the transactions of this id began."""
    records: list[tuple[TopicPartition, bytes]] = field(default_factory=list)
    """The values that were sent, in order; each is unique in a run."""
    has_offsets: bool = False
    """True if it commits `number` as the offset of its group."""
    commit_sent_ns: int | None = None
    outcome: TransactionOutcome = TransactionOutcome.OPEN

    def lose(self) -> None:
        """Note that its client will learn nothing more."""
        if self.outcome is TransactionOutcome.OPEN and self.commit_sent_ns is not None:
            self.outcome = TransactionOutcome.UNKNOWN

    def __str__(self) -> str:
        return f"{self.transactional_id}#{self.number} of {self.client} ({self.outcome.value})"


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """A record that a reader of committed transactions was given."""

    at_ns: int
    reader: str
    partition: TopicPartition
    offset: int
    value: bytes


@dataclass(frozen=True, slots=True)
class Takeover:
    """A producer was answered its id and epoch: the earlier producers of the id are fenced."""

    at_ns: int
    transactional_id: str
    client: str
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A request of a transaction that was answered without an error, and when it was sent."""

    sent_ns: int
    transactional_id: str
    client: str
    what: str
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class OffsetRead:
    """The committed offset of a transactional id's group, as somebody was told it; -1 for none."""

    at_ns: int
    transactional_id: str
    offset: int
    of_several: bool
    """True if there are several brokers."""


@dataclass(slots=True, eq=False)
class TransactionHistory:
    """Everything that the transactional clients of a run have observed."""

    transactions: list[ClientTransaction] = field(default_factory=list)
    reads: list[ReadRecord] = field(default_factory=list)
    takeovers: list[Takeover] = field(default_factory=list)
    acknowledged: list[Acknowledged] = field(default_factory=list)
    offsets: dict[str, int] = field(default_factory=dict)
    """The committed offset at the end, by transactional id; -1 for none."""
    offset_reads: list[OffsetRead] = field(default_factory=list)
    """The offsets that watchers were told meanwhile, in the order of the answers."""
    final_readers: set[str] = field(default_factory=set)
    """Readers that have read everything once, after all faults had ended."""

    def final_reads(self) -> list[ReadRecord]:
        """Return all committed records, as they were read at the end."""
        return [read for read in self.reads if read.reader in self.final_readers]

    def begin(self, transactional_id: str, client: str) -> ClientTransaction:
        """Note a new transaction."""
        number = sum(each.transactional_id == transactional_id for each in self.transactions) + 1
        made = ClientTransaction(transactional_id, client, number)
        self.transactions.append(made)
        return made


def judge(history: TransactionHistory) -> list[str]:
    """Return the violations of all rules, one line each."""
    final = history.final_reads()
    seen = {(read.partition, read.value) for read in final}
    return [
        *all_or_nothing(history.transactions, seen),
        *never_early(history.transactions, history.reads),
        *once(history.transactions, final),
        *in_order(history.transactions, final),
        *fenced(history.takeovers, history.acknowledged),
        *offsets_with_records(history, seen),
        *offsets_never_early(history.transactions, history.offset_reads, seen),
        *offsets_in_order(history.offset_reads),
    ]


def visible(transaction: ClientTransaction, seen: set[tuple[TopicPartition, bytes]]) -> bool:
    """True if a record of this transaction was read at the end."""
    return any(record in seen for record in transaction.records)


def all_or_nothing(
    transactions: Iterable[ClientTransaction], seen: set[tuple[TopicPartition, bytes]]
) -> list[str]:
    """Return the transactions that are torn, or whose records are there or not against their
    outcome.
    """
    found = []
    for each in transactions:
        there = sum(record in seen for record in each.records)
        if 0 < there < len(each.records):
            found.append(f"{each} is torn: {there} of {len(each.records)} records are there")
        elif each.outcome is TransactionOutcome.COMMITTED and there < len(each.records):
            found.append(f"{each} is lost")
        elif there and each.outcome in (TransactionOutcome.ABORTED, TransactionOutcome.OPEN):
            found.append(f"{each} is there")
    return found


def never_early(
    transactions: Iterable[ClientTransaction], reads: Iterable[ReadRecord]
) -> list[str]:
    """Return the records that a reader had before their commit was sent."""
    owner = {record: each for each in transactions for record in each.records}
    found = []
    for read in reads:
        sender = owner.get((read.partition, read.value))
        if sender is None:
            found.append(f"{read.reader} read {read.partition}@{read.offset}, which nobody sent")
        elif sender.commit_sent_ns is None or read.at_ns < sender.commit_sent_ns:
            found.append(
                f"{read.reader} read {read.partition}@{read.offset} of {sender} at {read.at_ns} ns,"
                f" before its commit"
            )
    return found


def once(transactions: Iterable[ClientTransaction], final: Sequence[ReadRecord]) -> list[str]:
    """Return the records that are in the log more than once."""
    owner = {record: each for each in transactions for record in each.records}
    places = {(read.partition, read.offset, read.value) for read in final}
    counts = Counter((partition, value) for partition, _, value in places)
    return [
        f"{owner.get(record, 'a record of nobody')}: {record[0]} has a record {count} times"
        for record, count in counts.items()
        if count > 1
    ]


def in_order(transactions: Sequence[ClientTransaction], final: Iterable[ReadRecord]) -> list[str]:
    """Return the partitions in which the records of one transactional id changed their order."""
    place = {}
    for each in transactions:
        for index, record in enumerate(each.records):
            place[record] = (each.transactional_id, (each.number, index))
    last: dict[tuple[str, str, TopicPartition], tuple[int, tuple[int, int]]] = {}
    found = []
    for read in sorted(final, key=lambda one: (one.reader, one.partition, one.offset)):
        known = place.get((read.partition, read.value))
        if known is None:
            continue
        transactional_id, position = known
        key = (read.reader, transactional_id, read.partition)
        before = last.get(key)
        if before is not None and before[0] < read.offset and before[1] > position:
            found.append(
                f"{transactional_id}: {read.partition}@{read.offset} is of transaction"
                f" {position[0]}, after one of {before[1][0]}"
            )
        last[key] = read.offset, position
    return found


def fenced(takeovers: Sequence[Takeover], acknowledged: Iterable[Acknowledged]) -> list[str]:
    """Return what was acknowledged to a producer though another one had its id before, with a later
    epoch.
    """
    found = []
    for each in acknowledged:
        for taken in takeovers:
            same_id = (taken.transactional_id, taken.producer_id) == (
                each.transactional_id,
                each.producer_id,
            )
            if (
                same_id
                and taken.client != each.client
                and taken.epoch > each.epoch
                and taken.at_ns < each.sent_ns
            ):
                found.append(
                    f"{each.transactional_id}: {each.what} that {each.client} sent at"
                    f" {each.sent_ns} ns was acknowledged, and {taken.client} had the id since"
                    f" {taken.at_ns} ns"
                )
                break
    return found


def offsets_with_records(
    history: TransactionHistory, seen: set[tuple[TopicPartition, bytes]]
) -> list[str]:
    """Return the groups whose offset is not that of the last transaction that is there."""
    found = []
    for transactional_id, offset in history.offsets.items():
        numbers = [
            each.number
            for each in history.transactions
            if each.transactional_id == transactional_id
            and each.has_offsets
            and visible(each, seen)
        ]
        expected = max(numbers, default=-1)
        if offset != expected:
            found.append(
                f"the group of {transactional_id} is at {offset}, and the last transaction with"
                f" offsets that is there is {expected}"
            )
    return found


def offsets_never_early(
    transactions: Iterable[ClientTransaction],
    reads: Iterable[OffsetRead],
    seen: set[tuple[TopicPartition, bytes]],
) -> list[str]:
    """Return the offsets that somebody was told before their commit, or without one."""
    known = {(each.transactional_id, each.number): each for each in transactions}
    found = []
    for read in reads:
        if read.offset < 0:
            continue
        sender = known[read.transactional_id, read.offset]
        told = f"the group of {read.transactional_id} was at {read.offset} at {read.at_ns} ns"
        if sender.commit_sent_ns is None or read.at_ns < sender.commit_sent_ns:
            found.append(f"{told}, before the commit of {sender}")
        elif not visible(sender, seen):
            found.append(f"{told}, and {sender} is not there")
    return found


def offsets_in_order(reads: Iterable[OffsetRead]) -> list[str]:
    """Return the offsets that one broker told after higher ones."""
    highest: dict[str, int] = {}
    found = []
    for read in reads:
        before = highest.get(read.transactional_id, -1)
        if not read.of_several and read.offset < before:
            found.append(
                f"the group of {read.transactional_id} went back from {before} to {read.offset} at"
                f" {read.at_ns} ns"
            )
        highest[read.transactional_id] = max(before, read.offset)
    return found
