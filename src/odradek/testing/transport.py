"""Simulated connections: two pipes of bytes with latency, finite buffers and every way to end.

    send ─► segments in flight (latency; FIFO within the pipe) ─► inbox of the other end ─► receive
     └── takes what `capacity` leaves, sometimes less                └── gives pieces of any size

As with TCP, bytes arrive in order, once, or not at all. The seed decides the rest: how many bytes a
call takes or returns, how long a segment travels, which of two connections is faster.

How a connection ends, as its peer sees it:

| event                                 | the peer                                               |
|---------------------------------------|--------------------------------------------------------|
| `close`, or the process was killed    | end of stream after the data; reset if it had sent more |
| `reset` (a cut by a middle box)       | `ConnectionResetError`, data in flight lost             |
| `blackhole`, or the power failed      | silence; only its own deadline notices                  |
| it sends to a machine that restarted  | `ConnectionResetError`                                  |

Between two hosts the bytes take a `ways.Way`, which may be cut, slow or breaking.

Readiness is level-triggered, as `model.env.Network` requires: a transport that stays readable while
it has read interest gets event after event.
"""

from __future__ import annotations

import errno
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from odradek.model.env import Buffer, File
from odradek.testing.prng import SplitMix64
from odradek.testing.process import SimProcess
from odradek.testing.ways import HeldSegment, Way


@dataclass(slots=True)
class Link:
    """The latency and buffers of a run's connections. Rates are per mille of calls or segments."""

    latency_ns: tuple[int, int] = (50_000, 400_000)
    slow_latency_ns: tuple[int, int] = (1_000_000, 40_000_000)
    slow_rate: int = 20
    capacity: int = 64 * 1024
    chop_rate: int = 100
    wake_ns: tuple[int, int] = (1_000, 30_000)

    def latency(self, chance: SplitMix64) -> int:
        low, high = self.slow_latency_ns if chance.chance(self.slow_rate) else self.latency_ns
        return chance.between(low, high)


@dataclass(slots=True)
class Host:
    """A host. While down it is silent; after that it does not know its old connections."""

    name: str
    up: bool = True


@dataclass(slots=True, eq=False)
class SimTransport:
    """One end of a connection. Implements `model.env.Transport`."""

    chance: SplitMix64
    link: Link
    host: Host
    owner: SimProcess
    local: tuple[str, int]
    remote: tuple[str, int]
    way: Way
    """The way to the other end's host."""
    other: SimTransport | None = None
    vanishing: bool = False
    """True if data sent from this end never arrives."""
    forgotten: bool = False
    """True if the host lost this end in a power failure."""
    stalled_until_ns: int = 0
    inbox: bytearray = field(default_factory=bytearray)
    outstanding: int = 0
    ended: bool = False
    error: OSError | None = None
    closed: bool = False
    interest_read: bool = False
    interest_write: bool = False
    _readable: Callable[[], None] | None = None
    _writable: Callable[[], None] | None = None
    _wake_pending: bool = False
    _last_arrival_ns: int = 0

    @property
    def peer(self) -> tuple[str, int]:
        return self.remote

    # The Transport protocol.

    def receive(self, count: int) -> bytes | None:
        self._check_open()
        if not self.inbox:
            return b"" if self.ended else None
        take = min(count, len(self.inbox))
        if take > 1 and self.chance.chance(self.link.chop_rate):
            take = self.chance.between(1, take)
        data = bytes(self.inbox[:take])
        del self.inbox[:take]
        self._give_back(take)
        return data

    def set_low_water_mark(self, count: int) -> int:
        """The simulation reports every byte: it has no marks."""
        return 1

    def send(self, parts: Sequence[Buffer], *, more: bool = False) -> int:
        self._check_open()
        room = self.link.capacity - self.outstanding
        if room > 1 and self.chance.chance(self.link.chop_rate):
            room = self.chance.between(1, room)
        data = bytearray()
        for part in parts:
            if len(data) >= room:
                break
            data += memoryview(part)[: room - len(data)]
        if data:
            self._transmit(bytes(data))
        return len(data)

    def send_file(self, file: File, offset: int, count: int) -> int:
        self._check_open()
        room = self.link.capacity - self.outstanding
        if room <= 0:
            return 0
        return self.send([file.read(offset, min(count, room))])

    def close(self) -> None:
        """Close: sent data still arrives, then the end of the stream; a reset if data is unread."""
        if self.closed:
            return
        self.closed = True
        self.unwatch()
        if self.inbox:
            self._carry("reset", lambda end: end.fail(ConnectionResetError("reset by peer")))
        else:
            self._carry("end", SimTransport._arrived_end)
        self.inbox.clear()

    # Readiness, for `testing.network`.

    def watch(self, readable: Callable[[], None], writable: Callable[[], None]) -> None:
        self._readable, self._writable = readable, writable
        self.set_interest(read=True, write=False)

    def unwatch(self) -> None:
        self._readable = self._writable = None
        self.interest_read = self.interest_write = False

    def set_interest(self, *, read: bool, write: bool) -> None:
        self.interest_read, self.interest_write = read, write
        self.wake()

    def wake(self) -> None:
        """Plan a readiness event on the owner, if it has interest in one."""
        if not self._wake_pending and self.owner.alive and (self._can_read() or self._can_write()):
            self._wake_pending = True
            self.owner.post(self.chance.between(*self.link.wake_ns), "ready", self._ready)

    def _can_read(self) -> bool:
        return self.interest_read and bool(self.inbox or self.ended or self.error)

    def _can_write(self) -> bool:
        room = self.outstanding < self.link.capacity
        return self.interest_write and bool(room or self.error)

    def _ready(self) -> None:
        self._wake_pending = False
        if self._can_read() and self._readable is not None:
            self._readable()
        if self._can_write() and self._writable is not None:
            self._writable()
        self.wake()

    # Faults, for the plan of a run.

    def fail(self, error: OSError) -> None:
        """Raise this error from every call from now on."""
        if self.error is None and not self.closed:
            self.error = error
            self.inbox.clear()
            self.wake()

    def reset(self) -> None:
        """Reset both ends as a middle box does; data in flight is lost."""
        self.owner.scheduler.reach("network: reset")
        for end in (self, self.other):
            if end is not None:
                end.vanishing = True
                end.fail(ConnectionResetError(errno.ECONNRESET, "cut"))

    def stall(self, until_ns: int) -> None:
        """Delay everything sent from this end until then."""
        self.stalled_until_ns = max(self.stalled_until_ns, until_ns)

    # The way to the other end.

    def _check_open(self) -> None:
        if self.closed:
            raise OSError("transport is closed")
        if self.error is not None:
            raise self.error

    def _transmit(self, data: bytes) -> None:
        self.outstanding += len(data)
        crc = zlib.crc32(data)
        self._carry("data", lambda end: end._arrived(data), crc, len(data))

    def _carry(
        self, kind: str, arrive: Callable[[SimTransport], None], crc: int = 0, size: int = 0
    ) -> None:
        other, now_ns, way = self.other, self.owner.scheduler.now_ns, self.way
        if other is None or self.vanishing:
            self.owner.scheduler.note(self.owner.name, f"{kind} lost", crc)
            self.owner.scheduler.reach("network: data lost")
            return
        if way.cuts:
            self.owner.scheduler.note(self.owner.name, f"{kind} held", crc)
            self.owner.scheduler.reach("network: data held")
            way.held.append(HeldSegment(self, lambda: self._carry(kind, arrive, crc, size)))
            return
        if way.reset_rate and self.chance.chance(way.reset_rate):
            self.reset()
            return
        at_ns = way.departure_ns(now_ns, size) + way.latency(self.link, self.chance)
        at_ns = max(at_ns, self._last_arrival_ns, self.stalled_until_ns)
        # One nanosecond apart, because the order of events at the same instant is up to the seed.
        self._last_arrival_ns = at_ns + 1
        name = f"{self.owner.name}>{other.owner.name}"
        self.owner.scheduler.at(at_ns, name, kind, lambda: self._deliver(other, kind, arrive), crc)

    def _deliver(
        self, other: SimTransport, kind: str, arrive: Callable[[SimTransport], None]
    ) -> None:
        if not other.host.up:
            return
        if not (other.forgotten or other.closed):
            arrive(other)
        elif kind == "data":
            other._carry("reset", lambda end: end.fail(ConnectionResetError("reset by peer")))

    def _arrived(self, data: bytes) -> None:
        if not self.ended and self.error is None:
            self.inbox += data
            self.wake()

    def _arrived_end(self) -> None:
        self.ended = True
        self.wake()

    def _give_back(self, count: int) -> None:
        other = self.other
        if other is not None:
            other.outstanding -= count
            other.wake()
