"""The metadata log as it is opened."""

from __future__ import annotations

import pytest

from odradek.config.broker import BrokerConfig
from odradek.log import recovery
from odradek.log.durable_ends import DurableEnds
from odradek.log.fence import Fence
from odradek.log.index import IndexCache
from odradek.log.log import Log
from odradek.log.memory_disk import MemoryDisk
from odradek.model.byte_ranges import ByteRange
from odradek.protocol.validate import BatchRules, ValidBatch, validate
from odradek.raft.raft_log import open_metadata_partition
from unit.raft.raft_nodes import batch_of

DIRECTORY = "data/metadata"


def opened(disk: MemoryDisk) -> Log:
    return open_metadata_partition(
        disk,
        DIRECTORY,
        BrokerConfig(),
        Fence("data"),
        IndexCache(),
        DurableEnds(disk, "data"),
        now_ms=0,
    )


def append(log: Log, value: str) -> None:
    data = batch_of([value])
    batch = validate(ByteRange(data, 0, len(data)), BatchRules(), 0)
    assert isinstance(batch, ValidBatch)
    log.append(batch, 0, now_ms=0)


def test_records_that_were_written_and_not_synced_are_durable_once_the_log_is_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recovery, "SYNC_AT_ONCE_BYTES", 0)
    disk = MemoryDisk()
    disk.make_directory(DIRECTORY)
    log = opened(disk)
    append(log, "synced")
    log.flush()
    append(log, "written")
    again = opened(disk)
    assert (again.flushed_offset, again.log_end_offset, again.dirty) == (2, 2, False)
