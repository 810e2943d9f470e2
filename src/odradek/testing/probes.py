"""What a running broker says of its partitions and metadata, for the rules of a run: reading only.

A broker of a simulation is the real `Node`, whose partitions are read here, or one that offers
`partition_views` itself. `Observer` reads them after events and keeps what has changed, as the
observations that `testing.rules` judges. Bytes are read from the machine's disk, past the faults
that are injected into it.

`missing_until_healed` says what a cluster that has healed still lacks.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable
from uuid import UUID

from odradek.broker.node import Node
from odradek.controller.image import MetadataImage
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicIdPartition, TopicPartition
from odradek.protocol import record_batch
from odradek.raft.raft_log import METADATA_DIRECTORY
from odradek.replication.partition import Partition
from odradek.testing.disk import SimDisk
from odradek.testing.machine import DATA_DIRECTORY, SimMachine
from odradek.testing.rules import (
    CommittedRecord,
    InSyncReplica,
    LeadershipClaim,
    ReplicaLog,
    Watermark,
    committed_logs_match,
    high_watermarks_rise,
    in_sync_have_committed,
    one_leader_per_epoch,
    stable_offsets_rise,
)


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition that a broker leads. `isr`: the node ids whose logs an acknowledgement needs."""

    partition: TopicPartition
    topic_id: UUID
    epoch: int
    isr: tuple[int, ...]
    high_watermark: int
    last_stable_offset: int
    partition_epoch: int = -1
    is_in_epoch: bool = True
    """False: a new leader, which may know a lower high watermark than the one before it."""

    @property
    def name(self) -> str:
        """The name for rules; a topic that is made again has another."""
        return f"{self.partition}/{self.topic_id.hex[:8]}"


@runtime_checkable
class Probed(Protocol):
    """A broker that tells of the partitions it leads by itself."""

    def partition_views(self) -> Iterable[PartitionView]: ...


def led_partitions(broker: object) -> Iterable[PartitionView]:
    """Return the partitions that a broker leads now; none if it cannot be asked yet."""
    if isinstance(broker, Node):
        return [view_of(each) for each in broker.replicas if serves(each)]
    return broker.partition_views() if isinstance(broker, Probed) else ()


def serves(partition: Partition) -> bool:
    """True if this broker leads the partition, and its log works."""
    return partition.has_log and partition.failure is ErrorCode.NONE and partition.is_leader


def view_of(partition: Partition) -> PartitionView:
    """Return what a leader says of its partition."""
    leadership = partition.leadership
    return PartitionView(
        partition.topic_partition,
        partition.topic_id,
        partition.leader_epoch,
        (partition.node_id,) if leadership is None else leadership.isr,
        partition.high_watermark,
        partition.last_stable_offset,
        -1 if leadership is None else leadership.partition_epoch,
        partition.is_in_epoch,
    )


def nodes_of(machines: Iterable[SimMachine]) -> dict[int, Node]:
    """Return the real brokers that run, by number."""
    return {
        machine.number: machine.broker
        for machine in machines
        if machine.running and isinstance(machine.broker, Node)
    }


def controller_image(nodes: Mapping[int, Node]) -> MetadataImage | None:
    """Return the committed image of the active controller, None if there is not exactly one."""
    active = [node for node in nodes.values() if node.metadata.controller.is_active]
    return active[0].metadata.committed if len(active) == 1 else None


def newest_image(nodes: Mapping[int, Node]) -> MetadataImage | None:
    """Return the committed image of the node that knows most; None without nodes."""
    logs = [node.metadata for node in nodes.values()]
    return max(logs, key=lambda each: each.committed_offset).committed if logs else None


def missing_until_healed(machines: Sequence[SimMachine], lost: Sequence[int] = ()) -> list[str]:
    """Return what is missing until every partition is led, all its replicas are in sync, and every
    broker has the same metadata. `lost`: the machines that nobody counts on.
    """
    nodes = {n: node for n, node in nodes_of(machines).items() if n not in lost}
    expected = [machine for machine in machines if machine.number not in lost]
    missing = [
        f"{machine.host} is not ready"
        for machine in expected
        if machine.number not in nodes or not nodes[machine.number].is_ready
    ]
    image = controller_image(nodes)
    if image is None or missing:
        return missing or ["there is no single active controller"]
    missing += [
        f"broker {number} is fenced or unknown"
        for number in nodes
        if number not in image.brokers or image.brokers[number].fenced
    ]
    for topic in image.topics.values():
        for number, partition in topic.partitions.items():
            wanted = [replica for replica in partition.replicas if replica not in lost]
            moves = partition.adding_replicas or partition.removing_replicas
            if partition.leader in (-1, *lost) or not set(wanted) <= set(partition.isr) or moves:
                missing.append(f"{topic.name}-{number}: {partition}")
    ends = {node.metadata.committed_offset for node in nodes.values()}
    if len(ends) > 1:
        missing.append(f"the committed metadata ends at {sorted(ends)}")
    return missing


def open_transactions(
    machines: Sequence[SimMachine], topics: Collection[str] | None = None
) -> list[str]:
    """Return the partitions (of these topics) with an open transaction, as their leaders see
    them."""
    return [
        f"{view.name}: a transaction is open at {view.last_stable_offset}"
        for machine in machines
        if machine.running
        for view in led_partitions(machine.broker)
        if view.last_stable_offset < view.high_watermark
        and (topics is None or view.partition.topic in topics)
    ]


def replica_logs(machines: Sequence[SimMachine]) -> list[ReplicaLog]:
    """Return the logs of all replicas on running machines, except those that compaction changes."""
    found = []
    for machine in machines:
        node = machine.broker
        for partition in node.replicas if machine.running and isinstance(node, Node) else ():
            usable = partition.has_log and partition.failure is ErrorCode.NONE
            if not usable or partition.log.config.compact:
                continue
            key = TopicIdPartition(partition.topic_id, partition.topic_partition.partition)
            found.append(
                ReplicaLog(
                    machine.host,
                    f"{partition.topic_partition}/{partition.topic_id.hex[:8]}",
                    partition.log.log_start_offset,
                    partition.high_watermark,
                    batches_of(machine.disk, f"{DATA_DIRECTORY}/{key}"),
                )
            )
    return found


def batches_of(disk: SimDisk, directory: str) -> dict[int, bytes]:
    """Return the batches of a log, as programs see them, by base offset."""
    found = {}
    for path in segments_of(disk, directory):
        data = disk.content(path)
        try:
            for header in record_batch.batches(data):
                end = header.position + header.size
                found[header.base_offset] = bytes(data[header.position : end])
        except record_batch.CorruptBatch:
            continue  # What is above the end of the log does not count.
    return found


def segments_of(disk: SimDisk, directory: str) -> list[str]:
    """Return the paths of a log's segments, oldest first."""
    return [f"{directory}/{name}" for name in disk.names(directory) if name.endswith(".log")]


EVERY = 16


@dataclass(slots=True)
class ReadMetadata:
    """How far the metadata log of one process was read, for `committed_logs_match`."""

    offset: int = 0
    path: str = ""
    position: int = 0


@dataclass(slots=True, eq=False)
class Observer:
    """Reads the partitions of machines, after every few events of each."""

    now_ns: Callable[[], int]
    every: int = EVERY
    """The number of events between two looks at one machine."""
    machines: list[SimMachine] = field(default_factory=list)
    leaderships: list[LeadershipClaim] = field(default_factory=list)
    watermarks: list[Watermark] = field(default_factory=list)
    stable_offsets: list[Watermark] = field(default_factory=list)
    """The last stable offsets of leaders in their epoch, as watermarks."""
    behind: list[InSyncReplica] = field(default_factory=list)
    """The replicas in sync that lacked what is committed, once for each process."""
    committed: list[CommittedRecord] = field(default_factory=list)
    """The batches of the metadata log that each process takes for committed."""
    _metadata: dict[tuple[str, int], ReadMetadata] = field(default_factory=dict)
    _seen: dict[tuple[str, int, str], tuple[int, int, int]] = field(default_factory=dict)
    _behind: set[tuple[str, int, str]] = field(default_factory=set)
    _turns: dict[str, int] = field(default_factory=dict)

    def watch(self, machine: SimMachine) -> None:
        """Look at this machine's brokers from now on."""
        self.machines.append(machine)

        def event() -> None:
            turn = self._turns[machine.host] = self._turns.get(machine.host, 0) + 1
            if turn % self.every == 0:
                self.look(machine)

        machine.observe = event

    def look(self, machine: SimMachine) -> None:
        """Note what has changed on this machine."""
        if isinstance(machine.broker, Node):
            self._read_metadata(machine, machine.broker.metadata.committed_offset)
        for view in led_partitions(machine.broker):
            key = (machine.host, machine.boots, view.name)
            stable = view.last_stable_offset if view.is_in_epoch else -1
            state = (view.epoch, view.high_watermark, stable)
            known = self._seen.get(key)
            if known == state:
                continue
            self._seen[key] = state
            at_ns = self.now_ns()
            if known is None or known[0] != view.epoch:
                self.leaderships.append(
                    LeadershipClaim(at_ns, view.name, view.epoch, machine.host, machine.boots)
                )
            place = at_ns, view.name, view.epoch, machine.host, machine.boots
            self.watermarks.append(Watermark(*place, view.high_watermark))
            if view.is_in_epoch:
                self.stable_offsets.append(Watermark(*place, view.last_stable_offset))

        if isinstance(machine.broker, Node) and len(self.machines) > 1:
            self._look_at_followers(machine.number, machine.broker)

    def _look_at_followers(self, number: int, node: Node) -> None:
        """Compare the replicas on this node with those of their leaders or followers: who is in
        sync, by the newest metadata of all nodes, has what the leader takes for committed.
        """
        nodes = nodes_of(self.machines)
        image = newest_image(nodes)
        for replica in node.replicas:
            key = replica.topic_id, replica.topic_partition.partition
            known = None if image is None else image.partition(*key)
            leader = nodes.get(known.leader) if known is not None else None
            led = None if leader is None else leader.replicas.by_id.get(key)
            if (
                known is None
                or led is None
                or led.leadership is None
                or not serves(led)
                or not led.durability.fsync
                or led.leader_epoch != known.leader_epoch
                or led.leadership.partition_epoch > known.partition_epoch
            ):
                continue
            for follower in known.isr if known.leader == number else (number,):
                if follower in known.isr and follower in nodes:
                    self._compare(led, nodes[follower].replicas.by_id.get(key), follower)

    def _compare(self, led: Partition, followed: Partition | None, node_id: int) -> None:
        if followed is None or not followed.has_log or followed.failure is not ErrorCode.NONE:
            return
        end, committed = followed.log.log_end_offset, led.high_watermark
        if end < committed:
            name = f"{led.topic_partition}/{led.topic_id.hex[:8]}"
            machine = self.machines[node_id - 1]
            seen = (machine.host, machine.boots, name)
            if seen not in self._behind:
                self._behind.add(seen)
                self.behind.append(
                    InSyncReplica(
                        self.now_ns(), name, led.leader_epoch, machine.host, end, committed
                    )
                )

    def _read_metadata(self, machine: SimMachine, end: int) -> None:
        """Note the batches that were committed since the last look."""
        read = self._metadata.setdefault((machine.host, machine.boots), ReadMetadata())
        if end <= read.offset:
            return
        disk, at_ns = machine.disk, self.now_ns()
        for path in segments_of(disk, f"{DATA_DIRECTORY}/{METADATA_DIRECTORY}"):
            if path < read.path:
                continue
            data = disk.content(path)
            position = read.position if path == read.path else 0
            for header in record_batch.batches(data, position):
                if header.next_offset > end:
                    break
                position = header.position + header.size
                if header.base_offset >= read.offset:
                    content = zlib.crc32(data[header.position : position])
                    epoch = header.partition_leader_epoch
                    self.committed.append(
                        CommittedRecord(at_ns, machine.host, header.base_offset, epoch, content)
                    )
            read.path, read.position = path, position
        read.offset = end

    def judge(self, *, several: bool, durable: bool = False) -> list[str]:
        """Return the violations. A broker alone leads in one epoch through all its starts.

        `durable`: what is committed is on disk.
        """
        rising = [
            *high_watermarks_rise(self.watermarks),
            *high_watermarks_rise(self.stable_offsets, "last stable offset"),
        ]
        if not several:
            return rising
        return [
            *one_leader_per_epoch(self.leaderships),
            *committed_logs_match(self.committed),
            *rising,
            *in_sync_have_committed(self.behind),
            *(stable_offsets_rise(self.stable_offsets) if durable else ()),
        ]
