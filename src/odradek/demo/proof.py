"""The demo's proof: what went in and what came out, compared with what must have come out.

Each check states its two sides. All of them have to hold; `odradek demo` exits with 0 only then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from odradek import Consumer
from odradek.demo import readback
from odradek.demo.reference import Delays, Result, Window

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Check:
    """One statement: what was expected, what was found, and where they first differ."""

    statement: str
    expected: str
    found: str
    holds: bool
    difference: str = ""


@dataclass(frozen=True, slots=True)
class Proof:
    """The checks, and the aggregates they were made on."""

    checks: list[Check]
    windows: dict[Window, Delays]
    rejected: dict[str, int]

    @property
    def holds(self) -> bool:
        return all(check.holds for check in self.checks)


def prove(
    consumer: Consumer[bytes, bytes], parquet: Path, reference: Result, late_rows: int
) -> Proof:
    """Read everything back and compare it with `reference`."""
    rows = readback.flights_in_topic(consumer)
    rejected = readback.rejected_in_topic(consumer)
    windows = readback.delays_in_topic(consumer)
    in_parquet = readback.delays_in_parquet(parquet)
    accepted = sum(delays.flights for delays in windows.values())
    lost = sum(rejected.values()) + accepted
    checks = [
        equal("flights in the file = records in the topic", reference.rows, rows),
        equal("rows in = rows accepted + rows rejected", rows, lost),
        equal("flights later than the watermark", 0, late_rows),
        compare("rejected by reason = computed without Spark", reference.rejected, rejected),
        compare("windows in the topic = computed without Spark", reference.windows, windows),
        compare("windows in Parquet = computed without Spark", reference.windows, in_parquet),
    ]
    return Proof(checks, windows, rejected)


def equal(statement: str, expected: int, found: int) -> Check:
    return Check(statement, f"{expected:,}", f"{found:,}", expected == found)


def compare(statement: str, expected: Mapping[K, V], found: Mapping[K, V]) -> Check:
    """Two tables, line by line."""
    different = [k for k in expected.keys() | found.keys() if expected.get(k) != found.get(k)]
    difference = ""
    if different:
        first = min(different, key=repr)
        difference = (
            f"{len(different):,} lines differ, such as {first}: "
            f"expected {expected.get(first)}, found {found.get(first)}"
        )
    lines = f"{len(expected):,} lines", f"{len(found):,} lines"
    return Check(statement, *lines, not different, difference)
