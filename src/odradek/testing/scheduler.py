"""The scheduler of a simulation: one heap of events and one clock decide all time and order.

    at(t) ──► heap of (t_ns, priority, seq) ──► run: pop the first, set the clock to t, digest, call
                          ▲                                    │
                          └──────────── callbacks add more ────┘

The clock jumps from event to event, so idle hours cost nothing. The priority is drawn from the
seed, so the seed decides the order of events of the same instant: runs explore ties instead of
inheriting the order of the source. The sequence number makes keys unique, so callbacks are never
compared.

Every event goes into a running BLAKE2 digest as (time, node, kind, CRC of its payload). Two runs of
a seed are the same run if and only if their digests are equal; the last events are kept as a
readable tape. `note` adds what happens within an event (bytes sent, bytes written).

An exception in a callback ends the simulation as `SimulationError`, with seed, time and event;
none is swallowed. Too many events within one virtual millisecond end it too: they are a loop that
spins instead of waiting.

Processes with their event loops are in `testing.process`. Times are whole nanoseconds.
"""

from __future__ import annotations

import hashlib
import heapq
import struct
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from odradek.testing.prng import SplitMix64, stream

MS = 1_000_000
SECOND = 1_000_000_000

# Monday, 1 January 2024, 00:00 UTC: what the wall clocks of a simulation show at its start.
WALL_START_MS = 1_704_067_200_000

_STAMP = struct.Struct("<qI")


class SimulationError(Exception):
    """A simulation that could not go on; the message says how to reproduce it."""


@dataclass(slots=True)
class ScheduledEvent:
    """A callback with its time. If cancelled, it stays in the heap and is skipped."""

    at_ns: int
    node: str
    kind: str
    crc: int
    callback: Callable[[], None] | None

    def cancel(self) -> None:
        self.callback = None


@dataclass(slots=True)
class Scheduler:
    """The events and the clock of one seed's run."""

    seed: int
    tape_lines: int = 400
    spin_limit: int = 50_000
    now_ns: int = 0
    events: int = 0
    sites: Counter[str] = field(default_factory=Counter)
    """How often each site was reached: see `testing.sites`."""
    _heap: list[tuple[int, int, int, ScheduledEvent]] = field(default_factory=list)
    _seq: int = 0
    _hash: hashlib.blake2b = field(default_factory=lambda: hashlib.blake2b(digest_size=16))
    _tape: deque[tuple[int, str, str, int]] = field(init=False)
    _ties: SplitMix64 = field(init=False)

    def __post_init__(self) -> None:
        self._tape = deque(maxlen=self.tape_lines)
        self._ties = self.stream("ties")

    def stream(self, name: str) -> SplitMix64:
        """Return the seed's random stream for one purpose; a name always gives the same stream."""
        return stream(self.seed, name)

    def at(
        self, at_ns: int, node: str, kind: str, callback: Callable[[], None], crc: int = 0
    ) -> ScheduledEvent:
        """Run `callback` at a time, not in the past. `crc` is the payload's, for the digest."""
        assert at_ns >= self.now_ns, f"{kind} at {at_ns}, but it is {self.now_ns}"
        event = ScheduledEvent(at_ns, node, kind, crc, callback)
        self._seq += 1
        heapq.heappush(self._heap, (at_ns, self._ties.next64() >> 48, self._seq, event))
        return event

    def after(
        self, delay_ns: int, node: str, kind: str, callback: Callable[[], None], crc: int = 0
    ) -> ScheduledEvent:
        """Run `callback` after a delay."""
        return self.at(self.now_ns + delay_ns, node, kind, callback, crc)

    def note(self, node: str, kind: str, crc: int = 0) -> None:
        """Add something that happened within an event to digest and tape."""
        now_ns = self.now_ns
        self._hash.update(_STAMP.pack(now_ns, crc) + f"{node}/{kind}\n".encode())
        self._tape.append((now_ns, node, kind, crc))

    def reach(self, site: str) -> None:
        """Count that the run has reached a site."""
        self.sites[site] += 1

    def run(self, until_ns: int, stop: Callable[[], bool] | None = None) -> bool:
        """Run events up to a time (returns False), or until `stop()` is true (returns True)."""
        millisecond, spins = self.now_ns // MS, 0
        while self._heap and self._heap[0][0] <= until_ns:
            event = heapq.heappop(self._heap)[3]
            callback = event.callback
            if callback is None:
                continue
            self.now_ns = event.at_ns
            if self.now_ns // MS != millisecond:
                millisecond, spins = self.now_ns // MS, 0
            spins += 1
            self._step(event, callback, spins)
            if stop is not None and stop():
                return True
        self.now_ns = max(self.now_ns, until_ns)
        return False

    def _step(self, event: ScheduledEvent, callback: Callable[[], None], spins: int) -> None:
        self.events += 1
        self.note(event.node, event.kind, event.crc)
        if spins > self.spin_limit:
            raise SimulationError(self._where(event) + f": {spins} events within one millisecond")
        event.callback = None
        try:
            callback()
        except SimulationError:
            raise
        except Exception as error:
            raise SimulationError(f"{self._where(event)}: {error!r}") from error

    def _where(self, event: ScheduledEvent) -> str:
        return (
            f"seed {self.seed}, {self.now_ns / SECOND:.6f} s, event {self.events}"
            f" ({event.node} {event.kind})"
        )

    def digest(self) -> str:
        """Return the hexadecimal digest of all events so far."""
        return self._hash.hexdigest()

    def tape(self) -> list[str]:
        """Return the last events as lines, the newest last."""
        return [
            f"{at_ns / SECOND:14.6f}  {node:<12} {kind:<28} {crc:08x}"
            for at_ns, node, kind, crc in self._tape
        ]


MILLION = 1_000_000


@dataclass(slots=True)
class SimClock:
    """A machine's two clocks: `monotonic_ms` starts at any value, `wall_ms` may be wrong.

    Both run too fast by `drift_ppm` parts per million, or too slow if that is negative.
    """

    scheduler: Scheduler
    monotonic_base_ms: int = 0
    wall_skew_ms: int = 0
    drift_ppm: int = 0
    _drift_since_ns: int = 0
    _gained_ns: int = 0
    """By how much it was ahead when the present drift began."""

    def set_drift(self, ppm: int) -> None:
        """Run at this rate from now on."""
        now_ns = self.scheduler.now_ns
        self._gained_ns = self._elapsed_ns() - now_ns
        self._drift_since_ns, self.drift_ppm = now_ns, ppm

    def restart(self, monotonic_base_ms: int) -> None:
        """Begin anew, as after a power failure. The wall clock goes on, and so does the drift."""
        now_ns = self.scheduler.now_ns
        self.wall_skew_ms += (self._elapsed_ns() - now_ns) // MS
        self._drift_since_ns, self._gained_ns = now_ns, 0
        self.monotonic_base_ms = monotonic_base_ms

    def monotonic_ms(self) -> int:
        return self.monotonic_base_ms + self._elapsed_ns() // MS

    def monotonic_ns(self) -> int:
        return self.monotonic_ms() * 1_000_000

    def wall_ms(self) -> int:
        return WALL_START_MS + self.wall_skew_ms + self._elapsed_ns() // MS

    def at_ns(self, monotonic_ms: int) -> int:
        """Return the scheduler's time at which the monotonic clock reaches this."""
        elapsed_ns = (monotonic_ms - self.monotonic_base_ms) * MS - self._gained_ns
        if not self.drift_ppm:
            return elapsed_ns
        since_ns = self._drift_since_ns
        return since_ns - (since_ns - elapsed_ns) * MILLION // (MILLION + self.drift_ppm)

    def _elapsed_ns(self) -> int:
        now_ns = self.scheduler.now_ns
        if self.drift_ppm:
            now_ns += (now_ns - self._drift_since_ns) * self.drift_ppm // MILLION
        return now_ns + self._gained_ns
