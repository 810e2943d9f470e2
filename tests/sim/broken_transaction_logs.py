"""Broken parts of logs that have transactions; all are compiled leaves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from odradek.log.open_transactions import NO_OFFSET, OpenTransactions
from odradek.log.producer_state import NO_TRANSACTION, ProducerState, SnapshotEntry
from odradek.log.recovery import LogLoader
from odradek.log.segment import Segment
from odradek.log.transaction_index import TransactionIndex
from odradek.replication.partition import Partition


def takes_the_high_watermark_for_stable(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "last_stable_offset", property(lambda self: self.high_watermark))


def lists_nothing_as_aborted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "aborted_transactions", lambda self, read: [])


def writes_no_index_of_aborted_transactions(patch: pytest.MonkeyPatch) -> None:
    def write_out(self: TransactionIndex) -> None:
        self.written = len(self.entries)

    def find_transactions(self: LogLoader, segments: list[Segment], names: set[str]) -> None:
        """Load the indexes that there are, and miss none."""
        for segment in segments:
            if f"{segment.base_offset:020d}.txnindex" in names:
                segment.use_transaction_index().load_and_summarise()

    patch.setattr(TransactionIndex, "write_out", write_out)
    patch.setattr(LogLoader, "_find_transactions", find_transactions)


def counts_markers_before_they_are_replicated(patch: pytest.MonkeyPatch) -> None:
    ends = OpenTransactions.end

    def end(self: OpenTransactions, first_offset: int, marker_offset: int) -> int:
        stable = ends(self, first_offset, marker_offset)
        self.replicated_to(marker_offset + 1)
        return stable

    patch.setattr(OpenTransactions, "end", end)


def forgets_open_transactions_when_it_starts(patch: pytest.MonkeyPatch) -> None:
    resets = ProducerState.reset

    def reset(self: ProducerState, rows: Iterable[SnapshotEntry] = (), end_offset: int = 0) -> None:
        none_open = [replace(each, current_txn_first_offset=NO_TRANSACTION) for each in rows]
        resets(self, none_open, end_offset)

    patch.setattr(ProducerState, "reset", reset)


def forgets_open_transactions_when_it_leads(patch: pytest.MonkeyPatch) -> None:
    lead = Partition.make_leader

    def make_leader(self: Partition, *arguments: Any) -> bool:
        self.log.producers.transactions.first_unstable = NO_OFFSET
        return lead(self, *arguments)

    patch.setattr(Partition, "make_leader", make_leader)
