"""What the pipeline has written, read back: the topics by our own client, Parquet by pyarrow.

Nothing of Spark is used here. The pipeline writes changes (see `pipeline`): of the lines with one
key the last one counts, by offset in the topic and by batch number in Parquet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds

from odradek import Consumer, Record, TopicPartition
from odradek.demo.pipeline import DELAYS_TOPIC, FLIGHTS_TOPIC, REJECTED_TOPIC
from odradek.demo.reference import Delays, Window


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
    """Reads a topic to its present end, from where the last call came to."""

    consumer: Consumer[bytes, bytes]
    topic: str
    positions: dict[TopicPartition, int] = field(default_factory=dict)

    def new_records(self) -> Iterator[Record[bytes, bytes]]:
        """The records written since the last call, in order within each partition. Raises
        `OffsetOutOfRange` where some are gone."""
        ends = self.assign_to_the_end()
        yield from self.consumer
        self.positions = ends

    def count_new(self) -> int:
        """The number of records written since the last call, counted as they are read."""
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
    """A consumer without a group, that jumps over nothing."""
    return Consumer(brokers=bootstrap, auto_offset_reset="none")


def flights_in_topic(consumer: Consumer[bytes, bytes]) -> int:
    """Records in the topic of flights, all of them read."""
    return TopicReader(consumer, FLIGHTS_TOPIC).count_new()


def rejected_in_topic(consumer: Consumer[bytes, bytes]) -> dict[str, int]:
    """Rejected flights by reason."""
    counts: dict[str, int] = {}
    for record in TopicReader(consumer, REJECTED_TOPIC).new_records():
        reason = dict(record.headers).get("reason") or b"no reason given"
        counts[reason.decode()] = counts.get(reason.decode(), 0) + 1
    return counts


def delays_in_topic(consumer: Consumer[bytes, bytes]) -> dict[Window, Delays]:
    """The last line of each window in the topic of delays."""
    found: dict[Window, Delays] = {}
    for record in TopicReader(consumer, DELAYS_TOPIC).new_records():
        line = decode_line(record.value or b"")
        found[line.window()] = line.delays()
    return found


def delays_in_parquet(directory: Path) -> dict[Window, Delays]:
    """The line of the last batch of each window in Parquet; none if no batch was written."""
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
