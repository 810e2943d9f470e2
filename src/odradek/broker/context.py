"""One request being answered: who asked, in which version, and how the answer gets back."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from odradek.protocol.frame import response_parts
from odradek.timing import DelayedOperation, DelayedOperationPurgatory

if TYPE_CHECKING:
    from odradek.broker.dispatch import Route
    from odradek.protocol.frame import RequestHeader


class Answerable(Protocol):
    """What is needed of a `network.exchange.Exchange`: the request, and exactly one of the ways to
    be done with it.
    """

    frame: bytes
    abandoned: Callable[[], None] | None

    @property
    def peer(self) -> tuple[str, int]: ...

    def respond(self, parts: Sequence[Any]) -> None: ...

    def no_response(self) -> None: ...

    def close_connection(self, reason: str) -> None: ...


class RequestContext:
    """The header of a request and the way back to its connection."""

    __slots__ = ("exchange", "header", "route", "version")

    def __init__(self, route: Route, header: RequestHeader, exchange: Answerable) -> None:
        self.route = route
        self.header = header
        self.exchange = exchange
        self.version = route.version

    @property
    def client_id(self) -> str | None:
        return self.header.client_id

    @property
    def client_host(self) -> str:
        """The client's address as Kafka writes it: behind a slash."""
        return f"/{self.exchange.peer[0]}"

    def respond(self, response: Any) -> None:
        """Send the response, once, in its turn among the requests of this connection."""
        route = self.route
        self.exchange.respond(
            response_parts(
                self.header.correlation_id, route.write(response), route.flexible_response
            )
        )

    def no_response(self) -> None:
        """This request is not answered (produce with `acks=0`)."""
        self.exchange.no_response()


class Waiting:
    """A handler's answer that waits: `operation` responds when it completes."""

    __slots__ = ("keys", "operation", "purgatory")

    def __init__(
        self,
        purgatory: DelayedOperationPurgatory,
        operation: DelayedOperation,
        keys: Sequence[Hashable],
    ) -> None:
        self.purgatory = purgatory
        self.operation = operation
        self.keys = keys


class NoResponse:
    """A handler's answer to a request that is not answered."""


class Later:
    """A handler's answer that it will respond by itself, when it can."""


NO_RESPONSE = NoResponse()
LATER = Later()
