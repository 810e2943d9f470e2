"""Other libraries see no trace of Odradek's own APIs; ours sees them. Read from the wire."""

from __future__ import annotations

import contextlib
import gc
import socket
import threading
import warnings
from collections.abc import Iterator

import pytest

from clients.libraries import LIBRARIES, Library
from odradek import Admin
from odradek.network_client.api_versions import API_VERSIONS, decode_api_versions
from odradek.protocol.api_keys import FIRST_OWN_KEY
from odradek.testing.broker import Broker


class Tap:
    """A proxy to a broker; it keeps the frames of each connection, without their lengths."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.bootstrap = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []
        self.connections: list[tuple[bytearray, bytearray]] = []
        self._start(self._accept)

    def _start(self, target, *arguments) -> None:
        self._threads.append(threading.Thread(target=target, args=arguments))
        self._threads[-1].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                host, _, port = self._broker.bootstrap.rpartition(":")
                broker = socket.create_connection((host, int(port)))
                self._sockets += [client, broker]
                kept = bytearray(), bytearray()
                self.connections.append(kept)
                self._start(self._forward, client, broker, kept[0])
                self._start(self._forward, broker, client, kept[1])

    def _forward(self, source: socket.socket, target: socket.socket, kept: bytearray) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                kept += data
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for closing in (self._listener, *self._sockets):
            closing.close()

    def listed(self) -> list[set[int]]:
        """Return the keys of every ApiVersions response that was sent through here."""
        found = []
        for sent, received in self.connections:
            requests = {frame[4:8]: frame for frame in frames(sent)}
            for answer in frames(received):
                request = requests[answer[:4]]
                key, version = (int.from_bytes(request[at : at + 2], "big") for at in (0, 2))
                if key == API_VERSIONS:
                    keys = decode_api_versions(answer, version).api_keys
                    found.append({each.api_key for each in keys})
        return found


def frames(data: bytearray) -> Iterator[bytes]:
    """Yield the whole frames of a stream."""
    position = 0
    while position + 4 <= len(data):
        end = position + 4 + int.from_bytes(data[position : position + 4], "big")
        if end > len(data):
            return
        yield bytes(data[position + 4 : end])
        position = end


@pytest.fixture
def tap(broker: Broker) -> Iterator[Tap]:
    made = Tap(broker)
    yield made
    made.close()


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.name)
def test_other_libraries_are_told_of_kafkas_apis_only(tap: Tap, library: Library) -> None:
    with library.admin(tap.bootstrap) as admin:
        admin.partitions()
    listed = tap.listed()
    assert listed
    assert all(keys and max(keys) < FIRST_OWN_KEY for keys in listed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()  # kafka-python leaves its wake-up sockets to the garbage collector.


def test_our_clients_are_told_of_our_own_apis(tap: Tap) -> None:
    with Admin(brokers=tap.bootstrap) as admin:
        admin.topics()
    assert any(max(keys) >= FIRST_OWN_KEY for keys in tap.listed())
