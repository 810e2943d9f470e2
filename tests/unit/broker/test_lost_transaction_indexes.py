"""A start makes a lost index of aborted transactions again, and reports it."""

from __future__ import annotations

import pytest

from odradek.log.memory_disk import MemoryDisk
from odradek.model.errors import ErrorCode
from unit.broker.transactional_broker import TransactionalBroker


def test_a_lost_index_of_aborted_transactions_is_made_again_and_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = MemoryDisk()
    broker = TransactionalBroker(disk, transaction_partition_verification_enable="false")
    producer = broker.started()
    assert broker.add(producer) is ErrorCode.NONE
    broker.append_transactional(producer)
    assert broker.end(producer, committed=False, version=3)[0] is ErrorCode.NONE
    broker.run_until_idle()
    broker.node.stop(lambda: None)
    broker.run_until_idle()
    (lost,) = [path for path in disk.files if path.endswith(".txnindex")]
    disk.remove(lost)
    again = TransactionalBroker(disk)
    segments = again.node.replicas.by_name["t", 0].log.segments
    assert [row[:3] for row in segments.aborted_transactions(0, 9)] == [(producer[0], 0, 1)]
    (report,) = [text for text in caplog.messages if "aborted transactions" in text]
    assert report == (
        "the indexes of aborted transactions of t-0 were lost or damaged on the disk, and made "
        "again from its log"
    )
