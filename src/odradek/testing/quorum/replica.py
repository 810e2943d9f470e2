"""One replica of a quorum as a process: the real `RaftClient` over its log, and nothing above it.

    messages, timer, workers ─► RaftClient ─► log on the simulated disk, connections, `Watcher`

In the place of a controller there is a list of values: what is committed is appended to it, and
snapshots hold it. An error of the disk ends the process, and the machine starts it again.

`Watcher` is told what the rules judge: votes as they are answered, leaderships, what is committed,
high watermarks. It sees only what others could see: a vote that was not sent does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast
from uuid import UUID

from odradek.config.broker import BrokerConfig
from odradek.log.fence import Fence
from odradek.log.index import IndexCache
from odradek.log.retention import delete_old_segments
from odradek.model.byte_ranges import FileSlice
from odradek.model.env import Disk, Env
from odradek.protocol.quorum_records import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    control_batch,
)
from odradek.protocol.record_batch import UNREADABLE, batches, records_of
from odradek.protocol.record_batch_builder import RecordBatchBuilder
from odradek.raft.core import NotLeader, RaftConfig
from odradek.raft.effects import AddVoter, RemoveVoter
from odradek.raft.messages import (
    BeginQuorumEpochRequest,
    Destination,
    EndQuorumEpochRequest,
    FetchSnapshotRequest,
    RaftError,
    RaftFetchRequest,
    RaftFetchResponse,
    RaftRequest,
    RaftResponse,
    VoteRequest,
    VoteResponse,
)
from odradek.raft.raft_client import CommittedBatch, RaftClient, UncommittedLimit
from odradek.raft.raft_log import METADATA_DIRECTORY, QuorumPlace, open_raft_client
from odradek.raft.raft_records import raft_batches, voters_record
from odradek.raft.replicas import QuorumEndpoint, ReplicaKey, Voter, VoterSet
from odradek.raft.snapshot_files import SnapshotId, list_snapshots
from odradek.testing.machine import MAX_MACHINES, VOLUME, host_of
from odradek.testing.network import SimNetwork
from odradek.testing.process import SimProcess
from odradek.testing.quorum.quorum_wire import Mailbox, PeerConnection, PeerRequest, serve
from odradek.timing import SystemTimer

PORT = 9093
DIRECTORY = f"{VOLUME}/quorum"
LOG_DIRECTORY = f"{DIRECTORY}/{METADATA_DIRECTORY}"
REQUEST_TIMEOUT_MS = 1_500
STOP_MS = 50
"""How long a replica that stops waits for the others to hear of it."""


def address(number: int) -> QuorumEndpoint:
    """Return the address of a replica."""
    return QuorumEndpoint("CLUSTER", host_of(number), PORT)


class Watcher(Protocol):
    """Sees what the replicas of a run do, for the rules."""

    def voted(self, replica: Replica, epoch: int, candidate: ReplicaKey) -> None: ...

    def leads(self, replica: Replica, epoch: int) -> None: ...

    def committed(self, replica: Replica, offset: int, epoch: int, content: object) -> None: ...

    def watermark(self, replica: Replica, offset: int) -> None: ...

    def reach(self, site: str) -> None: ...


class Replica:
    """A replica of the quorum, numbered like its machine."""

    def __init__(
        self,
        number: int,
        env: Env,
        process: SimProcess,
        mailbox: Mailbox,
        config: RaftConfig,
        first_voters: VoterSet,
        new_directory: UUID,
        watcher: Watcher,
        disk_failed: Callable[[], None],
        snapshot_every: int,
    ) -> None:
        """`new_directory`: the directory id if the disk is empty; `snapshot_every`: records."""
        self.number = number
        self.env = env
        self.process = process
        self.watcher = watcher
        self.values: list[str] = []
        """What is committed, as far as this replica knows."""
        self.directory_id = prepare_directory(env.disk, new_directory)
        self._mailbox = mailbox
        self._snapshot_every = snapshot_every
        self._snapshotting = False
        self._peers: dict[str, PeerConnection] = {}
        self._waiting: list[tuple[int, int, Callable[[bool], None]]] = []
        """Proposals that have no outcome: their epoch, their offset, whom to tell."""
        self._role = ""
        self._watermark = self._end = 0
        self.timer = SystemTimer(env.clock.monotonic_ms())
        process.drive(self.timer)
        assert isinstance(env.network, SimNetwork)
        self._network = env.network
        newest = self._newest_snapshot()
        self._snapshot_end = newest.end_offset
        self.raft: RaftClient = open_raft_client(
            env,
            self.timer,
            LOG_DIRECTORY,
            QuorumPlace(
                ReplicaKey(number, self.directory_id),
                config,
                (address(number),),
                first_voters,
                tuple(v.endpoints[0] for v in first_voters if v.key.id != number),
            ),
            BrokerConfig(),
            newest,
            fence=Fence(DIRECTORY),
            cache=IndexCache(),
            sender=self,
            failed=lambda _: disk_failed(),
        )
        self.raft.start(self)
        serve(self._network, PORT, mailbox, self._request_received)
        process.observe = self.look

    def _newest_snapshot(self) -> SnapshotId:
        """Load the newest sound snapshot."""
        for found in reversed(list_snapshots(self.env.disk, LOG_DIRECTORY)):
            try:
                data = self.env.disk.read_file(f"{LOG_DIRECTORY}/{found.file_name}")
                self.values = values_in(data)
            except ValueError:
                continue
            return found
        return SnapshotId(0, -1)

    def look(self) -> None:
        """Look at the replica after an event of its process."""
        core = self.raft.core
        role = type(core.role).__name__
        if role != self._role:
            if self._role:
                self.watcher.reach(f"quorum: {self._role} to {role}")
            self._role = role
        if core.log.end_offset < self._end:
            self.watcher.reach("quorum: the log is truncated")
        self._end = core.log.end_offset
        if core.log.high_watermark != self._watermark:
            self._watermark = core.log.high_watermark
            self.watcher.watermark(self, self._watermark)

    # The sender.

    def send(
        self,
        to: Destination,
        request: RaftRequest,
        answered: Callable[[RaftResponse], None],
        failed: Callable[[], None],
    ) -> None:
        endpoint = to.endpoints[0] if to.endpoints else address(to.replica_id or 0)
        if isinstance(request, VoteRequest) and not request.pre_vote:
            self.watcher.voted(self, request.epoch, request.candidate)

        def arrived(message: object) -> None:
            response, data = cast("tuple[RaftResponse, bytes]", message)
            if data:
                assert isinstance(request, RaftFetchRequest)
                assert isinstance(response, RaftFetchResponse)
                found = raft_batches(data, request.fetch_offset, request.last_fetched_epoch)
                response = RaftFetchResponse(
                    response.error,
                    response.epoch,
                    response.leader_id,
                    response.leader_endpoints,
                    response.high_watermark,
                    tuple(found),
                    counts_from=response.counts_from,
                )
            answered(response)

        # Perhaps within a step, when the connection has just broken.
        self._peer(endpoint).call(request, arrived, lambda: self.env.call_soon(failed))

    def _peer(self, endpoint: QuorumEndpoint) -> PeerConnection:
        peer = self._peers.get(endpoint.host)
        if peer is None:
            numbers = range(1, MAX_MACHINES + 1)
            number = next((n for n in numbers if host_of(n) == endpoint.host), 0)
            peer = self._peers[endpoint.host] = PeerConnection(
                self.process,
                self._network,
                self._mailbox,
                endpoint.host,
                endpoint.port,
                REQUEST_TIMEOUT_MS,
                lambda: self.env.call_soon(lambda: self.raft.disconnected(number)),
            )
        return peer

    def _request_received(self, received: PeerRequest) -> None:
        request = received.message
        assert isinstance(
            request,
            VoteRequest
            | BeginQuorumEpochRequest
            | EndQuorumEpochRequest
            | RaftFetchRequest
            | FetchSnapshotRequest,
        )

        def reply(response: RaftResponse, records: Sequence[FileSlice]) -> None:
            if isinstance(request, VoteRequest) and not request.pre_vote:
                assert isinstance(response, VoteResponse)
                if response.granted:
                    self.watcher.voted(self, request.epoch, request.candidate)
            try:
                data = b"".join(piece.read() for piece in records)
            except OSError:
                received.refuse()
            else:
                received.answer((response, data))
            finally:
                for piece in records:
                    piece.release()

        self.raft.receive(request, reply)

    # The listener.

    def handle_commit(self, committed: Sequence[CommittedBatch]) -> None:
        for batch in committed:
            values = values_of(batch)
            self.values += values
            epoch = self.raft.core.log.epoch_before(batch.end_offset)
            self.watcher.committed(self, batch.base_offset, epoch, values)
        self._end_waiting()
        applied = self.raft.applied_offset
        if applied - self._snapshot_end >= self._snapshot_every and not self._snapshotting:
            self._take_snapshot()

    def handle_leader_change(self, epoch: int, leader_id: int | None) -> None:
        if leader_id == self.number:
            self.watcher.leads(self, epoch)
        self._end_waiting()

    def read_snapshot(self, data: bytes) -> object:
        return values_in(data)

    def handle_snapshot(self, snapshot: SnapshotId, contents: object) -> None:
        self.watcher.reach("quorum: a snapshot is installed")
        self.values = list(cast("list[str]", contents))
        self._snapshot_end = snapshot.end_offset

    # Snapshots, as a controller takes them.

    def _take_snapshot(self) -> None:
        raft, end = self.raft, self.raft.applied_offset
        identity = SnapshotId(end, raft.core.log.epoch_before(end))
        data = snapshot_data(self.values, raft.recorded_voters_at(end))
        path = f"{LOG_DIRECTORY}/{identity.file_name}"
        self._snapshotting = True

        def written(_: None) -> None:
            self._snapshotting = False
            self._snapshot_taken(identity)

        def failed(_: BaseException) -> None:
            self._snapshotting = False

        self.env.offload.submit(lambda: self.env.disk.replace_file(path, data), written, failed)

    def _snapshot_taken(self, identity: SnapshotId) -> None:
        raft, log = self.raft, self.raft.log
        self._snapshot_end = max(self._snapshot_end, identity.end_offset)
        shortens = log.log_start_offset < identity.end_offset <= log.high_watermark
        if raft.failure is not None or log.truncating or not shortens:
            return
        self.watcher.reach("quorum: a snapshot is taken")
        raft.snapshot_taken(identity)
        log.raise_log_start(identity.end_offset)
        now_ms = self.env.clock.wall_ms()
        try:
            log.roll(now_ms)
            raft.flush_soon()
            deletion = delete_old_segments(log, now_ms)
        except OSError:
            return
        if deletion is not None:
            deletion.close()
            self.env.offload.submit(deletion.remove, lambda _: None, lambda _: None)

    # Its user.

    @property
    def is_leader(self) -> bool:
        return self.raft.is_leader

    def propose(self, value: str, ended: Callable[[bool], None]) -> int | None:
        """Propose a value if this replica leads; return its offset. `ended(True)`: it is committed;
        `ended(False)`: the leadership ended first, and it may or may not be.
        """
        raft = self.raft
        try:
            offset = raft.append(raft.epoch, [value], batch_of([value])) - 1
        except (NotLeader, UncommittedLimit, OSError) as error:
            self.watcher.reach(f"quorum: a proposal is refused: {type(error).__name__}")
            return None
        self._waiting.append((raft.epoch, offset, ended))
        return offset

    def _end_waiting(self) -> None:
        """Tell the proposals that are committed, or whose outcome is unknown now."""
        raft = self.raft
        waiting, self._waiting = self._waiting, []
        for epoch, offset, ended in waiting:
            if epoch != raft.epoch or not raft.core.is_leader:
                self.watcher.reach("quorum: a proposal's outcome is unknown")
                ended(False)
            elif offset < raft.applied_offset:
                ended(True)
            else:
                self._waiting.append((epoch, offset, ended))

    def change_voters(self, key: ReplicaKey) -> None:
        """Remove a voter, or add one, if this replica leads."""

        def reply(response: RaftResponse, records: Sequence[FileSlice]) -> None:
            done = "committed" if response.error is RaftError.NONE else "refused"
            self.watcher.reach(f"quorum: a change of voters is {done}")

        if key in self.raft.core.log.voters:
            self.raft.change_voters(RemoveVoter(reply, key))
        else:
            self.raft.change_voters(AddVoter(reply, Voter(key, (address(key.id),))))

    def stop(self, stopped: Callable[[], None]) -> None:
        """Give up a leadership, and end when the others have been told."""
        self.raft.resign()

        def end() -> None:
            self.raft.stop()
            stopped()

        self.timer.call_later(STOP_MS, end)

    def describe(self) -> str:
        """Return the state, for reports."""
        core, log = self.raft.core, self.raft.core.log
        return (
            f"{type(core.role).__name__} epoch {core.epoch} leader {core.leader_id} has"
            f" {log.start.offset} to {log.end_offset}, flushed to {log.flushed_offset}, committed"
            f" to {log.high_watermark}, applied to {self.raft.applied_offset}"
            + (", held up" if self.raft.held_up else "")
        )


def prepare_directory(disk: Disk, new_id: UUID) -> UUID:
    """Make the directories of a replica if they are not there; return the directory's id."""
    path = f"{DIRECTORY}/id"
    if not disk.exists(LOG_DIRECTORY):
        disk.make_directory(LOG_DIRECTORY)
        disk.sync_directory(VOLUME)
        disk.sync_directory(DIRECTORY)
    if not disk.exists(path):
        disk.replace_file(path, new_id.hex.encode())
    return UUID(hex=disk.read_file(path).decode())


def batch_of(values: Sequence[str]) -> bytes:
    """Encode values as a batch."""
    builder = RecordBatchBuilder(base_offset=0, leader_epoch=0)
    for value in values:
        builder.append(None, value.encode(), timestamp=0)
    return builder.build()


def values_of(batch: CommittedBatch) -> tuple[str, ...]:
    """Return the values in a committed batch; none in a control batch."""
    if batch.records is not None:
        return tuple(cast("Sequence[str]", batch.records))
    encoded = batch.encoded
    if encoded is None or encoded.header.is_control:
        return ()
    records = records_of(encoded.data, encoded.header)
    return tuple((record.value or b"").decode() for record in records)


def snapshot_data(values: Sequence[str], voters: VoterSet | None) -> bytes:
    """Encode a snapshot."""
    head: list[Any] = [SnapshotHeaderRecord(last_contained_log_timestamp=0)]
    if voters is not None:
        head += [KRaftVersionRecord(k_raft_version=1), voters_record(voters)]
    parts = [control_batch(head, 0)]
    parts += [batch_of(values)] if values else []
    return b"".join([*parts, control_batch([SnapshotFooterRecord()], 0)])


def values_in(data: bytes) -> list[str]:
    """Return the values in a snapshot. Raises `ValueError` if it is damaged or cut short."""
    try:
        headers = list(batches(data))
        if len(headers) < 2 or headers[-1].end != len(data) or not headers[-1].is_control:
            raise ValueError("the snapshot is cut short")
        return [
            (record.value or b"").decode()
            for header in headers
            if not header.is_control
            for record in records_of(data, header)
        ]
    except UNREADABLE as error:
        raise ValueError(str(error)) from error


def values_on_platter(synced: Callable[[str], bytes], paths: Sequence[str]) -> dict[str, int]:
    """Return the values in a replica's durable files, with their offsets; -1 in a snapshot."""
    found: dict[str, int] = {}
    for path in paths:
        if not path.startswith(LOG_DIRECTORY):
            continue
        data = synced(path)
        if path.endswith(".checkpoint"):
            try:
                found.update(dict.fromkeys(values_in(data), -1))
            except ValueError:
                continue
        elif path.endswith(".log"):
            found.update(values_of_log(data))
    return found


def values_of_log(data: bytes) -> dict[str, int]:
    """Return the values in the sound batches of a segment, with their offsets."""
    found: dict[str, int] = {}
    try:
        for header in batches(data):
            if not header.is_control:
                for record in records_of(data, header):
                    found[(record.value or b"").decode()] = record.offset
    except UNREADABLE:
        pass  # A torn tail.
    return found
