"""ClusterMember: a broker's life in its cluster, from the quorum to its clients (KIP-631).

    quorum ─► registered ─► metadata caught up ─► `caught_up`: its logs are opened
                                               ─► unfenced: `ready`, clients may come

It carries out the effects of `lifecycle`: sends the requests to the active controller, which may be
this node itself, and tells what happened. It follows the leader of the quorum.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from odradek.broker.lifecycle import (
    BrokerLifecycle,
    CaughtUp,
    Effect,
    FenceChanged,
    LifecycleRequest,
    RegistrationRefused,
    SendToController,
)
from odradek.network_client.in_flight_requests import ClientRequest
from odradek.network_client.network_client import NetworkClient
from odradek.protocol.api.broker_registration import BrokerRegistrationRequest
from odradek.timing.timer import CallTask

if TYPE_CHECKING:
    from odradek.broker.broker import Broker

logger = logging.getLogger(__name__)


class ClusterMember:
    """Owner thread."""

    def __init__(
        self,
        broker: Broker,
        client: NetworkClient,
        lifecycle: BrokerLifecycle,
        *,
        caught_up: Callable[[], None],
        ready: Callable[[], None],
        refused: Callable[[str], None],
    ) -> None:
        """`client`: for requests to the controller. `caught_up`: called once, to open the logs,
        which ends in `logs_opened`. `ready`: called when clients may come. `refused`: called with
        the reason if this broker cannot join.
        """
        self._broker = broker
        self._client = client
        self._caught_up = caught_up
        self._ready = ready
        self._refused = refused
        self._alarm = CallTask(0, self._tick)
        self._stopped = False
        self.lifecycle = lifecycle

    def start(self) -> None:
        """Begin to register."""
        self._perform(self.lifecycle.start(self._now_ms()))

    def stop(self) -> None:
        """Send nothing more."""
        self._stopped = True
        self._alarm.cancel()

    def metadata_committed(self) -> None:
        """The committed image has moved."""
        offset = self._broker.metadata.committed_offset - 1
        self._perform(self.lifecycle.metadata_applied(self._now_ms(), offset))

    def controller_changed(self) -> None:
        """Another node leads the quorum."""
        self._perform(self.lifecycle.controller_changed(self._now_ms()))

    def logs_opened(self) -> None:
        """This broker can serve its partitions."""
        self._perform(self.lifecycle.logs_opened(self._now_ms()))

    def _now_ms(self) -> int:
        return self._broker.clock.monotonic_ms()

    def _tick(self) -> None:
        self._perform(self.lifecycle.tick(self._now_ms()))

    def _perform(self, effects: list[Effect]) -> None:
        if self._stopped:
            return
        for effect in effects:
            match effect:
                case SendToController(request):
                    self._send(request)
                case CaughtUp():
                    self._caught_up()
                case FenceChanged(fenced):
                    if fenced:
                        logger.warning("the controller fenced this broker")
                    else:
                        self._ready()
                case RegistrationRefused(message):
                    self._refused(message)
        deadline = self.lifecycle.deadline
        self._alarm.cancel()
        if deadline is not None and not self._stopped:
            self._alarm = CallTask(0, self._tick)
            self._broker.timer.schedule(self._alarm, deadline)

    # The controller

    def _send(self, request: LifecycleRequest) -> None:
        broker = self._broker
        leader_id = broker.metadata.raft.core.leader_id

        def answered(response: Any) -> None:
            self._perform(self.lifecycle.answered(self._now_ms(), response))

        def failed() -> None:
            self._perform(self.lifecycle.failed(self._now_ms()))

        def ended(call: ClientRequest) -> None:
            if call.error is None:
                answered(call.response)
            else:
                failed()

        if leader_id == broker.node_id:
            # Later, as an answer over a connection comes later.
            broker.env.call_soon(lambda: self._ask_here(request, answered))
        elif leader_id is None:
            broker.env.call_soon(failed)
        else:
            self._client.send(leader_id, request, ended)

    def _ask_here(self, request: LifecycleRequest, answered: Callable[[Any], None]) -> None:
        service = self._broker.controller_service
        if isinstance(request, BrokerRegistrationRequest):
            service.register(request, answered)
        else:
            service.heartbeat(request, answered)
