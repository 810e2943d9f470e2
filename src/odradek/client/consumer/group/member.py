"""GroupMember: one consumer's state in its group, and the effects that its parts request.

                 join sent              joined                 synced
    UNJOINED ───────────────► PREPARING ────────► COMPLETING ────────► STABLE
        ▲                     REBALANCE           REBALANCE              │
        └────────── reset: fenced, unknown, left, poll too late ─────────┘

A rebalance does not end STABLE: the member goes on consuming and sending heartbeats until it joins
again, in the application's next poll (`rejoin_needed`). Requests carry the member's `Generation`. A
reset generation has lost its id, and the member id too if the coordinator has forgotten it.

All parts of the group's state machine share this one object. It has the time of the current step,
collects the effects, and is the only place where state and generation change.

The state machine does no I/O. Each input (a response, the time, a poll of the application, ...)
leaves effects, in order, and `GroupRunner` carries them out:

    Send             send a request to a broker, or to any; `call.answered` takes the outcome
    CallListener     call the application's rebalance listener in its poll, and wait for it
    Raise            raise this in the application's poll
    Resolve          complete the waiter of a commit, a query, an unsubscribe or a close
    WatchTopics      the topics of interest may have changed: pass them to `cluster_seen`
    RequestPoll      wake the application's poll, or have its next one look in
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from odradek.client.consumer.metrics import GroupMetrics
from odradek.client.errors import KafkaError
from odradek.client.waiter import Waiter
from odradek.config.addresses import address_text
from odradek.config.consumer import ConsumerConfig
from odradek.model.env import Random
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.network_client.api_versions import RequestBuilder
from odradek.network_client.backoff import ExponentialBackoff
from odradek.protocol.consumer_protocol import NO_GENERATION

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GroupRebalanceConfig:
    """The consumer settings that its group uses, under Kafka's names."""

    group_id: str
    group_instance_id: str | None
    """Makes the member a static one (KIP-345)."""
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    """Also the rebalance timeout: how long the group waits for this member to rejoin."""
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    request_timeout_ms: int
    exclude_internal_topics: bool
    client_rack: str | None

    @classmethod
    def of(cls, config: ConsumerConfig) -> GroupRebalanceConfig:
        """The settings of a consumer with a `group.id`."""
        assert config.group_id is not None
        return cls(
            group_id=config.group_id,
            group_instance_id=config.group_instance_id,
            session_timeout_ms=config.session_timeout_ms,
            heartbeat_interval_ms=config.heartbeat_interval_ms,
            max_poll_interval_ms=config.max_poll_interval_ms,
            enable_auto_commit=config.enable_auto_commit,
            auto_commit_interval_ms=config.auto_commit_interval_ms,
            retry_backoff_ms=config.retry_backoff_ms,
            retry_backoff_max_ms=config.retry_backoff_max_ms,
            request_timeout_ms=config.request_timeout_ms,
            exclude_internal_topics=config.exclude_internal_topics,
            client_rack=config.client_rack or None,
        )

    @property
    def is_dynamic(self) -> bool:
        """True if the member is dynamic: the group forgets it when it leaves."""
        return self.group_instance_id is None


class Generation(NamedTuple):
    """The group generation and the member's id in it. Without a generation id the member is in
    none.
    """

    generation_id: int = NO_GENERATION
    member_id: str = ""
    protocol_name: str | None = None

    @property
    def is_reset(self) -> bool:
        """True if the member lost its generation."""
        return self.generation_id == NO_GENERATION or not self.member_id


AnswerHandler = Callable[["GroupCall", Any, KafkaError | None], None]


class RebalanceEvent(Enum):
    """Why a rebalance listener is called."""

    ASSIGNED = "assigned"
    REVOKED = "revoked"
    LOST = "lost"


class GroupCall:
    """One request in flight. `node` is None if any broker will do."""

    __slots__ = ("answered", "builder", "generation", "node", "timeout_ms")

    def __init__(
        self,
        node: CoordinatorNode | None,
        builder: RequestBuilder,
        answered: AnswerHandler,
        timeout_ms: int,
        generation: Generation,
    ) -> None:
        self.node = node
        self.builder = builder
        self.answered = answered
        """Takes the response or the error of the connection; exactly one of them is not None."""
        self.timeout_ms = timeout_ms
        self.generation = generation
        """The member's generation when the request was sent. A response to an older one says
        nothing about the present one.
        """


@dataclass(frozen=True, slots=True)
class CoordinatorNode:
    """The broker that coordinates the group."""

    id: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"broker {self.id} at {address_text(self.host, self.port)}"


@dataclass(frozen=True, slots=True)
class SendGroupRequest:
    """Send a request."""

    call: GroupCall


@dataclass(frozen=True, slots=True)
class CallListener:
    """Call the application's rebalance listener, then `callback_returned`."""

    event: RebalanceEvent
    partitions: Sequence[TopicPartition]


@dataclass(frozen=True, slots=True)
class Raise:
    """Raise this in the application's poll."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Resolve:
    """Complete a waiter with `value`, or fail it with `error`."""

    waiter: Waiter[Any]
    value: Any = None
    error: BaseException | None = None

    def carry_out(self) -> None:
        if self.error is not None:
            self.waiter.fail(self.error)
        else:
            self.waiter.complete(self.value)


@dataclass(frozen=True, slots=True)
class WatchTopics:
    """The topics of interest may have changed; call `cluster_seen` as soon as they are known."""


@dataclass(frozen=True, slots=True)
class RequestPoll:
    """Make the application poll."""


Effect = SendGroupRequest | CallListener | Raise | Resolve | WatchTopics | RequestPoll


COORDINATOR_MOVED = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
"""Errors of a broker that is no longer the coordinator."""


class MemberState(Enum):
    """The state of a member in the cycle of a rebalance."""

    UNJOINED = "unjoined"
    PREPARING_REBALANCE = "joining"
    COMPLETING_REBALANCE = "syncing"
    STABLE = "stable"


class GroupMember:
    """One consumer as a member of its group."""

    def __init__(self, config: GroupRebalanceConfig, random: Random, now_ms: int) -> None:
        self.config = config
        self.now_ms = now_ms
        """The time of the current step."""
        self.effects: list[Effect] = []
        self.state = MemberState.UNJOINED
        self.generation = Generation()
        self.coordinator: CoordinatorNode | None = None
        self.rejoin_needed = True
        self.rejoin_reason = ""
        """Sent to the coordinator, for its log."""
        self.needs_prepare = True
        """True if partitions have to be given up before the member joins: once per rebalance, and
        again if the generation is lost during one (KAFKA-12983).
        """
        self.failure: BaseException | None = None
        """The error that the application's next poll raises."""
        self.poll_requested = False
        self.metrics = GroupMetrics()
        self.backoff = ExponentialBackoff(
            config.retry_backoff_ms, config.retry_backoff_max_ms, random
        )

    @property
    def rebalance_in_progress(self) -> bool:
        """True if this member has joined and has no assignment yet."""
        return self.state in (MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE)

    @property
    def stable_generation(self) -> Generation | None:
        """The generation while the member is active in it; else None."""
        return self.generation if self.state is MemberState.STABLE else None

    # Effects.

    def send(
        self,
        node: CoordinatorNode | None,
        builder: RequestBuilder,
        answered: AnswerHandler,
        timeout_ms: int | None = None,
    ) -> GroupCall:
        """Request `SendGroupRequest` to a broker, or to any (None)."""
        if timeout_ms is None:
            timeout_ms = self.config.request_timeout_ms
        call = GroupCall(node, builder, answered, timeout_ms, self.generation)
        self.effects.append(SendGroupRequest(call))
        return call

    def request_poll(self) -> None:
        """Request that the application polls, once until it does."""
        if not self.poll_requested:
            self.poll_requested = True
            self.effects.append(RequestPoll())

    def fail(self, error: BaseException) -> None:
        """Make the application's next poll raise an error: the first one, if there are several."""
        if self.failure is None:
            self.failure = error
        self.request_poll()

    def raise_failure(self) -> bool:
        """Raise the pending error in the present poll; True if there was one."""
        failure, self.failure = self.failure, None
        if failure is None:
            return False
        self.effects.append(Raise(failure))
        return True

    # State changes.

    def request_rejoin(self, reason: str) -> None:
        """Make the member join again; `rejoin_needed` is checked after every input."""
        log.info("group %s: rejoining: %s", self.config.group_id, reason)
        self.rejoin_reason = reason
        self.rejoin_needed = True

    def request_rejoin_if_necessary(self, reason: str) -> None:
        """Make the member join again, unless it already has a reason to."""
        if not self.rejoin_needed:
            self.request_rejoin(reason)

    def reset_generation(self, reason: str, *, forget_member_id: bool) -> None:
        """Drop the generation. The member id is kept if the coordinator may still know it."""
        log.info("group %s: %s lost its generation: %s", *self._names, reason)
        self.state = MemberState.UNJOINED
        member_id = "" if forget_member_id else self.generation.member_id
        self.generation = Generation(member_id=member_id)
        self.needs_prepare = True
        self.request_rejoin(reason)

    def lose_coordinator(self, reason: str, node: CoordinatorNode | None = None) -> None:
        """Forget the coordinator, if it is still `node`: it moved or cannot be reached."""
        if self.coordinator is not None and node in (None, self.coordinator):
            log.info(
                "group %s: lost coordinator %s: %s", *self._names[:1], self.coordinator, reason
            )
            self.coordinator = None

    @property
    def _names(self) -> tuple[str, str]:
        who = self.config.group_instance_id or self.generation.member_id
        return self.config.group_id, f"member {who!r}"
