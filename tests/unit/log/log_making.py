"""Batches and logs for the tests of the log."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.log.durable_ends import DurableEnd
from odradek.log.fence import Fence
from odradek.log.index import IndexCache
from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.log.memory_disk import MemoryDisk
from odradek.log.recovery import RecordedState, RecoveryStats, open_log
from odradek.model.byte_ranges import ByteRange
from odradek.model.env import Disk
from odradek.protocol.record_batch import RecordBatchHeader, batches
from odradek.protocol.record_batch_builder import build
from odradek.protocol.validate import BatchRules, ValidBatch, validate

DIRECTORY = "data/partition"
SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=150)


def batch(
    count: int = 1,
    timestamp: int = 1000,
    *,
    producer: tuple[int, int, int] = (-1, -1, -1),
    size: int = 10,
    codec: int = 0,
) -> ValidBatch:
    """Make a valid batch; `producer` is (producer id, epoch, base sequence)."""
    producer_id, epoch, sequence = producer
    data = build(
        [(b"key", b"%d" % n + b"." * size, [], timestamp + n) for n in range(count)],
        codec,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    valid = validate(
        ByteRange(data, 0, len(data)), BatchRules(max_message_bytes=1 << 30), timestamp
    )
    assert isinstance(valid, ValidBatch), valid
    return valid


def new_log(disk: Disk | None = None, config: LogConfig = SMALL, fence: Fence | None = None) -> Log:
    """Make an empty log on a disk, which is in memory unless given."""
    disk = disk if disk is not None else MemoryDisk()
    disk.make_directory(DIRECTORY)
    return reopen(disk, config, fence=fence)[0]


def reopen(
    disk: Disk,
    config: LogConfig = SMALL,
    *,
    clean: bool = False,
    recovery_point: int = 0,
    durable_end: int | None = None,
    log_start_offset: int | None = None,
    deleted_before: int = 0,
    durable: DurableEnd | None = None,
    fence: Fence | None = None,
    is_led_elsewhere: bool = False,
) -> tuple[Log, RecoveryStats]:
    """Open the log on the disk with this recorded state."""
    known = RecordedState(
        clean,
        recovery_point,
        recovery_point if durable_end is None else durable_end,
        log_start_offset,
        deleted_before,
    )
    fence = fence if fence is not None else Fence("data")
    return open_log(
        disk,
        DIRECTORY,
        config,
        fence,
        IndexCache(),
        now_ms=0,
        known=known,
        durable=durable,
        is_led_elsewhere=is_led_elsewhere,
    )


def fill(log: Log, count: int, *, records: int = 2, epoch: int = 0) -> None:
    """Append batches of `records` records; the timestamp is 1000 times the offset of the first."""
    for _ in range(count):
        log.append(batch(records, log.log_end_offset * 1000), epoch, now_ms=0)


def read(log: Log, offset: int, max_bytes: int = 1 << 30, up_to: int | None = None) -> bytes:
    """Read as a fetch does; return the bytes and release the slices."""
    result = log.read(offset, max_bytes, log.log_end_offset if up_to is None else up_to)
    data = b"".join(piece.read() for piece in result.slices)
    result.release()
    assert len(data) == result.size
    return data


def headers(data: bytes) -> list[RecordBatchHeader]:
    """Return the headers of `data`, which must be whole batches."""
    found = list(batches(data))
    assert sum(header.size for header in found) == len(data), "ends inside a batch"
    return found


def offsets(data: bytes) -> list[tuple[int, int]]:
    """Return (base offset, last offset) of each batch."""
    return [(header.base_offset, header.last_offset) for header in headers(data)]


def files(disk: MemoryDisk, suffix: str = "") -> dict[str, bytes]:
    """Return the contents of the files in the log's directory by name."""
    start = DIRECTORY + "/"
    return {
        path[len(start) :]: bytes(file.content)
        for path, file in disk.files.items()
        if path.startswith(start) and path.endswith(suffix)
    }


def log_files(disk: MemoryDisk) -> Sequence[str]:
    """Return the paths of the `.log` files, in order."""
    return [f"{DIRECTORY}/{name}" for name in sorted(files(disk, ".log"))]
