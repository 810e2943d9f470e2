"""Reading a coordinator's partition from its start to its end, record by record, some at a time.

The end is where the log ended when loading began. Only what is committed is replayed: if the high
watermark is not there yet (after a crash the tail may have to be flushed first), reading stops and
goes on when it has moved.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from odradek.coordinator.records import CoordinatorRecord, decode_record
from odradek.model.errors import ErrorCode, ProtocolError
from odradek.protocol.compression import CorruptCompression, TooLarge
from odradek.protocol.record_batch import CorruptBatch, batches, is_intact, records_of
from odradek.protocol.records import InvalidRecords
from odradek.replication.partition import Isolation, Partition

log = logging.getLogger(__name__)

READ_BYTES = 256 * 1024
"""At a time: a few milliseconds of the owner thread."""


class LoadingFailed(Exception):
    """The log cannot be read, or holds what is no record of a coordinator."""


class Loading:
    """One pass over one partition."""

    def __init__(self, partition: Partition, replay: Callable[[CoordinatorRecord], None]) -> None:
        self._partition = partition
        self._replay = replay
        self._position = partition.log.log_start_offset
        self.end_offset = partition.log.log_end_offset
        self.records = 0
        self.skipped = 0

    @property
    def done(self) -> bool:
        """All has been replayed."""
        return self._position >= self.end_offset

    def read_some(self) -> bool:
        """Replay the next records. True: there are more, and they can be read at once."""
        if self.done or self._position >= self._partition.high_watermark:
            return False
        for piece in self._read():
            self._replay_batches(piece)
        return not self.done and self._position < self._partition.high_watermark

    def _read(self) -> list[bytes]:
        found = self._partition.read(
            self._position, READ_BYTES, Isolation.READ_UNCOMMITTED, min_one=True
        )
        try:
            if found.error is not ErrorCode.NONE:
                raise LoadingFailed(f"reading at offset {self._position}: {found.error.name}")
            if not found.slices:
                # Compaction took everything up to the high watermark.
                self._position = self._partition.high_watermark
            return [piece.read() for piece in found.slices]
        except OSError as error:
            raise LoadingFailed(str(error)) from error
        finally:
            found.release()

    def _replay_batches(self, data: bytes) -> None:
        try:
            for header in batches(data):
                if not is_intact(data, header):
                    raise LoadingFailed(f"the batch at offset {header.base_offset} is damaged")
                if header.next_offset > self._position and not header.is_control:
                    for record in records_of(data, header):
                        self._replay_one(record.key, record.value)
                self._position = max(self._position, header.next_offset)
        except (CorruptBatch, CorruptCompression, TooLarge, InvalidRecords) as error:
            raise LoadingFailed(str(error)) from error
        except ProtocolError as error:
            raise LoadingFailed(f"after offset {self._position}: {error}") from error

    def _replay_one(self, key: bytes | None, value: bytes | None) -> None:
        record = decode_record(key, value)
        if record is None:
            self.skipped += 1
        else:
            self.records += 1
            self._replay(record)
