"""`odradek.read`: the records of a topic as one Arrow table, for notebooks and quick looks.

    odradek.read("orders", since="1h", decode="json")

The read is bounded: it ends at the end of the topic at the time of the call, and belongs to no
group. Needs pyarrow (`odradek[arrow]`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from odradek.client.blocking.consumer import Consumer
from odradek.client.consumer.application.poll_loop import run_now
from odradek.client.errors import ConfigError
from odradek.config.addresses import default_brokers
from odradek.config.client_names import alias_of
from odradek.config.durations import duration_ms
from odradek.model.topics import TopicPartition

if TYPE_CHECKING:
    from odradek.client.arrow_types import ArrowTable, Decode


WAIT_S = 0.5
LOOKUP_S = 10.0
"""How long to look for an unknown topic: shorter than elsewhere, because nobody will create it."""
Moment = datetime | timedelta | str
"""A time, or an age: a `timedelta`, or text such as "90m"."""


def read(
    topic: str,
    *,
    since: Moment | None = None,
    until: Moment | None = None,
    partitions: Iterable[int] | None = None,
    decode: Decode | None = None,
    brokers: str | Sequence[str] | None = None,
    **settings: Any,
) -> ArrowTable:
    """Return the records of a topic from `since` (default: the start) to before `until` (default:
    the end), of all partitions or of some, as a `pyarrow.Table`. Columns and `decode` are those of
    `Consumer.arrow`; the records of each partition are in order.

    Times are timestamps of records: the read begins with the first record not older than `since`,
    and ends before the first not older than `until`. `brokers` are by default those of the
    environment (ODRADEK_BROKERS, KAFKA_BOOTSTRAP_SERVERS), else localhost:9092; `settings` are
    those of a consumer. Raises as the consumer does: a value that does not fit `decode` raises
    `DecodeError`, or is null in the table with `on_decode_error`.
    """
    from odradek.client.arrow import pyarrow as pa  # Heavy, and optional.
    from odradek.client.arrow.json_values import JsonValues, unified_schema
    from odradek.client.arrow.record_batches import EMPTY

    now = datetime.now(UTC)
    first, last = moment(since, now), moment(until, now)
    if brokers is not None:
        settings["brokers"] = brokers
    meant = {alias_of(name).name for name, value in settings.items() if value is not None}
    own = {name: value for name, value in defaults().items() if name not in meant}
    with Consumer(own, **settings) as consumer:
        if partitions is None:
            partitions = consumer.partitions_for(topic, timeout=LOOKUP_S)
        wanted = [TopicPartition(topic, number) for number in partitions]
        if not wanted:
            raise ConfigError("partitions is empty: leave it out to read all of them")
        ends = consumer.end_offsets(wanted)
        starts = dict.fromkeys(wanted, 0) | consumer.beginning_offsets(wanted)
        if first is not None:
            starts |= at_time(consumer, wanted, first, ends)
        if last is not None:
            ends = at_time(consumer, wanted, last, ends)
        consumer.assign({each: (starts[each], max(starts[each], ends[each])) for each in wanted})
        batches: list[Any] = list(consumer.arrow(max_wait=WAIT_S)) or [EMPTY]
        if decode is not None:
            fields = unified_schema(batches) if decode == "json" else decode
            reading = consumer._poll_loop
            reading.collector.mark_consumed()  # The rows are not read again.
            values = JsonValues(fields, reading.on_decode_error)
            decoded = run_now(reading.convert(lambda: [values.decode(each) for each in batches]))
            assert decoded is not None
            batches = decoded
    plain = [batch.replace_schema_metadata(None) for batch in batches]
    table: ArrowTable = pa.Table.from_batches(plain)
    return table


def at_time(
    consumer: Consumer[Any, Any],
    partitions: Sequence[TopicPartition],
    time: datetime,
    ends: dict[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Return the first offset not older than `time` of each partition; its end if there is none."""
    found = consumer.offsets_for_times(dict.fromkeys(partitions, time))
    return {
        each: min(at.offset, ends[each]) if at is not None else ends[each]
        for each, at in found.items()
    }


def moment(given: Moment | None, now: datetime) -> datetime | None:
    """Return an argument as a time. Raises `ConfigError`."""
    if isinstance(given, str):
        try:
            given = timedelta(milliseconds=duration_ms(given))
        except ValueError as error:
            raise ConfigError(f"{error}; or give a datetime") from None
    return now - given if isinstance(given, timedelta) else given


def defaults() -> dict[str, Any]:
    """Return the settings of a read that differ from the consumer's, by Kafka's names."""
    return {
        "allow.auto.create.topics": False,
        "auto.offset.reset": "earliest",  # Retention may overtake the reader.
        "bootstrap.servers": default_brokers(os.environ),
    }
