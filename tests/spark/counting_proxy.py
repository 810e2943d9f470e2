"""A proxy that counts the bytes a broker sends."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

from odradek.testing import Broker
from odradek.testing.ports import reserve_ports


class CountedBroker:
    """A broker that clients reach only through a proxy that counts bytes."""

    def __init__(self) -> None:
        self.sent = 0
        """Bytes that came from the broker."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.bootstrap = f"127.0.0.1:{self._listener.getsockname()[1]}"
        (self._port,) = reserve_ports(1)
        settings = {"advertised.listeners": f"PLAINTEXT://{self.bootstrap}"}
        self._broker = Broker(port=self._port, settings=settings)
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._broker.__enter__()
        self._start(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._broker.__exit__(kind, value, traceback)
        # Closing alone would not wake `accept`.
        self._listener.shutdown(socket.SHUT_RDWR)
        for each in self._threads:
            each.join()
        for closing in (self._listener, *self._sockets):
            closing.close()

    def _start(self, target, *arguments) -> None:
        self._threads.append(threading.Thread(target=target, args=arguments))
        self._threads[-1].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._sockets.append(client)
                broker = socket.create_connection(("127.0.0.1", self._port))
                self._sockets.append(broker)
                self._start(self._forward, client, broker, False)
                self._start(self._forward, broker, client, True)

    def _forward(self, source: socket.socket, target: socket.socket, counted: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self.sent += len(data) if counted else 0
                target.sendall(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
