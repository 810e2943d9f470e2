"""Sums over the runs of one command: virtual time, faults, records, violations.

A `RunResult` is all that is kept of a run: a world of its own size for each of thousands of seeds
would not fit into memory, and it can be handed from one process to another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from odradek.testing.scheduler import SECOND
from odradek.testing.sites import table

FAULT = "fault: "
HOUR = 3_600 * SECOND


@dataclass(frozen=True, slots=True)
class RunResult:
    """One run. `lines`: what is printed of it; `violations`: their kinds, or the exception's."""

    world: str
    lines: Sequence[str]
    kept: bool
    virtual_ns: int
    events: int
    sites: Counter[str]
    sent: int = 0
    acked: int = 0
    lost: int = 0
    violations: Sequence[str] = ()


@dataclass(slots=True)
class Totals:
    """The sums of all runs so far."""

    runs: int = 0
    failed: int = 0
    virtual_ns: int = 0
    events: int = 0
    sent: int = 0
    acked: int = 0
    lost: int = 0
    violations: Counter[str] = field(default_factory=Counter)
    sites: dict[str, list[Counter[str]]] = field(default_factory=dict)
    """The sites that each run has reached, by kind of world."""

    @property
    def hours(self) -> float:
        """The virtual time of all runs."""
        return self.virtual_ns / HOUR

    def add(self, run: RunResult) -> None:
        """Add a run."""
        self.runs += 1
        self.failed += not run.kept
        self.virtual_ns += run.virtual_ns
        self.events += run.events
        self.sent += run.sent
        self.acked += run.acked
        self.lost += run.lost
        self.violations.update(run.violations)
        self.sites.setdefault(run.world, []).append(run.sites)

    def summary(self) -> list[str]:
        """Return what the runs add up to, as lines that are the same wherever they run."""
        faults: Counter[str] = Counter()
        for runs in self.sites.values():
            for sites in runs:
                faults.update({name: n for name, n in sites.items() if name.startswith(FAULT)})
        kinds = [f"{name.removeprefix(FAULT)} {n}" for name, n in sorted(faults.items())]
        found = [f"{name} {n}" for name, n in sorted(self.violations.items())]
        return [
            f"{self.hours:.2f} virtual hours of {', '.join(sorted(self.sites))} worlds;"
            f" {self.runs} runs, {self.failed} failed;"
            f" records sent {self.sent}, acked {self.acked}, lost {self.lost}",
            f"faults: {sum(faults.values())} ({', '.join(kinds) or 'none'})",
            f"violations: {sum(self.violations.values())} ({', '.join(found) or 'none'})",
        ]

    def speed(self, seconds: float) -> str:
        """Return how fast the runs were, which took so long."""
        virtual_s = self.virtual_ns / SECOND
        return (
            f"{self.runs - self.failed} of {self.runs} ok; {virtual_s:.0f}"
            f" virtual seconds in {seconds:.1f} s ({virtual_s / seconds:.0f}x),"
            f" {self.events / seconds:.0f} events per second"
        )

    def site_table(self, expected: Mapping[str, Sequence[str]]) -> list[str]:
        """Return the table of the sites of each kind of world. With one seed it has only those that
        were reached.
        """
        lines = []
        for name, runs in self.sites.items():
            lines.append(f"sites of {name} worlds:")
            lines += [f"  {line}" for line in table(runs, expected[name] if len(runs) > 1 else ())]
        return lines
