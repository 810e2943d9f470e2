"""Compression codecs of record batches, with a cap on the decompressed size.

    gzip    one or more gzip members
    snappy  xerial framing: magic 82 'SNAPPY' 00, version i32, compatible version i32, then
            (length i32, raw snappy block)*; a raw snappy block alone is read too, as Java does
    lz4     one frame of the LZ4 frame format, its blocks independent of each other
    zstd    one or more zstd frames

A decompressed size stated in a section cannot be trusted. So no stated size is used: the output
buffer starts at a guess, doubles while it is too small, and never exceeds the caller's cap. A
decompression bomb costs at most three times the work of the cap and the memory of the cap, and
raises `SectionTooLarge`.

This depends on two facts of the codec library, which tests check: `decompress_into` never writes
past its buffer, and raises `failed to write whole buffer` when the buffer is too small.
"""

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final

import cramjam


class CompressionType(IntEnum):
    """Kafka's ids, as in bits 0-2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


# The values of `compression.type`, besides `producer`.
NAMES: Final = MappingProxyType(
    {
        "uncompressed": CompressionType.NONE,
        "gzip": CompressionType.GZIP,
        "snappy": CompressionType.SNAPPY,
        "lz4": CompressionType.LZ4,
        "zstd": CompressionType.ZSTD,
    }
)

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER: Final = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
XERIAL_BLOCK_BYTES: Final = 32 * 1024
GZIP_LEVEL: Final = 6
LZ4_LEVEL: Final = 1
ZSTD_LEVEL: Final = 3
MIN_GUESS_BYTES: Final = 4096
BUFFER_FULL: Final = "failed to write whole buffer"
LZ4_HEADER_BYTES: Final = 7
LZ4_VERSION_AND_INDEPENDENCE: Final = 0b1110_0000
LZ4_VERSION_1_INDEPENDENT: Final = 0b0110_0000
LZ4_BLOCK_CHECKSUM: Final = 0b0001_0000
LZ4_CONTENT_SIZE: Final = 0b0000_1000
LZ4_CONTENT_CHECKSUM: Final = 0b0000_0100
LZ4_DICTIONARY: Final = 0b0000_0001


class CorruptCompression(Exception):
    """The section is not valid data of its codec."""


class SectionTooLarge(Exception):
    """The section would decompress to more than the caller's cap."""


def compress(codec: int, data: bytes, level: int | None = None) -> bytes:
    """Return `data` compressed by `codec`; `level` None is the default level of this module."""
    match CompressionType(codec):
        case CompressionType.NONE:
            return data
        case CompressionType.GZIP:
            return bytes(cramjam.gzip.compress(data, level=GZIP_LEVEL if level is None else level))
        case CompressionType.SNAPPY:
            return _compress_snappy(data)
        case CompressionType.LZ4:
            frame = cramjam.lz4.Compressor(
                level=LZ4_LEVEL if level is None else level,
                content_checksum=False,
                block_linked=False,
            )
            frame.compress(data)
            return bytes(frame.finish())
        case CompressionType.ZSTD:
            return bytes(cramjam.zstd.compress(data, level=ZSTD_LEVEL if level is None else level))


def decompress(codec: int, data: bytes, max_bytes: int) -> bytes:
    """Return the decompressed section `data` of `codec`, at most `max_bytes`.

    Raises `SectionTooLarge` beyond that, `CorruptCompression` for invalid data.
    """
    match codec:
        case CompressionType.NONE:
            return data
        case CompressionType.GZIP:
            return _decompress(cramjam.gzip, data, max_bytes)
        case CompressionType.SNAPPY:
            return _decompress_snappy(data, max_bytes)
        case CompressionType.LZ4:
            _check_lz4_frame(data)
            return _decompress(cramjam.lz4, data, max_bytes)
        case CompressionType.ZSTD:
            return _decompress(cramjam.zstd, data, max_bytes)
        case _:
            raise CorruptCompression(f"unknown compression type {codec}")


def _decompress(library: Any, data: bytes, max_bytes: int) -> bytes:
    size = min(max_bytes, max(MIN_GUESS_BYTES, 4 * len(data)))
    while True:
        output = bytearray(size)
        try:
            written = library.decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if BUFFER_FULL not in str(error):
                raise CorruptCompression(str(error)) from None
            if size >= max_bytes:
                raise SectionTooLarge(f"more than {max_bytes} bytes after decompression") from None
            size = min(max_bytes, 2 * size)
        else:
            return bytes(memoryview(output)[:written])


def _check_lz4_frame(data: bytes) -> None:
    """Check that the section is one frame of independent blocks and nothing else.

    Java's reader stops after the first frame and refuses linked blocks; other readers accept both.
    So different consumers would read anything else differently.
    """
    if len(data) < LZ4_HEADER_BYTES:
        raise CorruptCompression("lz4 frame is too short")
    flags = data[4]
    if flags & LZ4_VERSION_AND_INDEPENDENCE != LZ4_VERSION_1_INDEPENDENT or flags & LZ4_DICTIONARY:
        raise CorruptCompression("lz4 frame must be of version 1 with independent blocks")
    block_checksum = 4 if flags & LZ4_BLOCK_CHECKSUM else 0
    pos = LZ4_HEADER_BYTES + (8 if flags & LZ4_CONTENT_SIZE else 0)
    while block := int.from_bytes(data[pos : pos + 4], "little"):
        pos += 4 + (block & 0x7FFF_FFFF) + block_checksum
    if pos + 4 + (4 if flags & LZ4_CONTENT_CHECKSUM else 0) != len(data):
        raise CorruptCompression("lz4 section must be exactly one frame")


def _compress_snappy(data: bytes) -> bytes:
    parts = [XERIAL_HEADER]
    for start in range(0, len(data), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + XERIAL_BLOCK_BYTES]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _decompress_snappy(data: bytes, max_bytes: int) -> bytes:
    if not data.startswith(XERIAL_MAGIC):
        return _decompress_snappy_block(data, max_bytes)
    parts: list[bytes] = []
    total, pos = 0, 0
    while pos < len(data):
        if data.startswith(XERIAL_MAGIC, pos):  # a section may have several streams
            pos += len(XERIAL_HEADER)
            continue
        length = int.from_bytes(data[pos : pos + 4], "big")
        pos += 4
        if pos + length > len(data):
            raise CorruptCompression("snappy block runs past the end of its section")
        parts.append(_decompress_snappy_block(data[pos : pos + length], max_bytes - total))
        total += len(parts[-1])
        pos += length
    if pos > len(data):
        raise CorruptCompression("snappy stream ends within its header")
    return b"".join(parts)


def _decompress_snappy_block(block: bytes, max_bytes: int) -> bytes:
    """Decompress a raw block, which begins with its decompressed length.

    Real encoders reach some twenty times the block's own length; the format allows about 64 times.
    """
    try:
        length = cramjam.snappy.decompress_raw_len(block)
        if length > max_bytes:
            raise SectionTooLarge(f"more than {max_bytes} bytes after decompression")
        if length > 64 * len(block):
            raise CorruptCompression(f"snappy block of {len(block)} bytes claims {length}")
        output = bytearray(length)
        written = cramjam.snappy.decompress_raw_into(block, output)
    except cramjam.DecompressionError as error:
        raise CorruptCompression(str(error)) from None
    return bytes(memoryview(output)[:written])
