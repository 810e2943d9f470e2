"""A log against a list of values: after any operations both have the same contents.

The process may be killed at any moment, also during its last write; the page cache survives.
"""

from __future__ import annotations

import random
from dataclasses import replace
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from odradek.log.flush import LogFlush
from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.log.log_directory import LogDirectory
from odradek.log.memory_disk import MemoryDisk
from odradek.model.byte_ranges import ByteRange
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicIdPartition
from odradek.protocol.record_batch import batches, records_of, stamp
from odradek.protocol.record_batch_builder import build
from odradek.protocol.validate import BatchRules, ValidBatch, validate

CONFIG = LogConfig(
    segment_bytes=900, index_interval_bytes=200, checkpoint_bytes=2000, retention_ms=-1
)
KEY = TopicIdPartition(UUID(int=9 << 64), 0)
SIZES = st.lists(st.integers(0, 120), min_size=1, max_size=4)


class LogMachine(RuleBasedStateMachine):
    """`values[n]` is the value of offset n; `bases` are the offsets at which batches begin."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = MemoryDisk()
        self.values: list[bytes] = []
        self.bases: list[int] = []
        self.start = 0
        self.last_write: tuple[str, int] | None = None
        self.flush: LogFlush | None = None
        self.serial = 0

    @initialize()
    def first_life(self) -> None:
        self.open()

    def open(self) -> None:
        self.directory = LogDirectory(
            self.disk, "data", random.Random(0), cluster_id="c", node_id=1
        )
        self.log: Log = self.directory.open_log(KEY, CONFIG, 0)
        self.flush = None
        self.last_write = None

    def batch(self, sizes: list[int]) -> tuple[ValidBatch, list[bytes]]:
        values = []
        for size in sizes:
            self.serial += 1
            values.append(b"%d:" % self.serial + bytes(size))
        data = build([(None, value, [], self.serial) for value in values])
        valid = validate(ByteRange(data, 0, len(data)), BatchRules(), 0)
        assert isinstance(valid, ValidBatch)
        return valid, values

    def took(self, base: int, values: list[bytes]) -> None:
        assert base == len(self.values)
        self.bases.append(base)
        self.values += values

    @rule(sizes=SIZES)
    def append(self, sizes: list[int]) -> None:
        valid, values = self.batch(sizes)
        info = self.log.append(valid, 0, 0)
        active = self.log.segments.active
        self.last_write = (active.file.path, valid.size)
        self.took(info.base_offset, values)

    @rule(several=st.lists(SIZES, min_size=1, max_size=6))
    def append_as_follower(self, several: list[list[int]]) -> None:
        data = b""
        for sizes in several:
            valid, values = self.batch(sizes)
            base = len(self.values)
            data += stamp(valid.data, valid.start, base, 0) + valid.data[valid.start + 16 :]
            self.took(base, values)
        info = self.log.append_as_follower(ByteRange(data, 0, len(data)), 0, 0)
        assert info.error == ErrorCode.NONE
        self.last_write = None

    @rule(share=st.floats(0, 1.2))
    def restart(self, share: float) -> None:
        offset = int(share * len(self.values))
        self.log.truncate_fully_and_start_at(offset)
        self.values = [*self.values, *[b""] * offset][:offset]
        self.bases = []
        self.start = offset
        self.last_write = None

    @rule()
    def roll(self) -> None:
        self.log.roll(0)
        self.last_write = None

    @rule(checkpoint=st.booleans())
    def begin_flush(self, checkpoint: bool) -> None:
        if self.flush is None:
            self.flush = self.log.begin_flush(checkpoint)

    @precondition(lambda self: self.flush is not None)
    @rule()
    def run_and_end_flush(self) -> None:
        assert self.flush is not None
        self.flush.run()
        self.log.end_flush(self.flush)
        self.flush = None

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        where = [base for base in [*self.bases, len(self.values)] if base >= self.start]
        if where:
            offset = where[int(share * (len(where) - 1))]
            self.log.truncate_to(offset)
            del self.values[offset:]
            self.bases = [base for base in self.bases if base < offset]
            self.last_write = None

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        self.log.high_watermark = self.log.log_end_offset
        offset = self.start + int(share * (len(self.values) - self.start))
        assert self.log.delete_records(offset) == ErrorCode.NONE
        self.start = offset

    @rule(keep=st.integers(0, 3000))
    def retain(self, keep: int) -> None:
        self.log.high_watermark = self.log.log_end_offset
        self.log.configure(replace(CONFIG, retention_bytes=keep))
        done = self.directory.retention(0)
        self.log.configure(CONFIG)
        if done is not None:
            done.run()
            done.close()
            done.remove()
        assert self.log.log_start_offset >= self.start
        self.start = self.log.log_start_offset

    @rule()
    def checkpoint(self) -> None:
        self.directory.checkpoint()()

    @rule()
    def stop_and_start(self) -> None:
        if self.flush is not None:
            self.run_and_end_flush()
        self.directory.close()
        self.open()
        assert self.log.log_end_offset == len(self.values)
        assert self.log.log_start_offset == self.start

    @rule(torn=st.integers(0, 600))
    def kill_and_start(self, torn: int) -> None:
        durable = self.log.flushed_offset
        if self.last_write is not None and self.bases and self.bases[-1] >= durable:
            path, size = self.last_write
            content = self.disk.files[path].content
            cut = min(torn, size)
            del content[len(content) - cut :]
            if cut > 0:
                del self.values[self.bases.pop() :]
        self.disk.locks.clear()
        self.open()
        if self.log.log_end_offset > len(self.values):
            # Records were deleted before they were durable; more records are lost than deleted.
            assert self.log.log_end_offset == self.start
            self.values += [b""] * (self.start - len(self.values))
        assert self.log.log_end_offset == len(self.values)
        assert self.log.log_start_offset == self.start

    @rule(share=st.floats(0, 1), limit=st.integers(1, 2000), ahead=st.integers(0, 20))
    def read(self, share: float, limit: int, ahead: int) -> None:
        offset = self.start + int(share * (len(self.values) - self.start))
        up_to = next((base for base in self.bases if base >= offset + ahead), len(self.values))
        result = self.log.read(offset, limit, up_to)
        data = b"".join(piece.read() for piece in result.slices)
        result.release()
        found = list(batches(data))
        if offset >= up_to:
            assert not found
            return
        assert found[0].base_offset <= offset <= found[0].last_offset
        assert found[-1].next_offset <= up_to
        assert len(found) == 1 or len(data) <= limit
        expected = found[0].base_offset
        for header in found:
            for record in records_of(data, header):
                assert record.offset == expected
                assert record.value == self.values[expected]
                expected += 1

    @invariant()
    def ends_agree(self) -> None:
        if hasattr(self, "log"):
            assert self.log.log_end_offset == len(self.values)
            assert self.log.recovery_point <= max(self.log.flushed_offset, self.start)
            assert self.log.flushed_offset <= self.log.log_end_offset


LogMachine.TestCase.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None, derandomize=True
)
TestLog = LogMachine.TestCase
