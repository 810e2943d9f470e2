"""An application that is a member of a group, and the records of what the members of a group saw.

    take ─► process the records ─► (commit) ─► take ...     rebalances happen within `take`
                 └── a crash here: nobody has processed them

A member takes records, processes them and commits; it joins, leaves, crashes, and sometimes stops
polling for too long. Automatic commits cover the records that `take` was called after; explicit
ones the same, after every round and before partitions are revoked, synchronous or asynchronous.
`GroupWatcher` only reads the committed offsets.

`GroupJournal` judges what the members of one group saw, as they go:

- In one generation, no partition has two owners.
- A partition is assigned once and revoked once, and a member gets only records of its partitions.
- The records of a partition come in order, without a gap, from the group's committed offset.
- *At least once*: the committed offset, and so every starting position, is never beyond a record
  that no member has processed. A record that an application received and then crashed with is not
  processed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from odradek.client.consumer.group.member import GroupMember, MemberState
from odradek.client.consumer.group.rebalance import RebalanceListener
from odradek.client.consumer.group.runner import GroupRunner
from odradek.client.consumer.record import Record
from odradek.client.errors import KafkaError
from odradek.model.topics import TopicPartition
from odradek.testing.client_process import ClientProcess
from odradek.testing.engines.consumer_application import (
    ConsumerApplication,
    ConsumerPlan,
    ReceivedRecords,
)
from odradek.testing.history import History

ReportUnexpected = Callable[[str, str], None]


@dataclass(slots=True, eq=False)
class GroupJournal:
    """The ownership, progress and commits that the members of one group saw."""

    group: str
    owners: dict[tuple[int, TopicPartition], str] = field(default_factory=dict)
    """The owner of a partition, by generation."""
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    """The last seen committed offsets."""
    _done: dict[TopicPartition, set[int]] = field(default_factory=dict)
    """Processed offsets above `_fronts`."""
    _fronts: dict[TopicPartition, int] = field(default_factory=dict)

    def check_owner(
        self, who: str, generation: int, partitions: Iterable[TopicPartition], say: ReportUnexpected
    ) -> None:
        """Check that no other member owns these partitions in this generation."""
        for partition in partitions:
            other = self.owners.setdefault((generation, partition), who)
            if other != who:
                say("owners", f"{partition} of generation {generation} is {other}'s and {who}'s")

    def mark_processed(self, partition: TopicPartition, offset: int) -> None:
        """Note that an application has processed this record."""
        done = self._done.setdefault(partition, set())
        done.add(offset)
        front = self.processed_to(partition)
        while front in done:
            done.remove(front)
            front += 1
        self._fronts[partition] = front

    def processed_to(self, partition: TopicPartition) -> int:
        """Return the offset before which all records have been processed."""
        return self._fronts.get(partition, 0)

    def check_start(self, partition: TopicPartition, offset: int, say: ReportUnexpected) -> None:
        """Check the offset at which a member starts to read."""
        if offset > self.processed_to(partition):
            say(
                "skipped",
                f"{partition} goes on at {offset}; dealt with {self.processed_to(partition)}",
            )

    def check_committed(
        self, partition: TopicPartition, offset: int, say: ReportUnexpected
    ) -> None:
        """Check a committed offset that the broker returned."""
        self.committed[partition] = offset
        if offset > self.processed_to(partition):
            say(
                "committed too far",
                f"{partition} is committed at {offset}; dealt with {self.processed_to(partition)}",
            )


AUTO, SYNC, ASYNC = "auto", "sync", "async"
COMMIT_TIMEOUT_S = 3.0
COMMITTED_TIMEOUT_S = 5.0
WATCH_EVERY_MS = 400


@dataclass(frozen=True, slots=True)
class MemberPlan:
    """The topics and the commit mode of a member."""

    consuming: ConsumerPlan
    topics: Sequence[str]
    commits: str = AUTO
    instance_id: str | None = None


class MemberApplication(ConsumerApplication):
    """An application that is a member of a group."""

    def __init__(
        self,
        side: ClientProcess,
        history: History,
        received: ReceivedRecords,
        journal: GroupJournal,
        plan: MemberPlan,
    ) -> None:
        super().__init__(side, history, received, plan.consuming)
        self.plan = plan
        self.journal = journal
        self.owned: dict[TopicPartition, None] = {}
        """The partitions that the listener was given and not taken."""
        self._next: dict[TopicPartition, int] = {}
        self._busy_ms = 0

    @property
    def member(self) -> GroupMember:
        """The membership in the engine."""
        group = self.core.group
        assert isinstance(group, GroupRunner)
        return group.coordinator.member

    @property
    def is_stable(self) -> bool:
        """True if the member is stable, with no reason to rejoin."""
        group = self.core.group
        assert isinstance(group, GroupRunner)
        return (
            self.member.state is MemberState.STABLE
            and not group.coordinator.membership.rejoin_needed_or_pending
            and sorted(self.owned) == sorted(self.core.subscriptions.assigned_partitions)
        )

    def stop_polling(self, duration_ms: int) -> None:
        """Stop polling for this time, after the current round."""
        self._busy_ms = duration_ms

    async def work(self) -> None:
        self.poll_loop.listener = RebalanceListener(self._assigned, self._revoked, self._lost)
        await self.call_api(lambda: self.calls.subscribe(self.plan.topics))
        while not self.leaving:
            records = await self.take()
            for record in records:
                self._take(record)
            await self.process(records)
            for record in records:
                self.journal.mark_processed(record.topic_partition, record.offset)
            if self.plan.commits != AUTO:
                await self._commit()
            busy_ms, self._busy_ms = self._busy_ms, 0
            if busy_ms:
                await self.application.pause(busy_ms)

    def _take(self, record: Record[bytes, bytes]) -> None:
        tp, offset = record.topic_partition, record.offset
        if tp not in self.owned:
            self.surprise("owners", f"handed {tp}@{offset}, which it does not have")
        expected = self._next.get(tp)
        if expected is None:
            self.journal.check_start(tp, offset, self.surprise)
        elif offset != expected:
            self.surprise("skipped", f"handed {tp}@{offset} after {expected - 1}")
        self._next[tp] = offset + 1
        self.received.add(self.name, record)

    async def _commit(self) -> None:
        """Commit all received records; this may fail while the group is rebalancing."""
        self.core.collector.mark_consumed()
        try:
            await self.call_api(
                lambda: self.calls.commit(None, COMMIT_TIMEOUT_S, self.plan.commits == ASYNC)
            )
        except KafkaError as error:
            self.side.process.scheduler.note(self.name, f"commit: {type(error).__name__}")

    # The listener.

    def _assigned(self, _: object, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            if partition in self.owned:
                self.surprise("owners", f"told to have {partition}, which it has")
            self.owned[partition] = None
        actually = sorted(self.core.subscriptions.assigned_partitions)
        if sorted(self.owned) != actually:
            self.surprise("owners", f"told of {sorted(self.owned)}, and has {actually}")
        who = self.plan.instance_id or self.name
        self.journal.check_owner(
            who, self.member.generation.generation_id, self.owned, self.surprise
        )

    async def _revoked(self, _: object, partitions: list[TopicPartition]) -> None:
        if self.plan.commits != AUTO and partitions:
            await self._commit()
        self._drop(partitions)

    def _lost(self, _: object, partitions: list[TopicPartition]) -> None:
        self._drop(partitions)

    def _drop(self, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            if partition not in self.owned:
                self.surprise("owners", f"told to give up {partition}, which it does not have")
            self.owned.pop(partition, None)
            self._next.pop(partition, None)

    def describe(self) -> str:
        """Return the member's state, for reports."""
        owned = " ".join(map(str, sorted(self.owned)))
        return f"{self.name} {self.member.state.value} {self.member.generation} has [{owned}]"


class GroupWatcher(ConsumerApplication):
    """Reads the committed offsets, again and again."""

    def __init__(
        self,
        side: ClientProcess,
        history: History,
        received: ReceivedRecords,
        journal: GroupJournal,
        plan: ConsumerPlan,
        partitions: Sequence[TopicPartition],
    ) -> None:
        super().__init__(side, history, received, plan)
        self.journal = journal
        self._partitions = partitions

    async def work(self) -> None:
        while not self.leaving:
            await self.application.pause(WATCH_EVERY_MS)
            try:
                check_committed = await self.call_api(
                    lambda: self.calls.committed(self._partitions, COMMITTED_TIMEOUT_S)
                )
            except KafkaError as error:
                self.side.process.scheduler.note(self.name, f"look: {type(error).__name__}")
                continue
            for partition, at in check_committed.items():
                if at is not None:
                    self.journal.check_committed(partition, at.offset, self.surprise)
