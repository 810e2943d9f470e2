"""The steps of a driver at the end of a micro-batch: effects out, their results in, without I/O.

    commit_steps   of the first batch: DescribePrefix ─► ReadLedger ─► its decision is lost: stop
                   ShutOutOlderDrivers ─► ReadLedger ─┬─ undecided ─► WriteDecision ────────────┐
                                                      └─ decided ─► EndTransactions(new, abort)─┤
        ┌───────────────────────────────────────────────────────────────────────────────────────┘
        └─► EndTransactions(decided, commit) ─► FenceLosers ─► FindDeletedTopics
                                                             ├─ all certain ─► done
                                                             └─ ReadOutcomes ─► CopyRecords …

    abort_steps    ReadLedger ─► those reported and undecided: shut out, look again, abort

A step is a generator: it yields an effect, gets the effect's result, and ends with the micro-batch
(or raises). It may end after any effect, with its process; the next driver begins anew. Effects:

    DescribePrefix           ─► whether the coordinator of the prefix still knows that its last
                             transaction was committed: then the ledger has had a decision
    ShutOutOlderDrivers      InitProducerId(prefix). What an older driver has begun to write into
                             the ledger is committed or aborted then, and it cannot begin more
    ReadLedger               ─► the last decision, read to the high watermark; None
    WriteDecision            into the ledger, in a transaction of the prefix. The commit point.
                             False: its transaction was aborted, for another driver or by its
                             timeout
    EndTransactions          EndTxn for each, asked until there is an answer that will not change.
                             ─► whether each was ended by it. False is ambiguous: someone else has
                             ended it, or its id has gone on; it may be committed or aborted
    FenceLosers              open transactions of the prefix, found by ListTransactions, are
                             aborted; tasks that have an id and have sent nothing yet are shut out
    FindDeletedTopics        ─► which topics of a decision are not there any more. An EndTxn says
                             nothing of that: coordinators drop partitions that were deleted
    ReadOutcomes             ─► what the topics have of each, once nothing of it is open
    CopyRecords              the records of an aborted transaction are written again and the
                             decision with its mark, in one transaction. False: records are gone.
                             Raises `ReplacedDriver` when shut out

All effects may be repeated. `EndTransactions` with an abort is only for transactions that no
decision names or ever will, or that have ended (a batch is finished when a later one is decided):
that is why an older driver is shut out before the ledger is read.
That makes the coordinator forget what `DescribePrefix` asks for, so a driver whose ledger is lost
shuts out nobody: it would be refused once only.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from odradek.spark.exactly_once.errors import (
    LedgerAhead,
    LedgerGone,
    PrefixInUse,
    ReplacedDriver,
    RowsMissing,
)
from odradek.spark.exactly_once.ledger import Decision, TaskTransaction


class SinkBatch(NamedTuple):
    """A micro-batch, or a batch write, with the word of its user on where the ledger begins.
    `query` is the id of the streaming query; empty for a batch write."""

    prefix: str
    batch_id: int
    starts_at: int = 0
    query: str = ""

    def __str__(self) -> str:
        return f"batch {self.batch_id} of {self.prefix}"


class BatchState(enum.Enum):
    """The state of a batch, as its ledger has it."""

    UNDECIDED = "undecided"
    DECIDED = "decided"
    BEFORE_LEDGER = "before the ledger"
    """Before `ledgerStartsAt`: it is in the topics, as far as it ever will be."""


NEW_PREFIX = "another transactionalIdPrefix"
"""Goes with `ledgerStartsAt` where a ledger is lost: see `has_lost_ledger`."""


def batch_state(batch: SinkBatch, decision: Decision | None) -> BatchState:
    """Return what the ledger says of a batch. Raises `LedgerGone`, `LedgerAhead`, `PrefixInUse`."""
    prefix, batch_id, starts_at, query = batch
    if batch_id < starts_at:
        return BatchState.BEFORE_LEDGER
    if decision is None:
        if batch_id == starts_at:
            return BatchState.UNDECIDED
        raise LedgerGone(
            f"the ledger has nothing about {prefix}, and batch {batch_id} is not its first "
            f"(ledgerStartsAt is {starts_at}). Either this query did not write exactly once "
            "before, or the ledger topic was deleted, emptied, got more partitions, or another one "
            f"is named. What is in: what was written of the batches before {batch_id}; whether "
            f"batch {batch_id} is, nobody can tell if the ledger had it. What to do: restore the "
            "ledger topic (option ledgerTopic); else look into the topics, and set the option "
            f"ledgerStartsAt to {batch_id} to write batch {batch_id}, to {batch_id + 1} if its "
            f"rows are in, with {NEW_PREFIX} if the ledger is lost"
        )
    if decision.batch_id > batch_id:
        raise LedgerAhead(
            f"the ledger has decided batch {decision.batch_id} of {prefix}, which is ahead of "
            f"batch {batch_id}: the checkpoint is an older one, was begun anew, or two drivers "
            "run; or the option batchId of a batch write is lower than before. What is in: all "
            f"rows of the batches up to {decision.batch_id}. What is not: nothing was written now. "
            "What to do: go on from the right checkpoint; or set ledgerStartsAt to "
            f"{decision.batch_id + 1} to read the batches up to {decision.batch_id} without "
            "writing; or set another transactionalIdPrefix, with "
            f"ledgerStartsAt {batch_id}, to write them again"
        )
    if query and decision.query not in ("", query) and decision.batch_id >= starts_at:
        raise PrefixInUse(
            f"the ledger has decided batch {decision.batch_id} of {prefix} for the streaming query "
            f"{decision.query}, and {batch} is of the query {query}: two queries have one "
            "transactionalIdPrefix, or the checkpoint was begun anew. What is in: what the other "
            "query wrote. What is not: nothing of this batch was written. What to do: give each "
            "query another transactionalIdPrefix, or none; go on from the right checkpoint; or, if "
            f"this query follows the other one, set ledgerStartsAt to {decision.batch_id + 1} to "
            f"read the batches up to {decision.batch_id} without writing"
        )
    return BatchState.DECIDED if decision.batch_id == batch_id else BatchState.UNDECIDED


def is_told_soon(batch: SinkBatch, decision: Decision | None, has_open: bool) -> bool:
    """True if a task that finds nothing in the ledger should look again: the first decision of its
    query is written, and its marker comes a moment after the driver was answered."""
    return decision is None and has_open and batch.batch_id > batch.starts_at


class LoggedOutcome(enum.Enum):
    """The end of a transaction, as the logs of its topics have it."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    GONE = "gone"
    """Its records are not in the log any more: nobody can tell."""


@dataclass(frozen=True, slots=True)
class DescribePrefix:
    """Ask the coordinator of the prefix how its last transaction ended."""


@dataclass(frozen=True, slots=True)
class ShutOutOlderDrivers:
    """Fence whatever else writes decisions of the prefix. Not `again`: what this process did for an
    earlier batch is enough. `to_abort`: nothing will be decided, so a driver that knows it was shut
    out itself does not shut out the other."""

    again: bool = True
    to_abort: bool = False


@dataclass(frozen=True, slots=True)
class ReadLedger:
    """Read the last decision of the prefix."""


@dataclass(frozen=True, slots=True)
class WriteDecision:
    """Write a decision: the commit point."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class EndTransactions:
    """Commit or abort transactions of tasks."""

    transactions: tuple[TaskTransaction, ...]
    commit: bool


@dataclass(frozen=True, slots=True)
class FenceLosers:
    """Abort every open transaction of the prefix's tasks, and let none begin another one."""


@dataclass(frozen=True, slots=True)
class FindDeletedTopics:
    """Find the topics of a decision that were deleted since, though they may be made again."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class ReadOutcomes:
    """Read what the topics have of transactions."""

    transactions: tuple[TaskTransaction, ...]
    decision: Decision


@dataclass(frozen=True, slots=True)
class CopyRecords:
    """Write the records of an aborted transaction again, and the decision that marks it."""

    transaction: TaskTransaction
    marked: Decision


Effect = (
    DescribePrefix
    | ShutOutOlderDrivers
    | ReadLedger
    | WriteDecision
    | EndTransactions
    | FenceLosers
    | FindDeletedTopics
    | ReadOutcomes
    | CopyRecords
)
Steps = Generator[Effect, Any, None]


def commit_steps(
    batch: SinkBatch,
    reported: Sequence[TaskTransaction],
    topic_ids: dict[str, str],
    drained: Collection[int],
) -> Steps:
    """Commit a batch. `reported` are the transactions of the tasks that count, `drained` the tasks
    that wrote nothing because they found the batch decided."""
    if (yield from has_lost_ledger(batch)):
        raise LedgerGone(
            f"the brokers know that a decision of {batch.prefix} was written, and the ledger has "
            "none: the ledger topic was deleted or emptied, another one is named, or another query "
            f"had this prefix. What is in: nobody can tell of {batch}; what was written of it now "
            "is aborted. What to do: restore the ledger topic (option ledgerTopic); else look into "
            f"the topics, and set {NEW_PREFIX}, with the option ledgerStartsAt at {batch.batch_id} "
            f"to write batch {batch.batch_id}, at {batch.batch_id + 1} if its rows are in"
        )
    yield ShutOutOlderDrivers(again=False)
    decision: Decision | None = yield ReadLedger()
    found = batch_state(batch, decision)
    if found is BatchState.UNDECIDED:
        decision = yield from decide(batch, reported, topic_ids, drained)
    elif reported:
        known = decision if found is BatchState.DECIDED else None
        yield EndTransactions(undecided(reported, known), commit=False)
    if decision is None or found is BatchState.BEFORE_LEDGER:
        yield FenceLosers()
    else:
        yield from finish_decided(batch, decision)


def has_lost_ledger(batch: SinkBatch) -> Generator[Effect, Any, bool]:
    """Return whether the prefix has written a decision that the ledger does not have.

    Only a batch with which the ledger may begin has to ask: `batch_state` refuses the others. The
    user's word in `ledgerStartsAt` does not help here, as it may have been left in the options.
    """
    if batch.batch_id != batch.starts_at:
        return False
    has_decided: bool = yield DescribePrefix()
    if not has_decided:
        return False
    decision: Decision | None = yield ReadLedger()
    return decision is None


def decide(
    batch: SinkBatch,
    reported: Sequence[TaskTransaction],
    topic_ids: dict[str, str],
    drained: Collection[int],
) -> Generator[Effect, Any, Decision]:
    """Write the decision; return it, or the one that another driver has written meanwhile."""
    if drained:
        raise LedgerGone(
            f"tasks {sorted(drained)[:5]} found {batch} decided in the ledger, where it is not any "
            "more. What is in: what that decision named. What was written now is aborted. What to "
            "do: see what became of the ledger topic; when the rows are in the topics, set the "
            f"option ledgerStartsAt to {batch.batch_id + 1}, else to {batch.batch_id}, with "
            f"{NEW_PREFIX}"
        )
    decision = Decision(batch.batch_id, tuple(reported), topic_ids, batch.query)
    written: bool = yield WriteDecision(decision)
    if written:
        return decision
    # Another process of this driver may have written an earlier batch, it is another driver, or the
    # transaction was open for too long.
    yield ShutOutOlderDrivers()
    found: Decision | None = yield ReadLedger()
    if batch_state(batch, found) is BatchState.DECIDED and found is not None:
        yield EndTransactions(undecided(reported, found), commit=False)
        return found
    written = yield WriteDecision(decision)
    if not written:
        raise ReplacedDriver(
            f"another driver writes with the prefix {batch.prefix} and has shut this one out. What "
            f"is in: all rows of the batches before {batch.batch_id}; what this driver wrote of "
            f"batch {batch.batch_id} is aborted. What to do: let one query at a time use a "
            "checkpoint; give other queries another transactionalIdPrefix"
        )
    return decision


def finish_decided(batch: SinkBatch, decision: Decision) -> Steps:
    """End the transactions of a decision, and copy those that were aborted meanwhile."""
    to_end = tuple(each for each in decision.transactions if not each.copied)
    ended: list[bool] = yield EndTransactions(to_end, commit=True)
    # Before outcomes are read: an open transaction of a loser would hide them.
    yield FenceLosers()
    deleted: Collection[str] = ()
    if decision.transactions:
        deleted = yield FindDeletedTopics(decision)
    uncertain = tuple(each for each, certain in zip(to_end, ended, strict=True) if not certain)
    outcomes: list[LoggedOutcome] = []
    if uncertain:
        outcomes = yield ReadOutcomes(uncertain, decision)
    if LoggedOutcome.ABORTED in outcomes:
        yield ShutOutOlderDrivers()
        # An older driver may have copied some of them.
        newer: Decision | None = yield ReadLedger()
        if newer is None or newer.batch_id != decision.batch_id:
            batch_state(batch, newer)
            raise LedgerGone(
                f"the ledger has lost its decision of {batch}: the topic was deleted or emptied. "
                "What is in: the transactions that were ended so far. What is not: those that were "
                f"aborted before, {named(uncertain)}. What to do: restore the ledger topic, or set "
                f"the option ledgerStartsAt to {batch.batch_id + 1}, with {NEW_PREFIX}, to go on "
                "without them"
            )
        decision = newer
    lost: list[TaskTransaction] = []
    unknown: list[TaskTransaction] = []
    open_ends = dict(zip(uncertain, outcomes, strict=True))
    gone = [
        each
        for each in decision.transactions
        if each.has_written_to(deleted)
        and open_ends.get(each, LoggedOutcome.COMMITTED) is LoggedOutcome.COMMITTED
    ]
    for each, outcome in open_ends.items():
        if outcome is LoggedOutcome.GONE:
            unknown.append(each)
        elif outcome is LoggedOutcome.ABORTED and each in decision.transactions:
            marked = decision.with_copied(each)
            copied: bool = yield CopyRecords(each, marked)
            if copied:
                decision = marked
            else:
                lost.append(each)
    if lost or unknown or gone:
        raise RowsMissing(missing_text(batch, decision, lost, unknown, gone, deleted))


def missing_text(
    batch: SinkBatch,
    decision: Decision,
    lost: Sequence[TaskTransaction],
    unknown: Sequence[TaskTransaction],
    gone: Sequence[TaskTransaction],
    deleted: Collection[str],
) -> str:
    missing = len(lost) + len(unknown) + len(gone)
    parts = [
        f"{batch} was decided, and {len(decision.transactions) - missing} of its "
        f"{len(decision.transactions)} transactions are in the topics"
    ]
    if gone:
        parts.append(
            f"Deleted since, with all that was in them: topics {', '.join(sorted(deleted))}, and "
            "so in part or whole " + named(gone)
        )
    if lost:
        parts.append(
            "Not in: " + named(lost) + ". The brokers aborted them, because no driver ended them "
            "within their timeout, and their records were deleted before they could be copied"
        )
    if unknown:
        parts.append(
            "Nobody can tell of " + named(unknown) + ": their records were deleted, by retention, "
            "DeleteRecords, compaction, or with their topic"
        )
    parts.append(
        "What to do: write what is missing from elsewhere if you need it, and set the option "
        f"ledgerStartsAt to {batch.batch_id + 1}: then the query goes on behind this batch"
    )
    return ". ".join(parts)


def named(transactions: Sequence[TaskTransaction]) -> str:
    shown = "; ".join(str(each) for each in transactions[:5])
    return shown if len(transactions) <= 5 else f"{shown}; and {len(transactions) - 5} more"


def abort_steps(batch: SinkBatch, reported: Sequence[TaskTransaction]) -> Steps:
    """Abort what a failed batch has written, as far as it is undecided. A commit that failed may
    have decided it: then the replay goes on with it."""
    decision: Decision | None = yield ReadLedger()
    if is_before(decision, batch) and reported and not (yield from has_lost_ledger(batch)):
        # The decision of the commit that failed may be on its way. (Once another driver has
        # decided this batch or a later one, ours cannot arrive any more.)
        yield ShutOutOlderDrivers(to_abort=True)
        decision = yield ReadLedger()
    to_abort = undecided(reported, decision)
    if to_abort:
        yield EndTransactions(to_abort, commit=False)
    if is_before(decision, batch):
        yield FenceLosers()


def is_before(decision: Decision | None, batch: SinkBatch) -> bool:
    """True if the batch is undecided."""
    return decision is None or decision.batch_id < batch.batch_id


def undecided(
    reported: Sequence[TaskTransaction], decision: Decision | None
) -> tuple[TaskTransaction, ...]:
    """Return those that a decision does not name."""
    return tuple(each for each in reported if decision is None or not decision.has(each))
