"""Which partition a record goes to: Kafka's own choice, so that all clients agree.

A record with a key goes to `murmur2(key) mod partitions`, as the Java client sends it; the same key
always meets the same partition, whoever produces it. (librdkafka's own default is another hash; its
setting `partitioner=murmur2_random` agrees with this one.)
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

SEED: Final[i64] = 0x9747B28C
M: Final[i64] = 0x5BD1E995
MASK: Final[i64] = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit MurmurHash2 of `data` with Kafka's seed, unsigned."""
    length: i64 = len(data)
    # 32-bit by 31-bit products fit 63 bits: no overflow in a native 64-bit integer.
    h: i64 = (SEED ^ length) & MASK
    pos: i64 = 0
    while length - pos >= 4:
        k: i64 = data[pos] | (data[pos + 1] << 8) | (data[pos + 2] << 16) | (data[pos + 3] << 24)
        k = (k * M) & MASK
        k ^= k >> 24
        k = (k * M) & MASK
        h = (h * M) & MASK
        h ^= k
        pos += 4
    rest = length - pos
    if rest >= 3:
        h ^= data[pos + 2] << 16
    if rest >= 2:
        h ^= data[pos + 1] << 8
    if rest >= 1:
        h ^= data[pos]
        h = (h * M) & MASK
    h ^= h >> 13
    h = (h * M) & MASK
    h ^= h >> 15
    return h


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key among `partitions`."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
