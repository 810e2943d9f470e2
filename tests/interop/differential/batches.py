"""Record batches to send: valid ones, unusual ones, and each kind of invalid one."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator

from odradek.protocol.compression import compress
from odradek.protocol.record_batch import HEADER_BYTES, crc32c
from odradek.protocol.record_batch_builder import assemble, build

T0 = 1_700_000_000_000
HOUR_MS = 3_600_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
Content = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]


def contents(count: int, size: int = 10, timestamp: int = T0) -> list[Content]:
    """Return records with keys, one millisecond apart."""
    return [(b"k%d" % i, (b"%d" % i) * size, (), timestamp + i) for i in range(count)]


def good(count: int = 3, codec: int = 0, size: int = 10, timestamp: int = T0) -> bytes:
    """Return a batch that every topic accepts."""
    return build(contents(count, size, timestamp), codec)


def sequenced(producer_id: int, epoch: int, sequence: int, count: int = 3) -> bytes:
    """Return a batch of an idempotent producer."""
    return build(
        contents(count), producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
    )


def changed(batch: bytes, position: int, field: str, value: int, *, crc: bool = True) -> bytes:
    """Return the batch with one header field changed, and with a valid CRC if `crc`."""
    data = bytearray(batch)
    struct.pack_into(f">{field}", data, position, value)
    if crc:
        struct.pack_into(">I", data, 17, crc32c(bytes(data), 21, len(data)))
    return bytes(data)


def section(batch: bytes) -> bytes:
    return batch[HEADER_BYTES:]


def odd() -> Iterator[tuple[str, bytes]]:
    """Return unusual batches, most of which are accepted."""
    batch = good()
    yield "base offset 77", changed(batch, 0, "q", 77, crc=False)
    yield "leader epoch 5", changed(batch, 12, "i", 5, crc=False)
    yield "no records", assemble(b"", 0, base_timestamp=T0, max_timestamp=T0)
    yield "no records, last delta 0", assemble(b"", 0, last_offset_delta=0, base_timestamp=T0)
    yield "log append time bit", changed(batch, 21, "h", 8)
    yield "delete horizon bit", changed(batch, 21, "h", 0x40)
    yield "unused attribute bits", changed(batch, 21, "h", 0x7F80)
    yield "max timestamp too low", changed(batch, 35, "q", T0 - 5)
    yield "max timestamp too high", changed(batch, 35, "q", T0 + 500)
    yield "no timestamps", build([(b"k", b"v", (), -1), (b"l", b"w", (), -1)])
    yield "no key", build([(None, b"v", (), T0)])
    some = [(b"k", b"v", (), T0), (None, b"v", (), T0), (b"", b"v", (), T0), (None, None, (), T0)]
    for codec in (0, 4):
        yield f"some without keys, {CODECS[codec]}", build(some, codec)
    yield "null and empty", build([(b"", None, (), T0), (b"k", b"", (("h", None), ("", b"")), T0)])
    yield "timestamps going down", build([(b"k", b"v", (), T0 + 9), (b"l", b"w", (), T0)])
    yield "from the future", good(timestamp=int(time.time() * 1000) + 2 * HOUR_MS)
    yield "from 1970", good(timestamp=5)
    yield "epoch without producer id", changed(batch, 51, "h", 3)
    yield "sequence without producer id", changed(batch, 53, "i", 3)
    yield "two batches", batch + batch
    yield "two batches of one codec", good(codec=1) + good(codec=1)
    yield "large", good(4, size=400)
    yield "large, compressed", good(4, codec=1, size=4000)


def bad() -> Iterator[tuple[str, bytes]]:
    """Return batches that no broker should accept."""
    batch = good()
    yield "empty", b""
    yield "one byte", b"\0"
    yield "header cut", batch[:40]
    yield "header only, cut", batch[:61]
    yield "cut by one byte", batch[:-1]
    yield "a byte too many", batch + b"\0"
    yield "half a batch follows", batch + batch[:30]
    yield "crc wrong", changed(batch, 17, "I", 1234, crc=False)
    yield "payload changed", changed(batch, len(batch) - 4, "b", 1, crc=False)
    for magic in (0, 1, 3, -1):
        yield f"magic {magic}", changed(batch, 16, "b", magic, crc=False)
    for length in (-1, 0, 13, 48, 49, 1 << 30):
        yield f"length {length}", changed(batch, 8, "i", length, crc=False)
    yield "count too high", changed(batch, 57, "i", 4)
    yield "count too low", changed(batch, 57, "i", 2)
    yield "count negative", changed(batch, 57, "i", -1)
    yield "count huge", changed(batch, 57, "i", 2**31 - 1)
    yield "last delta too high", changed(batch, 23, "i", 5)
    yield "last delta too low", changed(batch, 23, "i", 1)
    yield "last delta negative", changed(batch, 23, "i", -1)
    yield "control", changed(batch, 21, "h", 0x20)
    yield "control and transactional", changed(batch, 21, "h", 0x30)
    yield "transactional without producer id", changed(batch, 21, "h", 0x10)
    for codec in (5, 6, 7):
        yield f"codec {codec}", changed(batch, 21, "h", codec)
    yield from damaged_records(batch)
    for codec in range(1, 5):
        yield f"{CODECS[codec]} that is none", changed(batch, 21, "h", codec)
        whole = compress(codec, section(batch))
        yield f"{CODECS[codec]} cut", framed(whole[:-3], codec)
        yield f"{CODECS[codec]} with garbage", framed(whole + b"garbage", codec)
        yield f"{CODECS[codec]}, records garbage", framed(compress(codec, b"\x0a" * 60), codec)
    yield "producer id without epoch", changed(batch, 43, "q", 5)
    yield "negative sequence", changed(changed(batch, 43, "q", 5), 51, "h", 0)
    yield "negative base offset", changed(batch, 0, "q", -2, crc=False)


def damaged_records(batch: bytes) -> Iterator[tuple[str, bytes]]:
    """Return batches with valid headers and CRCs and invalid records."""
    plain = section(batch)
    for position in range(1, 6):
        yield (
            f"record byte {position} is 0x7f",
            framed(plain[:position] + b"\x7f" + plain[position + 1 :], 0),
        )
    yield "records with garbage behind", framed(plain + b"\1\2\3", 0)
    yield "records cut", framed(plain[:-2], 0)
    yield "offset deltas wrong", framed(plain[:3] + b"\x08" + plain[4:], 0)


def framed(records: bytes, codec: int) -> bytes:
    """Return a batch of three records with any records section."""
    return assemble(
        records, 3, attributes=codec, base_timestamp=T0, max_timestamp=T0 + 2, base_sequence=-1
    )
