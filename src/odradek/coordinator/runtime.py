"""The shards of a coordinator: one per partition of its topic that this broker leads.

A key (a group id) belongs to one shard, by Java's hash of the key, so that every broker and every
tool computes the same partition. Operations of different shards are independent.

The replica manager calls the runtime when this broker begins to lead a partition of the topic, when
its high watermark has moved and when that leadership has ended. Nothing else begins or ends a
shard.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, Generic, TypeVar

from mypy_extensions import mypyc_attr

from odradek.coordinator.operation import (
    OperationResult,
    Reply,
    TimerKey,
)
from odradek.coordinator.shard import Shard, StateMachine
from odradek.log.producer_state import TransactionMarker
from odradek.log.retention import RetentionClock
from odradek.model.env import Clock
from odradek.model.errors import ErrorCode
from odradek.model.java_hash import partition_for
from odradek.replication.partition import Partition, PartitionListener
from odradek.replication.replica_manager import ReplicaManager
from odradek.timing import SystemTimer

log = logging.getLogger(__name__)

NONE: Final = ErrorCode.NONE
M = TypeVar("M", bound=StateMachine)


@mypyc_attr(allow_interpreted_subclasses=True)
class CoordinatorRuntime(PartitionListener, Generic[M]):
    """Runs operations on the shards of one topic. All methods run on the owner thread.

    `partition_count` returns how many partitions the topic has (or will have, once it is created);
    `new_state_machine` returns the empty state of the shard of a partition.
    """

    def __init__(
        self,
        topic: str,
        partition_count: Callable[[], int],
        new_state_machine: Callable[[Partition], M],
        replicas: ReplicaManager,
        clock: Clock,
        timer: SystemTimer,
        call_soon: Callable[[Callable[[], None]], None],
        answer_timeout_ms: int,
    ) -> None:
        self.topic = topic
        self._partition_count = partition_count
        self._new_state_machine = new_state_machine
        self._replicas = replicas
        self._clock = clock
        self.retention_clock = RetentionClock(clock)
        """The clock of all shards: a new shard must not begin at a wall clock set forward."""
        self.timer = timer
        self._call_soon = call_soon
        self.answer_timeout_ms = answer_timeout_ms
        self._shards: dict[int, tuple[Shard, M]] = {}
        replicas.listeners[topic] = self

    # -- operations ------------------------------------------------------------------------------

    def run(
        self,
        key: str,
        operation: Callable[[M, OperationResult], None],
        refuse: Callable[[ErrorCode], None],
    ) -> None:
        """Run an operation on the state of `key`, or call `refuse` with the reason it cannot run.

        The operation responds through its `OperationResult`. Operations run in the order of calls.
        """
        self.run_on(self.partition_of(key), operation, refuse)

    def run_on(
        self,
        number: int,
        operation: Callable[[M, OperationResult], None],
        refuse: Callable[[ErrorCode], None],
    ) -> None:
        """Run an operation on the shard of one partition, or call `refuse`."""
        found = self._shards.get(number)
        if found is None:
            refuse(ErrorCode.NOT_COORDINATOR)
            return
        shard, state_machine = found
        error = shard.error()
        if error is not NONE:
            refuse(error)
            return
        shard.run(partial(operation, state_machine))

    def error_of(self, key: str) -> ErrorCode:
        """The error for requests of a key; NONE if they can be served now."""
        found = self._shards.get(self.partition_of(key))
        return ErrorCode.NOT_COORDINATOR if found is None else found[0].error()

    def complete_transaction(
        self, number: int, marker: TransactionMarker, reply: Reply[ErrorCode]
    ) -> None:
        """Write the marker of a transaction into one partition (see `Shard`)."""
        found = self._shards.get(number)
        error = ErrorCode.NOT_COORDINATOR if found is None else found[0].error()
        if found is None or error is not NONE:
            reply.refuse(error)
        else:
            found[0].complete_transaction(marker, reply)

    def partition_of(self, key: str) -> int:
        """The number of the partition that a key belongs to."""
        return partition_for(key, self._partition_count())

    @property
    def partitions(self) -> list[int]:
        """The partitions that have a shard here, active or not, in ascending order."""
        return sorted(self._shards)

    def state_machines(self) -> Iterator[M]:
        """The states of the active shards. Read-only."""
        for number in self.partitions:
            shard, state_machine = self._shards[number]
            if shard.error() is NONE:
                yield state_machine

    def state_machine(self, key: str) -> M | None:
        """The state of the active shard of `key`; None if there is none here. Read-only."""
        found = self._shards.get(self.partition_of(key))
        return found[1] if found is not None and found[0].error() is NONE else None

    def timer_left_ms(self, key: str, timer: TimerKey) -> int | None:
        """Return the time until a timer of the state of `key` fires; None if it is not running."""
        found = self._shards.get(self.partition_of(key))
        return None if found is None else found[0].timer_left_ms(timer)

    # -- shards ----------------------------------------------------------------------------------

    def opened(self, partition: Partition) -> None:
        """Load the shard of a partition."""
        number = partition.topic_partition.partition
        self._unload(number)
        state_machine = self._new_state_machine(partition)
        shard = self.new_shard(partition, state_machine)
        self._shards[number] = shard, state_machine
        shard.load()

    def new_shard(self, partition: Partition, state_machine: M) -> Shard:
        """A shard that has yet to be loaded."""
        return Shard(
            partition,
            state_machine,
            self._replicas,
            self._clock,
            self.retention_clock,
            self.timer,
            self._call_soon,
            self.answer_timeout_ms,
        )

    def updated(self, partition: Partition) -> None:
        """Answer what waited for the high watermark of a partition."""
        shard = self._shard_of(partition)
        if shard is not None:
            shard.high_watermark_moved()

    def ended(self, partition: Partition) -> None:
        """Unload the shard of a partition."""
        if self._shard_of(partition) is not None:
            self._unload(partition.topic_partition.partition)

    def _shard_of(self, partition: Partition) -> Shard | None:
        found = self._shards.get(partition.topic_partition.partition)
        return found[0] if found is not None and found[0].partition is partition else None

    def _unload(self, number: int) -> None:
        found = self._shards.pop(number, None)
        if found is not None:
            found[0].unload(ErrorCode.NOT_COORDINATOR)

    def close(self) -> None:
        """Unload all shards: timers stop, and waiting requests get NOT_COORDINATOR."""
        for number in self.partitions:
            self._unload(number)
