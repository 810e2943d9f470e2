"""The ways between hosts: what happens to bytes from one host to another, one direction at a time.

A `Way` is one direction of one pair of hosts. It can be

    cut         nothing arrives until it is mended; then it arrives, late, as TCP sends it again
    slow        a latency and a bandwidth of its own
    breaking    connections are reset now and then

Cuts are counted, so that faults which overlap can be undone one by one. Data that was sent into a
cut waits for the mending; it is lost only if its connection ends before. The kernel's own limit of
retransmission (15 minutes on Linux) is not modelled: brokers and clients have deadlines of seconds.
A connection attempt needs both directions: it is repeated after 1, 2, 4, 8 and 16 s, as SYNs are,
and then fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from odradek.testing.prng import SplitMix64
from odradek.testing.scheduler import MS, SECOND, Scheduler

if TYPE_CHECKING:
    from odradek.testing.transport import Link, SimTransport

RESEND_MS = (0, 1_500)
"""The range of the time after the mending of a way until data is sent again."""


@dataclass(slots=True)
class HeldSegment:
    """Something that a transport sent while its way was cut."""

    transport: SimTransport
    send: Callable[[], None]


@dataclass(slots=True, eq=False)
class Way:
    """One direction of one pair of hosts. Rates are per mille of segments."""

    source: str
    target: str
    cuts: int = 0
    link: Link | None = None
    """The latency of this way, if it is not that of the run."""
    bytes_per_s: int = 0
    """The bandwidth; 0: no limit."""
    reset_rate: int = 0
    held: list[HeldSegment] = field(default_factory=list)
    _free_ns: int = 0

    def latency(self, ordinary: Link, chance: SplitMix64) -> int:
        """Draw the time of one segment."""
        return (self.link or ordinary).latency(chance)

    def departure_ns(self, now_ns: int, size: int) -> int:
        """Return when the last of `size` bytes has left, after all bytes before them."""
        if not self.bytes_per_s:
            return now_ns
        self._free_ns = max(now_ns, self._free_ns) + size * SECOND // self.bytes_per_s
        return self._free_ns

    def is_plain(self) -> bool:
        """True if nothing is wrong with this way."""
        return not (self.cuts or self.link or self.bytes_per_s or self.reset_rate)

    def __str__(self) -> str:
        return f"{self.source}>{self.target}"


@dataclass(slots=True, eq=False)
class Ways:
    """All ways of a run. A host's way to itself is never disturbed."""

    scheduler: Scheduler
    chance: SplitMix64 = field(init=False)
    mute: list[str] = field(default_factory=list)
    """Hosts whose ways to hosts that come later are cut for ever."""
    deaf: list[str] = field(default_factory=list)
    """Hosts whose ways from hosts that come later are cut for ever."""
    _ways: dict[tuple[str, str], Way] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chance = self.scheduler.stream("ways")

    def between(self, source: str, target: str) -> Way:
        """Return the way from one host to another."""
        way = self._ways.get((source, target))
        if way is None:
            way = self._ways[source, target] = Way(source, target)
            if source != target and (source in self.mute or target in self.deaf):
                way.cuts = 1
        return way

    def is_open(self, source: str, target: str) -> bool:
        """True if a connection can be made: neither direction is cut."""
        there, back = self.between(source, target), self.between(target, source)
        return not (there.cuts or back.cuts)

    def cut(self, ways: Iterable[Way]) -> None:
        """Cut these ways."""
        for way in ways:
            if way.source != way.target:
                way.cuts += 1
                self.scheduler.note(str(way), "cut")

    def mend(self, ways: Iterable[Way]) -> None:
        """Undo one cut of these ways; what waited for it is sent again soon."""
        for way in ways:
            if way.cuts:
                way.cuts -= 1
                self.scheduler.note(str(way), "mended")
                if not way.cuts:
                    self._resend(way)

    def heal(self, keep: Iterable[Way] = ()) -> None:
        """Make all ways ordinary, except those to `keep`."""
        kept = list(keep)
        for way in list(self._ways.values()):
            if way in kept:
                continue
            way.link, way.bytes_per_s, way.reset_rate = None, 0, 0
            if way.cuts:
                way.cuts = 1
                self.mend([way])

    def _resend(self, way: Way) -> None:
        held, way.held = [each for each in way.held if not each.transport.forgotten], []
        delayed: list[SimTransport] = []
        for segment in held:
            if segment.transport not in delayed:
                delayed.append(segment.transport)
                wait_ns = self.chance.between(*RESEND_MS) * MS
                segment.transport.stall(self.scheduler.now_ns + wait_ns)
            segment.send()
