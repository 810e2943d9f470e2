"""The cluster metadata of one node: the committed image, which follows the log of the quorum.

    the quorum (`raft.raft_client`)     has the log and says what is committed
    `MetadataLog`, on every node        replays what is committed, and publishes it: each subscriber
                                        gets the delta and the committed image
    `QuorumController`, on the leader   decides (see `quorum_controller`)

Clients are answered from `committed`. Committed records come from the quorum in order, in slices if
they are many; each slice is published. Opening loads the newest sound snapshot and replays what is
known to be committed after it: everything, if this node is the only voter, else nothing before the
leader says so.

Records that cannot be replayed stop the start (`LogDamaged`), since metadata cannot be guessed. If
the disk fails the log is fenced: `failed` is called once, and nothing more is committed. If it is
full, a refused batch is not in the log, and a snapshot is tried again when one is due.

All methods but `read_snapshot` are the owner thread's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from odradek.config.broker import BrokerConfig
from odradek.controller.delta import MetadataDelta
from odradek.controller.image import MetadataImage, ReplayError
from odradek.controller.quorum_controller import QuorumController
from odradek.controller.records import records_in
from odradek.controller.snapshots import BadSnapshot, MetadataSnapshots, decode, load_newest
from odradek.log.fence import Fence, LogDamaged, LogDirFailure
from odradek.log.index import IndexCache
from odradek.model.env import Env
from odradek.model.errors import ProtocolError
from odradek.protocol.record_batch import UNREADABLE
from odradek.raft.raft_client import CommittedBatch, RaftClient, RaftSender
from odradek.raft.raft_log import (
    METADATA_DIRECTORY,
    QuorumPlace,
    check_not_lost,
    open_raft_client,
)
from odradek.raft.snapshot_files import SnapshotId
from odradek.timing.timer import SystemTimer

logger = logging.getLogger(__name__)

MANY_REPLAYED: Final = 1_000
Subscriber = Callable[[MetadataDelta, MetadataImage], None]


class MetadataLog:
    """The committed metadata. Made by `open_metadata_log`."""

    def __init__(
        self,
        env: Env,
        raft: RaftClient,
        committed: MetadataImage,
        snapshot: SnapshotId,
        *,
        max_bytes_between_snapshots: int,
        max_snapshot_interval_ms: int,
    ) -> None:
        self.raft = raft
        self.committed = committed
        self.committed_offset = raft.applied_offset
        """The committed image has everything before it."""
        self.subscribers: list[Subscriber] = []
        self.controller = QuorumController(env, raft, self)
        self.on_leader_change: list[Callable[[], None]] = []
        """Called when another leader of the quorum, or none, is known."""
        self._env = env
        self._replayed = 0
        """Records that were replayed since `Env.many_made` was called."""
        self._in_service = False
        self._snapshots = MetadataSnapshots(
            env,
            raft,
            snapshot,
            max_bytes_between=max_bytes_between_snapshots,
            max_interval_ms=max_snapshot_interval_ms,
            postponed=self._postpone,
        )

    def start(self) -> None:
        """Replay what is known to be committed, and join the quorum. Blocks: for a start."""
        log = self.raft.log
        try:
            self.raft.start(self)
        except (*UNREADABLE, ProtocolError, ReplayError) as error:
            raise LogDamaged(log.directory, f"a record cannot be replayed: {error}") from error
        self._in_service = True

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self.raft.end_offset

    @property
    def epoch(self) -> int:
        """The quorum's epoch; it rises with every election, so also with every start of a node that
        is alone.
        """
        return self.raft.epoch

    @property
    def failure(self) -> OSError | None:
        """Why the log takes no more records, None if it does."""
        return self.raft.failure

    @property
    def idle(self) -> bool:
        """True if nothing waits for the disk and no work is on a worker."""
        return self.raft.idle and self._snapshots.idle

    # Calls of the quorum

    def handle_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """Replay committed records and publish them."""
        delta = MetadataDelta()
        size = 0
        for batch in batches:
            records = batch.records
            if records is None:
                assert batch.encoded is not None, "a batch has its records or its bytes"
                encoded = batch.encoded
                records = list(records_in(encoded.data, encoded.header))
            for record in records:
                delta.add(self.committed, record)
                self.committed.replay(record)
            size += batch.size
            self._replayed += len(records)
        self.committed_offset = batches[-1].end_offset
        self._snapshots.committed(size)
        for subscriber in list(self.subscribers):
            subscriber(delta, self.committed)
        if self._replayed >= MANY_REPLAYED:
            self._replayed = 0
            self._env.many_made()
        self.controller.claim_if_due()
        if self._in_service:
            self.snapshot_if_due()

    def handle_leader_change(self, epoch: int, leader_id: int | None) -> None:
        """Take up the decisions as the leader, or drop them."""
        self.controller.renounce()
        self.controller.claim_if_due()
        for each in self.on_leader_change:
            each()

    def read_snapshot(self, data: bytes) -> object:
        """Decode a fetched snapshot. On a worker. Raises `ValueError`."""
        try:
            return decode(data, self.committed.cluster_id)
        except BadSnapshot as error:
            raise ValueError(str(error)) from error

    def handle_snapshot(self, snapshot: SnapshotId, contents: object) -> None:
        """Go on from a fetched snapshot; subscribers get the difference from the image before."""
        assert isinstance(contents, MetadataImage), "what `read_snapshot` returned"
        delta = MetadataDelta.between(self.committed, contents)
        self.committed = contents
        self.committed_offset = snapshot.end_offset
        self._snapshots.installed(snapshot)
        for subscriber in list(self.subscribers):
            subscriber(delta, self.committed)

    # Snapshots

    def snapshot_if_due(self) -> bool:
        """Begin a snapshot if enough was committed, or enough time has passed, since the last."""
        return self._snapshots.begin_if_due(self.committed, self.committed_offset)

    def snapshot(self) -> None:
        """Begin a snapshot now."""
        self._snapshots.begin(self.committed, self.committed_offset)

    def _postpone(self, what: str, error: BaseException) -> None:
        """Handle a failed step of a snapshot: fail with the disk, or log that it is tried again."""
        if not isinstance(error, OSError):
            raise error
        judged = self.raft.log.fence.classify(error)
        if isinstance(judged, LogDirFailure):
            self.raft.fail(judged)
        else:
            logger.error("%s of the metadata log failed: %s; trying again later", what, error)

    def close(self) -> None:
        """Flush and close the files. Blocks."""
        self.raft.close()


def open_metadata_log(
    env: Env,
    timer: SystemTimer,
    data_directory: str,
    cluster_id: str,
    place: QuorumPlace,
    config: BrokerConfig,
    *,
    fence: Fence,
    cache: IndexCache,
    sender: RaftSender | None = None,
    failed: Callable[[OSError], None],
) -> tuple[MetadataLog, list[str]]:
    """Open the metadata log of a data directory, or make one; return it and the problems found.

    Blocks: only for a start, before serving, as `MetadataLog.start`, which is to be called next.
    Raises `LogDamaged` if records are missing; `QuorumStateDamaged`, `WrongQuorum`; `OSError`.
    `fence` and `cache` are those of the data directory. `failed` is called once if the disk fails
    later. Without a `sender` this node is alone.
    """
    directory = f"{data_directory}/{METADATA_DIRECTORY}"
    check_not_lost(env.disk, data_directory)
    env.disk.make_directory(directory)
    # The process before may have made it: without its name, a vote that was synced is lost.
    env.disk.sync_directory(data_directory)
    loaded = load_newest(env.disk, directory, cluster_id)
    raft = open_raft_client(
        env,
        timer,
        directory,
        place,
        config,
        loaded.id,
        fence=fence,
        cache=cache,
        sender=sender,
        failed=failed,
    )
    metadata = MetadataLog(
        env,
        raft,
        loaded.image,
        loaded.id,
        max_bytes_between_snapshots=config.metadata_log_max_record_bytes_between_snapshots,
        max_snapshot_interval_ms=config.metadata_log_max_snapshot_interval_ms,
    )
    return metadata, loaded.problems
