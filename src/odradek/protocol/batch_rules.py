"""What a topic asks of a produced batch, and the two things that may come of checking it.

`validate` turns a span and the `BatchRules` into a `ValidBatch`, fit to append, or an
`InvalidBatch`, the answer to its producer.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from odradek.model.errors import ErrorCode
from odradek.protocol.record_batch import RecordBatchHeader

UNBOUNDED_MS: Final[i64] = (1 << 63) - 1
MIN_DECOMPRESSED_CAP: Final[i64] = 16 * 1024 * 1024
KEEP_CODEC: Final = -1


class BatchRules:
    """The settings of a topic that decide on a batch. Times in ms.

    `codec`: the topic's `compression.type`, -1 for `producer` (keep what comes); `level` None is
    the codec's default.
    """

    def __init__(
        self,
        *,
        max_message_bytes: i64 = 1048588,
        log_append_time: bool = False,
        timestamp_before_max_ms: i64 = UNBOUNDED_MS,
        timestamp_after_max_ms: i64 = 3_600_000,
        compacted: bool = False,
        segment_bytes: i64 = 1 << 30,
        codec: i64 = KEEP_CODEC,
        level: int | None = None,
    ) -> None:
        self.max_message_bytes = max_message_bytes
        self.log_append_time = log_append_time
        self.timestamp_before_max_ms = timestamp_before_max_ms
        self.timestamp_after_max_ms = timestamp_after_max_ms
        self.compacted = compacted
        self.segment_bytes = segment_bytes
        self.codec = codec
        self.level = level

    @property
    def decompressed_cap(self) -> i64:
        """The most a batch may decompress to."""
        cap = 10 * self.max_message_bytes
        return cap if cap > MIN_DECOMPRESSED_CAP else MIN_DECOMPRESSED_CAP


class ValidBatch:
    """A batch fit to append: the bytes `start..end` of `data`, not yet stamped.

    `max_timestamp_delta` is the offset delta of the first record with `max_timestamp`.
    `rewritten` says that `data` is no longer the producer's frame.
    """

    def __init__(
        self, data: bytes, header: RecordBatchHeader, max_timestamp_delta: i64, rewritten: bool
    ) -> None:
        self.data = data
        self.start = header.position
        self.end = header.end
        self.header = header
        self.count = header.count
        self.size = header.size
        self.max_timestamp = header.max_timestamp
        self.max_timestamp_delta = max_timestamp_delta
        self.rewritten = rewritten


class RecordError:
    """One refused record, as Produce reports it from version 8 on."""

    def __init__(self, batch_index: int, message: str) -> None:
        self.batch_index = batch_index
        self.message = message

    def __repr__(self) -> str:
        return f"RecordError({self.batch_index}, {self.message!r})"


class InvalidBatch:
    """A refused batch: the answer to its producer.

    `log_start_known` says whether Kafka's answer shows the log start offset (else -1).
    """

    def __init__(
        self,
        error: ErrorCode,
        message: str,
        record_errors: list[RecordError] | None = None,
        log_start_known: bool = False,
    ) -> None:
        self.error = error
        self.message = message
        self.record_errors: list[RecordError] = [] if record_errors is None else record_errors
        self.log_start_known = log_start_known

    def __repr__(self) -> str:
        return f"InvalidBatch({self.error!r}, {self.message!r}, {self.record_errors!r})"
