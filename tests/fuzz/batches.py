"""Seeded record batches: valid ones, and ones that are invalid in one place."""

from __future__ import annotations

import struct
from random import Random

from fastcrc.crc32 import iscsi as crc32c

from odradek.protocol.compression import CompressionType
from odradek.protocol.record_batch_builder import build

T0 = 1_700_000_000_000
CRC_AT, CRC_FROM = 17, 21
HEADER_FIELDS = (
    # Position and bytes.
    (0, 8),
    (8, 4),
    (12, 4),
    (16, 1),
    (21, 2),
    (23, 4),
    (27, 8),
    (35, 8),
    (43, 8),
    (51, 2),
    (53, 4),
    (57, 4),
)
EDGES = (0, 1, 2, 3, 127, 128, 0x7F, 0x80, 0xFF, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63)


def sound_batch(random: Random) -> bytes:
    """Return a valid batch, as a producer sends it."""
    rows = []
    for _ in range(random.choice((1, 1, 2, 5, 40))):
        key = None if random.random() < 0.3 else random.randbytes(random.randrange(8))
        value = None if random.random() < 0.2 else bytes(random.choice((0, 1, 20, 200, 3000)))
        headers = [
            ("h" * random.randrange(3), random.choice((None, b"", b"x")))
            for _ in range(random.choice((0, 0, 1, 3)))
        ]
        rows.append((key, value, headers, T0 + random.randrange(-1000, 1000)))
    return build(rows, random.choice(list(CompressionType)))


def with_true_crc(batch: bytes) -> bytes:
    """Return the batch with a valid CRC, so that the rest of it is checked."""
    if len(batch) < CRC_FROM:
        return batch
    crc = struct.pack(">I", crc32c(batch[CRC_FROM:]))
    return batch[:CRC_AT] + crc + batch[CRC_FROM:]


def mutated_batch(random: Random, batch: bytes) -> bytes:
    """Return a batch with one to three changes, mostly with length and CRC made valid again."""
    data = bytearray(batch)
    for _ in range(random.choice((1, 1, 2, 3))):
        _change(random, data)
    if random.random() < 0.5 and len(data) >= 12:
        data[8:12] = struct.pack(">i", len(data) - 12)
    return with_true_crc(bytes(data)) if random.random() < 0.8 else bytes(data)


def _change(random: Random, data: bytearray) -> None:
    how = random.randrange(7)
    if how == 0:
        at, size = random.choice(HEADER_FIELDS)
        value = random.choice(EDGES) & (2 ** (8 * size) - 1)
        data[at : at + size] = value.to_bytes(size, "big")
    elif how == 1 and data:
        data[random.randrange(len(data))] = random.choice((0, 1, 0x7F, 0x80, 0xFF))
    elif how == 2 and data:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    elif how == 3:
        del data[random.randrange(len(data) + 1) :]
    elif how == 4:
        data += random.randbytes(random.randrange(1, 20))
    elif how == 5 and len(data) > 61:
        # Inside the records: insert bytes, remove bytes, or add an endless varint.
        at = random.randrange(61, len(data))
        stop = at + random.randrange(6)
        data[at:stop] = random.choice((b"", b"\xff" * 10, b"\x80\x80\x80\x80\x7f", b"\x01"))
    elif how == 6 and len(data) > 61:
        start = random.randrange(61, len(data))
        piece = bytes(data[start : start + random.randrange(1, 200)])
        data[start:start] = piece * random.choice((1, 2, 50))


def any_batch(random: Random) -> bytes:
    """Return a valid batch, an invalid one, two in one, or none."""
    batch = sound_batch(random)
    how = random.random()
    if how < 0.4:
        return batch
    if how < 0.9:
        return mutated_batch(random, batch)
    return batch + sound_batch(random) if how < 0.95 else random.randbytes(random.randrange(80))
