"""A broker's HTTP over loopback: health through start, failure and stop, ports, the token."""

from __future__ import annotations

import errno
import http.client
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import closing

import pytest
from prometheus_client.parser import text_string_to_metric_families

from odradek import Producer
from odradek.broker.http_service import HttpService
from odradek.broker.server import BadSettings, Server, StartFailed
from odradek.config.http import HttpSettings
from odradek.log.memory_disk import MemoryDisk, MemoryFile
from odradek.testing import Broker
from odradek.testing.ports import reserve_ports

TIMEOUT_S = 30
TOKEN = "a-token-of-the-test"


def ask(url: str, token: str | None = None) -> tuple[int, str]:
    """The status and the text of an answer."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return answer.status, answer.read().decode().strip()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode().strip()


class SlowDisk(MemoryDisk):
    """A disk that does not let the broker lock its directory before `go` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def lock(self, path: str) -> Callable[[], None]:
        assert self.go.wait(TIMEOUT_S)
        return super().lock(path)


class SlowSyncFile(MemoryFile):
    def sync(self) -> None:
        assert isinstance(self.disk, SlowSyncDisk)
        assert self.disk.go.wait(TIMEOUT_S)
        super().sync()


class SlowSyncDisk(MemoryDisk):
    """A disk whose syncs end while `go` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()
        self.go.set()

    def new_file(self, path: str) -> MemoryFile:
        return SlowSyncFile(self, path)


class TroubledFile(MemoryFile):
    def sync(self) -> None:
        assert isinstance(self.disk, TroubledDisk)
        if self.disk.broken:
            raise OSError(errno.EIO, "Input/output error", self.name)
        super().sync()


class TroubledDisk(MemoryDisk):
    """A disk that can be full, or broken."""

    full = broken = False

    def effect(self, kind: str, path: str) -> None:
        if self.full and kind in ("create", "append", "replace"):
            raise OSError(errno.ENOSPC, "No space left on device", path)

    def new_file(self, path: str) -> MemoryFile:
        return TroubledFile(self, path)


def test_a_broker_is_alive_and_ready() -> None:
    with Broker(http=0) as broker:
        assert ask(f"{broker.http_url}/livez") == (200, "ok")
        assert ask(f"{broker.http_url}/readyz") == (200, "ok")
        assert ask(f"{broker.http_url}/other")[0] == 404


def test_prometheus_can_parse_the_metrics_of_the_broker_and_of_its_partitions() -> None:
    with Broker(http=0) as broker:
        with Producer(brokers=broker.bootstrap) as producer:
            producer.send("t", b"one").result()
        pages = {}
        for path in ("/metrics", "/metrics/partitions"):
            with urllib.request.urlopen(broker.http_url + path, timeout=TIMEOUT_S) as answer:
                assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
                pages[path] = list(text_string_to_metric_families(answer.read().decode()))
        assert broker.bugs == 0
    broker_page = {family.name: family.samples for family in pages["/metrics"]}
    assert broker_page["odradek_http_requests"][0].value == 1, "the scrape itself"
    ends = [
        sample
        for family in pages["/metrics/partitions"]
        for sample in family.samples
        if sample.labels.get("topic") == "t"
    ]
    assert ends and {sample.labels["partition"] for sample in ends} == {"0"}


def test_a_broker_serves_no_http_unless_it_is_asked_to() -> None:
    with Broker() as broker, pytest.raises(ValueError, match=r"Broker\(http=0\)"):
        _ = broker.http_url


def test_while_it_starts_a_broker_is_alive_and_not_ready() -> None:
    disk = SlowDisk()
    broker = Broker(http=reserve_ports(1)[0], disk=disk)
    starting = threading.Thread(target=broker.start)
    starting.start()
    try:
        url = f"http://127.0.0.1:{until(lambda: broker._server.http).address[1]}"
        for _ in range(3):
            assert ask(f"{url}/livez") == (200, "ok")
            status, reason = ask(f"{url}/readyz")
            assert (status, "starts" in reason) == (503, True)
            assert ask(f"{url}/metrics") == (503, reason), "nothing can be measured yet"
    finally:
        disk.go.set()
        starting.join(TIMEOUT_S)
    assert ask(f"{url}/readyz") == (200, "ok")
    assert len([t for t in threading.enumerate() if t.name == "odradek-http-start"]) == 0
    broker.stop()
    with pytest.raises(OSError):
        ask(f"{url}/livez")


def test_a_full_disk_does_not_make_a_broker_unready() -> None:
    disk = TroubledDisk()
    with Broker(http=0, disk=disk) as broker:
        with Producer(brokers=broker.bootstrap) as producer:
            producer.send("t", b"there is room").result()
        disk.full = True
        with Producer(
            brokers=broker.bootstrap, request_timeout_ms=400, delivery_timeout_ms=800
        ) as producer:
            assert producer.send("t", b"there is none").exception() is not None
            assert ask(f"{broker.http_url}/readyz") == (200, "ok")
            assert ask(f"{broker.http_url}/livez") == (200, "ok")
            assert ask(f"{broker.http_url}/metrics")[0] == 200
            assert ask(f"{broker.http_url}/metrics/partitions")[0] == 200
        disk.full = False
        with Producer(brokers=broker.bootstrap) as producer:
            producer.send("t", b"there is room again").result()


@pytest.mark.filterwarnings("ignore")
def test_a_failed_disk_makes_a_broker_unready_with_the_reason() -> None:
    disk = TroubledDisk()
    with Broker(http=0, disk=disk) as broker:
        with Producer(
            brokers=broker.bootstrap, request_timeout_ms=400, delivery_timeout_ms=800
        ) as producer:
            producer.send("t", b"fine").result()
            disk.broken = True
            assert producer.send("t", b"lost").exception() is not None
        status, reason = ask(f"{broker.http_url}/readyz")
        assert status == 503 and "fenced until a restart" in reason and "Input/output" in reason
        assert ask(f"{broker.http_url}/metrics/partitions")[0] == 200
        assert ask(f"{broker.http_url}/livez") == (200, "ok"), "a restart is for the operator"
        disk.broken = False


def test_while_it_stops_a_broker_is_alive_and_not_ready() -> None:
    disk = SlowSyncDisk()
    with Broker(http=0, disk=disk, settings={"log.durability": "os"}) as broker:
        with Producer(brokers=broker.bootstrap) as producer:
            producer.send("t", b"to be flushed at the end").result()
        disk.go.clear()
        stopping = threading.Thread(target=broker.stop)
        stopping.start()
        try:
            until(lambda: ask(f"{broker.http_url}/readyz") == (503, "the broker stops"))
            assert ask(f"{broker.http_url}/livez") == (200, "ok")
        finally:
            disk.go.set()
            stopping.join(TIMEOUT_S)
    assert broker.bugs == 0


def test_the_default_port_may_be_the_next_free_one_but_not_kafkas() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        for kafka_port, expected in ((0, port + 1), (port + 1, port + 2)):
            settings = HttpSettings(port=port, or_next_free=True)
            service = HttpService(settings, kafka_port, max_connections=4)
            try:
                assert service.address[1] >= expected
            finally:
                service.close()


def test_a_given_port_in_use_fails_the_start_with_its_holder_and_what_to_do() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        server = Server({}, host="127.0.0.1", port=0, data_dir=None, http=HttpSettings(port=port))
        with pytest.raises(StartFailed, match=rf"{port} is in use by .*--http"):
            server.start()


def test_a_start_that_fails_frees_the_http_port() -> None:
    (port,) = reserve_ports(1)
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        kafka = taken.getsockname()[1]
        server = Server(
            {}, host="127.0.0.1", port=kafka, data_dir=None, http=HttpSettings(port=port)
        )
        with pytest.raises(StartFailed, match=f"{kafka} is in use"):
            server.start()
    socket.create_server(("127.0.0.1", port)).close()


def test_an_address_that_others_can_reach_needs_a_token() -> None:
    def server(token: str | None) -> Server:
        settings = HttpSettings("0.0.0.0", 0, token)
        return Server({}, host="127.0.0.1", port=0, data_dir=None, http=settings)

    with pytest.raises(BadSettings, match=r"needs a token.*--http-token-file"):
        server(None).start()
    allowed = server(TOKEN)
    allowed.start()
    allowed.request_stop()
    allowed.run()


def test_a_token_is_asked_for_on_every_path() -> None:
    with Broker(http=0, http_token=TOKEN) as broker:
        for path in ("/livez", "/readyz", "/none"):
            assert ask(broker.http_url + path)[0] == 401
            assert ask(broker.http_url + path, "wrong")[0] == 403
        assert ask(f"{broker.http_url}/readyz", TOKEN) == (200, "ok")


def test_many_scrapers_are_bounded_and_kafka_clients_are_served_meanwhile() -> None:
    held: list[socket.socket] = []
    with Broker(http=0) as broker, Producer(brokers=broker.bootstrap) as producer:
        address = http_address(broker)
        producer.send("t", b"before").result()
        try:
            for _ in range(500):
                scraper = socket.create_connection(address, timeout=TIMEOUT_S)
                scraper.sendall(b"GET /livez HTTP/1.1\r\nHos")  # Never completed.
                held.append(scraper)
            producer.send("t", b"meanwhile").result(timeout=TIMEOUT_S)
            refused = sum(was_refused(scraper) for scraper in held[100:])
        finally:
            for scraper in held:
                scraper.close()
        assert refused == len(held[100:]), "beyond the limit each is answered at once"
        until(lambda: ask(f"{broker.http_url}/livez") == (200, "ok"))
        assert broker.bugs == 0


def test_a_keep_alive_client_of_the_standard_library_reuses_its_connection() -> None:
    with Broker(http=0) as broker:
        client = http.client.HTTPConnection(*http_address(broker), timeout=TIMEOUT_S)
        with closing(client):
            ports = set()
            for _ in range(3):
                client.request("GET", "/readyz", body=b"a body is dropped")
                answer = client.getresponse()
                assert (answer.status, answer.read()) == (200, b"ok\n")
                assert client.sock is not None
                ports.add(client.sock.getsockname())
            assert len(ports) == 1


def http_address(broker: Broker) -> tuple[str, int]:
    host, _, port = broker.http_url.removeprefix("http://").rpartition(":")
    return host, int(port)


def was_refused(scraper: socket.socket) -> bool:
    try:
        return scraper.recv(100).startswith(b"HTTP/1.1 503") or scraper.recv(1) == b""
    except ConnectionResetError:
        return True


def until(found):
    """Call until the result is true, and return it."""
    while not (result := found()):
        threading.Event().wait(0.01)
    return result
