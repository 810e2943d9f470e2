"""Columns out of JSON values: what fits, what does not, and what becomes of it."""

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
    """Records of orders-3, from offset 10 on."""
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


def test_a_schema_says_what_is_wanted() -> None:
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
def test_what_is_no_object_is_told_with_its_record(wanted: object, bad: bytes) -> None:
    said = r"orders-3 at offset 12 is no JSON object .* on_decode_error='skip' .* offset 13 on"
    with pytest.raises(DecodeError, match=said) as caught:
        JsonValues(wanted).decode(batch([b'{"id": 1}', b'{"id": 2}', bad, b'{"id": 3}']))  # type: ignore[arg-type]
    record = caught.value.record
    assert isinstance(record, Record)
    assert (record.topic, record.partition, record.offset, record.value) == ("orders", 3, 12, bad)


@pytest.mark.parametrize("timestamp_ms", [-1, 1_769_860_800_123, 1_769_860_800_000_000, 2**63 - 1])
def test_its_time_is_the_one_it_came_with(timestamp_ms: int) -> None:
    """Also where that is no date: producers have put microseconds where milliseconds belong."""
    with pytest.raises(DecodeError) as caught:
        JsonValues("json").decode(batch([b"x"], timestamp_ms))
    assert isinstance(caught.value.record, Record)
    assert caught.value.record.timestamp_ms == timestamp_ms


def test_a_field_of_another_type_is_no_object_of_the_wanted_form() -> None:
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


def test_lines_do_not_make_up_for_each_other() -> None:
    """Three values with three objects between them, none of which is what it should be."""
    told: list[DecodeError] = []
    found = JsonValues("json", told.append).decode(batch([b'{"a":1}', b'{"a":2}{"b":', b"{}}"]))
    assert values(found) == [{"a": 1}, None, None]
    assert len(told) == 2


@pytest.mark.parametrize("skipped", [b"", b"no json"])
def test_values_that_do_not_go_together_need_a_schema(skipped: bytes) -> None:
    decoder = JsonValues("json", lambda _: None)
    with pytest.raises(DecodeError, match=r"orders-3 at offset 13 does not match.*give a schema"):
        decoder.decode(batch([skipped, b'{"id": 1}', b'{"id": 2}', b'{"id": "one"}', b"{}"]))
    assert not decoder.known
    decoder = JsonValues("json", lambda _: None)
    decoder.decode(batch([b'{"id": 1, "note": null}']))
    for later in (b'{"id": 1.5}', b'{"note": "late"}'):
        with pytest.raises(DecodeError, match=r"orders-3 at offset 11 does not match.*give a sch"):
            decoder.decode(batch([b"{}", later, skipped]))


def test_batches_that_do_not_go_together_are_told_by_where_that_begins() -> None:
    parts = [batch([b'{"id": 1}']), batch([None]), batch([b'{"id": "one"}']), batch([b"{}"])]
    with pytest.raises(DecodeError, match=r"from orders-3 at offset 10 on .* give a schema"):
        unified_schema(parts)


def test_what_has_an_end_is_looked_at_as_a_whole_first() -> None:
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


def test_what_is_no_schema() -> None:
    with pytest.raises(ConfigError, match=r"decode is 'json' or an Arrow schema, not 'avro'"):
        JsonValues("avro")  # type: ignore[arg-type]
