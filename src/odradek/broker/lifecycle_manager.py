"""BrokerLifecycleManager: a broker's life in its cluster, from the quorum to its clients (KIP-631).

    quorum ─► registered ─► metadata caught up ─► `caught_up`: its logs are opened
                                               ─► unfenced: `ready`, clients may come

It carries out the effects of `lifecycle`: sends the requests to the active controller, which may be
this node itself, and tells what happened. It follows the leader of the quorum. Before the node
stops, it gives up its leaderships (`shut_down`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from odradek.broker.lifecycle import (
    BrokerLifecycle,
    BrokerState,
    CaughtUp,
    Effect,
    FenceChanged,
    LifecycleRequest,
    MayShutDown,
    Registered,
    RegistrationRefused,
    SendToController,
    SessionEnded,
    SessionResumed,
)
from odradek.network_client.errors import KafkaError
from odradek.network_client.in_flight_requests import ClientRequest
from odradek.network_client.network_client import ConnectionListener, NetworkClient
from odradek.protocol.api.broker_registration import BrokerRegistrationRequest
from odradek.timing.timer import CallTask

if TYPE_CHECKING:
    from odradek.broker.broker import Broker

logger = logging.getLogger(__name__)


class BrokerLifecycleManager(ConnectionListener):
    """Owner thread."""

    def __init__(
        self,
        broker: Broker,
        client: NetworkClient,
        lifecycle: BrokerLifecycle,
        *,
        registered: Callable[[int], None],
        caught_up: Callable[[], None],
        ready: Callable[[], None],
        refused: Callable[[str, bool], None],
    ) -> None:
        """`client`: for requests to the controller. `registered`: called with the epoch of this
        life. `caught_up`: called once, to open the logs, which ends in `logs_opened`. `ready`:
        called when clients may come. `refused`: called with the reason if this broker cannot join,
        and if that is since its id is taken.
        """
        self._broker = broker
        self._client = client
        self._registered = registered
        self._caught_up = caught_up
        self._ready = ready
        self._refused = refused
        self._alarm = CallTask(0, self._tick)
        self._stopped = False
        self._sent = 0
        self._may_stop: Callable[[], None] = lambda: None
        self._lifecycle = lifecycle
        client.listen(self)

    @property
    def epoch(self) -> int:
        """The epoch of this life's registration; `UNKNOWN_EPOCH` before it."""
        return self._lifecycle.epoch

    def start(self) -> None:
        """Begin to register."""
        self._perform(self._lifecycle.start(self._now_ms()))

    def shut_down(self, may_stop: Callable[[], None]) -> None:
        """Let the controller move the leaderships of this broker; then call `may_stop`, once."""
        if self._stopped or self._lifecycle.state is BrokerState.SHUTTING_DOWN:
            may_stop()
            return
        self._may_stop = may_stop
        self._perform(self._lifecycle.begin_controlled_shutdown(self._now_ms()))
        self._look_for_successors()

    def _look_for_successors(self) -> None:
        """End a controlled shutdown if no broker is left that could lead anything, or no quorum
        that could decide it: when all nodes stop together.
        """
        if self._lifecycle.state is not BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            return
        broker = self._broker
        others = (each for each in broker.image.brokers.values() if each.id != broker.node_id)
        cut_off = self._leader_id is None and broker.controller_service.is_cut_off()
        if cut_off or not any(each.active for each in others):
            self._perform(self._lifecycle.nobody_can_take_over(self._now_ms()))

    def stop(self) -> None:
        """Send nothing more."""
        self._stopped = True
        self._alarm.cancel()

    def metadata_committed(self) -> None:
        """The committed image has moved."""
        offset = self._broker.metadata.committed_offset - 1
        self._perform(self._lifecycle.metadata_applied(self._now_ms(), offset))
        self._look_for_successors()

    def controller_changed(self) -> None:
        """Another node leads the quorum, or none is known."""
        if self._leader_id is not None:
            self._perform(self._lifecycle.controller_changed(self._now_ms()))

    def node_disconnected(self, node_id: int, error: KafkaError) -> None:
        """A connection ended: if it was the controller's, keep the session over another one."""
        if node_id == self._leader_id:
            self._perform(self._lifecycle.connection_lost(self._now_ms()))

    def logs_opened(self) -> None:
        """This broker can serve its partitions."""
        self._perform(self._lifecycle.logs_opened(self._now_ms()))

    def directory_failed(self) -> None:
        """The data directory takes nothing more: the controller moves the leaderships."""
        directory_id = self._broker.directory.meta.directory_id
        self._perform(self._lifecycle.directories_failed(self._now_ms(), (directory_id,)))

    def directory_cordoned(self, cordoned: bool) -> None:
        """The data directory takes new partitions, or, if it is cordoned, none."""
        directories = (self._broker.directory.meta.directory_id,) if cordoned else ()
        self._perform(self._lifecycle.directories_cordoned(self._now_ms(), directories))

    def session_ended(self) -> bool:
        """True if the controller may have fenced this broker, which has not heard from it."""
        return self._lifecycle.session_ended

    @property
    def _leader_id(self) -> int | None:
        return self._broker.metadata.raft.core.leader_id

    def _now_ms(self) -> int:
        return self._broker.clock.monotonic_ms()

    def _tick(self) -> None:
        self._perform(self._lifecycle.tick(self._now_ms()))

    def _perform(self, effects: list[Effect]) -> None:
        if self._stopped:
            return
        for effect in effects:
            self._carry_out(effect)
        deadline = self._lifecycle.deadline
        self._alarm.cancel()
        if deadline is not None and not self._stopped:
            self._alarm = CallTask(0, self._tick)
            self._broker.timer.schedule(self._alarm, deadline)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case SendToController(request):
                self._send(request)
            case Registered(epoch):
                self._registered(epoch)
            case CaughtUp():
                self._caught_up()
            case FenceChanged(fenced):
                if fenced:
                    logger.warning("the controller fenced this broker")
                else:
                    self._ready()
            case SessionEnded():
                logger.warning(
                    "no answer from the controller for broker.session.timeout.ms: others may lead "
                    "the partitions of this broker now"
                )
                self._broker.replicas.check_isrs()
            case SessionResumed():
                logger.info("the controller answers again")
                self._broker.replicas.session_resumed()
            case MayShutDown(relieved):
                if not relieved:
                    logger.warning("this broker stops while it still leads partitions")
                self._may_stop()
            case RegistrationRefused(message, id_is_taken):
                self._refused(message, id_is_taken)

    # The controller

    def _send(self, request: LifecycleRequest) -> None:
        broker, leader_id = self._broker, self._leader_id
        self._sent = sent = self._sent + 1

        def answered(response: Any) -> None:
            if sent == self._sent:
                self._perform(self._lifecycle.answered(self._now_ms(), response))

        def failed() -> None:
            if sent == self._sent:
                self._perform(self._lifecycle.failed(self._now_ms()))
                self._look_for_successors()

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
