"""The offsets of all logs of a data directory: `durable-ends` and the checkpoints.

The checkpoints are written from time to time as a whole: from the open logs, and from the values
read at the start for the others. The recovery point of a log is that of its slot in `durable-ends`,
or of the checkpoint if it has no slot. The log start is the slot's, in which every deletion writes
it at once; if none was written there, the checkpoint's. An unreadable checkpoint is reported as a
problem and not used. Checkpoints have no checksum: a log start beyond everything in the slot is
ignored, because a log that starts after its end would begin empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from odradek.log import checkpoints
from odradek.log.checkpoints import (
    CLEANER_OFFSET_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    BadCheckpoint,
)
from odradek.log.durable_ends import STARTS_AT_ZERO, DurableEnd, DurableEnds
from odradek.log.fence import Fence
from odradek.log.log import Log
from odradek.log.recovery import RecordedState
from odradek.model.env import Disk
from odradek.model.topics import TopicIdPartition

Work = Callable[[], None]


class DirectoryOffsets:
    """The offsets of all logs in `durable-ends` and the checkpoints.

    They are read when a directory is opened. Owner thread; blocking work is returned as a function.
    """

    def __init__(self, disk: Disk, path: str, fence: Fence, problems: list[str]) -> None:
        """`problems`: unreadable checkpoints are appended here."""
        self._disk = disk
        self._path = path
        self._fence = fence
        self._problems = problems
        self._written: dict[str, bytes] = {}
        self._recovery_points = self._read(RECOVERY_POINT_FILE) or {}
        self._high_watermarks = self._read(HIGH_WATERMARK_FILE) or {}
        log_starts = self._read(LOG_START_FILE)
        self._starts_known = log_starts is not None
        self._log_starts = log_starts or {}
        self.first_dirty = self._read(CLEANER_OFFSET_FILE) or {}
        """The first offset that compaction has not seen, for each log that was ever compacted."""
        self._durable_ends = DurableEnds(disk, path)

    def _read(self, name: str) -> dict[TopicIdPartition, int] | None:
        """Read a checkpoint's offsets; None if it is missing or unreadable."""
        path = f"{self._path}/{name}"
        if not self._disk.exists(path):
            return None
        data = self._disk.read_file(path)
        try:
            offsets = checkpoints.decode_offsets(data, path)
        except BadCheckpoint as error:
            self._problems.append(str(error))
            return None
        self._written[name] = data
        return offsets

    def keep_only(self, partitions: Mapping[TopicIdPartition, object]) -> None:
        """Free the slots of all other partitions."""
        for key in self._durable_ends.partitions():
            if key not in partitions:
                self._durable_ends.forget(key)

    def recorded_state(
        self, key: TopicIdPartition, clean: bool
    ) -> tuple[RecordedState, DurableEnd]:
        """Return the recorded state of a log, and its slot in `durable-ends`."""
        known_end = self._durable_ends.get(key)
        durable = self._durable_ends.slot(key)
        known = RecordedState(clean=clean, compacted=key in self.first_dirty)
        known.high_watermark = self.high_watermark(key)
        written = durable.log_start
        if self._starts_known:
            known.log_start_offset = self._log_starts.get(key, 0)
        known.recovery_point = known.durable_end = self._recovery_points.get(key, 0)
        if known_end is not None:
            known.recovery_point, known.durable_end = durable.recovery_point, durable.offset
            known.deleted_before = max(0, written)
            known.exact = True
            known.restarted = durable.offset < (1 if written == STARTS_AT_ZERO else written)
            if (known.log_start_offset or 0) > max(durable.offset, written):
                if not known.restarted:
                    self._problems.append(
                        f"{LOG_START_FILE}: {key} cannot start at {known.log_start_offset}, beyond "
                        f"its durable end {durable.offset}; the entry is ignored"
                    )
                known.log_start_offset = None
        else:
            durable.recovery_point = durable.offset = known.durable_end
        known.synced_log_start = known.log_start_offset or 0
        if written != 0:  # never older than the checkpoint's
            known.log_start_offset = known.deleted_before
        return known, durable

    def high_watermark(self, key: TopicIdPartition) -> int:
        """Return the high watermark in the checkpoint, or 0."""
        return self._high_watermarks.get(key, 0)

    def forget(self, key: TopicIdPartition) -> None:
        """Remove everything that is recorded of a deleted partition."""
        self._durable_ends.forget(key)
        for offsets in (
            self._recovery_points,
            self._high_watermarks,
            self._log_starts,
            self.first_dirty,
        ):
            offsets.pop(key, None)

    def checkpoint(self, logs: Mapping[TopicIdPartition, Log]) -> Work:
        """Work: sync the durable ends, and write those of the checkpoints that changed.

        `OSError` but no `LogDirFailure`: there was no room, and the files are as they were.
        """
        for key, log in logs.items():
            self._recovery_points[key] = log.recovery_point
            self._high_watermarks[key] = log.high_watermark
            self._log_starts[key] = log.log_start_offset
            if log.has_gaps:
                self.first_dirty.setdefault(key, 0)  # as a log that was compacted here
        # Copies, which the work encodes: for 10,000 logs that takes longer than a turn may last.
        contents = {
            RECOVERY_POINT_FILE: self._recovery_points.copy(),
            HIGH_WATERMARK_FILE: self._high_watermarks.copy(),
            LOG_START_FILE: {key: start for key, start in self._log_starts.items() if start > 0},
            CLEANER_OFFSET_FILE: self.first_dirty.copy(),
        }

        def work() -> None:
            self._fence.check()
            try:
                self._durable_ends.sync()
            except OSError as error:
                raise self._fence.fail(error) from error
            try:
                for name, offsets in contents.items():
                    data = checkpoints.encode_offsets(offsets)
                    if self._written.get(name) != data:
                        self._disk.replace_file(f"{self._path}/{name}", data)
                        self._written[name] = data
            except OSError as error:
                raise self._fence.classify(error) from error

        return work

    def close(self) -> None:
        self._durable_ends.close()
