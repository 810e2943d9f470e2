"""Transactions in a log, step by step: batches, markers and what a reader would see."""

from __future__ import annotations

from odradek.log.log import AppendInfo, Log
from odradek.log.producer_state import TransactionMarker
from odradek.log.verification import VerificationGuard
from odradek.model.byte_ranges import ByteRange
from odradek.protocol.record_batch_builder import build
from odradek.protocol.validate import BatchRules, ValidBatch, validate

PRODUCER = 4711


def transactional(
    producer_id: int = PRODUCER,
    epoch: int = 0,
    sequence: int = 0,
    *,
    count: int = 1,
    timestamp: int = 1000,
) -> ValidBatch:
    """A transactional batch; a sequence of -1 is a coordinator's."""
    data = build(
        [(b"key", b"%d" % n, [], timestamp + n) for n in range(count)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
    )
    batch = validate(
        ByteRange(data, 0, len(data)), BatchRules(), timestamp, by_coordinator=sequence < 0
    )
    assert isinstance(batch, ValidBatch), batch
    return batch


class Transactional:
    """A producer that numbers its own batches in one log."""

    def __init__(self, log: Log, producer_id: int = PRODUCER, epoch: int = 0) -> None:
        self.log = log
        self.producer_id = producer_id
        self.epoch = epoch
        self.sequence = 0

    def send(
        self, count: int = 1, *, timestamp: int = 1000, guard: VerificationGuard | None = None
    ) -> AppendInfo:
        batch = transactional(
            self.producer_id, self.epoch, self.sequence, count=count, timestamp=timestamp
        )
        info = self.log.append(batch, 0, 0, guard)
        if not info.error:
            self.sequence += count
        return info

    def end(
        self,
        committed: bool = False,
        *,
        coordinator_epoch: int = 0,
        version: int = 0,
        now_ms: int = 2000,
    ) -> AppendInfo:
        """Append a marker; with transaction version 2 it begins the next epoch."""
        if version >= 2:
            self.epoch += 1
            self.sequence = 0
        marker = TransactionMarker(
            self.producer_id, self.epoch, coordinator_epoch, committed, version
        )
        return self.log.append_marker(marker, 0, now_ms)
