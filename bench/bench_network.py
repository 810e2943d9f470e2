"""CPU per request of an echo server: the reactor with whole connections, asyncio streams and
protocols, bare epoll.

    python bench/bench_network.py [--seconds 2] [--rounds 5] [--payload 100]

Every server reads frames of Kafka's form (int32 length, bytes) and answers each with itself; each
runs in a process of its own. The client keeps one request under way on each of 1 or 64
connections. What is measured is the CPU time that the server's thread used
(/proc/<pid>/schedstat), divided by the requests answered: less sensitive to a busy machine than a
rate. Rounds are interleaved; the median is shown, every round is appended to
`bench/results/network.jsonl`.

The bare loop does no more than it must (no limits, no order, no partial sends): it is the floor
for Python, not a peer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import select
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from odradek.network.connection import Connection, Exchange
from odradek.network.reactor import Reactor, SystemClock
from odradek.network.server import SocketServer
from odradek.timing.timer import SystemTimer

RESULTS = Path(__file__).parent / "results" / "network.jsonl"
LENGTH = struct.Struct(">i")


class Echo:
    """The handler: the response is the request."""

    def received(self, exchange: Exchange) -> None:
        frame = exchange.frame
        exchange.respond((len(frame).to_bytes(4, "big"), frame))

    def connected(self, connection: Connection) -> None: ...

    def disconnected(self, connection: Connection) -> None: ...


def serve_reactor() -> None:
    clock = SystemClock()
    timer = SystemTimer(clock.monotonic_ms())
    reactor = Reactor(clock, timer)
    server = SocketServer(reactor, reactor.call_soon, timer, Echo())
    announce(server.listen("127.0.0.1", 0).address[1])
    reactor.run()


def serve_asyncio_streams() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                length = await reader.readexactly(4)
                writer.write(length + await reader.readexactly(LENGTH.unpack(length)[0]))
        except asyncio.IncompleteReadError:
            writer.close()

    async def main() -> None:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        announce(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


class EchoProtocol(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        self.buffer, answers = echo_frames(self.buffer + data)
        if answers:
            self.transport.write(b"".join(answers))


def serve_asyncio_protocol() -> None:
    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(EchoProtocol, "127.0.0.1", 0)
        announce(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


def serve_epoll() -> None:
    listening = socket.create_server(("127.0.0.1", 0), backlog=128)
    announce(listening.getsockname()[1])
    epoll = select.epoll()
    epoll.register(listening, select.EPOLLIN)
    connections: dict[int, socket.socket] = {}
    buffers: dict[int, bytes] = {}
    while True:
        for fd, _ in epoll.poll():
            connection = connections.get(fd)
            if connection is None:
                connection, _ = listening.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connections[connection.fileno()] = connection
                buffers[connection.fileno()] = b""
                epoll.register(connection, select.EPOLLIN)
                continue
            data = connection.recv(65536)
            if not data:
                del connections[fd]
                connection.close()
                continue
            buffers[fd], answers = echo_frames(buffers[fd] + data)
            if answers:
                connection.send(b"".join(answers))


def echo_frames(data: bytes) -> tuple[bytes, list[bytes]]:
    """(what is left, whole frames with their lengths)."""
    answers = []
    position = 0
    while len(data) >= position + 4:
        end = position + 4 + LENGTH.unpack_from(data, position)[0]
        if end > len(data):
            break
        answers.append(data[position:end])
        position = end
    return data[position:], answers


SERVERS: dict[str, Callable[[], None]] = {
    "reactor": serve_reactor,
    "epoll": serve_epoll,
    "asyncio-protocol": serve_asyncio_protocol,
    "asyncio-streams": serve_asyncio_streams,
}


def announce(port: int) -> None:
    print(port, flush=True)


def cpu_ns(pid: int) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def drive(port: int, connections: int, payload: int, seconds: float) -> int:
    """Keep one request under way on each connection; how many were answered."""
    frame = LENGTH.pack(payload) + b"x" * payload
    epoll = select.epoll()
    clients: dict[int, socket.socket] = {}
    for _ in range(connections):
        client = socket.create_connection(("127.0.0.1", port))
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        clients[client.fileno()] = client
        epoll.register(client, select.EPOLLIN)
        client.send(frame)
    got = dict.fromkeys(clients, 0)
    answered = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for fd, _ in epoll.poll():
            got[fd] += len(clients[fd].recv(65536))
            if got[fd] >= len(frame):
                got[fd] -= len(frame)
                answered += 1
                clients[fd].send(frame)
    for client in clients.values():
        client.shutdown(socket.SHUT_WR)
        while client.recv(65536):
            pass  # A close with unread data would reset the connection.
        client.close()
    epoll.close()
    return answered


def measure(kind: str, connections: int, payload: int, seconds: float) -> dict[str, object]:
    """One round against a fresh server."""
    command = [sys.executable, __file__, "--serve", kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            drive(port, connections, payload, seconds / 4)  # Warm up.
            before = cpu_ns(server.pid)
            started = time.monotonic()
            answered = drive(port, connections, payload, seconds)
            elapsed = time.monotonic() - started
            used = cpu_ns(server.pid) - before
        finally:
            server.kill()
    return {
        "bench": "network-echo",
        "server": kind,
        "connections": connections,
        "payload_bytes": payload,
        "requests": answered,
        "cpu_us_per_request": round(used / answered / 1000, 3),
        "requests_per_s": round(answered / elapsed),
    }


def pss_bytes(pid: int) -> int:
    """The process's share of the memory in use."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no Pss in smaps_rollup")


def measure_idle(kind: str, connections: int) -> dict[str, object]:
    """Memory per connection that sent one request and then nothing; CPU of the server meanwhile."""
    command = [sys.executable, __file__, "--serve", kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        clients = []
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            drive(port, 1, 100, 0.1)
            before = pss_bytes(server.pid)
            for _ in range(connections):
                client = socket.create_connection(("127.0.0.1", port))
                client.sendall(LENGTH.pack(100) + b"x" * 100)
                clients.append(client)
            for client in clients:
                client.recv(104, socket.MSG_WAITALL)
            used = pss_bytes(server.pid) - before
            cpu_before = cpu_ns(server.pid)
            time.sleep(2.0)
            cpu = cpu_ns(server.pid) - cpu_before
        finally:
            for client in clients:
                client.close()
            server.kill()
    return {
        "bench": "network-idle",
        "server": kind,
        "connections": connections,
        "bytes_per_connection": used // connections,
        "cpu_us_per_s": round(cpu / 2000, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--serve", choices=SERVERS)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--payload", type=int, default=100)
    parser.add_argument("--idle", type=int, default=2000, help="idle connections, 0: none")
    arguments = parser.parse_args()
    if arguments.serve:
        SERVERS[arguments.serve]()
        return
    about = {"python": platform.python_version(), "cores": os.cpu_count(), "at": int(time.time())}
    rows = []
    for connections in (1, 64):
        for number in range(arguments.rounds):
            for kind in SERVERS:
                row = measure(kind, connections, arguments.payload, arguments.seconds)
                rows.append(row)
                keep(row | {"round": number} | about)
    show(rows)
    if arguments.idle:
        print(f"\n{'server':20s} {'idle':>11s} {'bytes/connection':>17s} {'CPU us/s':>9s}")
        for kind in SERVERS:
            row = measure_idle(kind, arguments.idle)
            keep(row | about)
            size, cpu = row["bytes_per_connection"], row["cpu_us_per_s"]
            print(f"{kind:20s} {arguments.idle:11d} {size:17d} {cpu:9}")


def keep(row: dict[str, object]) -> None:
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a") as results:
        results.write(json.dumps(row) + "\n")


def show(rows: list[dict[str, object]]) -> None:
    print(f"{'server':20s} {'connections':>11s} {'CPU us/request':>15s} {'requests/s':>11s}")
    for connections in (1, 64):
        for kind in SERVERS:
            mine = [r for r in rows if (r["server"], r["connections"]) == (kind, connections)]
            cost = statistics.median(float(str(r["cpu_us_per_request"])) for r in mine)
            rate = statistics.median(int(str(r["requests_per_s"])) for r in mine)
            print(f"{kind:20s} {connections:11d} {cost:15.2f} {rate:11.0f}")


if __name__ == "__main__":
    main()
