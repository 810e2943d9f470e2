"""The last offset of every key in a stretch of log: what compaction compares records with.

Exact where Kafka's is probabilistic: a key of up to 32 bytes stands for itself, a longer one is
stood for by its BLAKE2b digest of 256 bits, marked so that it is no key's own text. The memory is
bounded by the number of entries: `full` says when to stop adding. One batch more than that may
still go in, since a pass must get on by at least one batch.

`latest_offset` is how far the map knows the log; about records behind it the map says nothing.
"""

from __future__ import annotations

from hashlib import blake2b

ENTRY_BYTES = 200
"""What an entry takes at most in memory: the key's copy, its offset, its place in a dict that has
just grown."""
LONGEST_OWN_KEY = 32
DIGEST_MARK = b"\0"


class OffsetMap:
    """Key -> offset, for one pass over one log."""

    __slots__ = ("_offsets", "capacity", "latest_offset")

    def __init__(self, memory_bytes: int, load_factor: float) -> None:
        self.capacity = max(1, int(memory_bytes * load_factor) // ENTRY_BYTES)
        self.latest_offset = -1
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def full(self) -> bool:
        return len(self._offsets) >= self.capacity

    def put(self, key: bytes, offset: int) -> None:
        """`key` was written at `offset`, which is after all that were put before."""
        self._offsets[_entry(key)] = offset

    def get(self, key: bytes) -> int:
        """The last offset of `key`; -1: it is not in the map."""
        return self._offsets.get(_entry(key), -1)


def _entry(key: bytes) -> bytes:
    if len(key) <= LONGEST_OWN_KEY:
        return key
    return DIGEST_MARK + blake2b(key, digest_size=LONGEST_OWN_KEY).digest()
