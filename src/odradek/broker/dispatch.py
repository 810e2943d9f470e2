"""From a frame to its handler and back: decode the header, find the route, decode, handle, respond
or wait.

A route is one version of one API: reader, handler and writer, made at first use.

Errors, by kind: an *error response* is the handler's business. A *protocol violation*
(`ProtocolError`: an unknown key, a version that is not served, a malformed body) closes the
connection with one log line, as in Kafka. A *bug* goes up to the reactor, which closes the
connection, logs the traceback and counts it.

The one exception is ApiVersions in an unknown version: its response is UNSUPPORTED_VERSION in
version 0 with the versions of key 18, because every client falls back by it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from odradek.broker.apis import APIS, Api, Handle
from odradek.broker.context import (
    CALLBACK_RESPONSE,
    DelayedCallback,
    DelayedResponse,
    NoResponse,
    RequestContext,
    RequestExchange,
)
from odradek.broker.handlers import api_versions
from odradek.broker.long_requests import (
    CREATE_TOPICS_KEY,
    LONG_FRAME_BYTES,
    METADATA_KEY,
    PART_ELEMENTS,
    REQUEST_ELEMENTS,
    LongRequest,
    creates_many,
    has_long_answer,
)
from odradek.broker.request_metrics import ErrorPaths, error_paths
from odradek.model.errors import ErrorCode, ProtocolError, UnservedRequest
from odradek.protocol.codec import reader, writer
from odradek.protocol.frame import RequestHeader, decode_request_header, response_is_flexible
from odradek.protocol.generated_writer import Part

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.network.connection import Connection


@dataclass(frozen=True, slots=True)
class Route:
    """One version of one API."""

    api: Api
    version: int
    read: Callable[[bytes, int], Any]
    handle: Handle
    write: Callable[[Any], list[Part]]
    flexible_response: bool
    errors: ErrorPaths | None
    """Where a response has error codes; None if its handler counts them."""
    of_controller: bool
    """Only the active controller answers it."""
    between_nodes: bool
    """Served only to other nodes of the cluster."""


_routes: Final[dict[int, Route]] = {}


def route(key: int, version: int) -> Route | None:
    """The route of a request; None if this version of this API is not served."""
    found = _routes.get(key << 16 | version)
    return found if found is not None else _new_route(key, version)


def _new_route(key: int, version: int) -> Route | None:
    api = APIS.get(key)
    if api is None or not api.min_version <= version <= api.max_version:
        return None
    made = Route(
        api,
        version,
        reader(api.request, version),
        api.handle,
        writer(api.response, version),
        response_is_flexible(key, version),
        None if key in COUNT_THEIR_ERRORS else error_paths(api.response),
        api.of_controller,
        api.between_nodes,
    )
    _routes[key << 16 | version] = made
    return made


API_VERSIONS_KEY = 18
PRODUCE_KEY: Final = 0
FETCH_KEY: Final = 1
FETCH_FRAME_BYTES: Final = 256 * 1024
FETCH_PARTITION_BYTES: Final = 512
"""A Fetch request is handled at once, some microseconds a partition. It may have so many bytes, and
so many for each partition of the cluster, which is more than a partition and its topic take.
"""
LENGTH_BYTES: Final = 4
"""The length before the frame of a request."""
COUNT_THEIR_ERRORS: Final = (0, 1)
"""Produce and Fetch: to look through their responses would cost more than to count."""


def partition_count(request: Any) -> int:
    """The number of partitions of a Produce request: its frame is long because of the records."""
    return sum(len(topic.partition_data) for topic in request.topic_data)


def ignore(connection: object) -> None:
    """Do nothing about the end of a connection."""


class Dispatcher:
    """The network's handler: receives every frame of every connection, on the owner thread.

    `between_nodes`: the connections are those of other nodes of the cluster, on their listener.
    """

    def __init__(self, broker: Broker, between_nodes: bool = False) -> None:
        self.broker = broker
        self.between_nodes = between_nodes
        self._metrics = broker.request_metrics
        self._by_key = self._metrics.between_nodes if between_nodes else self._metrics.by_key
        self._stopwatch = broker.request_metrics.stopwatch
        self.long_requests = broker.long_requests
        self.connection_closed: Callable[[object], None] = ignore
        """Called with a connection that has ended."""

    def connected(self, connection: Connection) -> None:
        """Nothing to do before the first request of a connection."""

    def disconnected(self, connection: Connection) -> None:
        """Tell who wants to know. Delayed requests were completed by `Exchange.abandoned`."""
        self.connection_closed(connection)

    def received(self, exchange: RequestExchange) -> None:
        """Handle one request. On a `ProtocolError` the connection is closed with that reason."""
        stopwatch = self._stopwatch
        began_ns = stopwatch.last_ns
        frame = exchange.frame
        header, position = decode_request_header(frame)
        found = route(header.api_key, header.api_version)
        if found is None or (found.between_nodes and not self.between_nodes):
            self._refuse_version(exchange, header)
            return
        metrics = self._by_key[header.api_key]
        metrics.request_bytes.observe(len(frame) + LENGTH_BYTES)
        context = RequestContext(found, header, exchange, metrics, stopwatch)
        context.from_node = self.between_nodes
        request: Any = None
        answer: Any = CALLBACK_RESPONSE
        if header.api_key == FETCH_KEY and len(frame) > FETCH_FRAME_BYTES:
            self._check_fetch(len(frame))
            self._begin_long_fetch(context, position)
        elif not found.of_controller or not self._is_taken(context, position):
            is_long = len(frame) > LONG_FRAME_BYTES and header.api_key in REQUEST_ELEMENTS
            if not is_long or header.api_key == PRODUCE_KEY:
                request = found.read(frame, position)
                is_long = self._is_long(header, request, is_long)
            if is_long:
                self.long_requests.begin(LongRequest(self.broker, context, position, request))
            else:
                answer = found.handle(self.broker, context, request)
        if isinstance(answer, DelayedResponse):
            exchange.frame = b""  # It may wait for long; the operation keeps what it needs.
            done = answer.purgatory.try_complete_else_watch(answer.operation, answer.keys)
            if not done and not exchange.answered:
                exchange.abandoned = answer.operation.expire  # As at its deadline.
                answer.context = context
                exchange.waiting = answer
        elif isinstance(answer, NoResponse):
            context.no_response()
        elif answer is not CALLBACK_RESPONSE:
            context.respond(answer)
        elif not exchange.answered:
            group_id = getattr(request, "group_id", None)
            exchange.waiting = DelayedCallback(context, group_id, self.broker.timer.now_ms)
        ended_ns = stopwatch.read()
        if exchange.answered:
            metrics.answered_at_once.observe(ended_ns - began_ns)
        else:
            metrics.before_wait.observe(ended_ns - began_ns)
            context.began_ns, context.waits_since_ns = began_ns, ended_ns

    def _is_long(self, header: RequestHeader, request: Any, has_long_frame: bool) -> bool:
        """True if a decoded request is to be handled in parts."""
        if header.api_key == METADATA_KEY:
            return has_long_answer(self.broker.image, header.api_version, request)
        if header.api_key == CREATE_TOPICS_KEY:
            return creates_many(request)
        return has_long_frame and partition_count(request) > PART_ELEMENTS

    def _begin_long_fetch(self, context: RequestContext, position: int) -> None:
        from odradek.broker.handlers.fetch import LongFetch

        self.long_requests.begin(LongFetch(self.broker, context, position))

    def _check_fetch(self, size: int) -> None:
        """Raise `ProtocolError` for a request that names more partitions than there can be."""
        partitions = self.broker.image.partition_count()
        if size > FETCH_FRAME_BYTES + FETCH_PARTITION_BYTES * partitions:
            raise ProtocolError(
                f"a Fetch of {size} bytes, and the cluster has {partitions} partitions"
            )

    def _is_taken(self, context: RequestContext, position: int) -> bool:
        """True if a request of the active controller's was sent on to it: this node is another."""
        forwarding = self.broker.forwarding
        return forwarding is not None and forwarding.takes(self, context, position)

    def fail(self, context: RequestContext, position: int, error: ErrorCode) -> None:
        """Answer a request of the active controller's with an error, in the form of its API.

        Raises `ProtocolError` if the request is malformed.
        """
        found = context.route
        failed = found.api.failed
        frame = context.exchange.frame
        if len(frame) <= LONG_FRAME_BYTES or found.api.key not in REQUEST_ELEMENTS:
            context.respond(failed(found.read(frame, position), error))
            return
        context.route = Route(
            found.api,
            found.version,
            found.read,
            lambda broker, part_context, part: failed(part, error),
            found.write,
            found.flexible_response,
            found.errors,
            found.of_controller,
            found.between_nodes,
        )
        self.long_requests.begin(LongRequest(self.broker, context, position))

    def _refuse_version(self, exchange: RequestExchange, header: RequestHeader) -> None:
        if header.api_key == API_VERSIONS_KEY:
            lowest = route(API_VERSIONS_KEY, 0)
            assert lowest is not None
            metrics = self._metrics.by_key[API_VERSIONS_KEY]
            context = RequestContext(lowest, header, exchange, metrics, self._stopwatch)
            context.respond(api_versions.unsupported_version())
            return
        self._metrics.count_unserved(header.api_key, header.api_version)
        api = APIS.get(header.api_key)
        if api is not None and api.between_nodes and not self.between_nodes:
            raise UnservedRequest(
                f"request for key {header.api_key}: it is served to nodes of the cluster only"
            )
        served = f"served are {api.min_version}-{api.max_version}" if api else "it is not served"
        raise UnservedRequest(
            f"request for key {header.api_key} in version {header.api_version}: {served}"
        )
