"""The active controller's decisions on brokers: registrations, heartbeats and what follows.

It has the soft state of one controller in one epoch: sessions (`broker_sessions`) and the pass over
the partitions that is under way (`partition_pass`). It is made on the pending image when this node
becomes the active controller, and dropped with that. All methods are the owner thread's; time and
offsets are arguments. The caller submits the records that it gets before it calls again.

    register, unregister    decisions in parts
    heartbeat               a decision, with the state that the broker gets
    step                    the next records of what is due: expired sessions, passes

The states of a broker, which are those of its registration (KIP-631):

    FENCED ──── caught up with its registration ───► UNFENCED ─── wants to stop, leads ──┐
      ▲ ▲                                              │    │                            ▼
      │ └───── session ended, wants to be fenced ──────┘    │             CONTROLLED_SHUTDOWN
      │                                                     │ leads nothing              │
      │                                                     ▼                            │
      └──────── SHUTDOWN_NOW: told to stop ◄────────────────┴─ leads nothing, and all ◄──┘
                                                               others know it

A change of a broker is one record; its partitions follow in a repair, part by part. Until then they
keep a leader that is fenced, which is as if the record came a moment later: its followers and its
clients learn of the new leader with the records of the repair.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from uuid import UUID

from odradek.config.broker import BrokerConfig
from odradek.controller.broker_sessions import BrokerSession, BrokerSessions
from odradek.controller.decision import ApiError, ControllerResult, Parts
from odradek.controller.image import BrokerRegistration, MetadataImage
from odradek.controller.partition_pass import leads, pass_over, rebalance, repair
from odradek.controller.registration import (
    FENCED,
    UNFENCED,
    amended,
    check_registration,
    departed,
    fenced_record,
    is_same_incarnation,
    registered,
    unregister,
)
from odradek.model.errors import ErrorCode
from odradek.protocol.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from odradek.protocol.api.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from odradek.protocol.api.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from odradek.protocol.metadata_records import BrokerRegistrationChangeRecord

logger = logging.getLogger(__name__)

IN_CONTROLLED_SHUTDOWN = 1


class BrokerControlState(Enum):
    """The state of a broker, or the one that it gets."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "in controlled shutdown"
    SHUTDOWN_NOW = "told to stop"

    @property
    def is_fenced(self) -> bool:
        return self in (BrokerControlState.FENCED, BrokerControlState.SHUTDOWN_NOW)


class ClusterControl:
    """The brokers as the active controller sees them."""

    def __init__(
        self,
        image: MetadataImage,
        config: Callable[[], BrokerConfig],
        end_offset: Callable[[], int],
        now_ms: int,
    ) -> None:
        """Take over: every unfenced broker has a whole session, and a repair is due.

        `image`: the pending one. `config`: returns this broker's present configuration.
        `end_offset`: returns the offset of the next record.
        """
        self.image = image
        self._config = config
        self._end_offset = end_offset
        self.sessions = BrokerSessions(config().broker_session_timeout_ms)
        self._departing: dict[int, UUID | None] = {}
        self._pass: Parts[None] | None = None
        self._passes_begun = 0
        self._passes_ended = 0
        self._pass_offset = -1
        self._repair_is_due = True
        self._rebalance_is_due = False
        self._next_rebalance_ms = now_ms + self._rebalance_interval_ms()
        for broker in image.brokers.values():
            if not broker.fenced:
                session = self.sessions.inherit(broker.id, broker.epoch, now_ms)
                if broker.in_controlled_shutdown:
                    session.shutdown_pass = 1

    # Registration

    def register(
        self, request: BrokerRegistrationRequest, now_ms: Callable[[], int]
    ) -> Parts[BrokerRegistrationResponse]:
        """Yield the records that register a broker, and return its epoch. Raises `ApiError`."""
        self._check_registration(request, now_ms())
        broker_id, is_new = request.broker_id, False
        if not is_same_incarnation(self.image, request):
            self.sessions.end(broker_id)
            self._departing[broker_id] = request.incarnation_id
            try:
                yield from departed(self.image, request, self._config)
                if self._departing.get(broker_id) != request.incarnation_id:
                    raise another_registers(broker_id)
                self._check_registration(request, now_ms())
                is_new = not is_same_incarnation(self.image, request)
                if is_new:  # Else a request that was sent twice was quicker.
                    epoch = self._end_offset()
                    # Now, not when all is written: another node may ask for the id meanwhile.
                    self.sessions.heard(broker_id, epoch, now_ms())
                    yield registered(self.image, request, epoch)
            finally:
                if self._departing.get(broker_id) == request.incarnation_id:
                    del self._departing[broker_id]
        if not is_new:
            yield amended(self.image, request)
            self._repair_is_due = True
        if not is_same_incarnation(self.image, request):
            raise another_registers(broker_id)
        epoch = self.image.brokers[broker_id].epoch
        self.sessions.heard(broker_id, epoch, now_ms())
        logger.info("broker %d registered with epoch %d", broker_id, epoch)
        return BrokerRegistrationResponse(error_code=ErrorCode.NONE, broker_epoch=epoch)

    def _check_registration(self, request: BrokerRegistrationRequest, now_ms: int) -> None:
        check_registration(self.image, request, in_session=self._is_in_session(request, now_ms))

    def _is_in_session(self, request: BrokerRegistrationRequest, now_ms: int) -> bool:
        """True if the present incarnation of a broker may still run.

        A process locks its directories. One that comes with the same directories, while nothing is
        connected as this broker, is the same broker after a restart.
        """
        present = self.image.brokers.get(request.broker_id)
        if present is None or not self.sessions.is_valid(present.id, present.epoch, now_ms):
            return False
        restarted = set(present.log_dirs) == set(request.log_dirs)
        return not (restarted and self.sessions.is_silent(present.id))

    def unregister(self, request: UnregisterBrokerRequest) -> Parts[UnregisterBrokerResponse]:
        """Yield the records that remove a broker's registration. Raises `ApiError`.

        Once the first of them is decided, its session has ended.
        """
        broker_id = request.broker_id
        parts = unregister(self.image, request, self._config)
        try:
            while True:
                records = next(parts)
                if records and broker_id not in self._departing:
                    self.sessions.end(broker_id)
                    self._departing[broker_id] = None
                yield records
        except StopIteration as ended:
            response: UnregisterBrokerResponse = ended.value
            return response
        finally:
            if self._departing.get(broker_id, broker_id) is None:
                del self._departing[broker_id]

    # Heartbeats

    def heartbeat(
        self, request: BrokerHeartbeatRequest, now_ms: int
    ) -> ControllerResult[BrokerHeartbeatResponse]:
        """Keep the session of a broker, and give it the state that it wants and may have."""
        broker = self.image.brokers.get(request.broker_id)
        if broker is None or broker.epoch != request.broker_epoch or broker.id in self._departing:
            return ControllerResult([], refused(ErrorCode.STALE_BROKER_EPOCH))
        session = self.sessions.heard(broker.id, broker.epoch, now_ms)
        session.metadata_offset = request.current_metadata_offset
        present, wanted = _state(broker), self._next_state(broker, session, request)
        change = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch)
        nothing = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch)
        if wanted is not present:
            logger.info("broker %d, %s, is now %s", broker.id, present.value, wanted.value)
            self._enter(wanted, broker, session, change)
        online = [each for each in broker.log_dirs if each not in request.offline_log_dirs]
        if online and len(online) < len(broker.log_dirs):
            change.log_dirs = online
            self._repair_is_due = True
        cordoned = request.cordoned_log_dirs
        if cordoned is not None and set(cordoned) != set(broker.cordoned_log_dirs or ()):
            change.cordoned_log_dirs = list(cordoned)
        response = BrokerHeartbeatResponse(
            error_code=ErrorCode.NONE,
            is_caught_up=_is_caught_up(broker, request),
            is_fenced=wanted.is_fenced,
            should_shut_down=wanted is BrokerControlState.SHUTDOWN_NOW,
            metadata_end=self._end_offset(),
        )
        return ControllerResult([] if change == nothing else [change], response)

    def _next_state(
        self, broker: BrokerRegistration, session: BrokerSession, request: BrokerHeartbeatRequest
    ) -> BrokerControlState:
        present = _state(broker)
        want_fence = request.want_fence or _has_lost_all(broker, request)
        if present is BrokerControlState.FENCED:
            if request.want_shut_down:
                return BrokerControlState.SHUTDOWN_NOW
            return (
                BrokerControlState.UNFENCED
                if _is_caught_up(broker, request) and not want_fence
                else BrokerControlState.FENCED
            )
        if present is BrokerControlState.CONTROLLED_SHUTDOWN:
            return BrokerControlState.SHUTDOWN_NOW if self._has_moved_all(session) else present
        if want_fence:
            return (
                BrokerControlState.SHUTDOWN_NOW
                if request.want_shut_down
                else BrokerControlState.FENCED
            )
        if request.want_shut_down:
            if leads(self.image, broker.id):
                return BrokerControlState.CONTROLLED_SHUTDOWN
            return BrokerControlState.SHUTDOWN_NOW
        return BrokerControlState.UNFENCED

    def _enter(
        self,
        state: BrokerControlState,
        broker: BrokerRegistration,
        session: BrokerSession,
        change: BrokerRegistrationChangeRecord,
    ) -> None:
        """Put a new state into the record of the change."""
        self._repair_is_due = True
        if state is BrokerControlState.UNFENCED:
            change.fenced = UNFENCED
        elif state is BrokerControlState.CONTROLLED_SHUTDOWN:
            change.in_controlled_shutdown = IN_CONTROLLED_SHUTDOWN
            session.shutdown_pass = self._passes_begun + 1
            session.shutdown_offset = None
        else:
            change.fenced = 0 if broker.fenced else FENCED
        if state is BrokerControlState.SHUTDOWN_NOW:
            self.sessions.end(broker.id)

    def _has_moved_all(self, session: BrokerSession) -> bool:
        """True if a broker in controlled shutdown leads nothing, and all active brokers know it."""
        if session.shutdown_pass is None or self._passes_ended < session.shutdown_pass:
            return False
        if session.shutdown_offset is None:
            session.shutdown_offset = self._pass_offset
        lowest = self.sessions.lowest_active_offset(self.image)
        return lowest is None or lowest >= session.shutdown_offset

    def disconnected(self, broker_id: int, now_ms: int) -> None:
        """Note that the connection of a broker's heartbeats has ended."""
        self.sessions.disconnected(broker_id, now_ms)

    def unreachable(self, broker_id: int, now_ms: int) -> None:
        """Note that a node does not take connections: counts if it was not heard from yet."""
        self.sessions.unreachable(broker_id, now_ms)

    # Steps that are due

    def look_again(self) -> None:
        """Have all partitions repaired, since a setting that elections depend on has changed."""
        self._repair_is_due = True

    @property
    def is_busy(self) -> bool:
        """True if `step` has something to do at once."""
        return self._pass is not None or self._repair_is_due or self._rebalance_is_due

    def next_ms(self) -> int:
        """Return when `step` is to be called next, if it is not busy."""
        end_ms = self.sessions.next_end_ms()
        due_ms = self._next_rebalance_ms
        return due_ms if end_ms is None else min(due_ms, end_ms)

    def step(self, now_ms: int) -> list[object]:
        """Return the next records of what is due: of one broker, or of one part of a pass."""
        while (expired := self.sessions.pop_expired(now_ms)) is not None:
            broker = self.image.brokers.get(expired[0])
            if broker is not None and broker.epoch == expired[1] and not broker.fenced:
                logger.warning("broker %d is fenced: no heartbeat from it", broker.id)
                self._repair_is_due = True
                return [fenced_record(broker)]
        if now_ms >= self._next_rebalance_ms:
            # A repair, too, elects for partitions whose topic allows it since.
            self._repair_is_due = True
            self._rebalance_is_due = self._config().auto_leader_rebalance_enable
            self._next_rebalance_ms = now_ms + self._rebalance_interval_ms()
        if self._pass is None:
            if self._repair_is_due:
                self._repair_is_due = False
                self._passes_begun += 1
                self._pass = pass_over(self.image, self._config, repair)
            elif self._rebalance_is_due:
                self._rebalance_is_due = False
                self._passes_begun += 1
                self._pass = pass_over(self.image, self._config, rebalance)
            else:
                return []
        try:
            records = next(self._pass)
        except StopIteration:
            self._pass = None
            self._passes_ended += 1
            return []
        if records:
            self._pass_offset = self._end_offset() + len(records) - 1
        return records

    def _rebalance_interval_ms(self) -> int:
        return self._config().leader_imbalance_check_interval_seconds * 1000


def another_registers(broker_id: int) -> ApiError:
    """Return what tells an incarnation that another one took its id while it registered."""
    return ApiError(
        ErrorCode.DUPLICATE_BROKER_REGISTRATION,
        f"Another incarnation of broker {broker_id} registers.",
    )


def refused(error: ErrorCode) -> BrokerHeartbeatResponse:
    """Return the response to a heartbeat that is not from a registered incarnation."""
    return BrokerHeartbeatResponse(error_code=error, should_shut_down=False)


def _state(broker: BrokerRegistration) -> BrokerControlState:
    if broker.fenced:
        return BrokerControlState.FENCED
    if broker.in_controlled_shutdown:
        return BrokerControlState.CONTROLLED_SHUTDOWN
    return BrokerControlState.UNFENCED


def _is_caught_up(broker: BrokerRegistration, request: BrokerHeartbeatRequest) -> bool:
    """True if the broker has replayed its own registration."""
    return request.current_metadata_offset >= broker.epoch


def _has_lost_all(broker: BrokerRegistration, request: BrokerHeartbeatRequest) -> bool:
    """True if all directories of the broker are offline."""
    return bool(broker.log_dirs) and set(request.offline_log_dirs).issuperset(broker.log_dirs)
