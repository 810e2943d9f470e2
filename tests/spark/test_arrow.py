"""Record batches to Arrow: no Spark is running, but its schema is what the columns must equal."""

import pyarrow as pa
import pytest

from odradek.client.simple.metadata import KafkaError
from odradek.client.simple.range_fetcher import Fetched
from odradek.model.ids import TopicPartition
from odradek.model.spans import Span
from odradek.protocol.api.fetch import AbortedTransaction
from odradek.protocol.control_records import ControlRecordType, marker_key
from odradek.protocol.record_batch import stamp
from odradek.protocol.record_batch_builder import RecordBatchBuilder, build
from odradek.spark.arrow import MAX_ROWS, ColumnBuilder, arrow_schema

T0 = TopicPartition("t", 0)


def at(offset, batch):
    return stamp(batch, 0, offset, 0) + batch[16:]


def rows(*batches, position=0, end=10_000_000, aborted=(), read_committed=False, headers=False):
    """The Arrow batches made of stored batches."""
    builder = ColumnBuilder(T0, arrow_schema(headers), read_committed=read_committed)
    raw = b"".join(batches)
    fetched = Fetched(T0, Span(raw, 0, len(raw)), position, end, aborted)
    found = [*builder.append(fetched), *builder.finish()]
    for batch in found:
        batch.validate(full=True)
        assert batch.schema.equals(arrow_schema(headers))
    return found


def column(found, name):
    return [value for batch in found for value in batch.column(name).to_pylist()]


def plain(*values):
    return build([(None, value, (), 5) for value in values])


def test_nulls_and_headers():
    batch = build(
        [
            (None, b"", (), 1),
            (b"", None, [("a", b"1"), ("b", None)], 2),
            (b"k", b"v", [("", b"")], 3),
        ]
    )
    found = rows(at(40, batch), headers=True)
    assert column(found, "key") == [None, b"", b"k"]
    assert column(found, "value") == [b"", None, b"v"]
    assert column(found, "offset") == [40, 41, 42]
    assert column(found, "headers") == [
        None,
        [{"key": "a", "value": b"1"}, {"key": "b", "value": None}],
        [{"key": "", "value": b""}],
    ]
    assert [t.microsecond for t in column(found, "timestamp")] == [1000, 2000, 3000]


def test_only_the_records_of_the_range():
    found = rows(at(0, plain(b"a", b"b")), at(2, plain(b"c", b"d")), position=1, end=3)
    assert column(found, "value") == [b"b", b"c"]


def test_large_fetches_are_cut_into_handy_batches():
    many = [at(n * 1000, plain(*[b"x"] * 1000)) for n in range(20)]
    found = rows(*many)
    assert sum(batch.num_rows for batch in found) == 20_000
    assert max(batch.num_rows for batch in found) < MAX_ROWS + 1000


def test_both_timestamp_types_in_one_arrow_batch():
    from odradek.protocol.record_batch import RecordBatchHeader, with_max_timestamp

    raw = plain(b"a", b"b")
    stamped = with_max_timestamp(raw, RecordBatchHeader(raw, 0), 99_000, True)
    found = rows(at(0, plain(b"c")), at(1, stamped))
    assert column(found, "timestampType") == [0, 1, 1]
    assert [t.second for t in column(found, "timestamp")] == [0, 39, 39]


def transactional(producer_id, *values):
    builder = RecordBatchBuilder(
        producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True
    )
    for value in values:
        builder.append(None, value, (), 5)
    return builder.build()


def marker(producer_id, kind):
    builder = RecordBatchBuilder(
        producer_id=producer_id, producer_epoch=0, transactional=True, control=True
    )
    builder.append(marker_key(kind), b"\x00\x00\x00\x00\x00\x00", (), 5)
    return builder.build()


def test_aborted_transactions_are_left_out_only_with_read_committed():
    stored = [
        at(0, transactional(1, b"aborted")),
        at(1, transactional(2, b"committed")),
        at(2, plain(b"plain")),
        at(3, marker(1, ControlRecordType.ABORT)),
        at(4, transactional(1, b"later")),
        at(5, marker(2, ControlRecordType.COMMIT)),
        at(6, marker(1, ControlRecordType.COMMIT)),
    ]
    aborted = [AbortedTransaction(producer_id=1, first_offset=0)]
    committed = rows(*stored, aborted=aborted, read_committed=True)
    assert column(committed, "value") == [b"committed", b"plain", b"later"]
    uncommitted = rows(*stored)
    assert column(uncommitted, "value") == [b"aborted", b"committed", b"plain", b"later"]


def test_a_damaged_batch_is_refused_by_its_offset():
    raw = bytearray(at(7, plain(b"value")))
    raw[-2] ^= 1
    with pytest.raises(KafkaError, match="t-0 at offset 7: CORRUPT_MESSAGE"):
        rows(bytes(raw))


def test_finished_columns_are_not_copied():
    [batch] = rows(at(0, plain(b"value")))
    assert isinstance(batch, pa.RecordBatch)
    assert batch.column("value").buffers()[2].size == 5
