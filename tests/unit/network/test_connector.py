"""Connector: names, several addresses, failures and giving up."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TypeVar

import pytest

from odradek.model.env import Transport
from odradek.network import connector
from odradek.network.connector import ATTEMPT_DELAY_MS, ConnectAttempt, Connector, numeric_address
from odradek.network.reactor import Reactor, SystemClock
from odradek.network.workers import Workers
from odradek.timing.timer import SystemTimer

T = TypeVar("T")
V4 = socket.AF_INET


@pytest.fixture
def reactor() -> Iterator[Reactor]:
    clock = SystemClock()
    reactor = Reactor(clock, SystemTimer(clock.monotonic_ms()))
    workers = Workers(reactor.call_soon_threadsafe)
    reactor.offload = workers
    yield reactor
    workers.close()
    reactor.close()


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server


def refusing_port() -> int:
    """Return a port on which no socket listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        return int(server.getsockname()[1])


class Outcome:
    def __init__(self, reactor: Reactor | None = None) -> None:
        self.reactor = reactor
        self.transports: list[Transport] = []
        self.errors: list[OSError] = []

    def connected(self, transport: Transport) -> None:
        self.transports.append(transport)
        if self.reactor:
            self.reactor.stop()

    def failed(self, error: OSError) -> None:
        self.errors.append(error)
        if self.reactor:
            self.reactor.stop()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_an_address_and_a_name_can_be_connected_to(
    reactor: Reactor, listening: socket.socket, host: str
) -> None:
    outcome = Outcome(reactor)
    port = listening.getsockname()[1]
    reactor.connect(host, port, outcome.connected, outcome.failed)
    assert not outcome.transports, "not before connect returned"
    reactor.run()
    (transport,) = outcome.transports
    assert transport.peer == ("127.0.0.1", port)
    accepted, _ = listening.accept()
    transport.send([b"hello"])
    assert accepted.recv(5) == b"hello"
    transport.close()
    accepted.close()


def test_a_refused_connection_names_the_address_in_the_error(reactor: Reactor) -> None:
    outcome = Outcome(reactor)
    port = refusing_port()
    reactor.connect("127.0.0.1", port, outcome.connected, outcome.failed)
    reactor.run()
    (error,) = outcome.errors
    assert error.errno == errno.ECONNREFUSED
    assert f"127.0.0.1:{port}" in str(error)


def test_an_invalid_name_fails(reactor: Reactor) -> None:
    outcome = Outcome(reactor)
    name = "x" * 64  # Longer than a label may be, so no name server is queried.
    reactor.connect(name, 9092, outcome.connected, outcome.failed)
    reactor.run()
    assert f"cannot resolve the name '{name}'" in str(outcome.errors[0])


def test_without_workers_a_name_cannot_be_resolved(reactor: Reactor) -> None:
    reactor.offload = None
    outcome = Outcome(reactor)
    reactor.connect("localhost", 9092, outcome.connected, outcome.failed)
    reactor.run()
    assert "cannot resolve the name 'localhost': no resolver is set" in str(outcome.errors[0])


def test_after_give_up_no_callback_is_called(reactor: Reactor, listening: socket.socket) -> None:
    outcome = Outcome()
    for host, port in [
        ("127.0.0.1", listening.getsockname()[1]),
        ("localhost", listening.getsockname()[1]),
        ("127.0.0.1", refusing_port()),
    ]:
        reactor.connect(host, port, outcome.connected, outcome.failed)()
    wanted = Outcome(reactor)
    reactor.connect("localhost", listening.getsockname()[1], wanted.connected, wanted.failed)
    reactor.run()
    assert not outcome.transports and not outcome.errors
    wanted.transports[0].close()


class Scripted:
    """A connector with given addresses for a name; the test makes sockets ready."""

    def __init__(self, addresses: list[connector.Address]) -> None:
        self.addresses = addresses
        self.timer = SystemTimer(0)
        self.outcome = Outcome()
        self.attempts: list[ConnectAttempt] = []
        self.watched: dict[ConnectAttempt, Callable[[], None]] = {}
        self.connector = Connector(
            self,  # type: ignore[arg-type]
            self.timer,
            lambda callback: callback(),
            self,  # type: ignore[arg-type]
            "name",
            9092,
            self.outcome.connected,
            self.outcome.failed,
        )

    def submit(
        self,
        work: Callable[[], T],
        done: Callable[[list[connector.Address]], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self.tell = lambda: done(self.addresses)

    def watch(
        self, subject: ConnectAttempt, readable: Callable[[], None], writable: Callable[[], None]
    ) -> None:
        self.attempts.append(subject)
        self.watched[subject] = writable

    def set_mask(self, subject: ConnectAttempt, mask: int) -> None:
        assert subject in self.watched

    def unwatch(self, subject: ConnectAttempt) -> None:
        self.watched.pop(subject, None)

    def ready(self, attempt: ConnectAttempt) -> None:
        self.watched[attempt]()


def test_the_next_address_is_tried_when_one_refuses(listening: socket.socket) -> None:
    port = refusing_port()
    script = Scripted([(V4, ("127.0.0.1", port)), (V4, listening.getsockname())])
    script.tell()
    script.ready(script.attempts[0])
    assert len(script.attempts) == 2, "without waiting"
    script.ready(script.attempts[1])
    assert script.outcome.transports[0].peer == listening.getsockname()
    assert not script.watched and script.timer.size == 0
    script.outcome.transports[0].close()


def test_an_address_that_does_not_answer_does_not_delay_the_next_beyond_250_ms(
    listening: socket.socket,
) -> None:
    script = Scripted([(V4, listening.getsockname())] * 2)
    script.tell()
    script.timer.advance_clock(ATTEMPT_DELAY_MS - 1)
    assert len(script.attempts) == 1
    script.timer.advance_clock(ATTEMPT_DELAY_MS)
    silent, second = script.attempts
    script.ready(second)
    assert len(script.outcome.transports) == 1
    assert silent.fileno() == -1, "the others are closed"
    assert not script.watched
    script.outcome.transports[0].close()


def test_when_all_addresses_fail_the_error_has_the_last_reason(listening: socket.socket) -> None:
    script = Scripted([(V4, ("127.0.0.1", refusing_port()))] * 3)
    script.tell()
    for number in range(3):
        script.ready(script.attempts[number])
    (error,) = script.outcome.errors
    assert error.errno == errno.ECONNREFUSED and "name:9092" in str(error)
    assert not script.watched


def test_a_name_without_addresses_fails() -> None:
    script = Scripted([])
    script.tell()
    assert "has no address" in str(script.outcome.errors[0])


def test_a_name_resolved_after_give_up_is_not_connected_to(listening: socket.socket) -> None:
    script = Scripted([(V4, listening.getsockname())])
    script.connector.give_up()
    script.tell()
    assert not script.attempts


def test_a_socket_connected_to_itself_counts_as_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    # TCP connects a socket to itself if the system chooses the target port as its own.
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    itself = taken.getsockname()
    monkeypatch.setattr("odradek.network.connector.socket.socket", lambda *_: taken)
    script = Scripted([(V4, itself)])
    script.tell()
    script.ready(script.attempts[0])
    assert script.outcome.errors[0].errno == errno.ECONNREFUSED


class Undecided(socket.socket):
    """A socket that is connecting until `answered`."""

    def connect_ex(self, address: object) -> int:
        self.wanted = address
        return errno.EINPROGRESS

    def answered(self) -> None:
        self.setblocking(True)
        self.connect(self.wanted)  # type: ignore[arg-type]
        self.setblocking(False)


def test_an_event_of_an_earlier_owner_of_the_descriptor_is_ignored(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    undecided = Undecided()
    monkeypatch.setattr("odradek.network.connector.socket.socket", lambda *_: undecided)
    script = Scripted([(V4, listening.getsockname())])
    script.tell()
    (attempt,) = script.attempts
    script.ready(attempt)
    assert script.outcome.errors == script.outcome.transports == []  # type: ignore[comparison-overlap]
    undecided.answered()
    script.ready(attempt)
    (transport,) = script.outcome.transports
    assert transport.peer == listening.getsockname()
    transport.close()


def test_numeric_addresses_are_distinguished_from_names() -> None:
    assert numeric_address("127.0.0.1", 1) == (V4, ("127.0.0.1", 1))
    found = numeric_address("::1", 1)
    assert found is not None and found[0] == socket.AF_INET6
    assert numeric_address("localhost", 1) is None
