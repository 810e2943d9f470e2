"""Finding records by timestamp in a log, against a list of all its records.

Timestamps ascend, fall, stay equal or are missing; segments and index intervals are small, so that
a log of a few dozen batches has several of each. The log is reopened from disk and compacted, which
may leave batches without records that still have the largest timestamp.
"""

from __future__ import annotations

import random
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.log.compaction.batch_retention import ENTRY_BYTES, OffsetMap
from odradek.log.compaction.cleaner import Cleaner, log_to_clean
from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.log.log_directory import LogDirectory
from odradek.log.memory_disk import MemoryDisk
from odradek.model.byte_ranges import ByteRange
from odradek.model.topics import TopicIdPartition
from odradek.protocol.record_batch import batches, records_of
from odradek.protocol.record_batch_builder import build
from odradek.protocol.validate import BatchRules, ValidBatch, validate

KEY = TopicIdPartition(UUID(int=9 << 64), 0)
CONFIG = LogConfig(
    segment_bytes=1500, index_interval_bytes=200, retention_ms=-1, compact=True, delete=False
)
RISING = st.integers(0, 3)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["next", "next", "same", "early", "late", "none"]),
        st.lists(RISING, min_size=1, max_size=3),
        st.sampled_from([b"a", b"b", b"c"]),
        st.sampled_from([-1, 5, 6]),
    ),
    min_size=1,
    max_size=60,
)
Rows = list[tuple[int, int]]
"""(timestamp, offset) pairs, ordered by offset."""


class LogHistory:
    """A log, and the disk it was opened on."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.sequences: dict[int, int] = {}
        self.now_ms = 1000
        self.open()

    def open(self) -> None:
        self.directory = LogDirectory(
            self.disk, "data", random.Random(0), cluster_id="c", node_id=1
        )
        self.log: Log = self.directory.open_log(KEY, CONFIG, 0)

    def append(self, kind: str, steps: list[int], key: bytes, producer: int) -> None:
        at = self.now_ms
        timestamps = []
        for step in steps:
            at += step
            timestamps.append(at)
        if kind == "next":
            self.now_ms = at
        shift = {"early": -500, "late": 40}.get(kind, 0)
        data = build(
            [(key, b"%d" % n, [], n + shift if kind != "none" else -1) for n in timestamps],
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=self.sequences.get(producer, 0) if producer >= 0 else -1,
        )
        batch = validate(ByteRange(data, 0, len(data)), BatchRules(), self.now_ms)
        assert isinstance(batch, ValidBatch)
        self.log.append(batch, 0, 0)
        if producer >= 0:
            self.sequences[producer] = self.sequences.get(producer, 0) + len(timestamps)

    def compact(self) -> None:
        self.log.roll(0)
        self.log.flush(checkpoint=True)
        self.log.high_watermark = self.log.log_end_offset
        plan = log_to_clean(self.log, None, self.now_ms)
        cleaner = Cleaner(
            self.disk, plan, OffsetMap(100 * ENTRY_BYTES, 1.0), now_ms=0, chunk_bytes=400
        )
        for step in cleaner.steps():
            if not isinstance(step, int):
                step(self.log)


def contents(log: Log) -> tuple[Rows, list[int]]:
    """Return every record's timestamp and offset, and the offsets at which batches end."""
    rows: Rows = []
    ends = [0]
    for segment in log.segments.each():
        data = segment.file.read(0, segment.size)
        for header in batches(data):
            rows += [(record.timestamp, record.offset) for record in records_of(data, header)]
            ends.append(header.next_offset)
    return rows, ends


def check_latest(log: Log, rows: Rows, end: int) -> None:
    before = [row for row in rows if row[1] < end and row[0] >= 0]
    largest = max((timestamp for timestamp, _ in before), default=None)
    expected = next((row for row in before if row[0] == largest), None)
    found = log.offset_for_max_timestamp(end)
    assert (found and (found.timestamp, found.offset)) == expected, end


def check_first(log: Log, rows: Rows, timestamp: int, end: int) -> None:
    expected = next((row for row in rows if row[0] >= timestamp), None)
    if expected is not None and expected[1] >= end:
        expected = None
    found = log.offset_for_timestamp(timestamp, end)
    assert (found and (found.timestamp, found.offset)) == expected, timestamp


def check(log: Log, number: int) -> None:
    rows, ends = contents(log)
    for end in ends[number % 3 :: 3]:
        check_latest(log, rows, end)
    for timestamp, offset in rows[number % 5 :: 5]:
        check_first(log, rows, max(timestamp, 0), ends[-1])
        check_first(log, rows, timestamp + 1, offset)


@settings(max_examples=120, deadline=None, derandomize=True)
@given(before=STEPS, compacted=st.booleans(), after=STEPS, opened=st.booleans())
def test_a_lookup_by_time_finds_the_record_that_a_list_search_finds(
    before: list[tuple[str, list[int], bytes, int]],
    compacted: bool,
    after: list[tuple[str, list[int], bytes, int]],
    opened: bool,
) -> None:
    life = LogHistory()
    for step in before:
        life.append(*step)
    check(life.log, 0)
    if compacted:
        life.compact()
        check(life.log, 1)
    for step in after:
        life.append(*step)
    if opened:
        life.directory.close()
        life.open()
    check(life.log, 2)
