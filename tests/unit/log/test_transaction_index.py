"""The index of aborted transactions: its format, its search, and that it follows its segment."""

from __future__ import annotations

import errno
from dataclasses import replace
from random import Random

import pytest
from fastcrc.crc32 import iscsi as crc32c

from odradek import leaves
from odradek.log.fence import LogDamaged
from odradek.log.log import Log
from odradek.log.memory_disk import MemoryDisk
from odradek.log.retention import delete_old_segments
from odradek.log.transaction_index import ENTRY, AbortedTransaction, TransactionIndex
from unit.log.log_making import DIRECTORY, SMALL, batch, files, fill, new_log, reopen
from unit.log.transactions import Transactional

COMMIT, ABORT = True, False


def an_index(entries: list[AbortedTransaction]) -> TransactionIndex:
    index = TransactionIndex(MemoryDisk(), "00000000000000000000.txnindex", 0, "")
    for entry in entries:
        index.add(entry)
    return index


def aborted(log: Log, start: int = 0, end: int | None = None) -> list[tuple[int, int, int]]:
    """The aborted transactions between two offsets: (producer id, first, last offset)."""
    until = log.log_end_offset if end is None else end
    return [entry[:3] for entry in log.segments.aborted_transactions(start, until)]


def abort_one(log: Log, producer_id: int, records: int = 1) -> tuple[int, int, int]:
    """Append an aborted transaction; return its row of the index."""
    producer = Transactional(log, producer_id)
    first = producer.send(records).base_offset
    return producer_id, first, producer.end(ABORT).base_offset


class TestFormat:
    def test_an_entry_has_version_producer_and_three_offsets(self) -> None:
        disk = MemoryDisk()
        log = new_log(disk)
        abort_one(log, 258)
        log.flush(checkpoint=True)
        (content,) = files(disk, ".txnindex").values()
        assert content.hex() == (
            "00000000000000000102000000000000000000000000000000010000000000000002"
        )

    def test_the_first_checkpoint_with_an_index_makes_its_name_durable(self) -> None:
        """Nobody would miss a lost file: most segments have none."""
        log = new_log(MemoryDisk())
        abort_one(log, 1)
        synced = []
        for _ in range(2):
            flush = log.begin_flush(checkpoint=True)
            assert flush is not None
            synced.append(DIRECTORY in flush.sync_directories)
            flush.run()
            log.end_flush(flush)
            abort_one(log, 2)
        assert synced == [True, False]

    def test_committed_transactions_and_empty_ones_leave_no_file(self) -> None:
        disk = MemoryDisk()
        log = new_log(disk)
        producer = Transactional(log)
        producer.send()
        producer.end(COMMIT)
        producer.end(ABORT)
        log.close()
        assert files(disk, ".txnindex") == {}
        assert log.segments.with_aborted == []

    def test_the_last_stable_offset_of_an_entry_is_the_first_undecided_one(self) -> None:
        log = new_log()
        first, second = Transactional(log, 1), Transactional(log, 2)
        first.send()
        second.send()
        second.end(ABORT)
        first.end(ABORT)
        assert log.segments.aborted_transactions(0, 4) == [
            AbortedTransaction(2, 1, 2, 0),
            AbortedTransaction(1, 0, 3, 4),
        ]


class TestSearch:
    @staticmethod
    def random_entries(random: Random, count: int) -> list[AbortedTransaction]:
        """The entries of interleaved transactions, some of them long."""
        opened: list[tuple[int, int]] = []
        entries: list[AbortedTransaction] = []
        offset = 0
        while len(entries) < count:
            offset += random.randint(1, 3)
            if not opened or (len(opened) < 4 and random.random() < 0.5):
                opened.append((offset, random.randrange(1000)))
            else:
                last = len(opened) - 1
                keeps_oldest = last > 0 and random.random() < 0.95
                first, producer_id = opened.pop(random.randint(1, last) if keeps_oldest else 0)
                stable = min((begun for begun, _ in opened), default=offset + 1)
                entries.append(AbortedTransaction(producer_id, first, offset, stable))
        return entries

    def test_it_finds_what_overlaps(self) -> None:
        random = Random(7)
        for count in (1, 5, 40, 700):
            entries = self.random_entries(random, count)
            index = an_index(entries)
            highest = entries[-1].last_offset + 5
            for _ in range(150):
                start = random.randrange(highest)
                end = start + random.randint(1, random.choice((3, 50, highest)))
                found: list[AbortedTransaction] = []
                index.collect(start, end, found)
                assert found == [
                    entry
                    for entry in entries
                    if entry.last_offset >= start and entry.first_offset < end
                ]

    def test_it_tells_when_later_segments_have_no_more(self) -> None:
        index = an_index([AbortedTransaction(1, 5, 9, 10), AbortedTransaction(2, 20, 30, 12)])
        assert index.collect(0, 10, []), "all that began before 10 have ended"
        assert not index.collect(0, 15, []), "one that began at 12 is open"
        assert not index.collect(0, 100, [])

    @pytest.mark.skipif(leaves.mode() == "compiled", reason="a compiled class has no such subclass")
    def test_among_many_aborted_it_reads_few_entries(self) -> None:
        entries = [AbortedTransaction(n, 3 * n, 3 * n + 2, 3 * n + 3) for n in range(100_000)]
        index = CountingIndex(MemoryDisk(), "i", 0, "")
        for entry in entries:
            index.add(entry)
        found: list[AbortedTransaction] = []
        index.collect(150_000, 150_009, found)
        assert found == entries[50_000:50_003]
        assert index.read <= 5

    @pytest.mark.skipif(leaves.mode() == "compiled", reason="a compiled class has no such subclass")
    def test_a_transaction_that_was_open_for_long_does_not_make_it_read_all_others(self) -> None:
        index = CountingIndex(MemoryDisk(), "i", 0, "")
        for n in range(1, 50_000):
            index.add(AbortedTransaction(n, 3 * n, 3 * n + 2, 0))
        longest = AbortedTransaction(7, 0, 150_000, 150_001)
        index.add(longest)
        found: list[AbortedTransaction] = []
        assert index.collect(300, 306, found)
        assert found == [
            AbortedTransaction(100, 300, 302, 0),
            AbortedTransaction(101, 303, 305, 0),
            longest,
        ]
        assert index.read < 60


class CountingIndex(TransactionIndex):
    """Counts the entries that are read."""

    read = 0

    def at(self, slot: int) -> AbortedTransaction:
        self.read += 1
        return super().at(slot)


class TestWithItsSegment:
    def test_it_is_in_the_segment_of_the_marker(self) -> None:
        disk = MemoryDisk()
        log = new_log(disk)
        producer = Transactional(log)
        producer.send()
        log.roll(0)
        fill(log, 1)
        producer.end(ABORT)
        log.roll(0)
        assert aborted(log, 0, 1) == [(producer.producer_id, 0, 3)]
        assert list(files(disk, ".txnindex")) == ["00000000000000000001.txnindex"]

    def test_segments_without_aborted_transactions_are_not_looked_at(self) -> None:
        log = new_log()
        expected = [abort_one(log, 1)]
        for _ in range(5):
            log.roll(0)
            fill(log, 1)
        log.roll(0)
        expected.append(abort_one(log, 2))
        assert [segment.base_offset for segment in log.segments.with_aborted] == [0, 12]
        assert aborted(log) == expected
        assert aborted(log, 2, 12) == []

    def test_it_is_read_again_after_it_was_unloaded(self) -> None:
        log = new_log()
        expected = abort_one(log, 1)
        log.roll(0)
        index = log.segments.items[0].transaction_index
        assert index is not None
        index.unload()
        assert aborted(log) == [expected]
        assert index.loaded

    def test_an_index_that_changed_while_it_was_unloaded_is_damage(self) -> None:
        disk = MemoryDisk()
        log = new_log(disk)
        abort_one(log, 1)
        log.roll(0)
        index = log.segments.items[0].transaction_index
        assert index is not None
        index.unload()
        del disk.files[f"{DIRECTORY}/00000000000000000000.txnindex"].content[:]
        with pytest.raises(LogDamaged, match="has changed"):
            aborted(log)

    def test_truncation_removes_the_transactions_whose_markers_are_gone(self) -> None:
        disk = MemoryDisk()
        log = new_log(disk)
        kept = abort_one(log, 1)
        log.roll(0)
        again = abort_one(log, 2)
        abort_one(log, 3)
        log.roll(0)
        abort_one(log, 4)
        log.flush(checkpoint=True)
        log.truncate_to(5)
        assert aborted(log) == [kept, again]
        assert log.producers.transactions.producer_ids == [3], "its marker is gone, its batch not"
        assert log.segments.active.base_offset == 2
        abort_one(log, 5)
        assert len(aborted(log)) == 3
        log.truncate_to(1)
        assert aborted(log) == []
        assert log.producers.transactions.producer_ids == [1]

    def test_a_restart_of_a_followers_log_removes_all(self) -> None:
        disk = MemoryDisk()
        log = new_log(disk)
        abort_one(log, 1)
        log.roll(0)
        abort_one(log, 2)
        log.flush(checkpoint=True)
        log.truncate_fully_and_start_at(100)
        assert (aborted(log, 0, 200), files(disk, ".txnindex")) == ([], {})

    def test_it_is_deleted_with_its_segment(self) -> None:
        disk = MemoryDisk()
        log = new_log(disk, replace(SMALL, retention_ms=100))
        abort_one(log, 1)
        log.roll(0)
        kept = abort_one(log, 2)
        log.flush(checkpoint=True)
        log.high_watermark = log.log_end_offset
        log.log_start_offset = 2
        deletion = delete_old_segments(log, now_ms=1500)
        assert deletion is not None
        deletion.rename()
        assert list(files(disk, ".txnindex.deleted")) == ["00000000000000000000.txnindex.deleted"]
        deletion.close()
        deletion.remove()
        assert files(disk, ".txnindex.deleted") == {}
        assert aborted(log) == [kept]


class TestOpening:
    @pytest.fixture
    def disk(self) -> MemoryDisk:
        return MemoryDisk()

    def make(self, disk: MemoryDisk) -> tuple[Log, list[tuple[int, int, int]]]:
        """A log of four segments: a transaction over two of them, and one that is open."""
        log = new_log(disk)
        rows = [abort_one(log, 1)]
        long = Transactional(log, 2)
        long.send()
        log.roll(0)
        rows.append(abort_one(log, 3))
        log.roll(0)
        rows.append((2, 2, long.end(ABORT).base_offset))
        Transactional(log, 4).send()
        log.roll(0)
        fill(log, 1)
        return log, rows

    def test_a_clean_stop_writes_it(self, disk: MemoryDisk) -> None:
        log, rows = self.make(disk)
        end = log.log_end_offset
        log.close()
        again, _ = reopen(disk, clean=True, recovery_point=end)
        assert aborted(again) == rows
        index = again.segments.items[0].transaction_index
        assert again.producers.transactions.producer_ids == [4]
        assert index is not None and again.producers.transactions.first_unstable == 6

    def test_the_index_of_the_active_segment_goes_on(self, disk: MemoryDisk) -> None:
        log = new_log(disk)
        rows = [abort_one(log, 1)]
        log.close()
        again, _ = reopen(disk, clean=True, recovery_point=2)
        rows.append(abort_one(again, 2))
        again.close()
        again, _ = reopen(disk, clean=True, recovery_point=4)
        assert aborted(again) == rows

    @pytest.mark.parametrize("recovery_point", [0, 2, 3, 5, 6])
    def test_a_recovery_makes_it_again_from_the_recovery_point(
        self, disk: MemoryDisk, recovery_point: int
    ) -> None:
        log, rows = self.make(disk)
        end = log.log_end_offset
        log.flush(checkpoint=True)
        again, _ = reopen(disk, recovery_point=recovery_point, durable_end=end)
        assert aborted(again) == rows
        assert again.producers.transactions.producer_ids == [4]
        assert [segment.transaction_index is not None for segment in again.segments.items] == [
            True,
            True,
            True,
            False,
        ]

    def test_an_index_that_is_ahead_of_a_torn_log_is_cut(self, disk: MemoryDisk) -> None:
        log = new_log(disk)
        kept = abort_one(log, 1)
        log.flush(checkpoint=True)
        Transactional(log, 2).send()
        size = log.size
        Transactional(log, 2).end(ABORT)
        log.flush(checkpoint=True)
        assert len(files(disk, ".txnindex")["00000000000000000000.txnindex"]) == 2 * ENTRY.size
        disk.files[f"{DIRECTORY}/00000000000000000000.log"].truncate(size)
        again, _ = reopen(disk, recovery_point=2)
        assert aborted(again) == [kept]
        assert again.producers.transactions.producer_ids == [2]

    @pytest.mark.parametrize("clean", [True, False])
    @pytest.mark.parametrize("segment", [0, 1, 2])
    @pytest.mark.parametrize(
        "damage",
        ["cut", "zeros", "version", "order", "beyond", "stable", "producer", "first", "missing"],
    )
    def test_a_damaged_index_is_made_again(
        self, disk: MemoryDisk, damage: str, segment: int, clean: bool
    ) -> None:
        log, rows = self.make(disk)
        end = log.log_end_offset
        log.close()
        name = sorted(files(disk, ".txnindex"))[segment]
        sound = files(disk)[name]
        content = disk.files[f"{DIRECTORY}/{name}"].content
        if damage == "cut":
            del content[-3:]
        elif damage == "zeros":  # after a power loss
            content[:] = bytes(len(content))
        elif damage == "version":
            content[1] = 9
        elif damage == "order":
            content[:] = content * 2
        elif damage == "beyond":
            content[18:26] = (1 << 40).to_bytes(8, "big")
        elif damage == "producer":
            content[9] ^= 8
        elif damage == "first":
            content[17] ^= 1
        elif damage == "missing":
            disk.remove(f"{DIRECTORY}/{name}")
        else:
            content[26:34] = (1 << 40).to_bytes(8, "big")
        again, found = reopen(disk, clean=clean, recovery_point=end)
        assert found.rebuilt_transactions == 1
        assert aborted(again) == rows
        assert files(disk)[name] == sound
        _, found = reopen(disk, clean=clean, recovery_point=end)
        assert found.rebuilt_transactions == 0

    @pytest.mark.parametrize("clean", [True, False])
    def test_indexes_that_are_missing_together_are_made_again(
        self, disk: MemoryDisk, clean: bool
    ) -> None:
        log, rows = self.make(disk)
        end = log.log_end_offset
        log.close()
        for name in files(disk):
            if name.endswith("index"):
                disk.remove(f"{DIRECTORY}/{name}")
        again, _ = reopen(disk, clean=clean, recovery_point=end)
        assert aborted(again) == rows

    def test_entries_beyond_the_end_of_the_log_are_cut_off(self, disk: MemoryDisk) -> None:
        log = new_log(disk)
        rows = [abort_one(log, 1)]
        producer = Transactional(log, 2)
        producer.send()
        end = log.log_end_offset
        producer.end(ABORT)
        log.flush(checkpoint=True)
        before = bytes(disk.files[f"{DIRECTORY}/00000000000000000000.txnindex"].content)
        log.truncate_to(end)
        log.close()
        disk.replace_file(f"{DIRECTORY}/00000000000000000000.txnindex", before)
        again, _ = reopen(disk, clean=True, recovery_point=end)
        assert aborted(again, 0, 9) == rows

    def test_an_index_without_its_segment_is_removed(self, disk: MemoryDisk) -> None:
        log = new_log(disk)
        fill(log, 1)
        log.close()
        disk.replace_file(f"{DIRECTORY}/00000000000000000900.txnindex", b"")
        reopen(disk, clean=True, recovery_point=2)
        assert files(disk, ".txnindex") == {}


class TestReads:
    def test_a_read_lists_what_overlaps_its_batches(self) -> None:
        log = new_log(config=replace(SMALL, segment_bytes=100_000))
        rows = [abort_one(log, n) for n in range(40)]
        read = log.read(6, 3 * 160, log.log_end_offset)
        listed = [entry[:3] for entry in log.aborted_transactions(read, log.log_end_offset)]
        read.release()
        assert rows[3] in listed and rows[4] in listed
        assert len(listed) < 8

    def test_a_read_of_an_older_segment_ends_by_its_index(self) -> None:
        log = new_log(config=replace(SMALL, segment_bytes=1 << 20))
        rows = [abort_one(log, n) for n in range(40)]
        log.roll(0)
        fill(log, 1)
        read = log.read(6, 3 * 160, log.log_end_offset)
        listed = [entry[:3] for entry in log.aborted_transactions(read, log.log_end_offset)]
        read.release()
        assert rows[3] in listed and rows[4] in listed
        assert len(listed) < 8

    def test_a_read_that_ends_with_its_segment_needs_no_more(self) -> None:
        log = new_log()
        producer = Transactional(log, 1)
        producer.send()
        log.roll(0)
        late = producer.end(ABORT).base_offset
        abort_one(log, 2)
        read = log.read(0, 1, log.log_end_offset)
        assert [entry[:3] for entry in log.aborted_transactions(read, 4)] == [(1, 0, late)]
        read.release()

    def test_without_records_nothing_is_listed(self) -> None:
        log = new_log()
        abort_one(log, 1)
        log.append(batch(), 0, 0)
        read = log.read(log.log_end_offset, 100, log.log_end_offset)
        assert log.aborted_transactions(read, log.log_end_offset) == []


class KilledDisk(MemoryDisk):
    """The process is killed when so many effects are left."""

    left = -1

    def effect(self, kind: str, path: str) -> None:
        if self.left == 0:
            raise Killed
        self.left -= 1


class Killed(BaseException):
    pass


class TestChecksum:
    NAME = f"{0:020d}.txnsum"

    def test_it_is_written_when_the_recovery_point_moves(self) -> None:
        disk = MemoryDisk()
        log = new_log(disk)
        abort_one(log, 1)
        log.flush()
        assert files(disk, ".txnsum") == {}
        log.flush(checkpoint=True)
        content = files(disk)[f"{0:020d}.txnindex"]
        assert files(disk)[self.NAME].hex() == f"{1:08x}{crc32c(content):08x}"

    def test_the_recovery_point_does_not_move_without_room_for_it(self) -> None:
        class FullDisk(MemoryDisk):
            full = True

            def effect(self, kind: str, path: str) -> None:
                if self.full and kind == "replace" and path.endswith(".txnsum"):
                    raise OSError(errno.ENOSPC, "no space", path)

        disk = FullDisk()
        log = new_log(disk)
        abort_one(log, 1)
        log.flush(checkpoint=True)
        assert (log.recovery_point, log.flushed_offset) == (0, 2)
        disk.full = False
        log.flush(checkpoint=True)
        assert log.recovery_point == 2
        assert self.NAME in files(disk)

    def test_entries_after_it_are_no_damage(self) -> None:
        disk = MemoryDisk()
        log = new_log(disk)
        rows = [abort_one(log, 1)]
        log.flush(checkpoint=True)
        rows.append(abort_one(log, 2))
        log.roll(0)  # writes the index; the process dies before the next checkpoint
        again, found = reopen(disk, recovery_point=2)
        assert aborted(again) == rows
        assert found.rebuilt_transactions == 0

    def test_it_is_removed_before_its_entries_are_cut_and_written_again_at_a_stop(self) -> None:
        disk = MemoryDisk()
        log = new_log(disk)
        kept = abort_one(log, 1)
        abort_one(log, 2)
        log.flush(checkpoint=True)
        log.truncate_to(2)
        assert files(disk, ".txnsum") == {}
        log.close()
        assert len(files(disk)[f"{0:020d}.txnindex"]) == ENTRY.size
        assert files(disk)[self.NAME][:4].hex() == "00000001"
        again, found = reopen(disk, clean=True, recovery_point=2)
        assert (aborted(again), found.rebuilt_transactions) == ([kept], 0)

    def test_a_truncation_above_its_entries_leaves_it(self) -> None:
        disk = MemoryDisk()
        log = new_log(disk)
        abort_one(log, 1)
        log.flush(checkpoint=True)
        before = files(disk, ".txnsum")
        abort_one(log, 2)
        log.truncate_to(2)
        assert files(disk, ".txnsum") == before != {}

    def test_an_index_of_an_older_version_gets_one_when_its_log_goes_on(self) -> None:
        disk = MemoryDisk()
        log = new_log(disk)
        rows = [abort_one(log, 1)]
        log.close()
        disk.remove(f"{DIRECTORY}/{self.NAME}")
        again, found = reopen(disk, clean=True, recovery_point=2)
        assert (aborted(again), found.rebuilt_transactions) == (rows, 0)
        fill(again, 1)
        again.close()
        assert self.NAME in files(disk)

    def test_it_goes_with_its_segment(self) -> None:
        disk = MemoryDisk()
        log = new_log(disk, replace(SMALL, retention_ms=100))
        abort_one(log, 1)
        log.roll(0)
        fill(log, 1)
        log.flush(checkpoint=True)
        log.high_watermark = log.log_end_offset
        log.log_start_offset = 2
        deletion = delete_old_segments(log, now_ms=1500)
        assert deletion is not None
        deletion.rename()
        assert list(files(disk, ".txnsum.deleted")) == [f"{0:020d}.txnsum.deleted"]
        deletion.close()
        deletion.remove()
        assert [name for name in files(disk) if "txn" in name] == []
        disk.replace_file(f"{DIRECTORY}/{self.NAME}", b"")
        log.close()
        reopen(disk, clean=True, recovery_point=log.log_end_offset)
        assert files(disk, ".txnsum") == {}, "without its segment it is removed"

    def test_one_of_a_replaced_segment_without_aborted_transactions_goes_at_the_start(self) -> None:
        disk = MemoryDisk()
        log = new_log(disk)
        fill(log, 1)
        log.close()
        disk.replace_file(f"{DIRECTORY}/{self.NAME}", bytes(8))
        for rebuilt in (1, 0):
            again, found = reopen(disk, clean=True, recovery_point=2)
            assert (aborted(again), found.rebuilt_transactions) == ([], rebuilt)

    @pytest.mark.parametrize("clean", [True, False])
    @pytest.mark.parametrize("damage", ["missing", "producer"])
    def test_a_start_that_is_killed_leaves_lost_indexes_to_be_found(
        self, damage: str, clean: bool
    ) -> None:
        kills = 0
        while True:
            disk = KilledDisk()
            log, rows = TestOpening().make(disk)
            end = log.log_end_offset
            log.close()
            for name in files(disk, ".txnindex"):
                if damage == "missing":
                    disk.remove(f"{DIRECTORY}/{name}")
                else:
                    disk.files[f"{DIRECTORY}/{name}"].content[9] ^= 8
            disk.left = kills
            try:
                reopen(disk, clean=clean, recovery_point=end)
                break
            except Killed:
                kills += 1
                disk.left = -1
            again, _ = reopen(disk, clean=clean, recovery_point=end)
            assert aborted(again) == rows
        assert kills > 5
