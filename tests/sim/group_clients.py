"""Members of a group in simulated time, and the journal that they share.

A member uses a `GroupRunner` as the consumer APIs do: an application that polls at random
intervals, advances the positions of its partitions from the committed offsets, commits them or
leaves that to the consumer (`auto_commit`), and runs the listener calls. It is a process of its
own, which can be killed, paused and closed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from odradek.client.consumer.assignor.registry import assignors
from odradek.client.consumer.batch import OffsetAndMetadata
from odradek.client.consumer.group.coordinator import ConsumerCoordinator
from odradek.client.consumer.group.member import (
    CallListener,
    GroupRebalanceConfig,
    Raise,
    RebalanceEvent,
)
from odradek.client.consumer.group.runner import GroupRunner
from odradek.client.consumer.position.subscription_state import FetchPosition, SubscriptionState
from odradek.client.engine import Engine
from odradek.client.errors import FencedInstance, KafkaError
from odradek.client.waiter import Waiter
from odradek.config.client import ClientConfig
from odradek.config.consumer import ConsumerConfig
from odradek.config.offset_reset import EARLIEST
from odradek.model.topics import TopicPartition
from odradek.testing.client_process import ClientProcess
from odradek.testing.machine import HOST, PORT
from odradek.testing.network import Fabric
from odradek.testing.scheduler import MS, SECOND, Scheduler, SimulationError

GROUP = "sim"
SESSION_MS, HEARTBEAT_MS, MAX_POLL_MS = 6_000, 2_000, 20_000
AUTO_COMMIT_MS = 1_500


@dataclass(slots=True)
class Journal:
    """What all members observed, and the violations found in it."""

    owners: dict[tuple[int, TopicPartition], str] = field(default_factory=dict)
    """The member that was assigned a partition, by generation and partition."""
    confirmed: dict[TopicPartition, int] = field(default_factory=dict)
    """The highest offset whose commit was confirmed to a member."""
    at_broker: dict[TopicPartition, int] = field(default_factory=dict)
    """The committed offsets in the state of the running broker."""
    positions_read: dict[TopicPartition, int] = field(default_factory=dict)
    """The highest position that a member has reached."""
    read_again: list[str] = field(default_factory=list)
    """Members that started below that position, and so read records again."""
    violations: list[str] = field(default_factory=list)

    def assigned(self, who: str, generation: int, partition: TopicPartition) -> None:
        other = self.owners.setdefault((generation, partition), who)
        if other != who:
            self.violations.append(
                f"{partition} of generation {generation} is {other}'s and {who}'s"
            )

    def commit_confirmed(self, partition: TopicPartition, offset: int) -> None:
        """Note that the commit of an offset was confirmed to a member."""
        self.confirmed[partition] = max(offset, self.confirmed.get(partition, 0))

    def offset_fetched(self, who: str, partition: TopicPartition, offset: int, floor: int) -> None:
        """Check an offset that a member fetched; `floor` was confirmed before the fetch."""
        if offset < self.positions_read.get(partition, 0):
            self.read_again.append(f"{who}: {partition} at {offset}")
        if offset < floor:
            self.violations.append(
                f"{who} finds {partition} at {offset}, and {floor} was confirmed"
            )

    def broker_offset(self, partition: TopicPartition, offset: int) -> None:
        """Check an offset that is committed in the state of the broker."""
        before = self.at_broker.get(partition, 0)
        if offset < before:
            self.violations.append(f"{partition} is committed at {offset}, and was at {before}")
        self.at_broker[partition] = offset


class SimMember:
    """One member: an application in a process of its own."""

    def __init__(
        self,
        scheduler: Scheduler,
        fabric: Fabric,
        journal: Journal,
        name: str,
        instance_id: str | None,
        *,
        strategy: str,
        auto_commit: bool,
    ) -> None:
        self.journal = journal
        self.name = name
        self.auto_commit = auto_commit
        self.chance = scheduler.stream(f"application/{name}")
        self.client = ClientProcess(scheduler, fabric, name)
        self.process = self.client.process
        config = ClientConfig.load({"bootstrap.servers": f"{HOST}:{PORT}"})
        self.engine = Engine(self.client.env, self.client.timer, config, on_bug=bug)
        self.subscriptions = SubscriptionState(EARLIEST)
        settings = {
            "group.id": GROUP,
            "group.instance.id": instance_id,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "max.poll.interval.ms": MAX_POLL_MS,
            "enable.auto.commit": auto_commit,
            "auto.commit.interval.ms": AUTO_COMMIT_MS,
        }
        group_config = GroupRebalanceConfig.of(ConsumerConfig.load(settings))
        self.coordinator = ConsumerCoordinator(
            group_config,
            self.subscriptions,
            assignors(strategy.split(",")),
            self.client.env.random,
            self.client.timer.now_ms,
        )
        self.group = GroupRunner(self.engine, self.coordinator, self._poll_soon)
        self.process.run(self.engine.start)
        self.positions: dict[TopicPartition, int] = {}
        self.calls: list[tuple[RebalanceEvent, list[TopicPartition]]] = []
        self.raised: list[BaseException] = []
        self.poll_due = False
        self.closed = False

    def _poll_soon(self) -> None:
        self.poll_due = True

    # Actions.

    def join(self, topics: list[str]) -> None:
        def begin() -> None:
            self.subscriptions.subscribe(topics)
            self.group.subscription_changed()
            self._poll()

        self.process.run(begin)

    def kill(self) -> None:
        """End the process without notice (kill -9)."""
        self.client.kill()

    def pause(self, seconds: float) -> None:
        """Stop the process for some time (SIGSTOP, SIGCONT)."""
        self.client.pause(int(seconds * SECOND))

    def close(self) -> None:
        """Leave the group, then end the process."""
        self.closed = True

        def begin() -> None:
            for partition in self.positions:
                self.subscriptions.state(partition).position.mark_consumed()
            self.group.close(5_000).add_callback(lambda _: self.process.call_soon(self.kill))
            self._serve()

        self.process.run(begin)

    def _poll(self) -> None:
        """Poll, advance the positions, and schedule the next poll."""
        if self.closed:
            self._serve()
            return
        for partition in self.positions:
            self.subscriptions.state(partition).position.mark_consumed()
        if self.poll_due:
            self.poll_due = False
            self.group.poll()
            self._serve()
        else:
            self.group.application_polled()
        self._work()
        self.process.post(self.chance.between(20 * MS, 400 * MS), "poll", self._poll)

    def _serve(self) -> None:
        """Run the listener calls and raise the errors that the runner has for the application."""
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

    def _listen(self, call: CallListener) -> None:
        self.calls.append((call.event, list(call.partitions)))
        if call.event is RebalanceEvent.ASSIGNED:
            generation = self.coordinator.member.generation.generation_id
            for partition in self.subscriptions.assigned_partitions:
                who = self.coordinator.config.group_instance_id or self.name
                self.journal.assigned(who, generation, partition)
            if call.partitions:
                self._look_up(list(call.partitions))
            return
        if call.event is RebalanceEvent.REVOKED and not self.auto_commit:
            self._commit([p for p in call.partitions if p in self.positions])
        for partition in call.partitions:
            self.positions.pop(partition, None)

    def _look_up(self, partitions: list[TopicPartition]) -> None:
        """Fetch the committed offsets to start from."""
        journal = self.journal
        floor = {partition: journal.confirmed.get(partition, 0) for partition in partitions}

        def found(waiter: Waiter[dict[TopicPartition, OffsetAndMetadata | None]]) -> None:
            if isinstance(waiter.error, KafkaError):
                if self.subscriptions.assigned_partitions:
                    self._look_up(partitions)
                return
            for partition, at in waiter.result().items():
                offset = 0 if at is None else at.offset
                journal.offset_fetched(self.name, partition, offset, floor[partition])
                if self.subscriptions.is_assigned(partition):
                    self.positions[partition] = offset
                    self.subscriptions.state(partition).seek_unvalidated(FetchPosition(offset))

        self.group.committed(partitions, 10_000).add_callback(found)

    def _work(self) -> None:
        """Advance the positions, and commit at random."""
        for partition in self.positions:
            assert self.subscriptions.is_assigned(partition), f"{self.name} has lost {partition}"
            position = self.subscriptions.state(partition).position
            if position.withheld:
                continue
            self.positions[partition] += self.chance.below(10)
            position.offset = self.positions[partition]
            positions_read = self.journal.positions_read
            positions_read[partition] = max(position.offset, positions_read.get(partition, 0))
        if self.positions and not self.auto_commit and self.chance.chance(300):
            self._commit(list(self.positions))

    def _commit(self, partitions: list[TopicPartition]) -> None:
        at = {partition: self.positions[partition] for partition in partitions}

        def done(waiter: Waiter[None]) -> None:
            if waiter.error is None:
                for partition, offset in at.items():
                    self.journal.commit_confirmed(partition, offset)

        offsets = {partition: OffsetAndMetadata(offset) for partition, offset in at.items()}
        self.group.commit(offsets).add_callback(done)

    def describe(self) -> str:
        """Return the state of the member, for messages."""
        member = self.coordinator.member
        owned = " ".join(map(str, sorted(self.subscriptions.assigned_partitions)))
        alive = "" if self.process.alive else " (dead)"
        return f"{self.name}{alive} {member.state.value} {member.generation} owns [{owned}]"


def bug(where: str, error: Exception) -> None:
    raise SimulationError(f"bug in a client while {where}: {error!r}") from error
