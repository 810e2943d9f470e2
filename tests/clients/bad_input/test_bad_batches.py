"""Record batches that no correct producer sends: each is refused, and the log stays unchanged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import lz4.frame
import pytest

from clients.asking import long_poll, produce, records_in
from clients.bad_input.memory import MIB, resident_bytes
from clients.wire import RawConnection
from interop.differential.batches import changed, framed, good, section
from odradek.model.errors import ErrorCode
from odradek.protocol.api.fetch import FetchResponse
from odradek.protocol.compression import XERIAL_HEADER, CompressionType, compress
from odradek.protocol.primitives import uvarint
from odradek.protocol.record_batch_builder import assemble, build

NONE, GZIP, SNAPPY, LZ4, ZSTD = CompressionType
CODECS = (GZIP, SNAPPY, LZ4, ZSTD)
CORRUPT, TOO_LARGE = ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE

MAGIC, ATTRIBUTES, LAST_DELTA, PRODUCER_ID, PRODUCER_EPOCH, COUNT = 16, 21, 23, 43, 51, 57
CONTROL = 0x20
GOOD = good()
RECORDS = section(GOOD)
LIE = 2**31 - 1
"""The stated size of short data."""


def zigzag(value: int) -> bytes:
    """Return the signed varint of a 32-bit number."""
    return uvarint((value << 1) ^ (value >> 31))


@dataclass(frozen=True)
class InvalidCase:
    """An invalid batch; `id` names the fault."""

    id: str
    batch: bytes
    error: ErrorCode = ErrorCode.INVALID_RECORD


def framed_badly() -> list[InvalidCase]:
    """Batches with invalid framing or headers."""
    return [
        InvalidCase("no batch", b""),
        InvalidCase("truncated batch", GOOD[:-3]),
        InvalidCase("two batches", GOOD + GOOD),
        InvalidCase("another CRC", changed(GOOD, 17, "I", 1234, crc=False), CORRUPT),
        InvalidCase("CRC of other records", changed(GOOD, 65, "b", 1, crc=False), CORRUPT),
        InvalidCase("magic 1", changed(GOOD, MAGIC, "b", 1, crc=False)),
        InvalidCase("length of a header's half", changed(GOOD, 8, "i", 20, crc=False), CORRUPT),
        InvalidCase("length that is negative", changed(GOOD, 8, "i", -1, crc=False), CORRUPT),
        InvalidCase(
            "larger than the topic allows", build([(b"k", bytes(2 * MIB), [], 1)]), TOO_LARGE
        ),
        InvalidCase("count too high", changed(GOOD, COUNT, "i", 4)),
        InvalidCase("count of 2^31-1", changed(GOOD, COUNT, "i", LIE)),
        InvalidCase("last offset delta too high", changed(GOOD, LAST_DELTA, "i", 5)),
        InvalidCase("last offset delta that is negative", changed(GOOD, LAST_DELTA, "i", -1)),
    ]


def forged() -> list[InvalidCase]:
    """Batches with fields that clients may not set."""
    with_id = changed(GOOD, PRODUCER_ID, "q", 5)
    return [
        InvalidCase("control batch", changed(GOOD, ATTRIBUTES, "h", CONTROL)),
        InvalidCase("producer id without epoch and sequence", with_id),
        InvalidCase("producer id without sequence", changed(with_id, PRODUCER_EPOCH, "h", 0)),
        InvalidCase("base offset of a log", changed(GOOD, 0, "q", 77, crc=False)),
    ]


def malformed() -> list[InvalidCase]:
    """Batches with a valid header and invalid records."""
    overlong = b"\xff" * 9 + b"\x01"
    return [
        InvalidCase("records missing", framed(b"", NONE)),
        InvalidCase("records with garbage behind", framed(RECORDS + b"\1\2\3", NONE)),
        InvalidCase("record length without end", framed(b"\xff" * 20, NONE)),
        InvalidCase("record length of ten bytes", framed(overlong + RECORDS[1:], NONE)),
        InvalidCase("record length that is negative", framed(zigzag(-5) + RECORDS[1:], NONE)),
        InvalidCase("record longer than the batch", framed(zigzag(LIE) + RECORDS[1:], NONE)),
        InvalidCase("offset deltas 4, 1, 2", framed(RECORDS[:3] + zigzag(4) + RECORDS[4:], NONE)),
        InvalidCase(
            "key longer than its record", framed(RECORDS[:4] + zigzag(60) + RECORDS[5:], NONE)
        ),
        *(
            InvalidCase(
                f"records cut within {codec.name}", framed(compress(codec, RECORDS[:-2]), codec)
            )
            for codec in CODECS
        ),
    ]


def of_other_codecs() -> list[InvalidCase]:
    """Batches whose records are compressed by another codec than the header's."""
    return [
        InvalidCase(f"{said.name} that is {true.name}", framed(compress(true, RECORDS), said))
        for said in CompressionType
        for true in CompressionType
        if said is not true
    ]


def oversized() -> list[InvalidCase]:
    """Batches with compressed records that state a size of 2 GiB, or need as much memory."""
    raw_block = compress(SNAPPY, RECORDS)[len(XERIAL_HEADER) + 4 :]
    gzipped = compress(GZIP, RECORDS)
    return [
        InvalidCase("gzip of 2 GiB", framed(gzipped[:-4] + LIE.to_bytes(4, "little"), GZIP)),
        InvalidCase("snappy of 2 GiB", framed(uvarint(LIE) + raw_block[1:], SNAPPY), TOO_LARGE),
        InvalidCase(
            "snappy with a block of 2 GiB",
            framed(XERIAL_HEADER + LIE.to_bytes(4, "big") + raw_block, SNAPPY),
        ),
        InvalidCase("lz4 of 2 GiB", framed(lz4_frame(LIE, len(RECORDS)), LZ4)),
        InvalidCase("lz4 with a block of 2 GiB", framed(lz4_frame(len(RECORDS), LIE), LZ4)),
        InvalidCase("zstd of 2 GiB", framed(zstd_frame(b"\xa0" + LIE.to_bytes(4, "little")), ZSTD)),
        InvalidCase("zstd with a window of 2 GiB", framed(zstd_frame(window(31)), ZSTD)),
    ]


def lz4_frame(content_size: int, block_size: int) -> bytes:
    """Return the records in one uncompressed lz4 block."""
    context = lz4.frame.create_compression_context()
    head = lz4.frame.compress_begin(context, source_size=content_size, block_linked=False)
    return head + (block_size | 1 << 31).to_bytes(4, "little") + RECORDS + bytes(4)


def zstd_frame(head: bytes) -> bytes:
    """Return the records in one uncompressed zstd block."""
    block = (len(RECORDS) << 3 | 1).to_bytes(3, "little") + RECORDS
    return b"\x28\xb5\x2f\xfd" + head + block


def window(log: int) -> bytes:
    """Return the head of a zstd frame with a window of 2^log bytes."""
    return bytes([0, log - 10 << 3])


@pytest.mark.parametrize(
    "bad",
    [*framed_badly(), *forged(), *malformed(), *of_other_codecs(), *oversized()],
    ids=lambda bad: bad.id,
)
def test_a_bad_batch_is_refused_and_leaves_the_log_as_it_was(
    known: RawConnection,
    new_topic: Callable[..., str],
    log_files: Callable[[str], bytes],
    bad: InvalidCase,
) -> None:
    topic = new_topic()
    assert produce(known, topic, 0, GOOD) == ErrorCode.NONE
    before = log_files(topic)
    assert before
    assert produce(known, topic, 0, bad.batch) == bad.error
    assert log_files(topic) == before
    assert produce(known, topic, 0, GOOD) == ErrorCode.NONE
    answer = known.ask(long_poll(topic, 0), 12, FetchResponse)
    assert (answer.responses[0].partitions[0].high_watermark, records_in(answer)) == (
        6,
        2 * len(GOOD),
    )


@pytest.mark.parametrize("codec", CODECS)
def test_repeated_decompression_bombs_hold_no_memory(
    known: RawConnection, new_topic: Callable[..., str], codec: CompressionType
) -> None:
    topic = new_topic()
    bomb = assemble(compress(codec, bytes(20 * MIB)), 1, attributes=codec)
    honest = build([(None, bytes(900_000), [], 1_700_000_000_000)], codec)
    refused = TOO_LARGE
    produce(known, topic, 0, bomb)
    before = resident_bytes()
    for _ in range(5):
        assert produce(known, topic, 0, bomb) == refused
        assert produce(known, topic, 0, honest) == ErrorCode.NONE
    assert resident_bytes() - before < 48 * MIB


def test_a_large_zstd_window_costs_no_memory_until_filled(
    known: RawConnection, new_topic: Callable[..., str]
) -> None:
    before = resident_bytes()
    assert produce(known, new_topic(), 0, framed(zstd_frame(window(27)), ZSTD)) == ErrorCode.NONE
    assert resident_bytes() - before < 16 * MIB
