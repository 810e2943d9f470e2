"""The producer ids of one broker: blocks that the active controller grants, and a few at a time.

    no id left ─► a block is requested ─┬─ here: its record is committed ─────────────┐
                                        └─ elsewhere: AllocateProducerIds is answered ┴─► ids

A block is used only once a committed record grants it, so no id is given twice, also not after a
crash. A block whose answer was lost is never used: there are 2^63 ids.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.controller.brokers import allocate_producer_ids
from odradek.controller.metadata_log import MetadataLog
from odradek.controller.quorum_controller import NotController
from odradek.model.errors import error_code
from odradek.protocol.api.allocate_producer_ids import AllocateProducerIdsRequest
from odradek.timing import SystemTimer

if TYPE_CHECKING:
    from odradek.broker.controller_channel import ControllerCall, ControllerChannel

log = logging.getLogger(__name__)

WANTED_MS = 30_000
"""How long a request waits for an id."""
RETRY_MS = 50
"""The wait after a refusal of the controller; Kafka's."""


class ProducerIdManager:
    """The ids that this broker may give to its producers. Owner thread only."""

    def __init__(
        self,
        metadata: MetadataLog,
        node_id: int,
        timer: SystemTimer,
        block_arrived: Callable[[], None],
    ) -> None:
        """`block_arrived` is called when another node has granted a block."""
        self._metadata = metadata
        self._node_id = node_id
        self._timer = timer
        self._block_arrived = block_arrived
        self._granted: deque[int] = deque()
        self._pending: deque[tuple[int, range]] = deque()
        """Blocks of this node's own records, with the offset whose commit grants them."""
        self._channel: ControllerChannel | None = None
        self._is_active_here: Callable[[], bool] = lambda: True
        self._broker_epoch: Callable[[], int] = lambda: -1
        self._asked = False
        self._wanted_until_ms = 0
        metadata.controller.on_change.append(self.controller_changed)

    def ask_controller(
        self,
        channel: ControllerChannel,
        is_active_here: Callable[[], bool],
        broker_epoch: Callable[[], int],
    ) -> None:
        """Request blocks through this channel while another node is the active controller."""
        self._channel = channel
        self._is_active_here = is_active_here
        self._broker_epoch = broker_epoch

    def next_id(self) -> int | None:
        """The next id; None if there is none until a block is granted: see `request_block`."""
        return self._granted.popleft() if self.has_ids() else None

    def has_ids(self) -> bool:
        """True if there is an id to give."""
        while self._pending and self._pending[0][0] <= self._metadata.committed_offset:
            self._granted.extend(self._pending.popleft()[1])
        return bool(self._granted)

    def request_block(self) -> None:
        """Request a block, unless one is on its way. Raises `OSError` and
        `NotController`."""
        self._wanted_until_ms = self._timer.now_ms + WANTED_MS
        self._request()

    def _request(self) -> None:
        if self._channel is not None and not self._is_active_here():
            self._ask(self._channel)
        elif not self._pending:
            controller = self._metadata.controller
            decision = allocate_producer_ids(controller.pending, self._node_id)
            block = decision.response
            offset = controller.submit(decision.records)
            self._pending.append((offset, range(block.first, block.first + block.size)))

    def controller_changed(self) -> None:
        """Forget blocks that are not committed: the next controller may drop them, and give their
        offsets to other records."""
        self.has_ids()
        self._pending.clear()
        self._ask_again()

    def _ask(self, channel: ControllerChannel) -> None:
        if not self._asked:
            self._asked = True
            request = AllocateProducerIdsRequest(
                broker_id=self._node_id, broker_epoch=self._broker_epoch()
            )
            left_ms = self._wanted_until_ms - self._timer.now_ms
            channel.send(request, self._answered, max(1, left_ms))

    def _answered(self, call: ControllerCall) -> None:
        self._asked = False
        if call.is_here:
            self._ask_again()
        elif call.error is not None:
            log.warning("no producer ids from the active controller: %s", call.error)
        elif call.response.error_code:
            code = error_code(call.response.error_code)
            log.warning("no producer ids from the active controller: %s", code.name)
            self._timer.call_later(RETRY_MS, self._ask_again)
        else:
            first = call.response.producer_id_start
            self._granted.extend(range(first, first + call.response.producer_id_len))
            self._block_arrived()

    def _ask_again(self) -> None:
        """Request a block if requests still wait for ids."""
        if not self.has_ids() and self._timer.now_ms < self._wanted_until_ms:
            try:
                self._request()
            except (OSError, NotController) as error:
                log.error("requesting producer ids failed: %s", error)
