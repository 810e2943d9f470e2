"""After any restart the last five batches of a producer are known, not only the last one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from odradek.log import producer_snapshot
from odradek.log.fence import LogDamaged
from odradek.log.index import OFFSET_ENTRY
from odradek.log.log import Log
from odradek.log.memory_disk import MemoryDisk
from odradek.model.errors import ErrorCode
from odradek.protocol.record_batch import batches
from unit.log.log_making import SMALL, batch, fill, new_log, read, reopen


def sent(log: Log, producer_id: int, sequences: range) -> list[int]:
    """Append these batches and return their offsets: new ones, or those of duplicates."""
    found = []
    for sequence in sequences:
        info = log.append(batch(producer=(producer_id, 0, sequence)), 0, now_ms=0)
        assert info.error == ErrorCode.NONE, sequence
        found.append(info.base_offset)
    return found


@pytest.mark.parametrize("others", [0, 1, 7])
@pytest.mark.parametrize("clean", [True, False])
def test_a_batch_sent_again_after_a_restart_is_a_duplicate(clean: bool, others: int) -> None:
    disk = MemoryDisk()
    log = new_log(disk)
    before = []
    for sequence in range(9):
        before += sent(log, 7, range(sequence, sequence + 1))
        for other in range(others):
            sent(log, 100 + other, range(sequence, sequence + 1))
    end = log.flush(checkpoint=True)
    log.close()
    again, _ = reopen(disk, clean=clean, recovery_point=end)
    assert sent(again, 7, range(4, 9)) == before[4:]
    assert again.log_end_offset == end
    assert sent(again, 7, range(9, 10)) == [end]


@pytest.mark.parametrize("entry", range(12))
def test_a_wrong_index_entry_does_not_hide_batches(
    entry: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_snapshot, "LOOK_BACK_BYTES", 1000)
    disk = MemoryDisk()
    config = replace(SMALL, segment_bytes=1 << 20)
    log = new_log(disk, config)
    fill(log, 20)
    before = sent(log, 7, range(5))
    end = log.flush(checkpoint=True)
    log.close()
    index = disk.files[f"data/partition/{0:020d}.index"].content
    assert len(index) == 12 * OFFSET_ENTRY.size
    index[entry * OFFSET_ENTRY.size + 7] ^= 1  # of the entry's position
    again, _ = reopen(disk, config, clean=True, recovery_point=end)
    assert sent(again, 7, range(5)) == before


@pytest.mark.parametrize("damaged", range(1, 25))
def test_damage_among_earlier_batches_is_found_by_readers_only(
    damaged: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_snapshot, "LOOK_BACK_BYTES", 1000)
    disk = MemoryDisk()
    config = replace(SMALL, segment_bytes=1 << 20)
    log = new_log(disk, config)
    before = sent(log, 7, range(30))
    end = log.flush(checkpoint=True)
    log.close()
    content = disk.files[f"data/partition/{0:020d}.log"].content
    starts = [header.position for header in batches(bytes(content))]
    content[starts[damaged] + 16] ^= 9  # magic
    again, _ = reopen(disk, config, clean=True, recovery_point=end)
    if starts[damaged] < starts[-1] - 1000 - config.index_interval_bytes:
        assert sent(again, 7, range(25, 30)) == before[25:]
    with pytest.raises(LogDamaged):
        read(again, damaged, max_bytes=200)


def test_batches_of_an_older_epoch_are_not_restored() -> None:
    disk = MemoryDisk()
    log = new_log(disk)
    log.append(batch(producer=(7, 0, 0)), 0, now_ms=0)
    log.append(batch(producer=(7, 1, 0)), 0, now_ms=0)
    end = log.flush(checkpoint=True)
    log.close()
    again, _ = reopen(disk, recovery_point=end)
    fenced = again.append(batch(producer=(7, 0, 0)), 0, now_ms=0)
    assert fenced.error == ErrorCode.INVALID_PRODUCER_EPOCH
    assert again.append(batch(producer=(7, 1, 1)), 0, now_ms=0).base_offset == end
