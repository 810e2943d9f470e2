"""Headers that identify copies of a row, made in Arrow and appended to the headers of the rows."""

import pyarrow as pa
import pytest

from odradek.spark.commit_protocol import Task
from odradek.spark.task_writer import HEADERS, with_replay_headers

STREAM = Task("q", 7, 3, 1)


def added(sequence, batch_id=b"7"):
    return [
        ("odradek.query.id", b"q"),
        ("odradek.batch.id", batch_id),
        ("odradek.task", b"3"),
        ("odradek.sequence", b"%d" % sequence),
    ]


def pairs(rows):
    return [
        [(each["key"], each["value"]) for each in headers]
        for headers in rows.column("headers").to_pylist()
    ]


def test_rows_without_headers_get_the_replay_headers():
    rows = with_replay_headers(pa.record_batch({"value": ["a", "b"]}), STREAM, 9)
    assert pairs(rows) == [added(9), added(10)]
    assert rows.column("value").to_pylist() == ["a", "b"]
    rows.validate(full=True)


@pytest.mark.parametrize("start", [0, 1, 3, 5])
def test_headers_of_rows_come_first_and_stay_as_they_are(start):
    own = [[("a", b"1")], None, [], [("b", None), ("", b"\xff")], [("a", b"1"), ("a", b"2")]]
    headers = pa.array(own, HEADERS)
    rows = pa.record_batch({"headers": headers, "value": pa.nulls(5, pa.binary())}).slice(start)
    found = with_replay_headers(rows, STREAM, 0)
    assert pairs(found) == [(h or []) + added(n) for n, h in enumerate(own[start:])]
    found.validate(full=True)


def test_hidden_values_of_a_null_list_are_not_used_as_headers():
    struct = pa.StructArray.from_arrays([pa.array(["hidden"]), pa.array([b"x"])], ["key", "value"])
    own = pa.ListArray.from_arrays(pa.array([0, 1]), struct, mask=pa.array([True]))
    rows = pa.record_batch({"headers": own})
    assert pairs(with_replay_headers(rows, STREAM, 0)) == [added(0)]


def test_large_types_stay_large():
    pair = pa.struct([("key", pa.large_string()), ("value", pa.large_binary())])
    rows = pa.record_batch({"headers": pa.array([[("a", b"1")]], pa.list_(pair))})
    found = with_replay_headers(rows, STREAM, 0)
    assert pairs(found) == [[("a", b"1"), *added(0)]]
    assert found.schema.field("headers").type.value_type.field(1).type == pa.large_binary()


def test_a_batch_write_has_no_batch_id():
    rows = with_replay_headers(pa.record_batch({"value": ["a"]}), Task("q", None, 3, 0), 0)
    assert pairs(rows) == [added(0, batch_id=None)]
