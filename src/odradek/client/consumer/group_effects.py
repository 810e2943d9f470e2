"""What the group side of a consumer asks of the world.

The state machines of membership and commits do nothing themselves. Each input (an answer, the time,
a poll of the application …) leaves effects, in order, and `group_runner` carries them out:

    Send             a request, to a node or to any; the outcome comes back by `call.answered`
    Callback         the application's listener is to be called, inside its poll; it is waited for
    Raise            the application's poll raises
    Resolve          whoever waits for a commit, for offsets, for the end, has it
    WatchTopics      these topics are of interest now; `cluster_seen` is to be called with them
    PollWanted       the application is needed: wake its poll, or let its next one look in
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from odradek.client.api_versions import RequestBuilder
from odradek.client.consumer.generation import Generation
from odradek.client.errors.base import KafkaError
from odradek.client.waiter import Waiter
from odradek.config.addresses import address_text
from odradek.model.topics import TopicPartition

AnswerHandler = Callable[["GroupCall", Any, KafkaError | None], None]


class Occasion(Enum):
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
class Callback:
    """Call the application's rebalance listener, then `callback_returned`."""

    occasion: Occasion
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
class PollWanted:
    """The application is needed."""


Effect = Send | Callback | Raise | Resolve | WatchTopics | PollWanted
