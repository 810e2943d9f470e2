"""What the pipeline has written, read back: the topics by our own client, Parquet by pyarrow.

Nothing of Spark is used here. The pipeline writes changes (see `pipeline`): of the lines with one
key the last one counts, by offset in the topic and by batch number in Parquet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import NoReturn

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds

from odradek.client.simple.cluster import Cluster
from odradek.client.simple.range_fetcher import RangeFetcher
from odradek.demo.pipeline import DELAYS_TOPIC, FLIGHTS_TOPIC, REJECTED_TOPIC
from odradek.demo.reference import Delays, Window
from odradek.model.ids import TopicPartition
from odradek.protocol.record_batch import batches, records_of
from odradek.protocol.records import Record


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

    cluster: Cluster
    topic: str
    positions: dict[TopicPartition, int] = field(default_factory=dict)

    def new_records(self) -> Iterator[Record]:
        """The records written since the last call, in order within each partition."""
        partitions = self.cluster.partitions([self.topic])
        ends = self.cluster.latest_offsets(partitions)
        ranges = {p: (self.positions.get(p, 0), ends[p]) for p in partitions}
        for fetched in RangeFetcher(self.cluster, ranges, out_of_range=missing):
            data = fetched.records
            for header in batches(data.data, data.start, data.end):
                if header.is_control:
                    continue
                for record in records_of(data.data, header):
                    if fetched.position <= record.offset < fetched.end:
                        yield record
        self.positions = ends


def missing(partition: TopicPartition, offset: int) -> NoReturn:
    raise LookupError(f"{partition} has lost its records from offset {offset} on")


def flights_in_topic(cluster: Cluster) -> int:
    """Records in the topic of flights, counted one by one."""
    return sum(1 for _ in TopicReader(cluster, FLIGHTS_TOPIC).new_records())


def rejected_in_topic(cluster: Cluster) -> dict[str, int]:
    """Rejected flights by reason."""
    counts: dict[str, int] = {}
    for record in TopicReader(cluster, REJECTED_TOPIC).new_records():
        reason = dict(record.headers).get("reason") or b"no reason given"
        counts[reason.decode()] = counts.get(reason.decode(), 0) + 1
    return counts


def delays_in_topic(cluster: Cluster) -> dict[Window, Delays]:
    """The last line of each window in the topic of delays."""
    found: dict[Window, Delays] = {}
    for record in TopicReader(cluster, DELAYS_TOPIC).new_records():
        line = decode_line(record.value or b"")
        found[line.window()] = line.delays()
    return found


def delays_in_parquet(directory: Path) -> dict[Window, Delays]:
    """The line of the last batch of each window in Parquet."""
    table = ds.dataset(directory, format="parquet", partitioning="hive").to_table()
    table = table.sort_by("batch")
    hours = table.column("hour").cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist()
    columns = [table.column(name).to_pylist() for name in ("origin", "carrier", *Delays._fields)]
    return {
        Window(hour, origin, carrier): Delays(*rest)
        for hour, origin, carrier, *rest in zip(hours, *columns, strict=True)
    }
