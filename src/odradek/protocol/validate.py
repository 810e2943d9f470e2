"""Kafka's checks on a produced batch, made by the leader before it appends.

They run in Kafka's order, which decides the answer when several things are wrong:

    framing   exactly one v2 batch; zstd only from Produce version 7
    header    base offset 0; size within max.message.bytes; CRC-32C; known codec
    batch     count > 0 and equal to the offset range; no control batch; a sequence if there
              is a producer id
    records   every record is checked: structure, offset deltas 0, 1, ..., header counts, no bytes
              left over; compressed records are decompressed for this, under a cap
    record    a key on compacted topics; the timestamp within its window: reported per record

`validate` takes the batch and the topic's `BatchRules` and returns a `ValidBatch`, whose bytes are
the producer's own wherever Kafka keeps them, or an `InvalidBatch`, the answer to the producer. It
raises nothing, whatever the bytes are.

The bytes change in two cases. If the maximum timestamp or timestamp type is not the topic's
(LogAppendTime, or a wrong header), 10 bytes and the CRC are rewritten. If the topic's
`compression.type` names another codec, the batch is compressed again.

The answer differs from Kafka 4.3's on purpose in these cases:

- Offset deltas other than 0, 1, 2, ... are INVALID_RECORD. Kafka stores them if uncompressed (its
  consumers then skip or repeat) and answers UNKNOWN_SERVER_ERROR if compressed.
- Records that do not decompress are INVALID_RECORD, an unknown codec UNSUPPORTED_COMPRESSION_TYPE;
  Kafka answers UNKNOWN_SERVER_ERROR for both, and accepts bytes after a gzip or lz4 stream.
- Decompression is capped: MESSAGE_TOO_LARGE where Kafka would go on.
- Varints wider than 32 bits are INVALID_RECORD; Kafka lets them wrap.
- On a CreateTime topic a batch that claims LogAppendTime is checked and stored by its records' own
  timestamps; Kafka uses the header's, whatever the records contain.

Checks that need the log are elsewhere: sequence continuity, epochs, transactions, segment size.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_be
from mypy_extensions import i64

from odradek.model.byte_ranges import ByteRange
from odradek.model.errors import ErrorCode
from odradek.protocol import compression, record_batch, record_batch_builder, records
from odradek.protocol.record_batch import HEADER_BYTES, LOG_OVERHEAD, RecordBatchHeader
from odradek.protocol.records import (
    InvalidRecords,
    InvalidTimestamp,
    RecordCursor,
    RecordsSummary,
    read_records,
)

UNBOUNDED_MS: Final[i64] = (1 << 63) - 1
MIN_DECOMPRESSED_CAP: Final[i64] = 16 * 1024 * 1024
KEEP_CODEC: Final = -1


class BatchRules:
    """The settings of a topic that batches are checked against. Times in ms.

    `codec`: the topic's `compression.type`, -1 for `producer` (keep the producer's codec); `level`
    None is the codec's default.
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
        """The most bytes that a batch may decompress to."""
        cap = 10 * self.max_message_bytes
        return cap if cap > MIN_DECOMPRESSED_CAP else MIN_DECOMPRESSED_CAP


class ValidBatch:
    """A batch that can be appended: the bytes `start..end` of `data`, not yet stamped.

    `max_timestamp_delta` is the offset delta of the first record with `max_timestamp`.
    `rewritten`: `data` is no longer the producer's frame.
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

    `log_start_known`: Kafka's answer has the log start offset (else -1).
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


MIN_LEGACY_LENGTH: Final[i64] = 14
MAGIC_END: Final[i64] = 17
ZSTD_PRODUCE_VERSION: Final = 7
NEWEST_PRODUCE_VERSION: Final = 13
ZSTD: Final[int] = int(compression.CompressionType.ZSTD)
TIMESTAMPS_REFUSED: Final = "One or more records have been rejected due to invalid timestamp"


def validate(
    span: ByteRange,
    rules: BatchRules,
    now_ms: int,
    produce_version: int = NEWEST_PRODUCE_VERSION,
    by_coordinator: bool = False,
) -> ValidBatch | InvalidBatch:
    """Check the records of one partition in a Produce request, at the time `now_ms`.

    `by_coordinator`: a coordinator of this broker made the batch; with a producer id it needs no
    sequence.
    """
    data, start, end = span.data, span.start, span.end
    refusal = _check_framing(data, start, end, produce_version)
    if refusal is not None:
        return refusal
    header = RecordBatchHeader(data, start)
    refusal = _check_header(data, header, rules, by_coordinator)
    if refusal is not None:
        return refusal
    try:
        section, records_start, records_end = record_batch.records_section(
            data, header, rules.decompressed_cap
        )
        summary = records.check_records(
            section, records_start, records_end, header.count, header.base_timestamp
        )
    # A different name in each clause: compiled, a variable keeps the type of its first use.
    except InvalidTimestamp as unreal:
        errors = [RecordError(unreal.index, unreal.reason)]
        return InvalidBatch(ErrorCode.INVALID_TIMESTAMP, TIMESTAMPS_REFUSED, errors, True)
    except InvalidRecords as malformed:
        return _invalid(f"Record {malformed.index}: {malformed.reason}")
    except compression.CorruptCompression as corrupt:
        return _invalid(f"The records do not decompress: {corrupt}")
    except compression.SectionTooLarge as bomb:
        return InvalidBatch(ErrorCode.MESSAGE_TOO_LARGE, f"The records are {bomb}")
    if not _records_accepted(header, summary, rules, now_ms):
        return _refuse_records(header, section, records_start, records_end, rules, now_ms)
    if rules.codec != KEEP_CODEC and rules.codec != header.compression_type:
        data = _recompressed(header, section[records_start:records_end], rules)
        header = RecordBatchHeader(data, 0)
    return _with_topic_timestamps(data, header, summary, rules, now_ms, data is not span.data)


def _next_batch(data: bytes, pos: i64, end: i64) -> i64:
    """Return the size of the batch at `pos`; 0 if the rest is too short, -1 if it is no batch."""
    if end - pos < LOG_OVERHEAD:
        return 0
    length = i64(read_i32_be(data, pos + 8))
    if length < MIN_LEGACY_LENGTH:
        return -1
    if end - pos < MAGIC_END:
        return 0
    if data[pos + MAGIC_END - 1] > record_batch.MAGIC:
        return -1
    return 0 if length > end - pos - LOG_OVERHEAD else length + LOG_OVERHEAD


def _check_framing(data: bytes, start: i64, end: i64, produce_version: i64) -> InvalidBatch | None:
    """Check that there is one v2 batch. Like Kafka, skip an incomplete second batch after it."""
    size = _next_batch(data, start, end)
    if size < 0:
        return InvalidBatch(ErrorCode.CORRUPT_MESSAGE, "Not a record batch: bad length or magic")
    if size == 0:
        return InvalidBatch(
            ErrorCode.INVALID_RECORD, "There must be a whole record batch per partition"
        )
    magic = data[start + MAGIC_END - 1]
    if magic != record_batch.MAGIC:
        return InvalidBatch(
            ErrorCode.INVALID_RECORD, f"Record batches must have magic 2, not {magic}"
        )
    codec = data[start + 22] & record_batch.COMPRESSION_MASK
    if codec == ZSTD and produce_version < ZSTD_PRODUCE_VERSION:
        return InvalidBatch(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd needs Produce version {ZSTD_PRODUCE_VERSION} or later",
        )
    following = _next_batch(data, start + size, end)
    if following < 0:
        return InvalidBatch(ErrorCode.CORRUPT_MESSAGE, "What follows the batch is not a batch")
    if following > 0:
        return InvalidBatch(
            ErrorCode.INVALID_RECORD, "There must be exactly one record batch per partition"
        )
    if size < HEADER_BYTES:
        return InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"A batch of {size} bytes has no header")
    return None


def _check_header(
    data: bytes, header: RecordBatchHeader, rules: BatchRules, by_coordinator: bool
) -> InvalidBatch | None:
    if header.base_offset != 0:
        return _invalid(f"The base offset must be 0, not {header.base_offset}")
    if header.size > rules.max_message_bytes:
        return _too_large(header, rules)
    if not record_batch.is_intact(data, header):
        return InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"The batch's CRC is not {header.crc}")
    if header.compression_type > ZSTD:
        return InvalidBatch(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Unknown compression type {header.compression_type}",
            log_start_known=True,
        )
    if header.count <= 0:
        return _invalid(f"The batch claims {header.count} records")
    if header.last_offset_delta + 1 != header.count:
        return _invalid(
            f"Offsets 0 to {header.last_offset_delta} do not agree with {header.count} records"
        )
    if header.is_control:
        return _invalid("Clients may not write control records")
    if header.has_producer_id and header.base_sequence < 0 and not by_coordinator:
        return _invalid(
            f"Invalid sequence {header.base_sequence} with producer id {header.producer_id}"
        )
    return None


def _records_accepted(
    header: RecordBatchHeader, summary: RecordsSummary, rules: BatchRules, now_ms: i64
) -> bool:
    """True if every record passes, judged by the extremes alone."""
    if rules.compacted and summary.null_keys:
        return False
    if rules.log_append_time:
        return not header.is_log_append_time
    return (
        summary.max_timestamp - now_ms <= rules.timestamp_after_max_ms
        and now_ms - summary.min_timestamp <= rules.timestamp_before_max_ms
    )


def _refuse_records(
    header: RecordBatchHeader, section: bytes, start: int, end: int, rules: BatchRules, now_ms: int
) -> InvalidBatch:
    """Check record by record, and return the answer with the refused ones and the reasons."""
    errors: list[RecordError] = []
    timestamps = False
    cursor = RecordCursor(section, start, end, header.count, 0, header.base_timestamp)
    for record in read_records(cursor):
        if rules.compacted and record.key is None:
            errors.append(
                RecordError(record.offset, "A compacted topic takes no record without a key")
            )
            continue
        reason = _timestamp_fault(record.timestamp, header, rules, now_ms)
        if reason:
            errors.append(RecordError(record.offset, reason))
            timestamps = True
    if timestamps:
        return InvalidBatch(ErrorCode.INVALID_TIMESTAMP, TIMESTAMPS_REFUSED, errors, True)
    return InvalidBatch(
        ErrorCode.INVALID_RECORD, f"{len(errors)} records have been rejected", errors, True
    )


def _timestamp_fault(
    timestamp: int, header: RecordBatchHeader, rules: BatchRules, now_ms: int
) -> str:
    if rules.log_append_time:
        if header.is_log_append_time:
            return "A producer may not set the timestamp type to LogAppendTime"
        return ""
    age_ms = now_ms - timestamp
    if timestamp == records.NO_TIMESTAMP:
        return ""
    if age_ms > rules.timestamp_before_max_ms or -age_ms > rules.timestamp_after_max_ms:
        return (
            f"The timestamp {timestamp} is not within {now_ms - rules.timestamp_before_max_ms} "
            f"and {now_ms + rules.timestamp_after_max_ms}"
        )
    return ""


def _with_topic_timestamps(
    data: bytes,
    header: RecordBatchHeader,
    summary: RecordsSummary,
    rules: BatchRules,
    now_ms: i64,
    rewritten: bool,
) -> ValidBatch | InvalidBatch:
    """Return the batch with the maximum timestamp and timestamp type of the topic."""
    if header.size > rules.max_message_bytes:
        return _too_large(header, rules)
    max_timestamp: i64 = now_ms if rules.log_append_time else summary.max_timestamp
    if header.max_timestamp != max_timestamp or header.is_log_append_time != rules.log_append_time:
        data = record_batch.with_max_timestamp(data, header, max_timestamp, rules.log_append_time)
        header = RecordBatchHeader(data, 0)
        rewritten = True
    if header.size > rules.segment_bytes:
        return InvalidBatch(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"The record batch has {header.size} bytes, more than a segment",
        )
    delta: i64 = 0 if rules.log_append_time else summary.max_timestamp_delta
    return ValidBatch(data, header, delta, rewritten)


def _recompressed(header: RecordBatchHeader, section: bytes, rules: BatchRules) -> bytes:
    return record_batch_builder.assemble(
        compression.compress(rules.codec, section, rules.level),
        header.count,
        attributes=(header.attributes & record_batch.TRANSACTIONAL_BIT) | rules.codec,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )


def _invalid(message: str) -> InvalidBatch:
    return InvalidBatch(ErrorCode.INVALID_RECORD, message, log_start_known=True)


def _too_large(header: RecordBatchHeader, rules: BatchRules) -> InvalidBatch:
    return InvalidBatch(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"The record batch has {header.size} bytes, more than the maximum of "
        f"{rules.max_message_bytes}",
    )
