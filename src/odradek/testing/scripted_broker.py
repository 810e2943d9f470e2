"""One scripted broker: a real `SocketServer` over the simulated network, its answers made up.

See `testing.scripted`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from odradek.model.errors import ErrorCode
from odradek.network.connection import Connection, Exchange
from odradek.network.server import SocketServer
from odradek.protocol.api.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.api.metadata import MetadataRequest
from odradek.protocol.api_keys import MESSAGES
from odradek.protocol.codec import decode, encode
from odradek.protocol.frame import (
    API_VERSIONS,
    decode_request_header,
    response_is_flexible,
    response_parts,
)
from odradek.testing.network import SimNetwork
from odradek.testing.process import SimProcess
from odradek.testing.scheduler import MS, SimClock, SimulationError
from odradek.timing import SystemTimer

if TYPE_CHECKING:
    from odradek.testing.scripted import ScriptedCluster

PORT = 9092


class Special:
    """An answer that is none."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


SILENT, CLOSE, NO_ANSWER = Special("SILENT"), Special("CLOSE"), Special("NO_ANSWER")


@dataclass(slots=True)
class Later:
    """An answer after so many milliseconds; a function is called for it then."""

    delay_ms: int
    response: Any


@dataclass(slots=True)
class Asked:
    """A request as it arrived."""

    at_ms: int
    version: int
    request: Any
    client_id: str | None


Answer = Callable[[Any, int], Any]
"""From request and version to a response or one of the above."""


@dataclass(slots=True, eq=False)
class ScriptedBroker:
    """One broker; answers on `host`:9092 while it runs. Implements the network's `Handler`."""

    cluster: ScriptedCluster
    node_id: int
    host: str
    answers: dict[type[Any], Answer] = field(default_factory=dict)
    """By type of request; the cluster's own count where there is none."""
    versions: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Lowest and highest version by API key."""
    refuses_bare: bool = False
    """A refusal of ApiVersions does not say which versions there are."""
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    """How many were accepted so far."""
    _process: SimProcess | None = None
    _network: SimNetwork | None = None
    _server: SocketServer | None = None

    def __post_init__(self) -> None:
        self.versions.update({key: api.versions for key, api in MESSAGES.items()})

    def start(self) -> None:
        """Listen."""
        scheduler = self.cluster.scheduler
        process = SimProcess(scheduler, self.host, SimClock(scheduler))
        timer = SystemTimer(process.clock.monotonic_ms())
        process.drive(timer)
        self._process, self._network = process, self.cluster.fabric.network(process, self.host)
        self._server = SocketServer(self._network, process.call_soon, timer, self, on_bug=raise_bug)
        self._server.listen(self.host, PORT)

    def stop(self) -> None:
        """As after a kill: connections are closed, and new ones refused."""
        assert self._process is not None and self._network is not None
        self._process.kill()
        self._network.process_ended()

    def fall_silent(self) -> None:
        """As after a power failure: nobody is told, and nothing is answered any more."""
        assert self._process is not None and self._network is not None
        self._process.kill()
        self._network.power_failed()

    def close_connections(self) -> None:
        """Close those there are; new ones are accepted."""
        assert self._process is not None and self._server is not None
        server = self._server
        self._process.run(lambda: close_all(list(server.connections.values())))

    def of(self, kind: type[T]) -> list[T]:
        """The requests of a kind that arrived, in order."""
        return [asked.request for asked in self.asked if type(asked.request) is kind]

    def connected(self, connection: Connection) -> None:
        self.connections += 1

    def disconnected(self, connection: Connection) -> None:
        pass

    def received(self, exchange: Exchange) -> None:
        header, position = decode_request_header(exchange.frame)
        key, version = header.api_key, header.api_version
        if key == API_VERSIONS and not self.serves(key, version):
            refusal = self.api_versions(ErrorCode.UNSUPPORTED_VERSION)
            exchange.respond(response_parts(header.correlation_id, encode(refusal, 0), False))
            return
        if not self.serves(key, version):
            raise SimulationError(f"{self.host} was asked {key} v{version}, which it does not know")
        request = decode(MESSAGES[key].request, version, exchange.frame, position)
        assert self._process is not None
        now_ms = self._process.clock.monotonic_ms()
        self.asked.append(Asked(now_ms, version, request, header.client_id))
        self._answer(exchange, header.correlation_id, key, version, self.answer(request, version))

    def serves(self, key: int, version: int) -> bool:
        low, high = self.versions.get(key, (0, -1))
        return low <= version <= high

    def answer(self, request: Any, version: int) -> Any:
        """What a request is answered with."""
        answers = {**self.cluster.answers, **self.answers}
        made = answers.get(type(request))
        if made is not None:
            return made(request, version)
        if isinstance(request, ApiVersionsRequest):
            return self.api_versions(ErrorCode.NONE)
        if isinstance(request, MetadataRequest):
            return self.cluster.metadata(request)
        raise SimulationError(f"no answer is scripted for {request!r}")

    def api_versions(self, code: ErrorCode) -> ApiVersionsResponse:
        """What the broker serves."""
        keys = [
            ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in sorted(self.versions.items())
            if not (code and self.refuses_bare)
        ]
        return ApiVersionsResponse(error_code=code, api_keys=keys)

    def _answer(
        self, exchange: Exchange, correlation_id: int, key: int, version: int, answer: Any
    ) -> None:
        if isinstance(answer, Later):
            assert self._process is not None
            response = answer.response
            make: Callable[[], Any] = response if callable(response) else lambda: response
            self._process.post(
                answer.delay_ms * MS,
                "later",
                lambda: self._answer(exchange, correlation_id, key, version, make()),
            )
        elif answer is CLOSE:
            exchange.connection.close("closed by the script")
        elif answer is NO_ANSWER:
            exchange.no_response()
        elif answer is not SILENT:
            flexible = response_is_flexible(key, version)
            exchange.respond(response_parts(correlation_id, encode(answer, version), flexible))


def close_all(connections: list[Connection]) -> None:
    """Close them from the broker's side."""
    for connection in connections:
        connection.close("closed by the script")


def raise_bug(where: str, error: Exception) -> None:
    """What would be logged and survived ends a test."""
    raise SimulationError(f"bug while {where}: {error!r}") from error
