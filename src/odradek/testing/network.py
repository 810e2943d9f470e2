"""The simulated network: hosts, listeners, connecting, and faults of connections.

A `Fabric` is the whole network of a run. Each process has its own `SimNetwork` on a host, which is
its `model.env.Network`. Listeners are found by host name and port, whatever address they bind: a
host has one network card here.

    connect ─► (latency) ─► listener? ─► accepted(server end) ─► (latency) ─► connected(client end)
                 │          └── none: refused, after the way back
                 ├── host down: nothing, ever; the caller has a deadline or waits for good
                 └── a way is cut: again after 1, 2, 4, 8 and 16 s, then ETIMEDOUT (`testing.ways`)

`testing.transport` has the bytes and the ends of a connection.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field

from odradek.model.env import SYSTEM_BUFFERS, SocketBuffers, Transport
from odradek.testing.prng import SplitMix64
from odradek.testing.process import SimProcess
from odradek.testing.scheduler import SECOND, Scheduler
from odradek.testing.transport import Host, Link, SimTransport
from odradek.testing.ways import Ways

CONNECT_TRIES = 6


@dataclass(slots=True, eq=False)
class SimServerSocket:
    """A bound server socket."""

    network: SimNetwork
    address: tuple[str, int]
    accepted: Callable[[Transport], None]

    def close(self) -> None:
        listening = self.network.fabric.listening
        key = (self.network.host.name, self.address[1])
        if listening.get(key) is self:
            del listening[key]


@dataclass(slots=True, eq=False)
class SimulatedConnection:
    """Both ends of a connection, for injecting faults."""

    client: SimTransport
    server: SimTransport

    @property
    def open(self) -> bool:
        ends = (self.client, self.server)
        return not any(end.closed or end.error or end.forgotten for end in ends)

    def reset(self) -> None:
        """Reset both ends as a middle box does; data in flight is lost."""
        self.client.reset()

    def blackhole(self, *, to_server: bool, to_client: bool) -> None:
        """Drop everything sent in these directions from now on, without an error (half-open)."""
        self.client.vanishing |= to_server
        self.server.vanishing |= to_client

    def stall(self, until_ns: int) -> None:
        """Delay everything until then; then it arrives in order."""
        self.client.stall(until_ns)
        self.server.stall(until_ns)


@dataclass(slots=True, eq=False)
class Fabric:
    """All hosts, listeners and connections of a run."""

    scheduler: Scheduler
    link: Link = field(default_factory=Link)
    hosts: dict[str, Host] = field(default_factory=dict)
    listening: dict[tuple[str, int], SimServerSocket] = field(default_factory=dict)
    chance: SplitMix64 = field(init=False)
    ways: Ways = field(init=False)
    _connections: list[SimulatedConnection] = field(default_factory=list)
    _next_port: int = 20_000

    def __post_init__(self) -> None:
        self.chance = self.scheduler.stream("network")
        self.ways = Ways(self.scheduler)

    def network(self, process: SimProcess, host: str) -> SimNetwork:
        """Return the network of a process on a host; the host is up from now on."""
        machine = self.hosts.setdefault(host, Host(host))
        machine.up = True
        return SimNetwork(self, machine, process)

    def connections(self) -> list[SimulatedConnection]:
        """Return the open connections, oldest first."""
        self._connections = [c for c in self._connections if c.open]
        return list(self._connections)

    def add(self, connection: SimulatedConnection) -> None:
        self._connections.append(connection)

    def free_port(self) -> int:
        self._next_port += 1
        return self._next_port


@dataclass(slots=True)
class PendingConnect:
    """A connection attempt, until the caller gives it up."""

    given_up: bool = False
    tries: int = 0

    def give_up(self) -> None:
        self.given_up = True


@dataclass(slots=True, eq=False)
class SimNetwork:
    """The network of one process: its listeners and transports, which end with the process."""

    fabric: Fabric
    host: Host
    process: SimProcess
    _transports: list[SimTransport] = field(default_factory=list)

    # The Network protocol.

    def listen(
        self,
        host: str,
        port: int,
        accepted: Callable[[Transport], None],
        buffers: SocketBuffers = SYSTEM_BUFFERS,
    ) -> SimServerSocket:
        """Accept connections; the network's own settings say how much it holds."""
        bound = port or self.fabric.free_port()
        if (self.host.name, bound) in self.fabric.listening:
            raise OSError(errno.EADDRINUSE, f"{host}:{bound} is in use")
        listening = SimServerSocket(self, (host, bound), accepted)
        self.fabric.listening[self.host.name, bound] = listening
        return listening

    def register(
        self, transport: Transport, readable: Callable[[], None], writable: Callable[[], None]
    ) -> None:
        assert isinstance(transport, SimTransport)
        transport.watch(readable, writable)

    def set_interest(self, transport: Transport, *, read: bool, write: bool) -> None:
        assert isinstance(transport, SimTransport)
        transport.set_interest(read=read, write=write)

    def unregister(self, transport: Transport) -> None:
        assert isinstance(transport, SimTransport)
        transport.unwatch()

    def connect(
        self,
        host: str,
        port: int,
        connected: Callable[[SimTransport], None],
        failed: Callable[[OSError], None],
        buffers: SocketBuffers = SYSTEM_BUFFERS,
    ) -> Callable[[], None]:
        """Connect to a host by name; a silent host calls neither callback."""
        fabric, chance = self.fabric, self.fabric.chance
        link, ways, own = fabric.link, fabric.ways, self.host.name
        pending = PendingConnect()

        def arrive() -> None:
            machine = fabric.hosts.get(host)
            if machine is None or not machine.up or pending.given_up:
                return
            if not ways.is_open(own, host):
                retry()
                return
            delay_ns = ways.between(host, own).latency(link, chance)
            listening = fabric.listening.get((host, port))
            if listening is None:
                fabric.scheduler.reach("network: refused")
                refused = ConnectionRefusedError(errno.ECONNREFUSED, f"{host}:{port} refused")
                self.process.post(delay_ns, "refused", lambda: fail(refused))
                return
            end = self._open_connection(listening)
            self.process.post(delay_ns, "connected", lambda: answer(end))

        def retry() -> None:
            delay_ns = SECOND << pending.tries
            pending.tries += 1
            fabric.scheduler.reach("network: connecting waits for a cut")
            if pending.tries < CONNECT_TRIES:
                fabric.scheduler.after(delay_ns, name, "connect", arrive)
            else:
                fabric.scheduler.reach("network: connecting times out")
                late = TimeoutError(errno.ETIMEDOUT, f"{host}:{port} does not answer")
                self.process.post(delay_ns, "timed out", lambda: fail(late))

        def fail(error: OSError) -> None:
            if not pending.given_up:
                failed(error)

        def answer(end: SimTransport) -> None:
            if pending.given_up:
                end.close()
            else:
                connected(end)

        name = f"{self.process.name}>{host}"
        delay_ns = ways.between(own, host).latency(link, chance)
        fabric.scheduler.after(delay_ns, name, "connect", arrive)
        return pending.give_up

    def _open_connection(self, listening: SimServerSocket) -> SimTransport:
        there = listening.network
        address = (self.host.name, self.fabric.free_port())
        client = self._end(address, listening.address, there.host)
        server = there._end(listening.address, address, self.host)
        client.other, server.other = server, client
        self.fabric.add(SimulatedConnection(client, server))
        there.process.post(0, "accept", lambda: listening.accepted(server))
        return client

    def _end(self, local: tuple[str, int], remote: tuple[str, int], other: Host) -> SimTransport:
        fabric = self.fabric
        way = fabric.ways.between(self.host.name, other.name)
        end = SimTransport(fabric.chance, fabric.link, self.host, self.process, local, remote, way)
        self._transports = [t for t in self._transports if not t.closed]
        self._transports.append(end)
        return end

    # Death of the process.

    def process_ended(self) -> None:
        """Close all connections and listeners of the process, as the kernel does after a kill."""
        self._stop_listening()
        for transport in self._transports:
            transport.close()

    def power_failed(self) -> None:
        """Take the host down: peers get no error, and nothing sent to it arrives."""
        self._stop_listening()
        self.host.up = False
        for transport in self._transports:
            transport.forgotten = True

    def _stop_listening(self) -> None:
        for listening in list(self.fabric.listening.values()):
            if listening.network is self:
                listening.close()
