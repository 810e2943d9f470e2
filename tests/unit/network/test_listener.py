"""Listening and accepting: a port in use, and a process out of descriptors."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.model.env import Transport
from odradek.network.listener import (
    AddressInUseError,
    CannotListenError,
    TcpServerSocket,
    bound_socket,
    port_holder,
)
from odradek.network.poller import READ
from odradek.timing.timer import SystemTimer
from unit.network.memory_network import Recorder, framed
from unit.network.reactor_thread import read_frame, serving


def test_port_0_binds_a_free_port_which_the_address_shows() -> None:
    with serving(Recorder(echo=True)) as thread:
        host, port = thread.address
        assert (host, port > 0) == ("127.0.0.1", True)


def test_the_error_for_a_port_in_use_names_its_holder() -> None:
    with serving(Recorder()) as thread:

        def listen_again() -> str:
            with pytest.raises(AddressInUseError) as caught:
                thread.server.listen(*thread.address)
            return str(caught.value)

        message = thread.on_owner(listen_again)
        assert f"{thread.address[0]}:{thread.address[1]} is in use" in message
        if sys.platform == "linux":
            assert f"(pid {os.getpid()})" in message


def test_the_error_names_an_address_of_another_machine() -> None:
    with serving(Recorder()) as thread:

        def listen_elsewhere() -> None:
            with pytest.raises(CannotListenError, match=r"^cannot listen on 192\.0\.2\.254:0: "):
                thread.server.listen("192.0.2.254", 0)

        thread.on_owner(listen_elsewhere)


def test_the_error_names_an_invalid_host_name() -> None:
    name = "a" * 64 + ".example"
    with pytest.raises(CannotListenError, match=rf"^cannot listen on {name}:0: \S"):
        bound_socket(name, 0)


def test_the_error_names_an_unknown_host_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", asked)
    with pytest.raises(CannotListenError) as caught:
        bound_socket("no.example", 9092)
    assert str(caught.value) == "cannot listen on no.example:9092: Name or service not known"


def test_a_port_may_be_bound_again_right_after_it_was_closed() -> None:
    with serving(Recorder(echo=True)) as first:
        with first.connect() as client:
            client.sendall(framed(b"x"))
            read_frame(client)
        address = first.address
    with serving(Recorder(echo=True)) as second:
        assert second.on_owner(lambda: second.server.listen(*address)).address == address


def test_after_stop_accepting_open_connections_go_on() -> None:
    with serving(Recorder(echo=True)) as thread, thread.connect() as client:
        client.sendall(framed(b"one"))
        assert read_frame(client) == b"one"
        thread.on_owner(thread.server.stop_accepting)
        client.sendall(framed(b"two"))
        assert read_frame(client) == b"two"
        with pytest.raises(ConnectionRefusedError):
            thread.connect()


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs Linux's /proc")
def test_port_holder_finds_the_process_or_none(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert port_holder(port) is not None
        assert port_holder(port, proc=tmp_path) is None, "no /proc: nobody is found"
    assert port_holder(port) is None


class RecordingWatcher:
    """A fake reactor that records masks; the test calls the callbacks."""

    def __init__(self) -> None:
        self.masks: list[int] = []

    def watch(
        self, subject: TcpServerSocket, readable: Callable[[], None], writable: Callable[[], None]
    ) -> None:
        self.readable = readable

    def set_mask(self, subject: TcpServerSocket, mask: int) -> None:
        self.masks.append(mask)

    def unwatch(self, subject: TcpServerSocket) -> None: ...


def test_pauses_get_longer_until_a_connection_is_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watcher, timer = RecordingWatcher(), SystemTimer(0)
    accepted: list[Transport] = []
    bound = bound_socket("127.0.0.1", 0)
    listening = TcpServerSocket(watcher, timer, bound, accepted.append)  # type: ignore[arg-type]

    def exhausted(_: socket.socket) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as starved:
        starved.setattr(socket.socket, "accept", exhausted)
        pauses = []
        for _ in range(6):
            watcher.readable()
            assert watcher.masks.pop() == 0, "not watched while it pauses: it cannot spin"
            began_ms = timer.now_ms
            while not watcher.masks:
                timer.advance_clock(timer.next_deadline_ms() or 0)
            pauses.append(timer.now_ms - began_ms)
            assert watcher.masks.pop() == READ
    assert pauses == [100, 200, 400, 800, 1000, 1000]
    with socket.create_connection(listening.address):
        watcher.readable()
    assert len(accepted) == 1
    accepted[0].close()
    listening.close()


TESTS = Path(__file__).parents[2]


@pytest.mark.skipif(sys.platform != "linux", reason="counts CPU time with /proc")
def test_without_descriptors_it_rejects_clients_serves_the_others_and_recovers() -> None:
    # `starved_server` lowers the limit of descriptors of its own process.
    done = subprocess.run(
        [sys.executable, "-m", "unit.network.starved_server"],
        cwd=TESTS,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["rejected"] > 0, "clients see the rejection"
    assert report["served_while_full"] is True
    assert report["served_after"] is True
    assert report["wakeups_while_full"] <= 40, "it sleeps between attempts"


def test_a_listener_may_rest_after_a_round_with_all_its_accepts() -> None:
    watcher, timer = RecordingWatcher(), SystemTimer(0)
    accepted: list[Transport] = []
    bound = bound_socket("127.0.0.1", 0)
    listening = TcpServerSocket(watcher, timer, bound, accepted.append, 2, rest_ms=10)  # type: ignore[arg-type]
    clients = [socket.create_connection(listening.address) for _ in range(3)]
    try:
        watcher.readable()
        assert len(accepted) == 2 and watcher.masks == [0]
        timer.advance_clock(9)
        assert watcher.masks == [0]
        timer.advance_clock(10)
        assert watcher.masks == [0, READ]
        watcher.readable()
        assert len(accepted) == 3 and watcher.masks == [0, READ], "a round with room goes on"
    finally:
        listening.close()
        for client in clients:
            client.close()
        for transport in accepted:
            transport.close()
