"""A consumer group in simulated time: members of this project, its broker, and faults.

    group = GroupWorld(seed, topics={"t": 6}, strategy="cooperative-sticky")
    group.start("a"); group.start("b"); group.wait_until_stable()

`group_clients` has the members. These rules are checked throughout the run, by the members and
by reading the state of the broker:

- in one generation, no member is assigned a partition that another member owns;
- a fetched committed offset is not less than one that was confirmed before the fetch;
- the committed offsets of the broker do not decrease while it runs;
- no member reads a partition after the listener call that it has lost it.

`wait_until_stable` runs until all members are stable in one generation and every partition has
one owner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from odradek.broker.node import Node
from odradek.client.consumer.group.member import MemberState
from odradek.client.waiter import Waiter, spawn
from odradek.config.broker import BrokerConfig
from odradek.coordinator.group.coordinator import GroupCoordinator
from odradek.coordinator.group.offset_commit import commit_error
from odradek.model.env import Env
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol.api.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.api.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from odradek.testing.history import History
from odradek.testing.machine import DATA_DIRECTORY, HOST, PORT, SimMachine, Wiring, start_node
from odradek.testing.network import Fabric
from odradek.testing.prng import SplitMix64
from odradek.testing.process import SimProcess
from odradek.testing.scheduler import SECOND, Scheduler
from odradek.testing.transport import Link
from sim.group_clients import GROUP, HEARTBEAT_MS, SESSION_MS, Journal, SimMember

SETTINGS = {
    "listeners": f"PLAINTEXT://0.0.0.0:{PORT}",
    "advertised.listeners": f"PLAINTEXT://{HOST}:{PORT}",
    "log.dirs": DATA_DIRECTORY,
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "100",
    "group.min.session.timeout.ms": "1000",
}


class ReluctantCoordinator(GroupCoordinator):
    """A group coordinator that rejects `per_mille` of 1000 commits with a retriable error."""

    def __init__(self, other: GroupCoordinator, chance: SplitMix64, per_mille: int) -> None:
        super().__init__(other.config, other.runtime)
        self.chance = chance
        self.per_mille = per_mille

    def commit_offsets(
        self,
        request: OffsetCommitRequest,
        version: int,
        respond: Callable[[OffsetCommitResponse], None],
    ) -> None:
        if self.chance.chance(self.per_mille):
            respond(commit_error(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        else:
            super().commit_offsets(request, version, respond)


class GroupWorld:
    """One broker and the members of one group, run from one seed."""

    def __init__(
        self,
        seed: int,
        topics: Mapping[str, int],
        strategy: str,
        link: Link | None = None,
        *,
        auto_commit: bool = False,
        refused_commits: int = 0,
    ) -> None:
        self.scheduler = Scheduler(seed)
        self.chance = self.scheduler.stream("plan")
        self.fabric = Fabric(self.scheduler, link or Link())
        self.topics = topics
        self.strategy = strategy
        self.auto_commit = auto_commit
        self.journal = Journal()
        self._boots_seen = 0
        config = BrokerConfig.load(SETTINGS)

        def start_broker(env: Env, process: SimProcess) -> object:
            node = start_node(config, env, process)
            chance = self.scheduler.stream("refusing")
            node.broker.groups = ReluctantCoordinator(node.groups, chance, refused_commits)
            return node

        self.machine = SimMachine(self.scheduler, self.fabric, History(), Wiring(start_broker))
        self.machine.boot()
        self.members: list[SimMember] = []
        self.starts = 0
        self._create_topics()

    def _create_topics(self) -> None:
        admin = self._member("admin")
        new_topics = [
            CreatableTopic(
                name=name, num_partitions=count, replication_factor=1, assignments=[], configs=[]
            )
            for name, count in self.topics.items()
        ]
        request = CreateTopicsRequest(topics=new_topics, timeout_ms=10_000)

        async def create() -> CreateTopicsResponse:
            await admin.engine.cluster_image()
            node = await admin.engine.any_node()
            return await admin.engine.call(node, request, CreateTopicsResponse)

        made: list[Waiter[CreateTopicsResponse]] = []
        admin.process.run(lambda: made.append(spawn(create())))
        self.until(lambda: made[0].done, 30)
        assert all(topic.error_code == 0 for topic in made[0].result().topics)
        admin.process.kill()

    def _member(self, name: str, instance_id: str | None = None) -> SimMember:
        return SimMember(
            self.scheduler,
            self.fabric,
            self.journal,
            name,
            instance_id,
            strategy=self.strategy,
            auto_commit=self.auto_commit,
        )

    def start(self, name: str, instance_id: str | None = None) -> SimMember:
        """Start a member, which joins the group."""
        self.starts += 1
        member = self._member(f"{name}.{self.starts}", instance_id)
        self.members.append(member)
        member.join(list(self.topics))
        return member

    @property
    def alive(self) -> list[SimMember]:
        return [member for member in self.members if member.process.alive and not member.closed]

    # Running.

    def _look(self) -> bool:
        """Record the committed offsets of the broker; return whether there are violations."""
        node = self.machine.broker
        if self.machine.boots != self._boots_seen:
            # Commits that were appended but not confirmed may be lost.
            self._boots_seen = self.machine.boots
            self.journal.at_broker.clear()
        if self.machine.running and isinstance(node, Node):
            for shard in node.groups.runtime.state_machines():
                for topic, partitions in shard.offsets.of_group(GROUP).items():
                    for number, value in partitions.items():
                        self.journal.broker_offset(TopicPartition(topic, number), value.offset)
        return bool(self.journal.violations)

    def run(self, seconds: float) -> None:
        self.scheduler.run(self.scheduler.now_ns + int(seconds * SECOND), self._look)
        assert not self.journal.violations, self.journal.violations

    def until(self, condition: object, seconds: int) -> None:
        """Run until the condition is true; fail after `seconds` of virtual time."""
        assert callable(condition)
        limit_ns = self.scheduler.now_ns + seconds * SECOND
        if not condition() and not self.scheduler.run(
            limit_ns, lambda: self._look() or bool(condition())
        ):
            states = "; ".join(member.describe() for member in self.members)
            raise AssertionError(f"not within {seconds} s of virtual time: {states}")
        assert not self.journal.violations, self.journal.violations

    def wait_until_stable(self, seconds: int = 90) -> None:
        """Run until the group is stable, and has been for longer than a session timeout."""
        for _ in range(20):
            self.until(self.is_stable, seconds)
            before = [member.coordinator.member.generation for member in self.alive]
            self.run((SESSION_MS + HEARTBEAT_MS) / 1000)
            if self.is_stable() and before == [m.coordinator.member.generation for m in self.alive]:
                return
        raise AssertionError("the group does not become stable")

    def is_stable(self) -> bool:
        """Return whether all members share a generation and every partition has one owner."""
        members = self.alive
        owned = [p for member in members for p in member.subscriptions.assigned_partitions]
        everything = [
            TopicPartition(t, n) for t, count in self.topics.items() for n in range(count)
        ]
        return (
            len({member.coordinator.member.generation.generation_id for member in members}) == 1
            and all(member.coordinator.member.state is MemberState.STABLE for member in members)
            and not any(
                member.coordinator.membership.rejoin_needed_or_pending for member in members
            )
            and sorted(owned) == sorted(everything)
        )
