"""Asks for the committed offset of a transactional id's group, again and again, while it changes.

What it is told must be of a transaction that was to be committed, whatever becomes of the group's
offset later (`testing.transactions`): at the end only the last one can be seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odradek.model.topics import TopicPartition
from odradek.testing.scheduler import MS
from odradek.testing.transactions import OffsetRead, TransactionHistory
from odradek.testing.workload.cluster_client import ClusterClient
from odradek.testing.workload.group_offsets import NO_OFFSET, ask_offsets

PAUSE_MS = (5, 150)


@dataclass(slots=True, eq=False)
class SimOffsetWatcher:
    """Watches the group of one transactional id until it is stopped."""

    client: ClusterClient
    observed: TransactionHistory
    transactional_id: str
    group: str
    partitions: Sequence[TopicPartition]
    stopped: bool = False

    def start(self) -> None:
        if not self.stopped:
            ask_offsets(self.client, self.group, self.partitions, self._found)

    def _found(self, offsets: dict[TopicPartition, int]) -> None:
        offset = max(offsets.values(), default=NO_OFFSET)
        now_ns = self.client.process.scheduler.now_ns
        self.observed.offset_reads.append(
            OffsetRead(now_ns, self.transactional_id, offset, self.client.several)
        )
        pause_ms = self.client.chance.between(*PAUSE_MS)
        self.client.process.post(pause_ms * MS, "offset", self.start)
