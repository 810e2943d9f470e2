"""The HTTP service of a broker: its paths, from the first moment of the start to the last.

    /metrics              the metrics of the broker as Prometheus text
    /metrics/partitions   those of each partition: a long page, for a slower scrape
    /livez    200 while the broker works: as long as its loop turns, an answer comes
    /readyz   200 if clients can be served; 503 with the reason while the broker starts or stops,
              and after its data directory failed

    bind the port ─► a thread answers while the node starts ─► the broker's own loop ─► closed last

Load balancers and Kubernetes ask these. A full disk does not make a broker unready: it still serves
reads, and appends as soon as there is room.
"""

from __future__ import annotations

from odradek.broker.metrics.exposition import CONTENT_TYPE, exposition
from odradek.broker.metrics.metric import MetricsPage
from odradek.broker.node import Node, StartFailed
from odradek.config.addresses import address_text
from odradek.config.http import NO_HTTP, HttpSettings
from odradek.network.http_connection import HttpLimits, HttpResponse
from odradek.network.http_server import ACCEPTS_PER_ROUND, REST_MS, HttpServer, Route
from odradek.network.http_thread import HttpThread
from odradek.network.listener import (
    AddressInUseError,
    CannotListenError,
    TcpServerSocket,
    bound_socket,
)
from odradek.network.reactor import Reactor

__all__ = ["HttpService"]

ADVICE = f"Choose another with --http ADDRESS:PORT, or --http {NO_HTTP}"


class HttpService:
    """Binds its address at construction and answers from then on; `serve` moves it to the loop.

    Raises `StartFailed`, and `ConfigError` if the address needs a token.
    """

    def __init__(self, settings: HttpSettings, kafka_port: int, max_connections: int) -> None:
        """`kafka_port`: a port that is not taken even if it is the next free one."""
        self._settings = settings
        self._limits = HttpLimits(max_connections=max_connections)
        self._server: HttpServer | None = None
        self._listener: TcpServerSocket | None = None
        ports = settings.ports()
        if settings.or_next_free and kafka_port in ports[:-1]:
            ports.remove(kafka_port)
        try:
            self._socket = bound_socket(settings.host, *ports)
        except (AddressInUseError, CannotListenError) as error:
            raise StartFailed(f"HTTP: {error}. {ADVICE}") from error
        name = self._socket.getsockname()
        self.address: tuple[str, int] = (str(name[0]), int(name[1]))
        try:
            settings.check_address(self.address[0])
            self._thread: HttpThread | None = HttpThread(
                self._socket, starting_routes(), settings.token, self._limits
            )
        except BaseException:
            self._socket.close()
            raise

    @property
    def url(self) -> str:
        return f"http://{address_text(*self.address)}"

    @property
    def bugs(self) -> int:
        return 0 if self._server is None else self._server.bugs

    def serve(self, node: Node, reactor: Reactor) -> None:
        """Answer on the loop of a node that has started."""
        self._stop_thread()
        self._server = HttpServer(
            reactor,
            reactor.call_soon,
            node.timer,
            node.env.clock,
            node_routes(node),
            token=self._settings.token,
            limits=self._limits,
        )
        node.http = self._server
        self._listener = TcpServerSocket(
            reactor, node.timer, self._socket, self._server.accepted, ACCEPTS_PER_ROUND, REST_MS
        )

    def close(self) -> None:
        """Stop answering."""
        self._stop_thread()
        if self._listener is not None:
            self._listener.close()
        if self._server is not None:
            self._server.close()
        self._socket.close()

    def _stop_thread(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()


def node_routes(node: Node) -> dict[str, Route]:
    """The paths of a node that has started."""
    return {
        "/metrics": lambda: metrics_page(node, MetricsPage.BROKER),
        "/metrics/partitions": lambda: metrics_page(node, MetricsPage.PARTITIONS),
        "/livez": live,
        "/readyz": lambda: health(why_not_ready(node)),
    }


def starting_routes() -> dict[str, Route]:
    """The paths while the node starts: there is nothing to measure yet."""
    starting = "the broker starts: it opens and recovers its logs"
    return {
        "/metrics": lambda: health(starting),
        "/metrics/partitions": lambda: health(starting),
        "/livez": live,
        "/readyz": lambda: health(starting),
    }


def metrics_page(node: Node, view: MetricsPage) -> HttpResponse:
    return HttpResponse(200, exposition(node, view), CONTENT_TYPE)


def live() -> HttpResponse:
    return HttpResponse.text(200, "ok")


def health(trouble: str | None) -> HttpResponse:
    """The answer of a health check: 200, or 503 with the reason."""
    return HttpResponse.text(200, "ok") if trouble is None else HttpResponse.text(503, trouble)


def why_not_ready(node: Node) -> str | None:
    """The reason why clients cannot be served; None if they can."""
    if node.is_stopping:
        return "the broker stops"
    failure = node.directory.fence.failure
    return None if failure is None else str(failure)
