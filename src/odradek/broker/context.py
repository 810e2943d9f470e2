"""One request in progress: its header, its version, and the way back to its connection."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from odradek.protocol.frame import response_parts, size_of
from odradek.timing import DelayedOperation, DelayedOperationPurgatory

if TYPE_CHECKING:
    from odradek.broker.dispatch import Route
    from odradek.broker.request_metrics import ApiMetrics
    from odradek.model.stopwatch import Stopwatch
    from odradek.protocol.frame import RequestHeader
    from odradek.protocol.generated_writer import Part


class RequestExchange(Protocol):
    """The part of `network.exchange.Exchange` that the broker uses: the request, and three ways to
    end it, of which exactly one is called. `end_connection` comes beside an answer: the last one.
    """

    frame: bytes
    abandoned: Callable[[], None] | None
    waiting: object

    @property
    def answered(self) -> bool: ...

    @property
    def peer(self) -> tuple[str, int]: ...

    @property
    def connection(self) -> object:
        """The connection that the request came over."""
        ...

    @property
    def connection_number(self) -> int:
        """The number of that connection: one that was accepted later has a higher one."""
        ...

    def respond(self, parts: Sequence[Any]) -> None: ...

    def no_response(self) -> None: ...

    def close_connection(self, reason: str) -> None: ...

    def end_connection(self, reason: str) -> None: ...

    def hold(self) -> None: ...

    def release(self) -> None: ...


NOT_WAITING: Final = -1


class RequestContext:
    """The header of a request and the way back to its connection."""

    __slots__ = (
        "began_ns",
        "collect",
        "exchange",
        "from_node",
        "header",
        "metrics",
        "route",
        "stopwatch",
        "version",
        "waits_since_ns",
    )

    def __init__(
        self,
        route: Route,
        header: RequestHeader,
        exchange: RequestExchange,
        metrics: ApiMetrics,
        stopwatch: Stopwatch,
    ) -> None:
        self.route = route
        self.header = header
        self.exchange = exchange
        self.version = route.version
        self.metrics = metrics
        self.stopwatch = stopwatch
        self.collect: Callable[[Any], None] | None = None
        """Gets the response to a part of a long request, instead of the client; None if the part
        has none.
        """
        self.from_node = False
        """True if it came over the listener of the cluster's nodes."""
        self.began_ns = self.waits_since_ns = NOT_WAITING
        """The beginning of the request and of its wait, once it waits."""

    @property
    def client_id(self) -> str | None:
        return self.header.client_id

    @property
    def connection_number(self) -> int:
        """The number of the client's connection: later ones have higher numbers."""
        return self.exchange.connection_number

    @property
    def client_host(self) -> str:
        """The client's address in Kafka's form: a slash and the address."""
        return f"/{self.exchange.peer[0]}"

    def respond(self, response: Any) -> None:
        """Send the response, once. Responses leave in the order of the connection's requests."""
        route, metrics = self.route, self.metrics
        if route.errors is not None:
            route.errors.count(response, metrics)
        if self.collect is None:
            self.send(route.write(response))
        else:
            self.collect(response)

    def send(self, body: list[Part]) -> None:
        """Send an encoded response."""
        size = size_of(body)
        route = self.route
        parts = response_parts(self.header.correlation_id, body, route.flexible_response, size)
        self.metrics.response_bytes.observe(size)
        if self.waits_since_ns != NOT_WAITING:
            self._end_wait()
        self.exchange.respond(parts)

    def send_frame(self, frame: bytes) -> None:
        """Send a response that is encoded with its header, without the length."""
        self.metrics.response_bytes.observe(len(frame))
        if self.waits_since_ns != NOT_WAITING:
            self._end_wait()
        self.exchange.respond([len(frame).to_bytes(4, "big") + frame])

    def no_response(self) -> None:
        """End the request without a response (Produce with `acks=0`)."""
        if self.collect is not None:
            self.collect(None)
            return
        if self.waits_since_ns != NOT_WAITING:
            self._end_wait()
        self.exchange.no_response()

    def _end_wait(self) -> None:
        """Count the time of a request that waited, up to the last reading of the clock."""
        now_ns = self.stopwatch.last_ns
        self.metrics.delayed.observe(now_ns - self.waits_since_ns)
        self.metrics.waited.observe(now_ns - self.began_ns)


class DelayedResponse:
    """A handler's result: `operation` waits in `purgatory` and responds when it completes."""

    __slots__ = ("context", "keys", "operation", "purgatory")

    def __init__(
        self,
        purgatory: DelayedOperationPurgatory,
        operation: DelayedOperation,
        keys: Sequence[Hashable],
    ) -> None:
        self.purgatory = purgatory
        self.operation = operation
        self.keys = keys
        self.context: RequestContext | None = None
        """The request, while it waits."""


class DelayedCallback:
    """A request that waits for a callback of its handler; `group_id` is None if it names none."""

    __slots__ = ("context", "group_id", "since_ms")

    def __init__(self, context: RequestContext, group_id: str | None, since_ms: int) -> None:
        self.context = context
        self.group_id = group_id
        self.since_ms = since_ms
        """When it began to wait, by the timer's clock."""


class NoResponse:
    """A handler's result: the request gets no response."""


class CallbackResponse:
    """A handler's result: a callback of the handler calls `RequestContext.respond` itself."""


NO_RESPONSE: Final = NoResponse()
CALLBACK_RESPONSE: Final = CallbackResponse()
