"""A consumer group in simulated time: our members, our broker, and what happens to them.

    group = GroupWorld(seed, topics={"t": 6}, strategy="cooperative-sticky")
    group.start("a"); group.start("b"); group.settle()

A member is what a face makes of a `ConsumerGroup`: an application that polls every now and then,
works on what it owns (it counts positions up, from what is committed), commits or leaves that to
its consumer (`auto_commit`), and calls its listener. It is a process of its own, which can be
killed, paused, or closed.

Held all the while, by every member that notices something, and by a look at the broker:

- in one generation, nobody is assigned what another member of that generation owns;
- what is committed is never less than what was confirmed before it was asked for;
- what the broker has committed never becomes less while it runs;
- nobody works on a partition that it was told to have lost.

`settle` lets time pass until the group is whole: all members stable in one generation, every
partition owned once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from odradek.broker.node import Node
from odradek.client.consumer.assignor.registry import assignors
from odradek.client.consumer.consumer_coordinator import ConsumerCoordinator
from odradek.client.consumer.consumer_group import ConsumerGroup
from odradek.client.consumer.group_config import GroupConfig
from odradek.client.consumer.group_effects import Callback, Occasion, Raise
from odradek.client.consumer.group_member import MemberState
from odradek.client.consumer.offset_and_metadata import OffsetAndMetadata
from odradek.client.consumer.partition_state import FetchPosition
from odradek.client.consumer.subscription_state import SubscriptionState
from odradek.client.engine import Engine
from odradek.client.errors import FencedInstance, KafkaError
from odradek.client.waiter import Waiter, spawn
from odradek.config.broker import BrokerConfig
from odradek.config.client import ClientConfig
from odradek.config.offset_reset import EARLIEST
from odradek.coordinator.group.coordinator import GroupCoordinator
from odradek.coordinator.group.offset_commit import all_refused
from odradek.model.env import Env
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.protocol.api.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.api.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from odradek.testing.client_process import ClientProcess
from odradek.testing.history import History
from odradek.testing.machine import HOST, PORT, Machine, Wiring
from odradek.testing.network import Fabric
from odradek.testing.prng import SplitMix64
from odradek.testing.process import SimProcess
from odradek.testing.scheduler import MS, SECOND, Scheduler, SimulationError
from odradek.testing.transport import Link
from odradek.testing.wiring import DATA_DIRECTORY, start_node

GROUP = "sim"
SETTINGS = {
    "listeners": f"PLAINTEXT://0.0.0.0:{PORT}",
    "advertised.listeners": f"PLAINTEXT://{HOST}:{PORT}",
    "log.dirs": DATA_DIRECTORY,
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "100",
    "group.min.session.timeout.ms": "1000",
}
SESSION_MS, HEARTBEAT_MS, MAX_POLL_MS = 6_000, 2_000, 20_000
AUTO_COMMIT_MS = 1_500


@dataclass(slots=True)
class Books:
    """What everybody saw, put together."""

    owners: dict[tuple[int, TopicPartition], str] = field(default_factory=dict)
    """Who took a partition, by generation."""
    confirmed: dict[TopicPartition, int] = field(default_factory=dict)
    """The highest offset of which somebody knows that it is committed."""
    at_broker: dict[TopicPartition, int] = field(default_factory=dict)
    """What is committed, by a look at the broker that runs."""
    worked: dict[TopicPartition, int] = field(default_factory=dict)
    """How far somebody has read."""
    found_behind: list[str] = field(default_factory=list)
    """Who began behind that: what comes twice."""
    wrong: list[str] = field(default_factory=list)

    def took(self, who: str, generation: int, partition: TopicPartition) -> None:
        other = self.owners.setdefault((generation, partition), who)
        if other != who:
            self.wrong.append(f"{partition} of generation {generation} is {other}'s and {who}'s")

    def kept(self, partition: TopicPartition, offset: int) -> None:
        """Somebody learnt, sooner or later, that this was committed."""
        self.confirmed[partition] = max(offset, self.confirmed.get(partition, 0))

    def found(self, who: str, partition: TopicPartition, offset: int, floor: int) -> None:
        """Somebody looked up what is committed, when `floor` was confirmed."""
        if offset < self.worked.get(partition, 0):
            self.found_behind.append(f"{who}: {partition} at {offset}")
        if offset < floor:
            self.wrong.append(f"{who} finds {partition} at {offset}, and {floor} was confirmed")

    def seen(self, partition: TopicPartition, offset: int) -> None:
        """The broker has this committed now."""
        before = self.at_broker.get(partition, 0)
        if offset < before:
            self.wrong.append(f"{partition} is committed at {offset}, and was at {before}")
        self.at_broker[partition] = offset


class ReluctantCoordinator(GroupCoordinator):
    """Has so many commits of a thousand tried again; for the rest it is another."""

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
            respond(all_refused(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        else:
            super().commit_offsets(request, version, respond)


class GroupWorld:
    """One broker, the members of one group, and a seed for all of it."""

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
        self.books = Books()
        self._boots_seen = 0
        config = BrokerConfig.load(SETTINGS)

        def start(env: Env, process: SimProcess) -> object:
            node = start_node(config, env, process)
            chance = self.scheduler.stream("refusing")
            node.broker.groups = ReluctantCoordinator(node.groups, chance, refused_commits)
            return node

        self.machine = Machine(self.scheduler, self.fabric, History(), Wiring(start))
        self.machine.boot()
        self.members: list[SimMember] = []
        self.starts = 0
        self._create_topics()

    def _create_topics(self) -> None:
        side = SimMember(self, "admin", None)
        wanted = [
            CreatableTopic(
                name=name, num_partitions=count, replication_factor=1, assignments=[], configs=[]
            )
            for name, count in self.topics.items()
        ]
        request = CreateTopicsRequest(topics=wanted, timeout_ms=10_000)

        async def create() -> CreateTopicsResponse:
            await side.engine.cluster_image()
            node = await side.engine.any_node()
            return await side.engine.call(node, request, CreateTopicsResponse)

        made: list[Waiter[CreateTopicsResponse]] = []
        side.process.run(lambda: made.append(spawn(create())))
        self.until(lambda: made[0].done, 30)
        assert all(topic.error_code == 0 for topic in made[0].result().topics)
        side.process.kill()

    def start(self, name: str, instance_id: str | None = None) -> SimMember:
        """A member comes."""
        self.starts += 1
        member = SimMember(self, f"{name}.{self.starts}", instance_id)
        self.members.append(member)
        member.join(list(self.topics))
        return member

    @property
    def alive(self) -> list[SimMember]:
        return [member for member in self.members if member.process.alive and not member.closed]

    # Time.

    def _look(self) -> bool:
        """See what is committed at the broker; whether something is wrong."""
        node = self.machine.broker
        if self.machine.boots != self._boots_seen:
            # What was appended and not confirmed may be gone.
            self._boots_seen = self.machine.boots
            self.books.at_broker.clear()
        if self.machine.running and isinstance(node, Node):
            for shard in node.groups.runtime.machines():
                for topic, partitions in shard.offsets.of_group(GROUP).items():
                    for number, value in partitions.items():
                        self.books.seen(TopicPartition(topic, number), value.offset)
        return bool(self.books.wrong)

    def run(self, seconds: float) -> None:
        self.scheduler.run(self.scheduler.now_ns + int(seconds * SECOND), self._look)
        assert not self.books.wrong, self.books.wrong

    def until(self, condition: object, seconds: int) -> None:
        """Let time pass until it is so."""
        assert callable(condition)
        limit_ns = self.scheduler.now_ns + seconds * SECOND
        if not condition() and not self.scheduler.run(
            limit_ns, lambda: self._look() or bool(condition())
        ):
            told = "; ".join(member.tell() for member in self.members)
            raise AssertionError(f"not within {seconds} s of virtual time: {told}")
        assert not self.books.wrong, self.books.wrong

    def settle(self, seconds: int = 90) -> None:
        """Until the group is whole, and stays so for longer than a session."""
        for _ in range(20):
            self.until(self.is_whole, seconds)
            before = [member.coordinator.member.generation for member in self.alive]
            self.run((SESSION_MS + HEARTBEAT_MS) / 1000)
            if self.is_whole() and before == [m.coordinator.member.generation for m in self.alive]:
                return
        raise AssertionError("the group does not come to rest")

    def is_whole(self) -> bool:
        """Whether all members are in one generation, and every partition has one owner."""
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


class SimMember:
    """One application."""

    def __init__(self, world: GroupWorld, name: str, instance_id: str | None) -> None:
        scheduler = world.scheduler
        self.world = world
        self.name = name
        self.chance = scheduler.stream(f"application/{name}")
        self.side = ClientProcess(scheduler, world.fabric, name)
        self.process = self.side.process
        config = ClientConfig.load({"bootstrap.servers": f"{HOST}:{PORT}"})
        self.engine = Engine(self.side.env, self.side.timer, config, on_bug=bug)
        self.subscriptions = SubscriptionState(EARLIEST)
        settings = GroupConfig(
            GROUP,
            instance_id,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            max_poll_interval_ms=MAX_POLL_MS,
            enable_auto_commit=world.auto_commit,
            auto_commit_interval_ms=AUTO_COMMIT_MS,
        )
        strategy = assignors(world.strategy.split(","))
        self.coordinator = ConsumerCoordinator(
            settings,
            self.subscriptions,
            strategy,
            self.side.env.random,
            self.side.timer.now_ms,
        )
        self.group = ConsumerGroup(self.engine, self.coordinator, self._wanted)
        self.process.run(self.engine.start)
        self.positions: dict[TopicPartition, int] = {}
        self.calls: list[tuple[Occasion, list[TopicPartition]]] = []
        self.raised: list[BaseException] = []
        self.wanted = False
        self.closed = False

    def _wanted(self) -> None:
        self.wanted = True

    # What it does.

    def join(self, topics: list[str]) -> None:
        def begin() -> None:
            self.subscriptions.subscribe(topics)
            self.group.subscription_changed()
            self._poll()

        self.process.run(begin)

    def kill(self) -> None:
        """kill -9."""
        self.side.kill()

    def pause(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT later."""
        self.side.pause(int(seconds * SECOND))

    def close(self) -> None:
        """A clean end."""

        self.closed = True

        def begin() -> None:
            for partition in self.positions:
                self.subscriptions.state(partition).position.settle()
            self.group.close(5_000).add_callback(lambda _: self.process.call_soon(self.kill))
            self._serve()

        self.process.run(begin)

    def _poll(self) -> None:
        """Poll, work a little, and come again."""
        if self.closed:
            self._serve()
            return
        for partition in self.positions:
            self.subscriptions.state(partition).position.settle()
        if self.wanted:
            self.wanted = False
            self.group.poll()
            self._serve()
        else:
            self.group.polls_seen()
        self._work()
        self.process.post(self.chance.between(20 * MS, 400 * MS), "poll", self._poll)

    def _serve(self) -> None:
        """Do what the coordinator asks of the application."""
        waiting = self.group.for_application
        while waiting:
            item = waiting.popleft()
            if isinstance(item, Raise):
                self.raised.append(item.error)
                if isinstance(item.error, FencedInstance):
                    self.kill()
                    return
                continue
            self._listen(item)
            self.group.callback_returned(None)

    def _listen(self, call: Callback) -> None:
        self.calls.append((call.occasion, list(call.partitions)))
        if call.occasion is Occasion.ASSIGNED:
            generation = self.coordinator.member.generation.generation_id
            for partition in self.subscriptions.assigned_partitions:
                who = self.coordinator.config.group_instance_id or self.name
                self.world.books.took(who, generation, partition)
            if call.partitions:
                self._look_up(list(call.partitions))
            return
        if call.occasion is Occasion.REVOKED and not self.world.auto_commit:
            self._commit([p for p in call.partitions if p in self.positions])
        for partition in call.partitions:
            self.positions.pop(partition, None)

    def _look_up(self, partitions: list[TopicPartition]) -> None:
        """Where to begin."""
        books = self.world.books
        floor = {partition: books.confirmed.get(partition, 0) for partition in partitions}

        def found(waiter: Waiter[dict[TopicPartition, OffsetAndMetadata | None]]) -> None:
            if isinstance(waiter.error, KafkaError):
                if self.subscriptions.assigned_partitions:
                    self._look_up(partitions)
                return
            for partition, at in waiter.result().items():
                offset = 0 if at is None else at.offset
                books.found(self.name, partition, offset, floor[partition])
                if self.subscriptions.is_assigned(partition):
                    self.positions[partition] = offset
                    self.subscriptions.state(partition).seek_unvalidated(FetchPosition(offset))

        self.group.committed(partitions, 10_000).add_callback(found)

    def _work(self) -> None:
        """Read on, and commit now and then."""
        for partition in self.positions:
            assert self.subscriptions.is_assigned(partition), f"{self.name} has lost {partition}"
            position = self.subscriptions.state(partition).position
            if position.withheld:
                continue
            self.positions[partition] += self.chance.below(10)
            position.offset = self.positions[partition]
            worked = self.world.books.worked
            worked[partition] = max(position.offset, worked.get(partition, 0))
        if self.positions and not self.world.auto_commit and self.chance.chance(300):
            self._commit(list(self.positions))

    def _commit(self, partitions: list[TopicPartition]) -> None:
        at = {partition: self.positions[partition] for partition in partitions}

        def done(waiter: Waiter[None]) -> None:
            if waiter.error is None:
                for partition, offset in at.items():
                    self.world.books.kept(partition, offset)

        offsets = {partition: OffsetAndMetadata(offset) for partition, offset in at.items()}
        self.group.commit(offsets).add_callback(done)

    def tell(self) -> str:
        """For messages."""
        member = self.coordinator.member
        owned = " ".join(map(str, sorted(self.subscriptions.assigned_partitions)))
        alive = "" if self.process.alive else " (dead)"
        return f"{self.name}{alive} {member.state.value} {member.generation} owns [{owned}]"


def bug(where: str, error: Exception) -> None:
    raise SimulationError(f"bug in a client while {where}: {error!r}") from error
