"""The metadata log: opening it, submitting, committing and publishing records.

    submit(records)   appends one batch to the log and replays it on `pending` at once
    [fsync]           starts at the end of the event: many submits share one
    commit            replays the same records on `committed` and moves `committed_offset`
    publish           gives subscribers the delta and the committed image

Decisions use `pending`, so two of them in one event cannot contradict each other. Clients are
answered from `committed`. The reply to a decision is sent when `committed_offset` reaches the
offset that `submit` returned, also for a decision without records: it may depend on records that
are not committed yet. There is one voter, so records are committed once they are on this disk.

    <data directory>/__cluster_metadata-0/
        *.log *.index *.timeindex   a log like any other
        durable-ends                how far it is durable (see `log.durable_ends`)
        *.checkpoint                snapshots (see `snapshots`)

Opening loads the newest sound snapshot and replays the records after it, in order. Every replayed
batch is verified first: opening a log reads only the part after its recovery point, and for other
logs clients verify the rest. Damage below the durable end stops the start (`LogDamaged`), since
metadata cannot be guessed.

All methods are the owner thread's. If the disk fails the log is fenced: `failed` is called once,
`submit` raises from then on, and nothing more is committed. If the disk is full, a refused batch is
not in the log, and a snapshot is tried again when one is due.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from uuid import UUID

from odradek.config.broker import BrokerConfig
from odradek.controller.delta import MetadataDelta
from odradek.controller.image import MetadataImage, ReplayError
from odradek.controller.records import batch_of, records_in
from odradek.controller.snapshots import LoadedSnapshot, MetadataSnapshots, SnapshotId, load_newest
from odradek.log.durable_ends import DurableEnds
from odradek.log.fence import Fence, LogDamaged, LogDirFailure
from odradek.log.flush import LogFlush
from odradek.log.index import IndexCache
from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.log.recovery import RecordedState, open_log
from odradek.model.env import Disk, Env
from odradek.model.errors import ErrorCode, ProtocolError
from odradek.model.topics import TopicIdPartition
from odradek.protocol.record_batch import UNREADABLE, RecordBatchHeader, batches, is_intact
from odradek.protocol.validate import ValidBatch

logger = logging.getLogger(__name__)

MAX_BATCH_BYTES = 8 << 20
Subscriber = Callable[[MetadataDelta, MetadataImage], None]


class RecordsTooLarge(ValueError):
    """The records of one decision exceed the size of a batch of this log."""


class MetadataLog:
    """The metadata log of a single voter. Made by `open_metadata_log`."""

    def __init__(
        self,
        env: Env,
        log: Log,
        durable_ends: DurableEnds,
        committed: MetadataImage,
        snapshot: SnapshotId,
        *,
        epoch: int,
        max_bytes_between_snapshots: int,
        max_snapshot_interval_ms: int,
        failed: Callable[[OSError], None],
    ) -> None:
        self._env = env
        self._log = log
        self._durable_ends = durable_ends
        self._epoch = epoch
        self._failed = failed
        self._waiting: deque[tuple[int, Sequence[object]]] = deque()
        self._flush_scheduled = False
        self._flushing = False
        self._syncing = False
        self._snapshots = MetadataSnapshots(
            env,
            log,
            epoch,
            snapshot,
            max_bytes_between=max_bytes_between_snapshots,
            max_interval_ms=max_snapshot_interval_ms,
            in_service=lambda: self.failure is None,
            log_rolled=self._schedule_flush,
            postponed=self._postpone,
        )
        self.committed = committed
        self.pending = committed.copy()
        self.committed_offset = log.log_end_offset
        self.subscribers: list[Subscriber] = []
        self.failure: OSError | None = None

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self._log.log_end_offset

    @property
    def epoch(self) -> int:
        """The epoch in which this node leads the metadata; it rises with every start."""
        return self._epoch

    @property
    def idle(self) -> bool:
        """True if nothing waits for the disk and no work is on a worker."""
        waiting = self._waiting or self._flushing or self._syncing
        return not waiting and self._snapshots.idle

    def submit(self, records: Sequence[object]) -> int:
        """Append the records of a decision as one batch and replay them on `pending`.

        The decision is committed when `committed_offset` reaches the returned offset. After
        `RecordsTooLarge` or `OSError` nothing was submitted; after `LogDirFailure` every later call
        raises it, too.
        """
        if self.failure is not None:
            raise self.failure
        if not records:
            return self.end_offset
        data = batch_of(records, self._env.clock.wall_ms())
        if len(data) > MAX_BATCH_BYTES:
            raise RecordsTooLarge(
                f"{len(records)} metadata records take {len(data)} bytes, more than the "
                f"{MAX_BATCH_BYTES} of a batch"
            )
        batch = ValidBatch(data, RecordBatchHeader(data, 0), 0, False)
        info = self._log.append(batch, self._epoch, self._env.clock.wall_ms())
        assert info.error is ErrorCode.NONE, f"the metadata log refused a batch: {info}"
        for record in records:
            self.pending.replay(record)
        self._waiting.append((self.end_offset, records))
        self._snapshots.appended(len(data))
        self._schedule_flush()
        return self.end_offset

    # Committing

    def _schedule_flush(self) -> None:
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._env.call_soon(self._begin_flush)

    def commit_now(self) -> None:
        """Commit everything that was submitted. Blocks: only for a start, before serving."""
        flush = self._log.begin_flush()
        if flush is not None:
            self._flushing = True
            flush.run()
            self._flushed(flush, None)

    def _begin_flush(self) -> None:
        self._flush_scheduled = False
        if self._flushing or self.failure is not None:
            return
        try:
            flush = self._log.begin_flush()
        except OSError as error:
            self._fail(error)
            return
        if flush is None:
            return
        self._flushing = True
        self._env.offload.submit(
            flush.run,
            lambda _: self._flushed(flush, None),
            lambda error: self._flushed(flush, error),
        )

    def _flushed(self, flush: LogFlush, error: BaseException | None) -> None:
        self._flushing = False
        try:
            durable = self._log.end_flush(flush)
        except OSError as failure:
            self._fail(failure)
            return
        if error is not None:
            raise error
        self._commit(durable)
        if self._waiting:
            self._schedule_flush()
        self._sync_durable_ends()
        self.snapshot_if_due()

    def _sync_durable_ends(self) -> None:
        """Sync `durable-ends`, which tells damage from a torn tail after a power loss.

        Nothing waits for it.
        """
        if self._syncing:
            return
        self._syncing = True

        def synced(_: None) -> None:
            self._syncing = False

        def failed(error: BaseException) -> None:
            self._syncing = False
            if not isinstance(error, OSError):
                raise error
            self._fail(self._log.fence.fail(error))

        self._env.offload.submit(self._durable_ends.sync, synced, failed)

    def _commit(self, offset: int) -> None:
        delta = MetadataDelta()
        while self._waiting and self._waiting[0][0] <= offset:
            self.committed_offset, records = self._waiting.popleft()
            for record in records:
                delta.add(self.committed, record)
                self.committed.replay(record)
        self._log.high_watermark = self.committed_offset
        for subscriber in list(self.subscribers):
            subscriber(delta, self.committed)

    def _fail(self, error: OSError) -> None:
        if self.failure is None:
            self.failure = error
            self._failed(error)

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
        judged = self._log.fence.classify(error)
        if isinstance(judged, LogDirFailure):
            self._fail(judged)
        else:
            logger.error("%s of the metadata log failed: %s; trying again later", what, error)

    def close(self) -> None:
        """Flush and close the files. Blocks."""
        self._log.close()
        if self.failure is None:
            self._durable_ends.sync()
        self._durable_ends.close()


METADATA_DIRECTORY = "__cluster_metadata-0"
METADATA_TOPIC_ID = UUID(int=1)
READ_BYTES = 4 << 20


def open_metadata_log(
    env: Env,
    data_directory: str,
    cluster_id: str,
    config: BrokerConfig,
    *,
    fence: Fence,
    cache: IndexCache,
    failed: Callable[[OSError], None],
) -> tuple[MetadataLog, list[str]]:
    """Open the metadata log of a data directory, or make one; return it and the problems found.

    Blocks: only for a start, before serving. Raises `LogDamaged` if records are missing or cannot
    be replayed; `OSError`. `fence` and `cache` are those of the data directory. `failed` is called
    once if the disk fails later.
    """
    directory = f"{data_directory}/{METADATA_DIRECTORY}"
    env.disk.make_directory(directory)
    loaded = load_newest(env.disk, directory, cluster_id)
    ends = DurableEnds(env.disk, directory)
    log = _open(env.disk, directory, config, fence, cache, ends, env.clock.wall_ms())
    _check_snapshot_in_log(loaded, log)
    _replay(loaded.image, log, loaded.id.end_offset)
    log.high_watermark = log.log_end_offset
    metadata = MetadataLog(
        env,
        log,
        ends,
        loaded.image,
        loaded.id,
        epoch=max(loaded.id.epoch, log.latest_epoch) + 1,
        max_bytes_between_snapshots=config.metadata_log_max_record_bytes_between_snapshots,
        max_snapshot_interval_ms=config.metadata_log_max_snapshot_interval_ms,
        failed=failed,
    )
    return metadata, loaded.problems


def _open(
    disk: Disk,
    directory: str,
    config: BrokerConfig,
    fence: Fence,
    cache: IndexCache,
    ends: DurableEnds,
    now_ms: int,
) -> Log:
    key = TopicIdPartition(METADATA_TOPIC_ID, 0)
    known_end = ends.get(key)
    known = RecordedState()
    if known_end is not None:
        known = RecordedState(
            recovery_point=known_end.recovery_point, durable_end=known_end.offset, exact=True
        )
    settings = LogConfig(
        segment_bytes=config.metadata_log_segment_bytes,
        segment_ms=config.metadata_log_segment_ms,
        retention_ms=-1,
        delete=False,
    )
    log, found = open_log(
        disk, directory, settings, fence, cache, now_ms=now_ms, known=known, durable=ends.slot(key)
    )
    if found.torn:
        logger.warning("the metadata log was %s", found.truncation(log.log_end_offset))
    return log


def _check_snapshot_in_log(loaded: LoadedSnapshot, log: Log) -> None:
    """Raise `LogDamaged` unless the end of the snapshot is in the log."""
    end = loaded.id.end_offset
    if not log.log_start_offset <= end <= log.log_end_offset:
        raise LogDamaged(
            log.directory,
            f"the newest sound snapshot ends at offset {end}, but the log has offsets "
            f"{log.log_start_offset} to {log.log_end_offset}; restore the directory from a backup",
        )


def _replay(image: MetadataImage, log: Log, offset: int) -> None:
    try:
        for record in _records(log, offset):
            image.replay(record)
    except (*UNREADABLE, ProtocolError, ReplayError) as error:
        raise LogDamaged(log.directory, f"a record cannot be replayed: {error}") from error


def _records(log: Log, offset: int) -> Iterator[object]:
    while offset < log.log_end_offset:
        read = log.read(offset, READ_BYTES, log.log_end_offset)
        try:
            data = b"".join(piece.read() for piece in read.slices)
        finally:
            read.release()
        before = offset
        for header in batches(data):
            if not is_intact(data, header):
                raise LogDamaged(log.directory, f"the batch of offset {offset} fails its checksum")
            yield from records_in(data, header)
            offset = header.next_offset
        if offset == before:
            raise LogDamaged(log.directory, f"there is no batch of offset {offset}")
