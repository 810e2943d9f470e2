"""The codecs of a record batch: how its records section is compressed, and the cap on what comes
out.

    gzip    one or more gzip members
    snappy  xerial framing: magic 82 'SNAPPY' 00, version i32, compatible i32, then (length i32,
    raw snappy block)*;
            a bare raw snappy block is read too, as Java does
    lz4     the LZ4 frame format (the header checksum is the standard one since record format v2)
    zstd    one or more zstd frames

A compressed section tells how long it is, never truthfully how long it becomes. So nothing here
believes a size: the
output buffer starts at a guess taken from the section's own claim, doubles while it is too small,
and never exceeds the
caller's cap. A bomb costs at most twice the cap of work and the cap of memory, and ends in
`TooLarge`.

Facts of the codec libraries that this rests on are pinned by tests: `decompress_into` never
writes past its buffer and
says `failed to write whole buffer` when it is too small.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import cramjam


class CompressionType(IntEnum):
    """Kafka's ids, as in bits 0-2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


NAMES: Final = {
    "none": CompressionType.NONE,
    "uncompressed": CompressionType.NONE,
    "gzip": CompressionType.GZIP,
    "snappy": CompressionType.SNAPPY,
    "lz4": CompressionType.LZ4,
    "zstd": CompressionType.ZSTD,
}

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER: Final = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
XERIAL_BLOCK_BYTES: Final = 32 * 1024
DEFAULT_LEVELS: Final = {CompressionType.GZIP: 6, CompressionType.LZ4: 9, CompressionType.ZSTD: 3}
MIN_GUESS_BYTES: Final = 4096
BUFFER_FULL: Final = "failed to write whole buffer"


class CorruptCompression(Exception):
    """The section is not what its codec says it is."""


class TooLarge(Exception):
    """The section would decompress to more than the caller's cap."""


def compress(codec: int, data: bytes, level: int | None = None) -> bytes:
    """`data` as a records section of `codec`; `level` None means Kafka's default level of that
    codec."""
    if codec == CompressionType.NONE:
        return data
    if codec == CompressionType.SNAPPY:
        return _compress_xerial(data)
    level = DEFAULT_LEVELS[CompressionType(codec)] if level is None else level
    if codec == CompressionType.GZIP:
        return bytes(cramjam.gzip.compress(data, level=level))
    if codec == CompressionType.LZ4:
        return bytes(cramjam.lz4.compress(data, level=level))
    return bytes(cramjam.zstd.compress(data, level=level))


def decompress(codec: int, data: bytes, max_bytes: int) -> bytes:
    """What the section `data` of `codec` holds: at most `max_bytes`, else `TooLarge`;
    `CorruptCompression` if undecodable."""
    if codec == CompressionType.NONE:
        return data
    if codec == CompressionType.SNAPPY:
        return _decompress_snappy(data, max_bytes)
    if codec not in (CompressionType.GZIP, CompressionType.LZ4, CompressionType.ZSTD):
        raise CorruptCompression(f"unknown compression type {codec}")
    module = {1: cramjam.gzip, 3: cramjam.lz4, 4: cramjam.zstd}[int(codec)]
    size = min(max_bytes, max(MIN_GUESS_BYTES, _claimed_bytes(codec, data)))
    while True:
        output = bytearray(size)
        try:
            written = module.decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if BUFFER_FULL not in str(error):
                raise CorruptCompression(str(error)) from None
            if size >= max_bytes:
                raise TooLarge(f"more than {max_bytes} bytes after decompression") from None
            size = min(max_bytes, size * 2)
        else:
            return bytes(memoryview(output)[:written])


def _claimed_bytes(codec: int, data: bytes) -> int:
    """A first guess at the decompressed size: what the section claims where that is cheap to
    read, else four times it."""
    if codec == CompressionType.GZIP and len(data) >= 18:
        return int.from_bytes(data[-4:], "little")
    return 4 * len(data)


def _compress_xerial(data: bytes) -> bytes:
    parts = [XERIAL_HEADER]
    for start in range(0, len(data), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + XERIAL_BLOCK_BYTES]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _decompress_snappy(data: bytes, max_bytes: int) -> bytes:
    if not data.startswith(XERIAL_MAGIC):
        return _decompress_snappy_block(data, max_bytes)
    parts: list[bytes] = []
    total, pos = 0, len(XERIAL_HEADER)
    while pos < len(data):
        length = int.from_bytes(data[pos : pos + 4], "big")
        pos += 4
        if pos + length > len(data):
            raise CorruptCompression("snappy block runs past the end of its section")
        parts.append(_decompress_snappy_block(data[pos : pos + length], max_bytes - total))
        total += len(parts[-1])
        pos += length
    return b"".join(parts)


def _decompress_snappy_block(block: bytes, max_bytes: int) -> bytes:
    try:
        length = cramjam.snappy.decompress_raw_len(block)
        if length > max_bytes:
            raise TooLarge(f"more than {max_bytes} bytes after decompression")
        output = bytearray(length)
        written = cramjam.snappy.decompress_raw_into(block, output)
    except cramjam.DecompressionError as error:
        raise CorruptCompression(str(error)) from None
    return bytes(memoryview(output)[:written])
