"""Damage to files by disks and editors: flipped bits, lost ends, zeros, old bytes."""

from __future__ import annotations

from random import Random


def damaged(random: Random, data: bytes) -> bytes:
    """Return the bytes after one to three kinds of damage, mostly one."""
    wrong = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        _damage(random, wrong)
    return bytes(wrong)


def _damage(random: Random, data: bytearray) -> None:
    at = random.randrange(len(data) + 1)
    size = random.choice((1, 1, 2, 4, 8, 12, 61, 512))
    how = random.randrange(8)
    if how <= 2 and data:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    elif how == 3:
        del data[at:]
    elif how == 4:
        data += random.choice((bytes(size), random.randbytes(size), bytes(data[:size])))
    elif how == 5:
        end = min(len(data), at + size)
        data[at:end] = bytes(end - at)
    elif how == 6:
        end = min(len(data), at + size)
        data[at:end] = random.choice((random.randbytes(end - at), b"\xff" * (end - at)))
    else:
        data[at:at] = random.choice((data[at : at + size], b"9" * size, b"-", b" ", b"\n"))
