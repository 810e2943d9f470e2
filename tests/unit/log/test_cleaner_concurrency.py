"""A pass of compaction with readers, damage, dropped passes and truncations in between."""

from __future__ import annotations

from dataclasses import replace

import pytest

from odradek.log.compaction.segment_swap import LogCleaningAborted
from odradek.log.log import Log
from odradek.log.memory_disk import MemoryDisk
from odradek.log.scan import BadBatch
from unit.log.compacting import COMPACTED, a_pass, clean, roll_and_commit, run, shown, table, write
from unit.log.log_making import files, log_files, new_log, offsets, read, reopen

A = b"a"


def a_log(config=COMPACTED) -> Log:
    return new_log(MemoryDisk(), config)


class TestReaders:
    def test_slices_read_before_a_pass_keep_their_bytes(self):
        disk = MemoryDisk()
        log = new_log(disk, COMPACTED)
        write(log, *[[(A, b"%d" % n)] for n in range(20)])
        roll_and_commit(log)
        reading = log.read(0, 1 << 20, 20)
        before = b"".join(piece.read() for piece in reading.slices)
        cleaner = run(a_pass(log), log)
        for deletion in cleaner.deletions:
            deletion.close()
            deletion.remove()
        assert b"".join(piece.read() for piece in reading.slices) == before
        reading.release()

    def test_the_log_can_be_read_between_any_two_steps(self):
        log = a_log(replace(COMPACTED, segment_bytes=300))
        write(log, *[[(b"%d" % (n % 4), b"%d" % n)] for n in range(60)])
        roll_and_commit(log)
        expected, before = table(log), shown(log)
        for step in a_pass(log, chunk_bytes=200).steps():
            now = shown(log)
            assert [each for each in before if each in now] == now, "a subsequence"
            assert table(log) == expected
            if not isinstance(step, int):
                step(log)
        assert len(shown(log)) == 4

    def test_a_cached_end_position_is_not_used_after_a_swap(self):
        log = a_log()
        write(log, *[[(b"%d" % (n % 3), b"%d" % n)] for n in range(7)])
        roll_and_commit(log)
        assert offsets(read(log, 0, up_to=5)) == [(n, n) for n in range(5)]
        clean(log)
        assert offsets(read(log, 0, up_to=5)) == [(4, 4)]

    def test_replaced_files_are_removed_after_the_delay(self):
        disk = MemoryDisk()
        log = new_log(disk, replace(COMPACTED, file_delete_delay_ms=1234))
        write(log, *[[(A, b"%d" % n)] for n in range(20)])
        roll_and_commit(log)
        cleaner = run(a_pass(log), log)
        assert {deletion.delay_ms for deletion in cleaner.deletions} == {1234}
        assert files(disk, ".deleted")
        for deletion in cleaner.deletions:
            deletion.close()
            deletion.remove()
        left = [name for name in files(disk) if not name.endswith("index")]
        assert all(name.endswith((".log", ".snapshot", "checkpoint")) for name in left), left
        assert len(log_files(disk)) == len(log.segments)


class TestFailures:
    @pytest.mark.parametrize(
        ("byte", "what"), [(68, "checksum mismatch"), (70, "offset 72057594037927937")]
    )
    def test_a_damaged_batch_is_not_rewritten(self, byte: int, what: str):
        disk = MemoryDisk()
        log = new_log(disk, COMPACTED)
        write(log, [(A, b"1")], [(A, b"2")])
        roll_and_commit(log)
        path = log_files(disk)[0]
        disk.files[path].content[byte] ^= 1
        before = files(disk)
        with pytest.raises(BadBatch, match=what):
            clean(log)
        assert files(disk) == before

    def test_files_of_a_dropped_pass_are_removed_by_the_next_pass(self):
        disk = MemoryDisk()
        log = new_log(disk, COMPACTED)
        write(log, *[[(A, b"%d" % n)] for n in range(20)])
        roll_and_commit(log)
        before = files(disk)
        steps = a_pass(log, chunk_bytes=200).steps()
        while not files(disk, ".cleaned"):
            next(steps)
        steps.close()
        assert {name: data for name, data in files(disk).items() if "cleaned" not in name} == before
        clean(log)
        assert not files(disk, ".cleaned")
        assert shown(log)[-1] == (19, A, b"19")

    def test_a_pass_dropped_before_the_install_step_is_completed_by_the_next_start(self):
        disk = MemoryDisk()
        log = new_log(disk, COMPACTED)
        write(log, *[[(A, b"%d" % n)] for n in range(20)])
        roll_and_commit(log)
        steps = a_pass(log).steps()
        while isinstance(next(steps), int):
            pass
        steps.close()
        assert len(files(disk, ".swap")) == 3
        again, _ = reopen(disk, COMPACTED, recovery_point=20)
        assert not files(disk, ".swap")
        assert len(shown(again)) < 20
        assert shown(again)[-1] == (19, A, b"19")

    def test_a_truncation_aborts_the_pass(self):
        disk = MemoryDisk()
        log = new_log(disk, COMPACTED)
        write(log, *[[(A, b"%d" % n)] for n in range(4)])
        roll_and_commit(log)
        steps = a_pass(log).steps()
        take_over = next(step for step in steps if not isinstance(step, int))
        log.truncate_to(2)
        before = {name: data for name, data in files(disk).items() if "swap" not in name}
        with pytest.raises(LogCleaningAborted) as cut:
            take_over(log)
        with pytest.raises(LogCleaningAborted):
            steps.throw(cut.value)
        assert files(disk) == before
