"""Opening the metadata log: the newest sound snapshot, and the records after it, in order.

Every batch that is replayed passes its checksum first. Opening a log reads no more than what came
after its recovery point, which after a clean stop is nothing; of data, clients check the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import UUID

from odradek.config.broker import BrokerConfig
from odradek.controller.image import MetadataImage, ReplayError
from odradek.controller.metadata_log import MetadataLog
from odradek.controller.records import records_in
from odradek.controller.snapshot import Loaded, load_newest
from odradek.log.durable_ends import DurableEnds
from odradek.log.fence import Fence, LogDamaged
from odradek.log.index import LoadedIndexes
from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.log.opening import Known
from odradek.log.recovery import open_log
from odradek.model.env import Disk, Env
from odradek.model.errors import ProtocolError
from odradek.model.topics import TopicIdPartition
from odradek.protocol.record_batch import UNREADABLE, batches, is_intact

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
    cache: LoadedIndexes,
    failed: Callable[[OSError], None],
) -> tuple[MetadataLog, list[str]]:
    """The metadata log of a data directory, made if there is none; and problems to tell of.

    Blocks: for starting, before anything is served. Raises `LogDamaged` if records are missing or
    make no sense, `OSError`. `fence` and `cache` are those of the data directory. `failed` is
    called once if the disk fails later.
    """
    directory = f"{data_directory}/{METADATA_DIRECTORY}"
    env.disk.make_directory(directory)
    loaded = load_newest(env.disk, directory, cluster_id)
    ends = DurableEnds(env.disk, directory)
    log = _open(env.disk, directory, config, fence, cache, ends, env.clock.wall_ms())
    _check_joined(loaded, log)
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
    cache: LoadedIndexes,
    ends: DurableEnds,
    now_ms: int,
) -> Log:
    key = TopicIdPartition(METADATA_TOPIC_ID, 0)
    known_end = ends.get(key)
    known = Known()
    if known_end is not None:
        known = Known(
            recovery_point=known_end.recovery_point, durable_end=known_end.offset, exact=True
        )
    settings = LogConfig(
        segment_bytes=config.metadata_log_segment_bytes,
        segment_ms=config.metadata_log_segment_ms,
        retention_ms=-1,
        delete=False,
    )
    log, _ = open_log(
        disk, directory, settings, fence, cache, now_ms=now_ms, known=known, durable=ends.slot(key)
    )
    return log


def _check_joined(loaded: Loaded, log: Log) -> None:
    """The log begins at or before the end of the snapshot, and does not end before it."""
    end = loaded.id.end_offset
    if not log.log_start_offset <= end <= log.log_end_offset:
        raise LogDamaged(
            log.directory,
            f"metadata up to offset {end} is in a sound snapshot, but the log has "
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
