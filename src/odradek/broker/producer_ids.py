"""Producer ids, handed out of blocks that committed records grant, so that none is given twice."""

from __future__ import annotations

from collections import deque

from odradek.controller.brokers import allocate_producer_ids
from odradek.controller.metadata_log import MetadataLog


class ProducerIds:
    """The ids of this broker. A block is used only once its record is committed."""

    def __init__(self, metadata: MetadataLog, node_id: int) -> None:
        self._metadata = metadata
        self._node_id = node_id
        self._granted: deque[int] = deque()
        self._pending: deque[tuple[int, range]] = deque()

    def take(self) -> int | None:
        """The next id; None if there is none until a block is committed (see `refill`)."""
        while self._pending and self._pending[0][0] <= self._metadata.committed_offset:
            self._granted.extend(self._pending.popleft()[1])
        return self._granted.popleft() if self._granted else None

    def refill(self) -> int:
        """Ask for a block if none is on its way; the offset whose commit brings one."""
        if not self._pending:
            decision = allocate_producer_ids(self._metadata.pending, self._node_id)
            block = decision.response
            offset = self._metadata.submit(decision.records)
            self._pending.append((offset, range(block.first, block.first + block.size)))
        return self._pending[-1][0]
