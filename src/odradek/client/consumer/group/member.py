"""What a consumer's membership in its group is set to, as plain values under Kafka's names.

The generation of a group, as one of its members knows it.

What the group side of a consumer asks of the world.

The state machines of membership and commits do nothing themselves. Each input (an answer, the time,
a poll of the application …) leaves effects, in order, and `group_runner` carries them out:

    Send             a request, to a node or to any; the outcome comes back by `call.answered`
    Callback         the application's listener is to be called, inside its poll; it is waited for
    Raise            the application's poll raises
    Resolve          whoever waits for a commit, for offsets, for the end, has it
    WatchTopics      these topics are of interest now; `cluster_seen` is to be called with them
    RequestPoll       the application is needed: wake its poll, or let its next one look in

A member's knowledge of itself: its state, its generation, its coordinator, and what it lacks.

                 join sent              joined                 synced
    UNJOINED ───────────────► PREPARING ────────► COMPLETING ────────► STABLE
        ▲                     REBALANCE           REBALANCE              │
        └──────────── reset: fenced, forgotten, left, poll too late ─────┘

A rebalance does not end STABLE: the member goes on consuming and heartbeating until it joins again,
which it does when the application next polls (`rejoin_needed`). `Generation` is what requests are
signed with; one that was reset has lost its number, and its member id too where the coordinator
has forgotten it.

All parts of the group side share this one object: it holds the time of the current step, collects
effects, and is the only place where state and generation change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from odradek.client.consumer.metrics import GroupMetrics
from odradek.client.errors import KafkaError
from odradek.client.net.api_versions import RequestBuilder
from odradek.client.net.backoff import ExponentialBackoff
from odradek.client.waiter import Waiter
from odradek.config.addresses import address_text
from odradek.model.env import Random
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol.consumer_protocol import NO_GENERATION


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """The part of a consumer's settings that its group side looks at. Defaults are Kafka's."""

    group_id: str
    group_instance_id: str | None = None
    """Makes the member a static one (KIP-345)."""
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    """Also the rebalance timeout: how long the group waits for this member to join again."""
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    request_timeout_ms: int = 30_000
    exclude_internal_topics: bool = True
    client_rack: str | None = None

    @property
    def is_dynamic(self) -> bool:
        """Whether the group forgets this member when it leaves."""
        return self.group_instance_id is None


class Generation(NamedTuple):
    """Whom the coordinator knows this member as. Without a number it is in no generation."""

    generation_id: int = NO_GENERATION
    member_id: str = ""
    protocol_name: str | None = None

    @property
    def is_reset(self) -> bool:
        """Whether what the member had, it has lost."""
        return self.generation_id == NO_GENERATION or not self.member_id


AnswerHandler = Callable[["GroupCall", Any, KafkaError | None], None]


class RebalanceEvent(Enum):
    """Why a rebalance listener is called."""

    ASSIGNED = "assigned"
    REVOKED = "revoked"
    LOST = "lost"


class GroupCall:
    """One request under way. `node` is None where any node will do."""

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
        """The member's when it was sent: an answer about an older one says nothing of this one."""


@dataclass(frozen=True, slots=True)
class CoordinatorNode:
    """Where the group's coordinator is."""

    id: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"broker {self.id} at {address_text(self.host, self.port)}"


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request."""

    call: GroupCall


@dataclass(frozen=True, slots=True)
class CallListener:
    """Call the application's rebalance listener, then `callback_returned`."""

    event: RebalanceEvent
    partitions: Sequence[TopicPartition]


@dataclass(frozen=True, slots=True)
class Raise:
    """The application's poll raises this."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Resolve:
    """Somebody has waited enough: for `error`, or else for `value`."""

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
    """The topics of interest may be others now; tell `cluster_seen` as soon as they are known."""


@dataclass(frozen=True, slots=True)
class RequestPoll:
    """The application is needed."""


Effect = Send | CallListener | Raise | Resolve | WatchTopics | RequestPoll


log = logging.getLogger(__name__)

COORDINATOR_MOVED = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
"""Answers of a broker that is not the coordinator (any more)."""


class MemberState(Enum):
    """Where a member is in the cycle of a rebalance."""

    UNJOINED = "unjoined"
    PREPARING_REBALANCE = "joining"
    COMPLETING_REBALANCE = "syncing"
    STABLE = "stable"


class GroupMember:
    """One consumer as a member of its group."""

    def __init__(self, config: GroupConfig, random: Random, now_ms: int) -> None:
        self.config = config
        self.now_ms = now_ms
        """The time of the current step."""
        self.effects: list[Effect] = []
        self.state = MemberState.UNJOINED
        self.generation = Generation()
        self.coordinator: CoordinatorNode | None = None
        self.rejoin_needed = True
        self.rejoin_reason = ""
        """Told to the coordinator, for its log."""
        self.needs_prepare = True
        """Before it joins, what it may not keep has to be given up: once for each rebalance, and
        again when the generation is lost in the midst of one (KAFKA-12983)."""
        self.failure: BaseException | None = None
        """What the application's next poll raises."""
        self.poll_requested = False
        self.metrics = GroupMetrics()
        self.backoff = ExponentialBackoff(
            config.retry_backoff_ms, config.retry_backoff_max_ms, random
        )

    @property
    def rebalance_in_progress(self) -> bool:
        """Whether this member has joined and does not have its assignment yet."""
        return self.state in (MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE)

    @property
    def stable_generation(self) -> Generation | None:
        """The generation while the member is active in it."""
        return self.generation if self.state is MemberState.STABLE else None

    # Effects.

    def send(
        self,
        node: CoordinatorNode | None,
        builder: RequestBuilder,
        answered: AnswerHandler,
        timeout_ms: int | None = None,
    ) -> GroupCall:
        """Send a request to a node, or (None) to any."""
        if timeout_ms is None:
            timeout_ms = self.config.request_timeout_ms
        call = GroupCall(node, builder, answered, timeout_ms, self.generation)
        self.effects.append(Send(call))
        return call

    def request_poll(self) -> None:
        """Something waits for the application to poll."""
        if not self.poll_requested:
            self.poll_requested = True
            self.effects.append(RequestPoll())

    def fail(self, error: BaseException) -> None:
        """Let the application know at its next poll (the first of several errors)."""
        if self.failure is None:
            self.failure = error
        self.request_poll()

    def raise_failure(self) -> bool:
        """The application is there: whether it had to be told of a failure."""
        failure, self.failure = self.failure, None
        if failure is None:
            return False
        self.effects.append(Raise(failure))
        return True

    # Changes of state.

    def request_rejoin(self, reason: str) -> None:
        """Join again; `rejoin_needed` is looked at after every input."""
        log.info("group %s: join again: %s", self.config.group_id, reason)
        self.rejoin_reason = reason
        self.rejoin_needed = True

    def request_rejoin_if_necessary(self, reason: str) -> None:
        """The same, unless there was a reason before."""
        if not self.rejoin_needed:
            self.request_rejoin(reason)

    def reset_generation(self, reason: str, *, forget_member_id: bool) -> None:
        """The generation is lost. The member id is kept where it may still be known."""
        log.info("group %s: %s is out of its generation: %s", *self._names, reason)
        self.state = MemberState.UNJOINED
        member_id = "" if forget_member_id else self.generation.member_id
        self.generation = Generation(member_id=member_id)
        self.needs_prepare = True
        self.request_rejoin(reason)

    def lose_coordinator(self, reason: str, node: CoordinatorNode | None = None) -> None:
        """The coordinator (if it is still that node) is elsewhere, or not to be reached."""
        if self.coordinator is not None and node in (None, self.coordinator):
            log.info("group %s: coordinator %s: %s", *self._names[:1], self.coordinator, reason)
            self.coordinator = None

    @property
    def _names(self) -> tuple[str, str]:
        who = self.config.group_instance_id or self.generation.member_id
        return self.config.group_id, f"member {who!r}"
