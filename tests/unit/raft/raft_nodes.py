"""Replicas with real logs on disks in memory, on a network and a clock that a test moves."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast
from uuid import UUID

from odradek.config.broker import BrokerConfig
from odradek.log.fence import Fence
from odradek.log.index import IndexCache
from odradek.log.memory_disk import MemoryDisk
from odradek.model.byte_ranges import FileSlice
from odradek.model.env import Disk, Env, Network
from odradek.protocol.api_keys import MESSAGES
from odradek.protocol.codec import decode, encode
from odradek.protocol.quorum_records import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    control_batch,
)
from odradek.protocol.record_batch import batches, records_of
from odradek.protocol.record_batch_builder import RecordBatchBuilder
from odradek.raft.core import RaftConfig
from odradek.raft.messages import Destination, RaftRequest, RaftResponse
from odradek.raft.raft_client import CommittedBatch, RaftClient
from odradek.raft.raft_log import METADATA_DIRECTORY, QuorumPlace, open_raft_client
from odradek.raft.raft_records import voters_record
from odradek.raft.replicas import QuorumEndpoint, ReplicaKey, Voter, VoterSet
from odradek.raft.snapshot_files import SnapshotId, list_snapshots
from odradek.raft.wire import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    joined,
)
from odradek.timing.timer import SystemTimer

T = TypeVar("T")
DIRECTORY = f"data/{METADATA_DIRECTORY}"
CONFIG = RaftConfig(election_timeout_ms=200, election_backoff_max_ms=50, fetch_timeout_ms=400)
REQUEST_TIMEOUT_MS = 100


def key(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, UUID(int=node_id << 8))


def endpoint(node_id: int) -> QuorumEndpoint:
    return QuorumEndpoint("CLUSTER", "node", node_id)


def voter(node_id: int) -> Voter:
    return Voter(key(node_id), (endpoint(node_id),))


def batch_of(values: Sequence[str]) -> bytes:
    builder = RecordBatchBuilder(base_offset=0, leader_epoch=0)
    for value in values:
        builder.append(None, value.encode(), timestamp=0)
    return builder.build()


def over_the_wire(message: T) -> T:
    """Encode a message and decode it again, in the newest version of its API."""
    cls = type(message)
    (version,) = {
        api.versions[1] for api in MESSAGES.values() if cls in (api.request, api.response)
    }
    return decode(cls, version, b"".join(joined(part) for part in encode(message, version)))


class Clock:
    """Both clocks of all nodes."""

    now_ms = 1_000

    def monotonic_ms(self) -> int:
        return self.now_ms

    def monotonic_ns(self) -> int:
        return self.now_ms * 1_000_000

    def wall_ms(self) -> int:
        return self.now_ms


class Nodes:
    """The nodes, their network and their time."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.random = random.Random(4)
        self.nodes: dict[int, RaftNode] = {}
        self.cut: set[int] = set()
        """Nodes that no message reaches or leaves."""
        self._later: list[tuple[int, Callable[[], None]]] = []

    def add(self, node_id: int, disk: Disk | None = None, **place: Any) -> RaftNode:
        """Start a node; `place` has the arguments of `QuorumPlace`."""
        node = RaftNode(self, node_id, disk or MemoryDisk(), place)
        self.nodes[node_id] = node
        return node

    def restart(self, node_id: int) -> RaftNode:
        """Kill a process and start the next one on its disk."""
        node = self.nodes[node_id]
        node.kill()
        return self.add(node_id, node.disk, **node.place)

    def later(self, delay_ms: int, what: Callable[[], None]) -> None:
        self._later.append((self.clock.now_ms + delay_ms, what))

    def run(self, duration_ms: int) -> None:
        """Let time pass, a millisecond at a time."""
        for _ in range(duration_ms):
            self.clock.now_ms += 1
            due = [each for each in self._later if each[0] <= self.clock.now_ms]
            self._later = [each for each in self._later if each[0] > self.clock.now_ms]
            for _, what in due:
                what()
            for node in list(self.nodes.values()):
                node.turn()

    def until(self, condition: Callable[[], bool], limit_ms: int = 5_000) -> None:
        for _ in range(limit_ms):
            if condition():
                return
            self.run(1)
        raise AssertionError("it did not happen in time")

    @property
    def leader(self) -> RaftNode | None:
        leading = [n for n in self.nodes.values() if n.alive and n.raft.is_leader]
        reachable = [n for n in leading if n.id not in self.cut]
        return max(reachable, key=lambda n: n.raft.epoch) if reachable else None

    def elect(self) -> RaftNode:
        """Wait for a leader that has committed the first record of its epoch, and has brought the
        voters that it reaches up to date.
        """

        def leads() -> bool:
            leader = self.leader
            reached = [n for n in self.nodes.values() if n.alive and n.id not in self.cut]
            return (
                leader is not None
                and leader.raft.has_applied_epoch
                and not any(node.raft.core.election.is_new for node in reached)
            )

        self.until(leads)
        assert self.leader is not None
        return self.leader


class RaftNode:
    """One process of a replica, with a listener that keeps the committed values."""

    def __init__(self, nodes: Nodes, node_id: int, disk: Disk, place: dict[str, Any]) -> None:
        self.nodes = nodes
        self.id = node_id
        self.disk = disk
        self.place = place
        self.alive = True
        self.values: list[str] = []
        self.delivered_bytes: list[int] = []
        self.leaders: list[tuple[int, int | None]] = []
        self.failures: list[OSError] = []
        self.soon: deque[Callable[[], None]] = deque()
        self.work: deque[Callable[[], None]] = deque()
        self.timer = SystemTimer(nodes.clock.now_ms)
        env = Env(
            clock=nodes.clock,
            random=nodes.random,
            network=cast("Network", cast("Any", None)),
            disk=disk,
            offload=self,
            call_soon=self.soon.append,
        )
        disk.make_directory(DIRECTORY)
        found = list_snapshots(disk, DIRECTORY)
        newest = found[-1] if found else SnapshotId(0, -1)
        if found:
            self.values = values_in(disk.read_file(f"{DIRECTORY}/{newest.file_name}"))
        self.raft: RaftClient = open_raft_client(
            env,
            self.timer,
            DIRECTORY,
            QuorumPlace(key(node_id), CONFIG, **{"endpoints": (endpoint(node_id),), **place}),
            BrokerConfig(),
            newest,
            fence=Fence("data"),
            cache=IndexCache(),
            sender=self,
            failed=self.failures.append,
        )
        self.raft.start(self)

    # The environment

    def submit(
        self,
        work: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        def run() -> None:
            try:
                result = work()
            except Exception as error:
                failed(error)
            else:
                done(result)

        self.work.append(run)

    def turn(self) -> None:
        """One turn of the loop: due timers, then callbacks, then one piece of work."""
        if self.alive:
            self.timer.advance_clock(self.nodes.clock.now_ms)
        for _ in range(len(self.soon)):
            self.soon.popleft()()
        if self.work:
            self.work.popleft()()

    def kill(self) -> None:
        self.alive = False
        self.raft.stop()
        self.soon.clear()
        self.work.clear()

    # The sender

    def send(
        self,
        to: Destination,
        request: RaftRequest,
        answered: Callable[[RaftResponse], None],
        failed: Callable[[], None],
    ) -> None:
        target = to.replica_id or to.endpoints[0].port
        done: list[bool] = []

        def once(what: Callable[[], None]) -> None:
            if not done and self.alive:
                done.append(True)
                what()

        def arrived(response: RaftResponse, records: Sequence[FileSlice]) -> None:
            data = over_the_wire(encode_response(message, response, records))
            for piece in records:
                piece.release()
            if not self.nodes.cut & {self.id, target}:
                self.nodes.later(1, lambda: once(lambda: answered(decode_response(request, data))))

        message = encode_request(request, "a-cluster")

        def deliver() -> None:
            other = self.nodes.nodes.get(target)
            if other is not None and other.alive and not self.nodes.cut & {self.id, target}:
                other.raft.receive(decode_request(over_the_wire(message)), arrived)

        self.nodes.later(1, deliver)
        self.nodes.later(2 * CONFIG.fetch_max_wait_ms, lambda: once(failed))

    # The listener

    def handle_commit(self, batches: Sequence[CommittedBatch]) -> None:
        self.delivered_bytes.append(sum(batch.size for batch in batches))
        for batch in batches:
            if batch.records is not None:
                self.values += cast("Sequence[str]", batch.records)
            elif batch.encoded is not None and not batch.encoded.header.is_control:
                found = records_of(batch.encoded.data, batch.encoded.header)
                self.values += [(record.value or b"").decode() for record in found]

    def handle_leader_change(self, epoch: int, leader_id: int | None) -> None:
        self.leaders.append((epoch, leader_id))

    def read_snapshot(self, data: bytes) -> object:
        return values_in(data)

    def handle_snapshot(self, snapshot: SnapshotId, contents: object) -> None:
        self.values = list(cast("list[str]", contents))

    # What a test does

    def append(self, *values: str) -> int:
        return self.raft.append(self.raft.epoch, values, batch_of(values))

    def take_snapshot(self) -> SnapshotId:
        """Write a snapshot of what is committed and let the log begin after it."""
        raft = self.raft
        end = raft.applied_offset
        snapshot = SnapshotId(end, raft.core.log.epoch_before(end))
        head: list[Any] = [SnapshotHeaderRecord(last_contained_log_timestamp=0)]
        voters = raft.recorded_voters_at(end)
        if voters is not None:
            head += [KRaftVersionRecord(k_raft_version=1), voters_record(voters)]
        parts = [control_batch(head, 0), batch_of(self.values)]
        parts.append(control_batch([SnapshotFooterRecord()], 0))
        self.disk.replace_file(f"{DIRECTORY}/{snapshot.file_name}", b"".join(parts))
        raft.snapshot_taken(snapshot)
        raft.log.raise_log_start(end)
        return snapshot


def values_in(data: bytes) -> list[str]:
    """Return the values in a snapshot. Raises `ValueError` if it is cut short."""
    headers = list(batches(data))
    if not headers or headers[-1].end != len(data):
        raise ValueError("the snapshot is damaged")
    return [
        (record.value or b"").decode()
        for header in headers
        if not header.is_control
        for record in records_of(data, header)
    ]


def three_voters(disk: Callable[[], Disk] = lambda: MemoryDisk()) -> Nodes:
    """Three nodes whose settings name each other, each with a `disk` of its own."""
    nodes = Nodes()
    voters = VoterSet(Voter(ReplicaKey(n), (endpoint(n),)) for n in (1, 2, 3))
    for number in (1, 2, 3):
        nodes.add(number, disk(), voters=voters)
    return nodes
