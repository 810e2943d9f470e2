"""Columns of JSON values: schemas, errors and their records."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from odradek.client.arrow.json_values import JsonValues, unified_schema
from odradek.client.arrow.record_batches import SCHEMA
from odradek.client.consumer.record import Record
from odradek.client.errors import ConfigError, DecodeError

FIELDS = pa.schema([("id", pa.int64()), ("item", pa.string())])


def batch(values: Sequence[bytes | None], timestamp_ms: int = 1000) -> pa.RecordBatch:
    """Return a batch of records of orders-3, from offset 10 on."""
    rows: list[dict[str, object]] = [
        {
            "key": b"k",
            "value": value,
            "topic": "orders",
            "partition": 3,
            "offset": 10 + index,
            "timestamp": timestamp_ms,
            "timestampType": 0,
            "headers": [],
        }
        for index, value in enumerate(values)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA.with_metadata({b"a": b"b"}))


def values(decoded: pa.RecordBatch) -> list[object]:
    found: list[object] = decoded.column("value").to_pylist()
    return found


def test_fields_and_types_are_those_of_the_first_batch() -> None:
    decoder = JsonValues("json")
    first = decoder.decode(batch([b'{"id": 1}', None, b' {"id": 2,\n"item": "pen"} ']))
    assert values(first) == [{"id": 1, "item": None}, None, {"id": 2, "item": "pen"}]
    assert first.schema.metadata == {b"a": b"b"}
    assert first.column("offset").to_pylist() == [10, 11, 12]
    later = decoder.decode(batch([b'{"item": "ink", "price": 3}', b"{}"]))
    assert values(later) == [{"id": None, "item": "ink"}, {"id": None, "item": None}]
    assert later.schema == first.schema


def test_a_schema_selects_the_fields() -> None:
    decoder = JsonValues(FIELDS)
    assert values(decoder.decode(batch([None]))) == [None]
    found = decoder.decode(batch([b'{"id": 1, "x": []}']))
    assert values(found) == [{"id": 1, "item": None}]
    assert found.schema.field("value").type == pa.struct(list(FIELDS))


@pytest.mark.parametrize("wanted", ["json", FIELDS])
@pytest.mark.parametrize(
    "bad",
    [
        b"3",
        b"",
        b" ",
        b"[{}]",
        b"null",
        b'{"id": 1',
        b'{"id": 1} {"id": 2}',
        b"\xff",
        b'{"id": 1}x',
        b'{"id": 2}{"b":',
        b'{"id": 2}}\n{"v":{"id": 3}',
    ],
)
def test_a_value_that_is_no_object_raises_with_its_record(wanted: object, bad: bytes) -> None:
    said = r"orders-3 at offset 12 is no JSON object .* on_decode_error='skip' .* offset 13 on"
    with pytest.raises(DecodeError, match=said) as caught:
        JsonValues(wanted).decode(batch([b'{"id": 1}', b'{"id": 2}', bad, b'{"id": 3}']))  # type: ignore[arg-type]
    record = caught.value.record
    assert isinstance(record, Record)
    assert (record.topic, record.partition, record.offset, record.value) == ("orders", 3, 12, bad)


@pytest.mark.parametrize("timestamp_ms", [-1, 1_769_860_800_123, 1_769_860_800_000_000, 2**63 - 1])
def test_the_record_of_a_decode_error_keeps_its_timestamp(timestamp_ms: int) -> None:
    """Also one that is no date: some producers write microseconds instead of milliseconds."""
    with pytest.raises(DecodeError) as caught:
        JsonValues("json").decode(batch([b"x"], timestamp_ms))
    assert isinstance(caught.value.record, Record)
    assert caught.value.record.timestamp_ms == timestamp_ms


def test_a_field_of_another_type_than_in_the_schema_raises() -> None:
    told: list[DecodeError] = []
    decoder = JsonValues(FIELDS, told.append)
    found = decoder.decode(batch([b'{"id": 1}', b'{"id": "one"}', b'{"id": 3}', b"x", None]))
    assert values(found) == [
        {"id": 1, "item": None},
        None,
        {"id": 3, "item": None},
        None,
        None,
    ]
    assert [error.record.offset for error in told if isinstance(error.record, Record)] == [11, 13]


def test_broken_values_are_not_completed_by_other_values() -> None:
    """Three values that together hold three objects, but none of which is one object."""
    told: list[DecodeError] = []
    found = JsonValues("json", told.append).decode(batch([b'{"a":1}', b'{"a":2}{"b":', b"{}}"]))
    assert values(found) == [{"a": 1}, None, None]
    assert len(told) == 2


@pytest.mark.parametrize("skipped", [b"", b"no json"])
def test_values_with_conflicting_types_raise_without_a_schema(skipped: bytes) -> None:
    decoder = JsonValues("json", lambda _: None)
    with pytest.raises(DecodeError, match=r"orders-3 at offset 13 does not match.*give a schema"):
        decoder.decode(batch([skipped, b'{"id": 1}', b'{"id": 2}', b'{"id": "one"}', b"{}"]))
    assert not decoder.known
    decoder = JsonValues("json", lambda _: None)
    decoder.decode(batch([b'{"id": 1, "note": null}']))
    for later in (b'{"id": 1.5}', b'{"note": "late"}'):
        with pytest.raises(DecodeError, match=r"orders-3 at offset 11 does not match.*give a sch"):
            decoder.decode(batch([b"{}", later, skipped]))


def test_batches_with_conflicting_types_raise_with_the_first_position() -> None:
    parts = [batch([b'{"id": 1}']), batch([None]), batch([b'{"id": "one"}']), batch([b"{}"])]
    with pytest.raises(DecodeError, match=r"from orders-3 at offset 10 on .* give a schema"):
        unified_schema(parts)


def test_a_unified_schema_holds_the_values_of_all_batches() -> None:
    parts = [
        batch([b'{"p": 1, "note": null, "l": []}', None, b"no json"]),
        batch([b'{"p": 1.5, "note": "late", "l": [1]}']),
        batch([None]),
    ]
    decoder = JsonValues(unified_schema(parts), lambda _: None)
    assert [values(decoder.decode(part)) for part in parts] == [
        [{"p": 1.0, "note": None, "l": []}, None, None],
        [{"p": 1.5, "note": "late", "l": [1]}],
        [None],
    ]
    with pytest.raises(DecodeError, match="give a schema"):
        unified_schema([batch([b'{"p": 1}']), batch([b'{"p": "one"}'])])


def test_an_argument_that_is_no_schema_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"decode is 'json' or an Arrow schema, not 'avro'"):
        JsonValues("avro")  # type: ignore[arg-type]
