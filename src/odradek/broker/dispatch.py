"""From (key, version) to what is done with it: reader, handler, writer. Made at first use.

From a frame to its handler and back: header, row of the table, decode, handle, respond or park.

Errors, by kind: an *answer* is part of a response; a *peer violation* (`ProtocolError`: an unknown
key, a version that is not served, a malformed body) closes that connection with one log line, as
Kafka does; a *bug* goes up to the reactor, which closes the connection, logs the traceback and
counts it.

The one exception is ApiVersions in an unknown version: it is answered with UNSUPPORTED_VERSION in
version 0, listing the range of key 18, because every client falls back by that answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from odradek.broker.apis import APIS, Api, Handle
from odradek.broker.context import LATER, Answerable, NoResponse, RequestContext, Waiting
from odradek.broker.handlers import api_versions
from odradek.model.errors import ProtocolError
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
    )
    _routes[key << 16 | version] = made
    return made


API_VERSIONS_KEY = 18


class Dispatcher:
    """The network's handler: every frame of every connection comes here, on the owner thread."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def connected(self, connection: Connection) -> None:
        """Nothing is known of a connection before its first request."""

    def disconnected(self, connection: Connection) -> None:
        """What still waited for it was completed in vain: see `Exchange.abandoned`."""

    def received(self, exchange: Answerable) -> None:
        """Raises `ProtocolError`, upon which the connection is closed with that reason."""
        header, position = decode_request_header(exchange.frame)
        found = route(header.api_key, header.api_version)
        if found is None:
            self._refuse_version(exchange, header)
            return
        request = found.read(exchange.frame, position)
        context = RequestContext(found, header, exchange)
        answer = found.handle(self.broker, context, request)
        if isinstance(answer, Waiting):
            exchange.frame = b""  # It may wait for long: what it needs, the operation has.
            if not answer.purgatory.try_complete_else_watch(answer.operation, answer.keys):
                exchange.abandoned = answer.operation.run  # Its time is up.
        elif isinstance(answer, NoResponse):
            context.no_response()
        elif answer is not LATER:
            context.respond(answer)

    def _refuse_version(self, exchange: Answerable, header: RequestHeader) -> None:
        if header.api_key == API_VERSIONS_KEY:
            lowest = route(API_VERSIONS_KEY, 0)
            assert lowest is not None
            RequestContext(lowest, header, exchange).respond(api_versions.unsupported_version())
            return
        api = APIS.get(header.api_key)
        served = f"served are {api.min_version}-{api.max_version}" if api else "it is not served"
        raise ProtocolError(
            f"request for key {header.api_key} in version {header.api_version}: {served}"
        )
