"""This project's clients with one broken part each, simulated: `broken_clients.py NAME [SEEDS]`.

The breaks patch modules, which compiled modules do not allow, so this runs in a process of its own
with interpreted modules. It exits with 0 and prints the violation if a seed finds the break, and
with 1 if none does. `INTACT` breaks nothing.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from mypy_extensions import i64

from odradek.client.consumer.fetch.collector import FetchCollector
from odradek.client.consumer.group.rebalance import CallSequence, ListenerCalls
from odradek.client.consumer.position.position import Position
from odradek.client.consumer.position.subscription_state import SubscriptionState
from odradek.client.producer.batch_completion import BatchCompletion
from odradek.client.producer.producer_batch import ProducerBatch
from odradek.client.producer.transaction_manager import (
    AFTER_ALL,
    NO_ORDINAL,
    REMEMBERED_BATCHES,
    TransactionManager,
    TxnPartitionEntry,
)
from odradek.testing.engines.plans import EnginesPlan
from odradek.testing.history import History
from odradek.testing.scheduler import MS, SimulationError
from odradek.testing.transport import Link
from odradek.testing.workload.schedule import Schedule
from odradek.testing.world import ONLY_ENGINES, World

STEPS = 30
SEEDS = 40
Adjust = Callable[[EnginesPlan], EnginesPlan]


def only_senders(plan: EnginesPlan) -> EnginesPlan:
    return replace(plan, readers=(), groups=())


def only_readers(plan: EnginesPlan) -> EnginesPlan:
    return replace(plan, groups=())


def only_groups(plan: EnginesPlan) -> EnginesPlan:
    return replace(plan, readers=())


# Producers.


def without_idempotence(plan: EnginesPlan) -> EnginesPlan:
    """Retries are not deduplicated by the broker."""
    plain = (("enable.idempotence", "false"),)
    senders = [replace(sender, settings=sender.settings + plain) for sender in plan.senders]
    return replace(only_senders(plan), senders=senders)


def renumber_retries() -> None:
    """A retried batch gets a new sequence number."""
    drained = TransactionManager.assign_sequence

    def as_new(self: TransactionManager, batch: ProducerBatch) -> None:
        if batch.has_sequence:
            self.entry(batch.topic_partition).remove_in_flight(batch)
            batch.base_sequence = -1
        drained(self, batch)

    TransactionManager.assign_sequence = as_new  # type: ignore[method-assign]


def leave_gaps() -> None:
    """A gap in the sequence is not resolved after a failed batch."""

    def forget(self: TransactionManager) -> None:
        for partition in self._unresolved:
            entry = self.entry(partition)
            entry.first_missing, entry.last_doubtful = AFTER_ALL, NO_ORDINAL
        self._unresolved.clear()

    TransactionManager.maybe_resolve_sequences = forget  # type: ignore[method-assign]


def short_timeouts(plan: EnginesPlan) -> EnginesPlan:
    """Records expire while requests with them are still in flight."""
    hasty = (
        ("request.timeout.ms", "400"),
        ("delivery.timeout.ms", "1000"),
        ("linger.ms", "0"),
        ("batch.size", "0"),
        ("retry.backoff.ms", "5"),
    )
    senders = [replace(sender, settings=sender.settings + hasty) for sender in plan.senders]
    return replace(only_senders(plan), senders=senders)


def renumber_unanswered() -> None:
    """A batch that is not yet in the log is treated as one that can no longer arrive."""

    def may_still_be_written(self: TxnPartitionEntry, batch: ProducerBatch) -> bool:
        return self.first_missing >= batch.ordinal and self.next_to_send_again is not batch

    TxnPartitionEntry.may_still_be_written = may_still_be_written  # type: ignore[method-assign]


def drain_all_at_once() -> None:
    """The first batches of an epoch do not wait for the first response."""

    def may_drain(self: TransactionManager, batch: ProducerBatch, node_id: i64) -> bool:
        entry = self.entry(batch.topic_partition)
        if not self.identity.is_valid or entry.is_unresolved or entry.has_gap:
            return False
        if batch.has_sequence or not entry.in_flight:
            return True
        return bool(entry.drained_batches - entry.in_flight[0].drain_index < REMEMBERED_BATCHES)

    TransactionManager.may_drain = may_drain  # type: ignore[method-assign]


def call_back_twice() -> None:
    """The delivery callback runs again for the response to an expired batch."""
    ended = BatchCompletion.request_ended

    def finish(self: ProducerBatch) -> None:
        self.done = True
        for run in self._callbacks:
            run.run(self.result)
        self.result.finish()

    def ended_late(self: BatchCompletion, batch: ProducerBatch, *rest: Any) -> None:
        if batch.done:
            batch._finish()
        ended(self, batch, *rest)

    ProducerBatch._finish = finish  # type: ignore[method-assign]
    BatchCompletion.request_ended = ended_late  # type: ignore[assignment, method-assign]


# Consumers.


def commit_unread() -> None:
    """Records are committed before the application has polled again."""

    def consumed(self: SubscriptionState) -> dict[Any, Any]:
        for state in self.states:
            if state.position.offset >= 0:
                state.position.mark_consumed()
        return given(self)  # type: ignore[has-type]

    prop = SubscriptionState.consumed
    assert isinstance(prop, property) and prop.fget is not None
    given = prop.fget
    SubscriptionState.consumed = property(consumed)


def skip_first_record() -> None:
    """Reading starts one record after the committed offset."""
    initialize = SubscriptionState.initialize

    def one_further(self: SubscriptionState, committed: dict[Any, Any]) -> Any:
        further = {
            partition: None if found is None else found._replace(offset=found.offset + 1)
            for partition, found in committed.items()
        }
        return initialize(self, further)

    SubscriptionState.initialize = one_further  # type: ignore[method-assign,assignment]


def drop_last_record() -> None:
    """The last record of each poll is not returned."""
    take = FetchCollector.take

    def all_but_one(self: FetchCollector, into: list[Any], limit: int) -> None:
        take(self, into, limit)
        if len(into) > 1:
            into.pop()

    FetchCollector.take = all_but_one  # type: ignore[method-assign]


def keep_fetched_after_seek() -> None:
    """Records fetched before a seek are returned after it."""
    move = Position.move

    def unnoticed(self: Position, offset: int, leader_epoch: int) -> None:
        move(self, offset, leader_epoch)
        self.generation = 1

    Position.move = unnoticed  # type: ignore[method-assign]


def hide_lost_partitions() -> None:
    """A member that has lost its generation does not call the listener."""
    prepare = ListenerCalls.prepare

    def silent(self: ListenerCalls) -> CallSequence:
        if self.member.generation.is_reset:
            return None
        return (yield from prepare(self))

    ListenerCalls.prepare = silent  # type: ignore[method-assign]


def no_patch() -> None:
    """Patch nothing; the break is in the settings."""


BREAKS: dict[str, tuple[Callable[[], None], Adjust, int]] = {
    "INTACT": (no_patch, lambda plan: plan, 0),
    "without_idempotence": (no_patch, without_idempotence, 1),
    "renumber_retries": (renumber_retries, only_senders, 1),
    "leave_gaps": (leave_gaps, only_senders, 0),
    "renumber_unanswered": (renumber_unanswered, short_timeouts, 517),
    "drain_all_at_once": (drain_all_at_once, only_senders, 15),
    "call_back_twice": (call_back_twice, only_senders, 0),
    "commit_unread": (commit_unread, only_groups, 15),
    "skip_first_record": (skip_first_record, only_groups, 7),
    "drop_last_record": (drop_last_record, only_readers, 3),
    "keep_fetched_after_seek": (keep_fetched_after_seek, only_readers, 51),
    "hide_lost_partitions": (hide_lost_partitions, only_groups, 10),
}
"""The patch, the change of the plan, and the first seed: starting near a seed that finds the break
keeps the test short."""


LATE = {"renumber_unanswered": ("stall", "pause")}
"""Breaks that need late requests, with the faults that cause them."""
SLOW = Link(slow_rate=100, slow_latency_ns=(MS, 900 * MS))


class FailFast(History):
    """Ends the run at the first surprise."""

    def surprise(self, kind: str, text: str) -> None:
        super().surprise(kind, text)
        raise SimulationError(f"{kind}: {text}")


def violation(seed: int, adjust: Adjust, late: Sequence[str]) -> str | None:
    """Return the first violation of a seed, or None."""

    def adjusted(plan: Schedule) -> Schedule:
        assert plan.engines is not None
        link = SLOW if late else plan.link
        return replace(plan, engines=adjust(plan.engines), link=link)

    world = World(
        seed,
        STEPS,
        faults=late,
        engines=ONLY_ENGINES,
        adjust=adjusted,
        white_box=False,
        history=FailFast(),
    )
    try:
        found = world.run().violations
    except SimulationError as error:
        return str(error)
    return found[0] if found else None


def main(arguments: Sequence[str]) -> int:
    name, *numbers = arguments
    apply_break, adjust, first = BREAKS[name]
    count = int(numbers[0]) if numbers else SEEDS
    apply_break()
    logging.disable(logging.CRITICAL)
    for seed in range(first, first + count):
        found = violation(seed, adjust, LATE.get(name, ()))
        if found is not None:
            print(f"{name}: seed {seed}: {found}")
            return 0
    print(f"{name}: no violation in {count} seeds")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
