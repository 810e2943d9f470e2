"""The offset map of compaction: exact, and within its memory."""

from __future__ import annotations

import tracemalloc

from odradek.log.compaction.batch_retention import ENTRY_BYTES, LONGEST_OWN_KEY, OffsetMap


def test_get_returns_the_last_offset_of_a_key():
    latest = OffsetMap(1 << 20, 0.9)
    latest.put(b"a", 1)
    latest.put(b"b", 2)
    latest.put(b"a", 3)
    assert (latest.get(b"a"), latest.get(b"b"), latest.get(b"c"), len(latest)) == (3, 2, -1, 2)


def test_long_keys_are_distinguished_by_their_digests():
    latest = OffsetMap(1 << 20, 0.9)
    keys = [b"k" * length for length in range(2 * LONGEST_OWN_KEY)]
    for offset, key in enumerate(keys):
        latest.put(key, offset)
    assert [latest.get(key) for key in keys] == list(range(len(keys)))


def test_the_map_is_full_at_its_capacity():
    latest = OffsetMap(10 * ENTRY_BYTES, 0.5)
    for offset in range(5):
        assert not latest.full
        latest.put(b"%d" % offset, offset)
    assert latest.full


def test_an_entry_takes_no_more_than_entry_bytes():
    latest = OffsetMap(1 << 30, 0.9)
    keys = (b"%040d" % n for n in range(90_000))  # the table has just doubled at 87,381
    tracemalloc.start()
    for offset, key in enumerate(keys):
        latest.put(key, offset + (1 << 40))
    used, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used <= len(latest) * ENTRY_BYTES
    assert most <= len(latest) * ENTRY_BYTES
