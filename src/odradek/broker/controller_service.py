"""ControllerService: the active controller at work for the brokers of the cluster.

While this node is the active controller it has a `ClusterControl`: registrations and heartbeats are
decided there, its records submitted, and the answers sent when they are committed. What is due
(sessions that ended, passes over the partitions) is done step by step, a turn of the loop each.
When the leadership ends, what waits is answered NOT_CONTROLLER.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from odradek.controller.brokers import bootstrap
from odradek.controller.cluster_control import ClusterControl, refused
from odradek.controller.decision import ApiError, Parts
from odradek.controller.quorum_controller import NotController, RecordsTooLarge
from odradek.model.errors import ErrorCode
from odradek.protocol.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from odradek.protocol.api.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from odradek.timing.timer_task import TimerTask

if TYPE_CHECKING:
    from odradek.broker.broker import Broker

logger = logging.getLogger(__name__)

Respond = Callable[[Any], None]
NO_CONTROLLER = (NotController, RecordsTooLarge, OSError)


class ControllerService:
    """Owner thread."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._control: ClusterControl | None = None
        self._waiting: deque[tuple[int, Callable[[], None], Callable[[], None]]] = deque()
        self._alarm: TimerTask | None = None
        self._stepping = False
        broker.controller.on_change.append(self._controller_changed)

    # Requests

    def register(self, request: BrokerRegistrationRequest, respond: Respond) -> None:
        """Register a broker."""

        def fail(error: ErrorCode) -> None:
            respond(BrokerRegistrationResponse(error_code=error))

        if self._control is None:
            fail(ErrorCode.NOT_CONTROLLER)
        elif request.cluster_id != self._broker.directory.meta.cluster_id:
            fail(ErrorCode.INCONSISTENT_CLUSTER_ID)
        else:
            self._go_on(self._control.register(request, self._now_ms), respond, fail)

    def _go_on(
        self,
        parts: Parts[BrokerRegistrationResponse],
        respond: Respond,
        fail: Callable[[ErrorCode], None],
    ) -> None:
        """Submit the next part of a decision, and the one after it in another turn."""
        controller = self._broker.controller
        try:
            if not controller.is_active:
                raise NotController
            controller.submit(next(parts))
        except StopIteration as ended:
            response = ended.value
            self._when_committed(lambda: respond(response), lambda: fail(ErrorCode.NOT_CONTROLLER))
            self._step_soon()
        except ApiError as error:
            logger.warning("a broker is not registered: %s", error)
            fail(error.error)
        except NO_CONTROLLER as error:
            logger.debug("a registration ended: %s", error)
            parts.close()
            fail(ErrorCode.NOT_CONTROLLER)
        else:
            self._broker.env.call_soon(lambda: self._go_on(parts, respond, fail))

    def heartbeat(self, request: BrokerHeartbeatRequest, respond: Respond) -> None:
        """Keep a broker's session."""
        if self._control is None:
            respond(refused(ErrorCode.NOT_CONTROLLER))
            return
        decision = self._control.heartbeat(request, self._now_ms())
        response: BrokerHeartbeatResponse = decision.response
        try:
            self._broker.controller.submit(decision.records)
        except NO_CONTROLLER as error:
            logger.debug("a heartbeat was not decided: %s", error)
            respond(refused(ErrorCode.NOT_CONTROLLER))
            return
        self._when_committed(
            lambda: respond(response), lambda: respond(refused(ErrorCode.NOT_CONTROLLER))
        )
        self._step_soon()

    # Commits

    def _when_committed(self, committed: Callable[[], None], dropped: Callable[[], None]) -> None:
        self._waiting.append((self._broker.metadata.end_offset, committed, dropped))
        self.commit_advanced()

    def commit_advanced(self) -> None:
        """Send the answers whose records are committed."""
        offset = self._broker.metadata.committed_offset
        while self._waiting and self._waiting[0][0] <= offset:
            self._waiting.popleft()[1]()

    def _controller_changed(self) -> None:
        broker = self._broker
        controller = broker.controller
        self._control = None
        waiting, self._waiting = self._waiting, deque()
        for _, _, dropped in waiting:
            dropped()
        if not controller.is_active:
            return
        try:
            controller.submit(bootstrap(controller.pending, broker.config))
        except NO_CONTROLLER as error:
            logger.error("the active controller cannot begin: %s", error)
            return
        logger.info(
            "node %d is the active controller of epoch %d", broker.node_id, controller.epoch
        )
        self._control = ClusterControl(
            controller.pending,
            lambda: broker.config,
            lambda: broker.metadata.end_offset,
            self._now_ms(),
        )
        self._step_soon()

    # Steps that are due

    def _now_ms(self) -> int:
        return self._broker.clock.monotonic_ms()

    def _step_soon(self) -> None:
        if not self._stepping:
            self._stepping = True
            self._broker.env.call_soon(self._step)

    def _step(self) -> None:
        self._stepping = False
        control = self._control
        if control is None:
            return
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        now_ms = self._now_ms()
        try:
            self._broker.controller.submit(control.step(now_ms))
        except NO_CONTROLLER as error:
            logger.warning("what is due of the cluster waits for the next controller: %s", error)
            return
        if control.is_busy:
            self._step_soon()
        else:
            wait_ms = max(1, control.next_ms() - now_ms)
            self._alarm = self._broker.timer.call_later(wait_ms, self._step_soon)
