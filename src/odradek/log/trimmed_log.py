"""Where a log starts, and what has to be known of that before records go.

DeleteRecords raises the log start within a segment, retention to the beginning of one. Either notes
it in the log's slot of `durable-ends` first, from where on it outlives the process. A power loss it
outlives after a sync of that file, or after the directory's checkpoint:

    log start (in memory)  >=  noted (in the slot)  >=  durable (synced)

The slot has a checksum, and the checkpoint of log starts has none: so nothing but the slot may make
a log start beyond the bytes that are known to be durable (see `directory_offsets`).
"""

from __future__ import annotations

from odradek.log.flushed_log import FlushedLog
from odradek.log.segment import Segment
from odradek.model.errors import ErrorCode


class TrimmedLog(FlushedLog):
    """The front of a log. All methods but `sync_log_start` are the owner thread's."""

    def delete_records(self, offset: int) -> ErrorCode:
        """DeleteRecords: the log starts at `offset` from now on; -1: at the high watermark.

        OFFSET_OUT_OF_RANGE above the high watermark. What is before it goes with the next retention
        pass. It outlives the process from now on, and a power failure after `sync_log_start`.
        """
        if offset == -1:
            offset = self.high_watermark
        if offset < 0 or offset > self.high_watermark:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        if offset > self.log_start_offset:
            self._note_log_start(offset)
            self.raise_log_start(offset)
        elif offset > max(self.noted_log_start, self.durable_log_start):
            # It starts there already, and nothing says so but the files that are left.
            self._note_log_start(self.log_start_offset)
        return ErrorCode.NONE

    @property
    def noted_log_start(self) -> int:
        """What `sync_log_start` would make durable."""
        return self.log_start_offset if self.durable is None else self.durable.log_start

    def _note_log_start(self, offset: int) -> None:
        self.fence.check()
        if self.durable is not None:
            try:
                self.durable.note_start(offset)
            except OSError as error:
                raise self.fence.judge(error) from error

    def sync_log_start(self) -> None:
        """Make durable what DeleteRecords did, to this log and all others of the directory. Blocks;
        for a worker.
        """
        self.fence.check()
        if self.durable is not None:
            try:
                self.durable.sync()
            except OSError as error:
                raise self.fence.fail(error) from error

    def raise_log_start(self, offset: int) -> None:
        """The log starts at `offset`, unless it starts later already."""
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.epochs.truncate_from_start(offset)

    def take(self, count: int) -> list[Segment]:
        """Take the oldest `count` segments out of the log (all but the active one at most).

        Where it starts then is noted first; `OSError` from that: nothing was taken.
        """
        start = self.segments.end_of(count - 1)
        if start > self.log_start_offset:
            self._note_log_start(start)
        taken = self.segments.take_first(count)
        self.raise_log_start(self.segments.first_offset)
        return taken
