"""The demo's proof: the results read back and compared with the expected results.

The topics are read by our own client, Parquet by pyarrow; Spark is not used. The pipeline writes
changes (see `pipeline`): of the lines with one key the last one counts, by offset in the topic and
by batch number in Parquet.

Each check states its two sides. `odradek demo` exits with 0 only if all checks hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds

from odradek import Consumer, Record, TopicPartition
from odradek.demo.pipeline import DELAYS_TOPIC, FLIGHTS_TOPIC, REJECTED_TOPIC
from odradek.demo.reference import Delays, Result, Window

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Check:
    """A statement with the expected and the found value, and their first difference."""

    statement: str
    expected: str
    found: str
    holds: bool
    difference: str = ""


@dataclass(frozen=True, slots=True)
class Proof:
    """The checks, and the aggregates that they checked."""

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
    rows = flights_in_topic(consumer)
    rejected = rejected_in_topic(consumer)
    windows = delays_in_topic(consumer)
    in_parquet = delays_in_parquet(parquet)
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
    """Compare two tables, line by line."""
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


class DelaysLine(msgspec.Struct):
    """A value in the topic of delays."""

    hour: datetime
    origin: str
    carrier: str
    airline: str
    flights: int
    late: int
    departure_delay: int
    arrival_delay: int
    worst_arrival_delay: int

    def window(self) -> Window:
        return Window(int(self.hour.timestamp()) * 1000, self.origin, self.carrier)

    def delays(self) -> Delays:
        return Delays(
            self.airline,
            self.flights,
            self.late,
            self.departure_delay,
            self.arrival_delay,
            self.worst_arrival_delay,
        )


decode_line = msgspec.json.Decoder(DelaysLine).decode


@dataclass(slots=True)
class TopicReader:
    """Reads a topic up to its current end; each call continues after the last one."""

    consumer: Consumer[bytes, bytes]
    topic: str
    positions: dict[TopicPartition, int] = field(default_factory=dict)

    def new_records(self) -> Iterator[Record[bytes, bytes]]:
        """Return the records written since the last call, in order within each partition. Raises
        `OffsetOutOfRange` if some were deleted."""
        ends = self.assign_to_the_end()
        yield from self.consumer
        self.positions = ends

    def count_new(self) -> int:
        """Read and count the records written since the last call."""
        ends = self.assign_to_the_end()
        count = sum(batch.num_rows for batch in self.consumer.arrow())
        self.positions = ends
        return count

    def assign_to_the_end(self) -> dict[TopicPartition, int]:
        numbers = self.consumer.partitions_for(self.topic)
        ends = self.consumer.end_offsets([TopicPartition(self.topic, n) for n in numbers])
        self.consumer.assign({p: (self.positions.get(p, 0), end) for p, end in ends.items()})
        return ends


def open_consumer(bootstrap: str) -> Consumer[bytes, bytes]:
    """Open a consumer without a group, which fails instead of skipping records."""
    return Consumer(brokers=bootstrap, auto_offset_reset="none")


def flights_in_topic(consumer: Consumer[bytes, bytes]) -> int:
    """Read and count the records in the topic of flights."""
    return TopicReader(consumer, FLIGHTS_TOPIC).count_new()


def rejected_in_topic(consumer: Consumer[bytes, bytes]) -> dict[str, int]:
    """Return the number of rejected flights by reason."""
    counts: dict[str, int] = {}
    for record in TopicReader(consumer, REJECTED_TOPIC).new_records():
        reason = dict(record.headers).get("reason") or b"no reason given"
        counts[reason.decode()] = counts.get(reason.decode(), 0) + 1
    return counts


def delays_in_topic(consumer: Consumer[bytes, bytes]) -> dict[Window, Delays]:
    """Return the last line of each window in the topic of delays."""
    found: dict[Window, Delays] = {}
    for record in TopicReader(consumer, DELAYS_TOPIC).new_records():
        line = decode_line(record.value or b"")
        found[line.window()] = line.delays()
    return found


def delays_in_parquet(directory: Path) -> dict[Window, Delays]:
    """Return the last line of each window in Parquet; empty if no batch was written."""
    if not directory.exists():
        return {}
    table = ds.dataset(directory, format="parquet", partitioning="hive").to_table()
    table = table.sort_by("batch")
    hours = table.column("hour").cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist()
    columns = [table.column(name).to_pylist() for name in ("origin", "carrier", *Delays._fields)]
    return {
        Window(hour, origin, carrier): Delays(*rest)
        for hour, origin, carrier, *rest in zip(hours, *columns, strict=True)
    }
