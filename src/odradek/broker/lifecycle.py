"""The life of a broker in its cluster: registration, heartbeats, controlled shutdown.

    STARTING    registers at the active controller, then sends heartbeats until the controller says
                that this broker has applied the metadata up to its own registration
    RECOVERY    is caught up; goes on sending heartbeats, fenced, until its logs are open
    RUNNING     was unfenced: clients are told of it, and it may lead partitions. If the controller
                fences it later, its heartbeats ask to be unfenced again
    PENDING_CONTROLLED_SHUTDOWN
                asks to be relieved of its leaderships, until the controller allows it to stop or
                its patience has ended
    SHUTTING_DOWN
                sends nothing more

It is a state machine: every method takes the time and returns effects, in order. Only
`SendToController` needs an answer: `answered` or `failed`. At most one request is in flight, that
of the last `SendToController`: another one replaces it. `deadline` says when to call `tick`. Safety
rests on the broker's epoch, which is the offset of its registration: the controller refuses what an
older life of this broker sends.

This is Kafka's BrokerLifecycleManager (KIP-631) without its thread. As there, an id that is in use
is asked for again, because the session of a process that was killed ends only a moment later.
Differences: with a new directory that ends after a session's time, with the answer that the id is
taken. Another controller is sent a request at once, without a back-off or an answer of the one
before: so it learns who is alive. The present one is, too, when the connection to it was lost. And
a stop does not wait for long without any controller: when all nodes stop together, the last ones
have none.

Tests: unit/broker/test_lifecycle.py
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final
from uuid import UUID

from odradek.model.errors import ErrorCode, error_code
from odradek.network_client.backoff import ExponentialBackoff
from odradek.protocol.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from odradek.protocol.api.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)

logger = logging.getLogger(__name__)

LifecycleRequest = BrokerRegistrationRequest | BrokerHeartbeatRequest
LifecycleResponse = BrokerRegistrationResponse | BrokerHeartbeatResponse

UNKNOWN_EPOCH: Final = -1
NO_CONTROLLER: Final = (
    "no controller answered. What to do: start a majority of the voters of the cluster's quorum, "
    "and let each listen where the others reach it"
)
WAITS_MS: Final = 3_000
"""How long a registration may take before the log says what it waits for."""
SHUTDOWN_HEARTBEAT_MS: Final = 50
"""The time between heartbeats while leaderships move away: each one asks whether all are gone."""
LOST_CONTROLLER: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.UNKNOWN_SERVER_ERROR)
"""Errors that say nothing about this broker: the request goes to the next controller."""


class BrokerState(IntEnum):
    """The states of a broker, with the numbers of Kafka's metric `BrokerState`."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


@dataclass(frozen=True, slots=True)
class SendToController:
    """Send a request to the active controller."""

    request: LifecycleRequest


@dataclass(frozen=True, slots=True)
class Registered:
    """The controller registered this broker. Its requests carry `epoch` from now on."""

    epoch: int


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """The metadata is applied up to the registration: the logs can be opened."""


@dataclass(frozen=True, slots=True)
class FenceChanged:
    """The controller unfenced this broker, or fenced it."""

    fenced: bool


@dataclass(frozen=True, slots=True)
class SessionEnded:
    """The controller was not heard for a whole session: it may have fenced this broker."""


@dataclass(frozen=True, slots=True)
class SessionResumed:
    """The controller answers again, and what it had decided by then is applied here."""


@dataclass(frozen=True, slots=True)
class MayShutDown:
    """This broker may stop. `relieved`: it leads nothing that another broker could lead; else its
    patience has ended."""

    relieved: bool


@dataclass(frozen=True, slots=True)
class RegistrationRefused:
    """This broker cannot join its cluster: the start fails with `message`. `id_is_taken`: another
    node has its id, and it may try another one.
    """

    message: str
    id_is_taken: bool = False


Effect = (
    SendToController
    | Registered
    | CaughtUp
    | FenceChanged
    | SessionEnded
    | SessionResumed
    | MayShutDown
    | RegistrationRefused
)


@dataclass(frozen=True, slots=True)
class LifecycleConfig:
    """The settings of one life; times are in milliseconds."""

    heartbeat_interval_ms: int = 2_000
    """Kafka's `broker.heartbeat.interval.ms`."""
    session_timeout_ms: int = 9_000
    """Kafka's `broker.session.timeout.ms`."""
    registration_timeout_ms: int = 60_000
    """Kafka's `initial.broker.registration.timeout.ms`."""
    controlled_shutdown_ms: int = 30_000
    """How long a stop waits for the controller to move leaderships; Kafka's five minutes are longer
    than what starts and stops processes waits."""
    shutdown_without_controller_ms: int = 1_500
    """How long a stop goes on waiting if no controller answers."""
    taken_after_ms: int | None = None
    """For a new directory: how long an id that is in use may be this node's own, whose disk was
    lost and whose session has not ended yet. After that another node has it: the session of one
    that ended would have ended, too. None: the directory has been that node's before."""


FATAL: Final = {
    ErrorCode.INCONSISTENT_CLUSTER_ID: "the data directory belongs to another cluster. What to do: "
    "start it with an empty data directory, or give it an address of its own cluster",
    ErrorCode.UNSUPPORTED_VERSION: "the cluster uses a metadata version that this release does not "
    "support. What to do: install the release that the other nodes run",
    ErrorCode.INVALID_REGISTRATION: "the controller does not accept its listeners or directories",
}
"""Refusals of a registration that no retry can change, with the way out."""


class BrokerLifecycle:
    """The life of one broker: see the module. All methods run on the owner thread."""

    def __init__(
        self,
        registration: BrokerRegistrationRequest,
        config: LifecycleConfig,
        backoff: ExponentialBackoff,
    ) -> None:
        """`registration`: the request to register with, with this life's incarnation id."""
        self._registration = registration
        self._config = config
        self._backoff = backoff
        self.state = BrokerState.NOT_RUNNING
        self.epoch = UNKNOWN_EPOCH
        self.is_fenced = True
        self._metadata_offset = -1
        self._ready_to_unfence = False
        self._offline_directories: tuple[UUID, ...] = ()
        self._cordoned_directories: tuple[UUID, ...] | None = None
        self._in_flight: LifecycleRequest | None = None
        self._attempts = 0
        self._send_ms: int | None = None
        self._begun_ms = 0
        self._answered_ms = 0
        self.session_ended = False
        """True if the controller was not heard for a whole session: others may lead the partitions
        that this broker leads by its metadata. It ends when that is as new as an answer."""
        self._metadata_to_apply: int | None = None
        """The offset that must be applied before; None: the controller has not answered."""
        self._refusal = NO_CONTROLLER
        self._logged_refusal: ErrorCode | None = None
        self._logged_wait = False
        self._in_use_since_ms: int | None = None
        self._effects: list[Effect] = []

    @property
    def deadline(self) -> int | None:
        """When `tick` is due; None if only an answer or a call can change anything."""
        times = [
            self._send_ms if self._in_flight is None else None,
            self._limit_ms(),
            self._session_ms(),
        ]
        known = [time for time in times if time is not None]
        return min(known) if known else None

    def _limit_ms(self) -> int | None:
        """When patience ends: with the registration, or with a controlled shutdown."""
        if self.state is BrokerState.STARTING and self.epoch == UNKNOWN_EPOCH:
            return self._begun_ms + self._config.registration_timeout_ms
        if self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            return min(
                self._begun_ms + self._config.controlled_shutdown_ms,
                self._answered_ms + self._config.shutdown_without_controller_ms,
            )
        return None

    def _session_ms(self) -> int | None:
        """When this broker's session at the controller ends, as far as it can tell."""
        if self.state is not BrokerState.RUNNING or self.session_ended:
            return None
        return self._answered_ms + self._config.session_timeout_ms

    # Events of this broker

    def start(self, now_ms: int) -> list[Effect]:
        """Register at the controller."""
        self.state = BrokerState.STARTING
        self._begun_ms = now_ms
        self._send_ms = now_ms
        return self._go_on(now_ms)

    def tick(self, now_ms: int) -> list[Effect]:
        """Send what is due, or end what took too long."""
        limit = self._limit_ms()
        if limit is not None and limit <= now_ms:
            self._out_of_patience()
        session_ms = self._session_ms()
        if session_ms is not None and session_ms <= now_ms:
            self.session_ended = True
            self._metadata_to_apply = None
            self._effects.append(SessionEnded())
        return self._go_on(now_ms)

    def metadata_applied(self, now_ms: int, offset: int) -> list[Effect]:
        """The metadata is applied up to `offset`, that of the last applied record."""
        before, self._metadata_offset = self._metadata_offset, offset
        waits = self.state is BrokerState.STARTING and self.epoch != UNKNOWN_EPOCH
        if waits and before < self.epoch <= offset:
            self._send_ms = now_ms  # The controller learns it now, not at the next interval.
        self._resume_session(now_ms)
        return self._go_on(now_ms)

    def logs_opened(self, now_ms: int) -> list[Effect]:
        """The broker can serve its partitions: ask to be unfenced."""
        if not self._ready_to_unfence:
            self._ready_to_unfence = True
            if self.state is BrokerState.RECOVERY:
                self._send_ms = now_ms
        return self._go_on(now_ms)

    def directories_failed(self, now_ms: int, directories: Sequence[UUID]) -> list[Effect]:
        """These data directories failed: the controller moves their leaderships."""
        self._offline_directories = tuple(directories)
        if self.state in (BrokerState.RECOVERY, BrokerState.RUNNING):
            self._send_ms = now_ms
        return self._go_on(now_ms)

    def directories_cordoned(self, now_ms: int, directories: Sequence[UUID]) -> list[Effect]:
        """These data directories take no new partitions (KIP-1066)."""
        if tuple(directories) != (self._cordoned_directories or ()):
            self._cordoned_directories = tuple(directories)
            if self.state in (BrokerState.RECOVERY, BrokerState.RUNNING):
                self._send_ms = now_ms
        return self._go_on(now_ms)

    def controller_changed(self, now_ms: int) -> list[Effect]:
        """Another controller is known: send it a request at once, the one in flight too."""
        if self.state not in (BrokerState.NOT_RUNNING, BrokerState.SHUTTING_DOWN):
            self._in_flight = None
            self._send_ms = now_ms
            self._in_use_since_ms = None  # It begins with a whole session of every broker.
        return self._go_on(now_ms)

    def connection_lost(self, now_ms: int) -> list[Effect]:
        """The connection to the controller ended: a heartbeat keeps the session over another."""
        if self._in_flight is None and self._send_ms is not None and self._attempts == 0:
            self._send_ms = now_ms
        return self._go_on(now_ms)

    def begin_controlled_shutdown(self, now_ms: int) -> list[Effect]:
        """Ask to be relieved of all leaderships. A broker that was never unfenced leads none."""
        if self.state is BrokerState.RUNNING:
            self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
            self._begun_ms = self._answered_ms = now_ms
            self._send_ms = now_ms
        elif self.state < BrokerState.RUNNING:
            self._shut_down(relieved=True)
        return self._go_on(now_ms)

    def nobody_can_take_over(self, now_ms: int) -> list[Effect]:
        """No other broker is active: there is nothing to wait for in a controlled shutdown."""
        if self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            self._shut_down(relieved=True)
        return self._go_on(now_ms)

    def _out_of_patience(self) -> None:
        if self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            self._shut_down(relieved=False)
        else:
            seconds = self._config.registration_timeout_ms / 1000
            self._refuse(
                f"the cluster's controller did not register it in {seconds:g} s: {self._refusal}"
            )

    # Requests and answers

    def _go_on(self, now_ms: int) -> list[Effect]:
        if self._in_flight is None and self._send_ms is not None and self._send_ms <= now_ms:
            self._send_ms = None
            self._in_flight = self._next_request()
            self._effects.append(SendToController(self._in_flight))
        effects, self._effects = self._effects, []
        return effects

    def _next_request(self) -> LifecycleRequest:
        if self.epoch == UNKNOWN_EPOCH:
            return self._registration
        return BrokerHeartbeatRequest(
            broker_id=self._registration.broker_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._metadata_offset,
            want_fence=not self._ready_to_unfence,
            want_shut_down=self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN,
            offline_log_dirs=list(self._offline_directories),
            cordoned_log_dirs=(
                None if self._cordoned_directories is None else list(self._cordoned_directories)
            ),
        )

    def failed(self, now_ms: int) -> list[Effect]:
        """The request in flight got no answer."""
        self._in_flight = None
        self._retry_later(now_ms)
        return self._go_on(now_ms)

    def answered(self, now_ms: int, response: LifecycleResponse) -> list[Effect]:
        """The controller answered the request in flight."""
        self._in_flight = None
        if self.state is BrokerState.SHUTTING_DOWN:
            return self._go_on(now_ms)
        error = error_code(response.error_code)
        if error not in LOST_CONTROLLER:
            self._answered_ms = now_ms
        if error is not ErrorCode.NONE:
            self._refused(now_ms, response, error)
        elif isinstance(response, BrokerRegistrationResponse):
            self._attempts, self._logged_refusal = 0, None
            self.epoch = response.broker_epoch
            self._send_ms = now_ms
            self._effects.append(Registered(self.epoch))
        else:
            self._attempts, self._logged_refusal = 0, None
            self._heartbeat_answered(now_ms, response)
        return self._go_on(now_ms)

    def _refused(self, now_ms: int, response: LifecycleResponse, error: ErrorCode) -> None:
        if isinstance(response, BrokerRegistrationResponse):
            self._refusal = f"it answers {error.name} ({error.text})"
            if error in FATAL:
                self._refuse(f"{FATAL[error]} ({error.name})")
                return
            if error is ErrorCode.DUPLICATE_BROKER_REGISTRATION and self._is_taken(now_ms):
                self._refuse(
                    f"another node of the cluster has id {self._registration.broker_id}. What to "
                    "do: give this one another node.id",
                    id_is_taken=True,
                )
                return
        if error is ErrorCode.STALE_BROKER_EPOCH:
            # It was removed from the cluster, or another process registered with its id.
            self._note_fence(fenced=True)
        if error not in LOST_CONTROLLER and error is not self._logged_refusal:
            self._logged_refusal = error
            if error is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
                logger.warning(
                    "id %d is in use in the cluster: by this node's previous process, whose "
                    "session ends soon, or by another node. This broker tries again",
                    self._registration.broker_id,
                )
            else:
                logger.warning(
                    "the controller refuses requests of this broker, which tries again: %s",
                    error.name,
                )
        self._retry_later(now_ms)

    def _resume_session(self, now_ms: int) -> None:
        """Go on with a session that had ended, unless the metadata here is older than the answer:
        by that this broker may lead what others lead since.
        """
        if not self.session_ended or self._metadata_to_apply is None:
            return
        if now_ms - self._answered_ms >= self._config.session_timeout_ms:
            self._metadata_to_apply = None  # The controller was lost again.
        elif self._metadata_offset >= self._metadata_to_apply:
            self.session_ended = False
            self._effects.append(SessionResumed())

    def _is_taken(self, now_ms: int) -> bool:
        """True if the id that is in use must be another node's."""
        if self._in_use_since_ms is None:
            self._in_use_since_ms = now_ms
        limit_ms = self._config.taken_after_ms
        return limit_ms is not None and now_ms - self._in_use_since_ms >= limit_ms

    def _retry_later(self, now_ms: int) -> None:
        if self.state is BrokerState.SHUTTING_DOWN:
            return
        wait = self._backoff.backoff_ms(self._attempts)
        self._attempts += 1
        self._send_ms = now_ms + wait
        waits_ms = now_ms - self._begun_ms
        if self.epoch == UNKNOWN_EPOCH and waits_ms >= WAITS_MS and not self._logged_wait:
            self._logged_wait = True
            logger.warning(
                "this node is not in its cluster yet, and tries for %d s: %s",
                self._config.registration_timeout_ms // 1000,
                self._refusal,
            )

    def _heartbeat_answered(self, now_ms: int, response: BrokerHeartbeatResponse) -> None:
        state = self.state
        wait = self._config.heartbeat_interval_ms
        if state is BrokerState.STARTING and response.is_caught_up:
            self.state = BrokerState.RECOVERY
            self._effects.append(CaughtUp())
            if self._ready_to_unfence:
                wait = 0
        elif state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            if response.should_shut_down:
                self._shut_down(relieved=True)
                return
            wait = min(wait, SHUTDOWN_HEARTBEAT_MS)
        if self._metadata_to_apply is None:
            self._metadata_to_apply = response.metadata_end - 1
        self._resume_session(now_ms)
        self._note_fence(response.is_fenced)
        if self._send_ms is None:  # Else there was news while the request was in flight.
            self._send_ms = now_ms + wait

    def _note_fence(self, fenced: bool) -> None:
        if self.state is BrokerState.RECOVERY and not fenced:
            self.state = BrokerState.RUNNING
        if fenced != self.is_fenced:
            self.is_fenced = fenced
            self._effects.append(FenceChanged(fenced))

    def _refuse(self, message: str, *, id_is_taken: bool = False) -> None:
        self.state = BrokerState.SHUTTING_DOWN
        self._send_ms = None
        self._effects.append(RegistrationRefused(message, id_is_taken))

    def _shut_down(self, *, relieved: bool) -> None:
        self.state = BrokerState.SHUTTING_DOWN
        self._send_ms = None
        self._effects.append(MayShutDown(relieved))
