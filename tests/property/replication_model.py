"""Three brokers that replicate one partition, with a controller, on a network that loses messages.

Leader's side, follower's side, logs and disks are the real ones; the controller, the connections
and the order of events are the model's. What must hold is checked after each step, against what the
leaders have acknowledged:

- an acknowledged record is in the log of every later leader, at its offset;
- below its high watermark a replica has the records of the history;
- in one leader epoch the high watermark never goes back.

Everything is drawn from one seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import UUID

from odradek.controller.image import NO_LEADER, PartitionRegistration
from odradek.log.log_config import LogConfig
from odradek.log.log_directory import LogDirectory
from odradek.model.byte_ranges import ByteRange
from odradek.model.env import Env
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicIdPartition, TopicPartition
from odradek.protocol.api.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from odradek.protocol.api.fetch import EpochEndOffset
from odradek.protocol.hot_fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from odradek.protocol.record_batch import batches, records_of
from odradek.protocol.record_batch_builder import build
from odradek.protocol.validate import BatchRules
from odradek.replication.alter_partition_manager import AlterPartitionManager
from odradek.replication.fetch import FetchResult
from odradek.replication.follower_fetch import (
    DelayedFollowerFetch,
    FollowerFetches,
    FollowerResponse,
)
from odradek.replication.partition import Durability, Partition
from odradek.replication.replica_fetcher import FetcherSettings
from odradek.replication.replica_fetcher_manager import FetcherKind, ReplicaFetcherManager
from odradek.replication.replica_manager import ReplicaManager, Replication
from odradek.testing.disk import SimDisk
from odradek.testing.prng import SplitMix64, stream
from odradek.testing.scheduler import Scheduler
from odradek.timing import SystemTimer
from unit.replication.replicated import unthrottled

TOPIC = UUID(int=7 << 64)
KEY = (TOPIC, 0)
LOG_KEY = TopicIdPartition(TOPIC, 0)
CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=200, checkpoint_bytes=2000)
SETTINGS = FetcherSettings(wait_max_ms=500, response_max_bytes=900, backoff_ms=100)
LAG_MS = 2_000
BROKERS = (1, 2, 3)


@dataclass
class Clock:
    """The time of the model, in ms."""

    now: int = 0

    def monotonic_ms(self) -> int:
        return self.now

    def monotonic_ns(self) -> int:
        return self.now * 1_000_000

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + self.now


class Broker:
    """One life of a broker. `soon` and `work` run when the model says so."""

    def __init__(self, model: Model, node_id: int, epoch: int, disk: SimDisk) -> None:
        self.model = model
        self.node_id = node_id
        self.epoch = epoch
        self.alive = True
        self.soon: list[Callable[[], None]] = []
        self.work: list[tuple[Callable[[], Any], Callable[[Any], None], Callable[..., None]]] = []
        self.timer = SystemTimer(model.clock.now)
        env = Env(
            model.clock,
            model.chance,
            None,  # type: ignore[arg-type]
            disk.mount(),
            self,
            self.soon.append,
        )
        self.directory = LogDirectory(
            env.disk, "/data", model.chance, cluster_id="c", node_id=node_id
        )
        self.replicas = ReplicaManager(env, self.timer, node_id, Durability(fsync=True))
        self.manager = AlterPartitionManager(
            node_id, lambda: epoch, self.propose, self.timer.call_later
        )
        self.fetchers = ReplicaFetcherManager(self.replicas, lambda: epoch, self.connect, SETTINGS)
        self.replicas.replication = Replication(
            self.manager,
            self.fetchers,
            model.may_join,
            model.is_alive,
            LAG_MS,
            unthrottled(node_id),
            lambda: False,
            LAG_MS,
        )
        self.followers = FollowerFetches(self.replicas)
        led_elsewhere = bool(model.chance.getrandbits(1))  # its metadata may be of any age
        log, _ = self.directory.open_and_report(LOG_KEY, CONFIG, 0, led_elsewhere)
        self.partition = self.replicas.open(TopicPartition("t", 0), TOPIC, log, BatchRules())

    def submit(
        self, work: Callable[[], Any], done: Callable[[Any], None], failed: Callable[..., None]
    ) -> None:
        self.work.append((work, done, failed))

    def propose(
        self,
        request: AlterPartitionRequest,
        answered: Callable[[AlterPartitionResponse | None], None],
    ) -> None:
        self.model.to_controller(self, request, answered)

    def connect(self, leader: int, kind: FetcherKind) -> Connection:
        return Connection(self.model, self, leader)

    def run_soon(self) -> None:
        while self.soon:
            self.soon.pop(0)()

    def run_work(self, number: int) -> None:
        work, done, failed = self.work.pop(number)
        try:
            result = work()
        except Exception as error:
            failed(error)
        else:
            done(result)
        self.run_soon()


class Connection:
    """A follower's connection to a leader: requests and answers keep their order, or all that is on
    the way is lost.
    """

    def __init__(self, model: Model, follower: Broker, leader: int) -> None:
        self.model = model
        self.follower = follower
        self.leader = leader
        self.answers: list[Callable[[FetchResponse | None], None]] = []
        self.life = 0
        model.connections.append(self)

    def call_later(self, delay_ms: int, function: Callable[[], None]) -> None:
        self.follower.timer.call_later(delay_ms, function)

    def send(self, request: FetchRequest, answered: Callable[[FetchResponse | None], None]) -> None:
        self.answers.append(answered)
        life, target = self.life, self.model.brokers[self.leader]

        def arrive() -> None:
            if life != self.life:
                return
            if not target.alive:
                self.cut()
                return
            found = target.followers.fetch(
                self.follower.node_id,
                self.follower.epoch,
                request,
                SETTINGS.response_max_bytes,
                reply,
                self.follower.node_id,
            )
            if isinstance(found, DelayedFollowerFetch):
                target.followers.purgatory.try_complete_else_watch(found, [found.session.watch_key])
            else:
                reply(found)
            target.run_soon()

        def reply(response: FollowerResponse) -> None:
            answer = encoded(response)
            self.model.send(self, lambda: self.deliver(life, answer))

        self.model.send(self, arrive)

    def deliver(self, life: int, answer: FetchResponse) -> None:
        if life == self.life and self.follower.alive:
            self.answers.pop(0)(answer)
            self.follower.run_soon()

    def cut(self) -> None:
        """Lose what is on the way."""
        self.life += 1
        self.model.channels.pop(self, None)
        waiting, self.answers = self.answers, []
        if self.follower.alive:
            for answered in waiting:
                answered(None)
            self.follower.run_soon()


def encoded(response: FollowerResponse) -> FetchResponse:
    """The response as it is after the network."""
    data = [partition_data(position.key[1], result) for position, result in response.results]
    return FetchResponse(
        error_code=response.error,
        session_id=response.session_id,
        responses=[FetchableTopicResponse(topic_id=TOPIC, partitions=data)],
    )


def partition_data(number: int, result: FetchResult) -> PartitionData:
    data = b""
    if result.read is not None:
        data = b"".join(piece.read() for piece in result.read.slices)
        result.read.release()
    diverging = None
    if result.diverging is not None:
        diverging = EpochEndOffset(epoch=result.diverging[0], end_offset=result.diverging[1])
    return PartitionData(
        partition_index=number,
        error_code=result.error,
        high_watermark=result.high_watermark,
        log_start_offset=result.log_start_offset,
        diverging_epoch=diverging,
        aborted_transactions=None,
        records=ByteRange(data, 0, len(data)),
    )


class Model:
    """The cluster of one seed. `history` has the acknowledged values by offset."""

    def __init__(self, seed: int, min_isr: int = 2) -> None:
        self.chance: SplitMix64 = stream(seed, "replication")
        self.clock = Clock()
        self.min_isr = min_isr
        self.disks = {node: SimDisk(Scheduler(seed * 10 + node), f"disk{node}") for node in BROKERS}
        self.brokers: dict[int, Broker] = {}
        self.epochs = dict.fromkeys(BROKERS, 0)
        self.connections: list[Connection] = []
        self.channels: dict[object, list[Callable[[], None]]] = {}
        self.history: dict[int, bytes] = {}
        self.marks: dict[tuple[int, int, int], int] = {}
        self.truncations = self.elections = self.acknowledged = 0
        self.serial = 0
        self.state = PartitionRegistration(
            replicas=BROKERS,
            directories=(),
            isr=BROKERS,
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
        )
        for node in BROKERS:
            self.start(node)

    # -- the controller --------------------------------------------------------------------------

    def is_alive(self, node: int) -> bool:
        return self.brokers[node].alive

    def may_join(self, node: int, epoch: int) -> bool:
        return self.brokers[node].alive and epoch == self.epochs[node]

    def to_controller(
        self,
        broker: Broker,
        request: AlterPartitionRequest,
        answered: Callable[[AlterPartitionResponse | None], None],
    ) -> None:
        def arrive() -> None:
            lost = self.chance.chance(100)
            answer = None if self.chance.chance(100) else self.decide(broker, request)

            def deliver() -> None:
                if broker.alive:
                    answered(None if lost else answer)
                    broker.run_soon()

            self.send(("answer", broker.node_id), deliver)

        self.send(("proposal", broker.node_id), arrive)

    def decide(self, broker: Broker, request: AlterPartitionRequest) -> AlterPartitionResponse:
        asked = request.topics[0].partitions[0]
        state, error = self.state, ErrorCode.NONE
        members = asked.new_isr_with_epochs
        if asked.leader_epoch != state.leader_epoch or state.leader != broker.node_id:
            error = ErrorCode.FENCED_LEADER_EPOCH
        elif asked.partition_epoch != state.partition_epoch:
            error = ErrorCode.INVALID_UPDATE_VERSION
        elif not all(self.may_join(each.broker_id, each.broker_epoch) for each in members):
            error = ErrorCode.INELIGIBLE_REPLICA
        else:
            self.state = state = replace(
                state,
                isr=tuple(each.broker_id for each in members),
                partition_epoch=state.partition_epoch + 1,
            )
            self.publish()
        partition = AlteredPartition(
            partition_index=0,
            error_code=error,
            leader_id=state.leader,
            leader_epoch=state.leader_epoch,
            isr=list(state.isr),
            partition_epoch=state.partition_epoch,
        )
        return AlterPartitionResponse(
            error_code=0, topics=[AlteredTopic(topic_id=TOPIC, partitions=[partition])]
        )

    def elect(self) -> None:
        """Choose a live leader among the in-sync replicas, another one if there is."""
        state = self.state
        able = [node for node in state.isr if self.is_alive(node)]
        others = [node for node in able if node != state.leader]
        leader = self.chance.pick(others or able) if able else NO_LEADER
        isr = tuple(node for node in state.isr if self.is_alive(node)) or state.isr
        self.elections += 1
        self.state = replace(
            state,
            leader=leader,
            isr=isr,
            leader_epoch=state.leader_epoch + 1,
            partition_epoch=state.partition_epoch + 1,
        )
        self.publish()

    def publish(self) -> None:
        """Send the state to all brokers; each gets it in its own time."""
        state = self.state
        for node, broker in self.brokers.items():
            self.send(("metadata", node), partial(self.apply, broker, state))

    def apply(self, broker: Broker, state: PartitionRegistration) -> None:
        if broker.alive:
            broker.replicas.apply(broker.partition, state, self.min_isr)
            broker.run_soon()

    # -- brokers ---------------------------------------------------------------------------------

    def boot(self, node: int) -> Broker:
        """Start a broker, whose first metadata come with the next change."""
        self.epochs[node] += 1
        broker = self.brokers[node] = Broker(self, node, self.epochs[node], self.disks[node])
        return broker

    def start(self, node: int) -> None:
        self.apply(self.boot(node), self.state)
        if self.state.leader == NO_LEADER and node in self.state.isr:
            self.elect()

    def blackout(self) -> None:
        """Let all machines lose the power at once; the controller sees none of them go."""
        for node in BROKERS:
            if self.is_alive(node):
                self.kill(node)
                self.disks[node].power_loss()
        nodes = list(BROKERS)
        self.chance.shuffle(nodes)
        for node in nodes:
            self.boot(node)
        self.elect()

    def stop(self, node: int) -> None:
        """Kill a broker; in half of the cases its machine loses the power."""
        self.kill(node)
        if self.chance.chance(500):
            self.disks[node].power_loss()
        for other in self.brokers.values():
            if other.alive:
                other.followers.connection_closed(node)
                other.run_soon()
        if self.state.leader == node or len(self.state.isr) > 1:
            self.remove_from_isr(node)

    def kill(self, node: int) -> None:
        """End the process of a broker, and its connections."""
        broker = self.brokers[node]
        broker.alive = False
        self.disks[node].mount()  # what it holds is dead
        for connection in self.connections:
            if node in (connection.leader, connection.follower.node_id):
                connection.cut()

    def remove_from_isr(self, node: int) -> None:
        """What fencing does: the broker leaves the ISR, unless it is the last one in it."""
        if self.state.leader == node:
            self.elect()
        elif node in self.state.isr:
            self.state = replace(
                self.state,
                isr=tuple(each for each in self.state.isr if each != node),
                leader_epoch=self.state.leader_epoch + 1,
                partition_epoch=self.state.partition_epoch + 1,
            )
            self.publish()

    # -- the network -----------------------------------------------------------------------------

    def send(self, channel: object, arrive: Callable[[], None]) -> None:
        self.channels.setdefault(channel, []).append(arrive)

    def deliver_one(self) -> None:
        if not self.channels:
            return
        channel = self.chance.pick(list(self.channels))
        waiting = self.channels[channel]
        arrive = waiting.pop(0)
        if not waiting:
            del self.channels[channel]
        arrive()

    # -- steps -----------------------------------------------------------------------------------

    def step(self) -> None:
        """Do one thing of those that may happen next, by their weights."""
        chosen = self.chance.below(sum(weight for weight, _ in STEPS))
        for weight, step in STEPS:
            chosen -= weight
            if chosen < 0:
                step(self)
                break
        self.check()

    def any_broker(self) -> Broker | None:
        live = [each for each in self.brokers.values() if each.alive]
        return self.chance.pick(live) if live else None

    def produce_somewhere(self) -> None:
        broker = self.any_broker()
        if broker is not None:
            self.produce(broker)

    def end_some_work(self) -> None:
        broker = self.any_broker()
        if broker is not None and broker.work:
            broker.run_work(self.chance.below(len(broker.work)))

    def stop_one(self) -> None:
        broker = self.any_broker()
        if broker is not None:
            self.stop(broker.node_id)

    def start_one(self) -> None:
        dead = [node for node in BROKERS if not self.is_alive(node)]
        if dead:
            self.start(self.chance.pick(dead))

    def cut_one(self) -> None:
        busy = [each for each in self.connections if each.answers]
        if busy:
            self.chance.pick(busy).cut()

    def checkpoint(self) -> None:
        broker = self.any_broker()
        if broker is not None:
            broker.directory.checkpoint()()

    def check_isrs(self) -> None:
        broker = self.any_broker()
        if broker is not None:
            broker.replicas.check_isrs()
            broker.run_soon()

    def produce(self, broker: Broker) -> None:
        partition = broker.partition
        if partition.availability() or partition.append_error():
            return
        values = []
        for _ in range(self.chance.between(1, 3)):
            self.serial += 1
            values.append(b"%d:" % self.serial + bytes(self.chance.pick((0, 40, 200))))
        data = build([(None, value, [], 0) for value in values])
        info = broker.replicas.append(partition, ByteRange(data, 0, len(data)), 9)
        assert info.error is ErrorCode.NONE
        broker.replicas.appended(partition)
        broker.run_soon()

    def pass_some_time(self) -> None:
        self.pass_time(self.chance.pick((1, 5, 50, 400)))

    def pass_time(self, ms: int) -> None:
        self.clock.now += ms
        for broker in self.brokers.values():
            if broker.alive:
                broker.timer.advance_clock(self.clock.now)
                broker.run_soon()

    # -- checks ----------------------------------------------------------------------------------

    def check(self) -> None:
        for broker in self.brokers.values():
            partition = broker.partition
            if not broker.alive:
                continue
            assert not partition.failure, f"broker {broker.node_id} is offline"
            if partition.is_leader:
                self.check_leader(broker)

    def check_leader(self, broker: Broker) -> None:
        partition = broker.partition
        life = broker.node_id, broker.epoch, partition.leader_epoch
        before = self.marks.get(life, 0)
        assert partition.high_watermark >= before
        self.marks[life] = partition.high_watermark
        if partition.high_watermark > before:
            held = values_of(partition, partition.high_watermark)
            for offset, value in held.items():
                known = self.history.setdefault(offset, value)
                assert known == value, f"offset {offset} was acknowledged with other bytes"
            self.acknowledged = max(self.acknowledged, partition.high_watermark)

    def check_new_leader(self) -> None:
        """The leader of the present epoch has all that was acknowledged."""
        leader = self.brokers.get(self.state.leader)
        if leader is None or not leader.alive:
            return
        partition = leader.partition
        if partition.is_leader and partition.leader_epoch == self.state.leader_epoch:
            held = values_of(partition, partition.log.log_end_offset)
            missing = [offset for offset in self.history if held.get(offset) is None]
            assert not missing, f"acknowledged offsets {missing[:5]} are lost"
            for offset, value in self.history.items():
                assert held[offset] == value, f"offset {offset} has other bytes"

    def heal(self) -> None:
        """Let everything run without faults until all replicas have the same."""
        for node in BROKERS:
            if not self.is_alive(node):
                self.start(node)
        if self.state.leader == NO_LEADER:
            self.elect()
        for _ in range(4000):
            if self.channels:
                self.deliver_one()
            for broker in self.brokers.values():
                if broker.work:
                    broker.run_work(0)
            if not self.channels:
                self.pass_time(20)
                for broker in self.brokers.values():
                    broker.replicas.check_isrs()
                    broker.run_soon()
            self.check()
            if self.is_whole():
                return
        raise AssertionError(f"not whole again: {self.describe()}")

    def is_whole(self) -> bool:
        partitions = [broker.partition for broker in self.brokers.values()]
        end = partitions[0].log.log_end_offset
        return sorted(self.state.isr) == sorted(BROKERS) and all(
            each.log.log_end_offset == end == each.high_watermark for each in partitions
        )

    def describe(self) -> str:
        lines = [str(self.state)]
        for broker in self.brokers.values():
            partition = broker.partition
            lines.append(
                f"{broker.node_id}: epoch {partition.leader_epoch} leader {partition.leader_id} "
                f"end {partition.log.log_end_offset} durable {partition.durable_end} "
                f"hw {partition.high_watermark} work {len(broker.work)} "
                f"epochs {partition.log.epochs.entries()}"
            )
        return "\n".join(lines)


STEPS: tuple[tuple[int, Callable[[Model], None]], ...] = (
    (500, Model.deliver_one),
    (140, Model.produce_somewhere),
    (220, Model.end_some_work),
    (80, Model.pass_some_time),
    (4, Model.elect),
    (6, Model.stop_one),
    (25, Model.start_one),
    (10, Model.cut_one),
    (3, Model.blackout),
    (4, Model.checkpoint),
    (8, Model.check_isrs),
)


def values_of(partition: Partition, up_to: int) -> dict[int, bytes]:
    """The values below an offset, by offset."""
    found: dict[int, bytes] = {}
    start = partition.log.log_start_offset
    result = partition.log.read(start, 1 << 30, up_to)
    data = b"".join(piece.read() for piece in result.slices)
    result.release()
    for header in batches(data):
        for record in records_of(data, header):
            found[record.offset] = record.value or b""
    return found
