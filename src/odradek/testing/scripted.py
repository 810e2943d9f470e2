"""Scripted brokers in simulated time, whose answers a test defines.

    cluster = ScriptedCluster(brokers=2)
    cluster.create("orders", leaders=[1, 2])
    cluster[1].answers[ProduceRequest] = lambda request, version: ProduceResponse(...)
    side = cluster.client()
    engine = side.engine()
    side.wait(spawn(engine.topic("orders")))

Each broker is a real `SocketServer` over the simulated network, so a client sends real bytes; only
the answers are scripted. ApiVersions and Metadata are answered from `versions` and `topics`, unless
a test replaces them. A request without a scripted answer is a mistake of the test and ends the run.
An answer is a response, or one of

    SILENT                never answer     CLOSE       close the connection
    DelayedAnswer(ms, r)  answer later     NO_ANSWER   none is expected (acks=0)

Time passes only in `run`, `until` and `wait`, and jumps from event to event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

from odradek.client.engine import Engine
from odradek.client.waiter import Waiter
from odradek.config.client import ClientConfig
from odradek.model.errors import ErrorCode
from odradek.network.connection import Connection, Exchange
from odradek.network.server import SocketServer
from odradek.protocol.api.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from odradek.protocol.api.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.protocol.api_keys import MESSAGES
from odradek.protocol.codec import decode, encode
from odradek.protocol.frame import (
    API_VERSIONS,
    decode_request_header,
    response_is_flexible,
    response_parts,
)
from odradek.testing.client_process import ClientProcess
from odradek.testing.network import Fabric, SimNetwork
from odradek.testing.process import SimProcess
from odradek.testing.scheduler import MS, Scheduler, SimClock, SimulationError
from odradek.testing.transport import Link
from odradek.timing import SystemTimer

__all__ = [
    "CLOSE",
    "NO_ANSWER",
    "SILENT",
    "ClientSide",
    "DelayedAnswer",
    "ScriptedBroker",
    "ScriptedCluster",
]

T = TypeVar("T")
CALM = Link(slow_rate=0, chop_rate=0)
LIMIT_MS = 600_000
"""The default limit of virtual time for a condition."""


@dataclass(slots=True)
class ScriptedTopic:
    """A topic: the leader and the leader epoch of each partition."""

    topic_id: UUID
    leaders: list[int]
    epochs: list[int]
    error: ErrorCode = ErrorCode.NONE


@dataclass(slots=True, eq=False)
class ScriptedCluster:
    """Running brokers 1 to `brokers`, under one scheduler with their clients."""

    brokers: int = 1
    seed: int = 1
    link: Link = field(default_factory=lambda: CALM)
    cluster_id: str = "scripted-cluster"
    topics: dict[str, ScriptedTopic] = field(default_factory=dict)
    answers: dict[type[Any], Answer] = field(default_factory=dict)
    """By type of request, for all brokers without their own answer."""
    listed: list[int] = field(default_factory=list)
    """The brokers in Metadata answers."""
    features: dict[str, int] = field(default_factory=dict)
    """The levels of the cluster's features."""
    features_epoch: int = 1
    scheduler: Scheduler = field(init=False)
    fabric: Fabric = field(init=False)
    _brokers: dict[int, ScriptedBroker] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(self.seed)
        self.fabric = Fabric(self.scheduler, self.link)
        for node_id in range(1, self.brokers + 1):
            self.add_broker(node_id)

    def __getitem__(self, node_id: int) -> ScriptedBroker:
        return self._brokers[node_id]

    def add_broker(self, node_id: int, host: str | None = None) -> ScriptedBroker:
        """Start a broker and list it in Metadata answers."""
        broker = ScriptedBroker(self, node_id, host or f"broker{node_id}")
        self._brokers[node_id] = broker
        broker.start()
        self.listed = sorted({*self.listed, node_id})
        return broker

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, for `bootstrap.servers`."""
        return ",".join(f"{broker.host}:{PORT}" for broker in self._brokers.values())

    def create(self, name: str, leaders: Sequence[int] = (1,)) -> ScriptedTopic:
        """Create a topic whose partitions have these leaders."""
        topic_id = UUID(int=self.scheduler.stream(f"topic/{name}/{len(self.topics)}").next64() + 1)
        topic = ScriptedTopic(topic_id, list(leaders), [0] * len(leaders))
        self.topics[name] = topic
        return topic

    def move(self, name: str, partition: int, leader: int) -> None:
        """Move a partition to another leader, with the next epoch."""
        topic = self.topics[name]
        topic.leaders[partition] = leader
        topic.epochs[partition] += 1

    def metadata(self, request: MetadataRequest) -> MetadataResponse:
        """Return the answer to a Metadata request."""
        names = (
            sorted(self.topics)
            if request.topics is None
            else [topic.name or "" for topic in request.topics]
        )
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=i, host=self._brokers[i].host, port=PORT)
                for i in self.listed
            ],
            cluster_id=self.cluster_id,
            controller_id=self.listed[0] if self.listed else -1,
            topics=[self._describe(name) for name in names],
        )

    def _describe(self, name: str) -> MetadataResponseTopic:
        topic = self.topics.get(name)
        if topic is None or topic.error:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic.error
            return MetadataResponseTopic(error_code=code, name=name, partitions=[])
        return MetadataResponseTopic(
            error_code=0,
            name=name,
            topic_id=topic.topic_id,
            partitions=[
                MetadataResponsePartition(
                    error_code=0 if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
                    partition_index=number,
                    leader_id=leader,
                    leader_epoch=topic.epochs[number],
                    replica_nodes=list(self._brokers),
                    isr_nodes=list(self._brokers),
                )
                for number, leader in enumerate(topic.leaders)
            ],
        )

    def client(self, name: str = "client") -> ClientSide:
        """Return a process with an environment for a client."""
        return ClientSide(self, name)

    # Time.

    @property
    def now_ms(self) -> int:
        """The monotonic clock of all brokers and clients."""
        return self.scheduler.now_ns // MS

    def run(self, duration_ms: int) -> None:
        """Let time pass."""
        self.scheduler.run(self.scheduler.now_ns + duration_ms * MS)

    def until(self, condition: Callable[[], bool], limit_ms: int = LIMIT_MS) -> None:
        """Let time pass until the condition holds. Raises `AssertionError` at the limit."""
        limit_ns = self.scheduler.now_ns + limit_ms * MS
        if not condition() and not self.scheduler.run(limit_ns, condition):
            raise AssertionError(f"not within {limit_ms} ms of virtual time")


class ClientSide(ClientProcess):
    """A client's process. `do` runs a call in it."""

    def __init__(self, cluster: ScriptedCluster, name: str) -> None:
        super().__init__(cluster.scheduler, cluster.fabric, name)
        self.cluster = cluster

    def config(self, **settings: object) -> ClientConfig:
        """Return a config from settings by Python's names, with the cluster's brokers."""
        return ClientConfig.load({"bootstrap_servers": self.cluster.bootstrap, **settings})

    def engine(self, *, max_in_flight: int = 100, **settings: object) -> Engine:
        """Return a started engine."""
        engine = Engine(
            self.env,
            self.timer,
            self.config(**settings),
            max_in_flight=max_in_flight,
            on_bug=raise_bug,
        )
        self.do(engine.start)
        return engine

    def wait(self, make: Callable[[], Waiter[T]], limit_ms: int = LIMIT_MS) -> T:
        """Run `make` in the process and let time pass until its waiter is done; its result."""
        waiter = self.do(make)
        self.cluster.until(lambda: waiter.done, limit_ms)
        return waiter.result()


PORT = 9092


class AnswerMarker:
    """A value in place of a response: `SILENT`, `CLOSE` or `NO_ANSWER`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


SILENT, CLOSE, NO_ANSWER = AnswerMarker("SILENT"), AnswerMarker("CLOSE"), AnswerMarker("NO_ANSWER")


@dataclass(slots=True)
class DelayedAnswer:
    """An answer after a delay; if `response` is a function, it is called then."""

    delay_ms: int
    response: Any


@dataclass(slots=True)
class ReceivedRequest:
    """A request as it arrived."""

    at_ms: int
    version: int
    request: Any
    client_id: str | None


Answer = Callable[[Any, int], Any]
"""Maps a request and its version to a response or one of the above."""


@dataclass(slots=True, eq=False)
class ScriptedBroker:
    """A broker at `host`:9092. Implements the network's `Handler`."""

    cluster: ScriptedCluster
    node_id: int
    host: str
    answers: dict[type[Any], Answer] = field(default_factory=dict)
    """By type of request; others are answered by the cluster's answers."""
    versions: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The lowest and highest version by API key."""
    refuses_bare: bool = False
    """True if UNSUPPORTED_VERSION for ApiVersions comes without the supported versions."""
    asked: list[ReceivedRequest] = field(default_factory=list)
    connections: int = 0
    """The number of connections accepted so far."""
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
        """Stop as after a kill: connections are closed, and new ones refused."""
        assert self._process is not None and self._network is not None
        self._process.kill()
        self._network.process_ended()

    def fall_silent(self) -> None:
        """Stop as after a power failure: clients get neither answers nor errors."""
        assert self._process is not None and self._network is not None
        self._process.kill()
        self._network.power_failed()

    def close_connections(self) -> None:
        """Close the open connections; new ones are accepted."""
        assert self._process is not None and self._server is not None
        server = self._server
        self._process.run(lambda: close_all(list(server.connections.values())))

    def of(self, kind: type[T]) -> list[T]:
        """Return the requests of a type that arrived, in order."""
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
        self.asked.append(ReceivedRequest(now_ms, version, request, header.client_id))
        self._answer(exchange, header.correlation_id, key, version, self.answer(request, version))

    def serves(self, key: int, version: int) -> bool:
        low, high = self.versions.get(key, (0, -1))
        return low <= version <= high

    def answer(self, request: Any, version: int) -> Any:
        """Return the answer to a request."""
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
        """Return the ApiVersions response with the served versions."""
        keys = [
            ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in sorted(self.versions.items())
            if not (code and self.refuses_bare)
        ]
        features = [
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in self.cluster.features.items()
        ]
        return ApiVersionsResponse(
            error_code=code,
            api_keys=keys,
            finalized_features_epoch=self.cluster.features_epoch if features else -1,
            finalized_features=features,
        )

    def _answer(
        self, exchange: Exchange, correlation_id: int, key: int, version: int, answer: Any
    ) -> None:
        if isinstance(answer, DelayedAnswer):
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
    """Close connections from the broker's side."""
    for connection in connections:
        connection.close("closed by the script")


def raise_bug(where: str, error: Exception) -> None:
    """End the test with a bug that a client or broker would log and survive."""
    raise SimulationError(f"bug while {where}: {error!r}") from error
