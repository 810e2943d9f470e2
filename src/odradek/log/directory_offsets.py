"""What a data directory records of its logs outside of them: durable ends and four checkpoints.

    durable-ends                          see `durable_ends`; kept exact while the process lives
    recovery-point-offset-checkpoint      see `checkpoints`, as the two after it; written now and
    log-start-offset-checkpoint           then as a whole, from the logs that are open and what was
    replication-offset-checkpoint         read for those that are not
    cleaner-offset-checkpoint

The recovery point of a log comes from its slot in `durable-ends`, or from the checkpoint if it has
none that can be believed. The log start is what the checkpoint says, or the slot if that says more:
every deletion notes it there at once. A checkpoint that cannot be read is a problem to tell of, and
nothing is known from it. Checkpoints have no checksum; so a log start that is beyond all that the
slot knows of is left out, for a log that starts behind its end is begun anew.
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
from odradek.log.durable_ends import DurableEnd, DurableEnds
from odradek.log.fence import Fence
from odradek.log.log import Log
from odradek.log.opening import Known
from odradek.model.env import Disk
from odradek.model.topics import TopicIdPartition

Work = Callable[[], None]


class DirectoryOffsets:
    """Read when a directory is opened. Owner thread; what blocks is returned as work."""

    def __init__(self, disk: Disk, path: str, fence: Fence, problems: list[str]) -> None:
        """`problems`: where to tell of checkpoints that cannot be read."""
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
        """Of every log that was ever compacted, the first offset that compaction has not seen."""
        self._durable_ends = DurableEnds(disk, path)

    def _read(self, name: str) -> dict[TopicIdPartition, int] | None:
        """A checkpoint's offsets; None if it is missing, or a problem to tell of."""
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
        """Free the slots of all others."""
        for key in self._durable_ends.partitions():
            if key not in partitions:
                self._durable_ends.forget(key)

    def known(self, key: TopicIdPartition, clean: bool) -> tuple[Known, DurableEnd]:
        """What is known of a log before it is read, and its slot."""
        known_end = self._durable_ends.get(key)
        durable = self._durable_ends.slot(key)
        known = Known(clean=clean, compacted=key in self.first_dirty)
        if self._starts_known:
            known.log_start_offset = self._log_starts.get(key, 0)
        if known_end is not None and (known.log_start_offset or 0) > max(
            durable.offset, durable.log_start
        ):
            self._problems.append(
                f"{LOG_START_FILE}: {key} cannot start at {known.log_start_offset}, which is "
                f"beyond what is known to have been in it; that is left out"
            )
            known.log_start_offset = None
        known.recovery_point = known.durable_end = self._recovery_points.get(key, 0)
        if known_end is not None:
            known.recovery_point, known.durable_end = durable.recovery_point, durable.offset
            known.deleted_before = durable.log_start
            known.exact = True
        else:
            durable.recovery_point = durable.offset = known.durable_end
        return known, durable

    def high_watermark(self, key: TopicIdPartition) -> int:
        """As it was last recorded."""
        return self._high_watermarks.get(key, 0)

    def forget(self, key: TopicIdPartition) -> None:
        """The partition is gone."""
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
        contents = {
            RECOVERY_POINT_FILE: checkpoints.encode_offsets(self._recovery_points),
            HIGH_WATERMARK_FILE: checkpoints.encode_offsets(self._high_watermarks),
            LOG_START_FILE: checkpoints.encode_offsets(
                {key: offset for key, offset in self._log_starts.items() if offset > 0}
            ),
            CLEANER_OFFSET_FILE: checkpoints.encode_offsets(self.first_dirty),
        }

        def work() -> None:
            self._fence.check()
            try:
                self._durable_ends.sync()
            except OSError as error:
                raise self._fence.fail(error) from error
            try:
                for name, data in contents.items():
                    if self._written.get(name) != data:
                        self._disk.replace_file(f"{self._path}/{name}", data)
                        self._written[name] = data
            except OSError as error:
                raise self._fence.judge(error) from error

        return work

    def close(self) -> None:
        self._durable_ends.close()
