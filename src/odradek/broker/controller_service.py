"""ControllerService: the active controller at work for the brokers of the cluster.

While this node is the active controller it has a `ClusterControl`, which decides registrations,
heartbeats and removals. `alter_partition` decides the proposals of leaders about their in-sync
replicas. This module submits the records, and sends the answers when they are committed. Pending
work (sessions that ended, passes over the partitions) is done in steps, one in a turn of the loop.
When the leadership ends, all requests that wait are answered NOT_CONTROLLER.

A broker's session learns of the end of the connection over which its last heartbeat came. A session
that this controller has inherited learns that the quorum cannot reach the broker's node.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from odradek.broker.decision_in_parts import DecisionInParts
from odradek.config.broker import BrokerConfig
from odradek.controller.alter_partition import BROKER_EPOCHS_SINCE, alter_partition
from odradek.controller.alter_partition import refused as alteration_refused
from odradek.controller.brokers import bootstrap
from odradek.controller.cluster_control import ClusterControl, refused
from odradek.controller.decision import Parts
from odradek.controller.delta import MetadataDelta
from odradek.controller.image import MetadataImage, ResourceType
from odradek.controller.quorum_controller import NotController, RecordsTooLarge
from odradek.model.errors import ErrorCode
from odradek.protocol.api.alter_partition import AlterPartitionRequest
from odradek.protocol.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from odradek.protocol.api.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from odradek.protocol.api.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from odradek.raft.leader import Leader
from odradek.timing.timer_task import TimerTask

if TYPE_CHECKING:
    from odradek.broker.broker import Broker

logger = logging.getLogger(__name__)

T = TypeVar("T")
Respond = Callable[[Any], None]
RECENT_MS = 2_000
"""A node that could not be reached so short ago counts as unreachable."""
NO_CONTROLLER = (NotController, RecordsTooLarge, OSError)
UNCLEAN = BrokerConfig.unclean_leader_election_enable.name


class ControllerService:
    """Owner thread."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._control: ClusterControl | None = None
        self._waiting: deque[tuple[int, Callable[[], None], Callable[[], None]]] = deque()
        self._alarm: TimerTask | None = None
        self._stepping = False
        self._broker_of: dict[object, int] = {}
        self._connection_of: dict[int, object] = {}
        self._unreachable_ms: dict[int, int] = {}
        self._refused: dict[int, ErrorCode] = {}
        broker.controller.on_change.append(self._controller_changed)

    # Requests

    def register(self, request: BrokerRegistrationRequest, respond: Respond) -> None:
        """Register a broker."""

        def registered(response: BrokerRegistrationResponse) -> None:
            self._refused.pop(request.broker_id, None)
            respond(response)

        def fail(error: ErrorCode, message: str | None) -> None:
            if self._refused.get(request.broker_id) != error:  # It asks again and again.
                self._refused[request.broker_id] = error
                text = message or error.text
                logger.warning("broker %d is not registered: %s", request.broker_id, text)
            respond(BrokerRegistrationResponse(error_code=error))

        if self._control is None:
            respond(BrokerRegistrationResponse(error_code=ErrorCode.NOT_CONTROLLER))
        elif request.cluster_id != self._broker.directory.meta.cluster_id:
            fail(ErrorCode.INCONSISTENT_CLUSTER_ID, f"it belongs to cluster {request.cluster_id}")
        else:
            self._decide(self._control.register(request, self._now_ms), registered, fail)

    def unregister(self, request: UnregisterBrokerRequest, respond: Respond) -> None:
        """Remove a broker's registration."""

        def fail(error: ErrorCode, message: str | None) -> None:
            respond(UnregisterBrokerResponse(error_code=error, error_message=message))

        if self._control is None:
            fail(ErrorCode.NOT_CONTROLLER, None)
        else:
            self._decide(self._control.unregister(request), respond, fail)

    def alter_partition(
        self,
        request: AlterPartitionRequest,
        respond: Respond,
        version: int = BROKER_EPOCHS_SINCE,
    ) -> None:
        """Change in-sync replicas as their leader proposes. `version`: of the request."""
        controller = self._broker.controller

        def fail(error: ErrorCode, message: str | None) -> None:
            respond(alteration_refused(error))

        if self._control is None or not controller.is_active:
            fail(ErrorCode.NOT_CONTROLLER, None)
            return
        parts = alter_partition(controller.pending, request, version, lambda: self._broker.config)
        self._decide(parts, respond, fail)

    def _decide(
        self,
        parts: Parts[T],
        respond: Callable[[T], None],
        fail: Callable[[ErrorCode, str | None], None],
    ) -> None:
        """Submit a decision part by part, and respond when all of them are committed."""

        def decided(response: T) -> None:
            self._when_committed(
                lambda: respond(response), lambda: fail(ErrorCode.NOT_CONTROLLER, None)
            )
            self._step_soon()

        broker = self._broker
        DecisionInParts(broker.controller, broker.env.call_soon, parts, decided, fail).go_on()

    def heartbeat(
        self, request: BrokerHeartbeatRequest, respond: Respond, connection: object = None
    ) -> None:
        """Keep a broker's session. `connection`: the one that it came over, unless it is this
        node's own.
        """
        if self._control is None:
            respond(refused(ErrorCode.NOT_CONTROLLER))
            return
        if request.want_shut_down:
            self._note_progress(self._control)
        decision = self._control.heartbeat(request, self._now_ms())
        response: BrokerHeartbeatResponse = decision.response
        if connection is not None and response.error_code == ErrorCode.NONE:
            self._connected(request.broker_id, connection)
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

    def _note_progress(self, control: ClusterControl) -> None:
        """Note what others know to be committed, sooner than with their next heartbeats."""
        raft = self._broker.metadata.raft
        role = raft.core.role
        if isinstance(role, Leader):
            control.sessions.replayed(self._broker.node_id, raft.applied_offset - 1)
            for key, progress in role.progress.items():
                control.sessions.replayed(key.id, progress.high_watermark - 1)

    # Connections

    def _connected(self, broker_id: int, connection: object) -> None:
        before = self._connection_of.get(broker_id)
        if before is not connection:
            self._broker_of.pop(before, None)
            self._broker_of[connection] = broker_id
            self._connection_of[broker_id] = connection

    def connection_closed(self, connection: object) -> None:
        """A connection of another node ended."""
        broker_id = self._broker_of.pop(connection, None)
        if broker_id is None:
            return
        del self._connection_of[broker_id]
        if self._control is not None:
            self._control.disconnected(broker_id, self._now_ms())
            self._step_soon()

    def unreachable(self, node_id: int) -> None:
        """A node does not take connections of the quorum."""
        self._unreachable_ms[node_id] = self._now_ms()
        if self._control is not None:
            self._control.unreachable(node_id, self._now_ms())
            self._step_soon()

    def is_cut_off(self) -> bool:
        """True if so many voters take no connections that the others are no majority."""
        voters, since_ms = self._broker.metadata.raft.core.log.voters, self._now_ms() - RECENT_MS
        lost = {node_id for node_id, at_ms in self._unreachable_ms.items() if at_ms >= since_ms}
        return len(voters.ids - lost) < voters.majority

    # Commits

    def _when_committed(self, committed: Callable[[], None], dropped: Callable[[], None]) -> None:
        self._waiting.append((self._broker.metadata.end_offset, committed, dropped))
        self.commit_advanced()

    def metadata_committed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Send the answers that waited; elect again where an unclean election is allowed now."""
        self.commit_advanced()
        if self._control is not None and allows_unclean_elections(delta, image):
            self._control.look_again()
            self._step_soon()

    def commit_advanced(self) -> None:
        """Send the answers whose records are committed."""
        offset = self._broker.metadata.committed_offset
        while self._waiting and self._waiting[0][0] <= offset:
            self._waiting.popleft()[1]()

    def _controller_changed(self) -> None:
        broker = self._broker
        controller = broker.controller
        self._control = None
        self._refused.clear()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
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
        for node_id, at_ms in self._unreachable_ms.items():
            if self._now_ms() - at_ms < RECENT_MS:
                self._control.unreachable(node_id, self._now_ms())
        self._unreachable_ms.clear()
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
            logger.warning(
                "the controller's pending work is left to the next controller: %s", error
            )
            return
        if control.is_busy:
            self._step_soon()
        else:
            wait_ms = max(1, control.next_ms() - now_ms)
            self._alarm = self._broker.timer.call_later(wait_ms, self._step_soon)


def allows_unclean_elections(delta: MetadataDelta, image: MetadataImage) -> bool:
    """True if a changed setting allows unclean elections, of an older topic or of the cluster."""
    for resource in delta.configs:
        if resource.type is ResourceType.TOPIC:
            topic = image.topic(resource.name)
            if topic is None or topic.id in delta.created:
                continue
        if image.config(resource).get(UNCLEAN) == "true":
            return True
    return False
