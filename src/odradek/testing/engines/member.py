"""An application that is a member of a group: takes records, deals with them, commits; comes, goes,
crashes, and sometimes stops polling for too long. And one that only looks what is committed.

    take ─► deal with them ─► (commit) ─► take ...          rebalances happen within `take`
                 └── a crash here: nobody has dealt with them

What is committed automatically is what it came back from; by hand, the same, after every turn and
before partitions are taken away: waiting for it, or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odradek.client.consumer.group.member import GroupMember, MemberState
from odradek.client.consumer.group.rebalance import RebalanceListener
from odradek.client.consumer.group.runner import GroupRunner
from odradek.client.consumer.record import Record
from odradek.client.errors import KafkaError
from odradek.model.topics import TopicPartition
from odradek.testing.client_process import ClientProcess
from odradek.testing.engines.consuming import ConsumingApplication, ConsumingPlan
from odradek.testing.engines.group_books import GroupBooks
from odradek.testing.engines.seen import Seen
from odradek.testing.history import History

AUTO, SYNC, ASYNC = "auto", "sync", "async"
COMMIT_TIMEOUT_S = 3.0
LOOK_TIMEOUT_S = 5.0
LOOK_EVERY_MS = 400


@dataclass(frozen=True, slots=True)
class MemberPlan:
    """Whose member it is."""

    consuming: ConsumingPlan
    topics: Sequence[str]
    commits: str = AUTO
    instance_id: str | None = None


class MemberApplication(ConsumingApplication):
    """One member."""

    def __init__(
        self,
        side: ClientProcess,
        history: History,
        seen: Seen,
        books: GroupBooks,
        plan: MemberPlan,
    ) -> None:
        super().__init__(side, history, seen, plan.consuming)
        self.plan = plan
        self.books = books
        self.owned: dict[TopicPartition, None] = {}
        """What the listener was told."""
        self._next: dict[TopicPartition, int] = {}
        self._busy_ms = 0

    @property
    def member(self) -> GroupMember:
        """What the engine knows of its membership."""
        group = self.core.group
        assert isinstance(group, GroupRunner)
        return group.coordinator.member

    @property
    def rests(self) -> bool:
        """Stable, with no reason to join again."""
        group = self.core.group
        assert isinstance(group, GroupRunner)
        return (
            self.member.state is MemberState.STABLE
            and not group.coordinator.membership.rejoin_needed_or_pending
            and sorted(self.owned) == sorted(self.core.subscriptions.assigned_partitions)
        )

    def be_busy(self, duration_ms: int) -> None:
        """Do not poll for so long."""
        self._busy_ms = duration_ms

    async def work(self) -> None:
        self.reading.listener = RebalanceListener(self._assigned, self._revoked, self._lost)
        await self.ask(lambda: self.calls.subscribe(self.plan.topics))
        while not self.leaving:
            records = await self.take()
            for record in records:
                self._take(record)
            await self.deal_with(records)
            for record in records:
                self.books.dealt_with(record.topic_partition, record.offset)
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
            self.books.begins(tp, offset, self.surprise)
        elif offset != expected:
            self.surprise("skipped", f"handed {tp}@{offset} after {expected - 1}")
        self._next[tp] = offset + 1
        self.seen.add(self.name, record)

    async def _commit(self) -> None:
        """All it was handed; it may be in vain while the group is rebalancing."""
        self.core.collector.settle()
        try:
            await self.ask(
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
        self.books.took(who, self.member.generation.generation_id, self.owned, self.surprise)

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

    def tell(self) -> str:
        """For reports."""
        owned = " ".join(map(str, sorted(self.owned)))
        return f"{self.name} {self.member.state.value} {self.member.generation} has [{owned}]"


class GroupWatcher(ConsumingApplication):
    """Looks what is committed, again and again."""

    def __init__(
        self,
        side: ClientProcess,
        history: History,
        seen: Seen,
        books: GroupBooks,
        plan: ConsumingPlan,
        partitions: Sequence[TopicPartition],
    ) -> None:
        super().__init__(side, history, seen, plan)
        self.books = books
        self._partitions = partitions

    async def work(self) -> None:
        while not self.leaving:
            await self.application.pause(LOOK_EVERY_MS)
            try:
                found = await self.ask(
                    lambda: self.calls.committed(self._partitions, LOOK_TIMEOUT_S)
                )
            except KafkaError as error:
                self.side.process.scheduler.note(self.name, f"look: {type(error).__name__}")
                continue
            for partition, at in found.items():
                if at is not None:
                    self.books.found(partition, at.offset, self.surprise)
