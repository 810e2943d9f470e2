"""A compacted log against the list of all records ever written to it.

Batches of few keys are appended, rolled and flushed. Compaction passes run step by step, with
little and much memory, are dropped, killed in between, and restarted; time passes, and tombstones
expire. Always:

- a reader gets a subsequence of the written records, at the same offsets, byte for byte;
- the last value of every key is that of all written records;
- below the first dirty offset no key occurs twice, and no record above it is missing;
- a producer's last sequence is known, even if its records were removed.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from odradek.log.compaction.batch_retention import ENTRY_BYTES, OffsetMap
from odradek.log.compaction.cleaner import Cleaner, Step, log_to_clean
from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.log.log_directory import LogDirectory
from odradek.log.memory_disk import MemoryDisk
from odradek.model.byte_ranges import ByteRange
from odradek.model.topics import TopicIdPartition
from odradek.protocol.record_batch import RecordBatchHeader, batches, is_intact, records_of
from odradek.protocol.record_batch_builder import build
from odradek.protocol.validate import BatchRules, ValidBatch, validate

RETENTION_MS = 50
CONFIG = LogConfig(
    segment_bytes=700,
    index_interval_bytes=150,
    retention_ms=-1,
    delete=False,
    compact=True,
    delete_retention_ms=RETENTION_MS,
)
KEY = TopicIdPartition(UUID(int=9 << 64), 0)
KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"e" * 40, b"", b"f" * 40])
VALUES = st.one_of(st.none(), st.binary(max_size=60))
Written = tuple[bytes, bytes | None, int]


class CompactedLog(RuleBasedStateMachine):
    """`written[n]` is (key, value, timestamp) of offset n."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = MemoryDisk()
        self.written: list[Written] = []
        self.sequences: dict[int, int] = {}
        self.now_ms = 1000
        self.cleaner: Cleaner | None = None
        self.steps: Generator[Step, None, None] | None = None
        self.killed: list[Generator[Step, None, None] | None] = []
        self.seen_before = 0
        """The end of passes that were killed."""

    @initialize()
    def first_life(self) -> None:
        self.open()

    def open(self) -> None:
        self.directory = LogDirectory(
            self.disk, "data", random.Random(0), cluster_id="c", node_id=1
        )
        self.log: Log = self.directory.open_log(KEY, CONFIG, 0)
        self.log.high_watermark = self.log.flushed_offset

    @property
    def first_dirty(self) -> int:
        return self.directory.offsets.first_dirty.get(KEY, 0)

    # Operations.

    @rule(
        records=st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4),
        codec=st.sampled_from([0, 0, 1, 2, 3, 4]),
        producer=st.sampled_from([-1, -1, 5, 6]),
    )
    def append(self, records: list[tuple[bytes, bytes | None]], codec: int, producer: int) -> None:
        data = build(
            [(key, value, [], self.now_ms) for key, value in records],
            codec,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=self.sequences.get(producer, 0) if producer >= 0 else -1,
        )
        batch = validate(ByteRange(data, 0, len(data)), BatchRules(), self.now_ms)
        assert isinstance(batch, ValidBatch)
        info = self.log.append(batch, 0, 0)
        assert info.base_offset == len(self.written)
        self.written += [(key, value, self.now_ms) for key, value in records]
        if producer >= 0:
            self.sequences[producer] = self.sequences.get(producer, 0) + len(records)

    @rule()
    def close_segment(self) -> None:
        self.log.roll(0)
        self.log.flush(checkpoint=True)
        self.log.high_watermark = self.log.log_end_offset

    @rule(passed_ms=st.sampled_from([1, RETENTION_MS // 2, RETENTION_MS + 1]))
    def time_passes(self, passed_ms: int) -> None:
        self.now_ms += passed_ms

    @precondition(lambda self: self.steps is None and self.log.has_files)
    @rule(keys=st.sampled_from([1, 3, 100]), chunk_bytes=st.sampled_from([100, 400, 100_000]))
    def begin_pass(self, keys: int, chunk_bytes: int) -> None:
        plan = log_to_clean(self.log, self.directory.offsets.first_dirty.get(KEY), self.now_ms)
        latest = OffsetMap(keys * ENTRY_BYTES, 1.0)
        self.cleaner = Cleaner(self.disk, plan, latest, now_ms=self.now_ms, chunk_bytes=chunk_bytes)
        self.steps = self.cleaner.steps()

    @precondition(lambda self: self.steps is not None)
    @rule(count=st.integers(1, 30))
    def go_on(self, count: int) -> None:
        assert self.steps is not None and self.cleaner is not None
        for _ in range(count):
            step = next(self.steps, None)
            if step is None:
                assert self.cleaner.end_offset >= self.first_dirty
                self.directory.offsets.first_dirty[KEY] = self.cleaner.end_offset
                self.end_pass()
                return
            if not isinstance(step, int):
                step(self.log)

    @precondition(lambda self: self.steps is not None)
    @rule()
    def finish_pass(self) -> None:
        while self.steps is not None:
            self.go_on(1)

    def end_pass(self) -> None:
        assert self.cleaner is not None
        for deletion in self.cleaner.deletions:
            deletion.close()
            deletion.remove()
        self.cleaner = self.steps = None
        self.log.cleaning = False

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        """Restart after a stop, or after a kill, which leaves the files of an unfinished pass."""
        self.directory.checkpoint()()
        if clean:
            if self.steps is not None:
                self.steps.close()
            self.directory.close()
        else:
            self.killed.append(self.steps)  # Its remaining callbacks never run.
            if self.cleaner is not None:  # It may have replaced segments that count as dirty.
                self.seen_before = max(self.seen_before, self.cleaner.end_offset)
            self.directory.release()
        self.cleaner = self.steps = None
        self.open()

    # Invariants.

    @invariant()
    def readers_get_what_was_written(self) -> None:
        if not hasattr(self, "log"):
            return
        offsets, below = [], []
        state: dict[bytes | None, bytes] = {}
        for header, data in self.batches():
            for record in records_of(data, header):
                assert (record.key, record.value, record.timestamp) == self.written[record.offset]
                offsets.append(record.offset)
                if record.offset < self.first_dirty:
                    below.append(record.key)
                state.pop(record.key, None)
                if record.value is not None:
                    state[record.key] = record.value
        assert offsets == sorted(set(offsets))
        assert len(below) == len(set(below))
        dirty = range(max(self.first_dirty, self.seen_before), len(self.written))
        if self.steps is None:
            assert [offset for offset in offsets if offset >= dirty.start] == list(dirty)
        assert state == self.expected()

    def expected(self) -> dict[bytes, bytes]:
        state: dict[bytes, bytes] = {}
        for key, value, _ in self.written:
            state.pop(key, None)
            if value is not None:
                state[key] = value
        return state

    def batches(self) -> list[tuple[RecordBatchHeader, bytes]]:
        result = self.log.read(self.log.log_start_offset, 1 << 30, self.log.log_end_offset)
        data = b"".join(piece.read() for piece in result.slices)
        result.release()
        headers = list(batches(data))
        assert sum(header.size for header in headers) == len(data)
        assert all(is_intact(data, header) for header in headers)
        return [(header, data) for header in headers]

    @invariant()
    def sequences_go_on(self) -> None:
        if hasattr(self, "log"):
            for producer, following in self.sequences.items():
                entry = self.log.producers.entry(producer)
                assert entry is not None and entry.last_sequence == following - 1

    def teardown(self) -> None:
        if self.steps is not None:
            self.finish_pass()
        if hasattr(self, "log"):
            self.close_segment()
            if self.log.has_files:
                self.begin_pass(100, 1000)
                self.finish_pass()
            assert self.first_dirty == len(self.written)
            self.readers_get_what_was_written()


CompactedLog.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, derandomize=True
)
TestCompactedLog = CompactedLog.TestCase
