"""From the bytes of a fetch to records: which are skipped, and what raises."""

from __future__ import annotations

import pytest

from odradek.client.consumer.fetch.completed_fetch import ColumnRun, CompletedFetch
from odradek.client.consumer.position.position import Position
from odradek.client.consumer.record import TimestampType
from odradek.client.deserializers import Deserializers, deserializer
from odradek.client.errors import DecodeError, InvalidRecord
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol.api.fetch import AbortedTransaction
from odradek.protocol.compression import CompressionType
from odradek.protocol.control_records import ControlRecordType, marker_key, marker_value
from odradek.protocol.record_batch import RecordBatchHeader, stamp, with_max_timestamp
from odradek.protocol.record_batch_builder import RecordBatchBuilder, build
from odradek.protocol.record_columns import RecordColumns

ORDERS = TopicPartition("orders", 0)
BYTES = Deserializers(deserializer(bytes), deserializer(bytes))
UNLIMITED = 1 << 40


def batch(*values: bytes, offset: int = 0, epoch: int = 0, codec: int = 0) -> bytes:
    data = build([(b"k", value, [], 1000) for value in values], codec)
    return stamp(data, 0, offset, epoch) + data[16:]


def of_producer(*values: bytes, offset: int, producer_id: int) -> bytes:
    """A batch of a producer's transaction."""
    builder = RecordBatchBuilder(
        base_offset=offset,
        leader_epoch=0,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    for value in values:
        builder.append(None, value, (), 1000)
    return builder.build()


def marker(kind: ControlRecordType, offset: int, producer_id: int) -> bytes:
    """The control batch that ends a transaction."""
    builder = RecordBatchBuilder(
        base_offset=offset,
        leader_epoch=0,
        producer_id=producer_id,
        producer_epoch=0,
        transactional=True,
        control=True,
    )
    builder.append(marker_key(kind), marker_value(1), (), 1000)
    return builder.build()


def fetched(
    *batches: bytes,
    position: int = 0,
    end: int | None = None,
    aborted: list[AbortedTransaction] | None = None,
    check_crcs: bool = True,
) -> CompletedFetch:
    at = Position(ORDERS)
    at.offset = position
    if end is not None:
        at.end = end
    data = b"".join(batches)
    return CompletedFetch(at, data, 0, len(data), 1 << 30, aborted, check_crcs)


def values(fetch: CompletedFetch, limit: int = 1000) -> list[object]:
    """All values, taken `limit` at a time."""
    found: list[object] = []
    while fetch.fill(limit, BYTES):
        assert len(fetch.records) <= limit
        found += [record.value for record in fetch.records]
        fetch.position.offset = fetch.records[-1].offset + 1
    return found


class TestRecords:
    @pytest.mark.parametrize("limit", [1, 2, 3, 100])
    def test_fills_of_any_size_cross_batch_borders(self, limit: int) -> None:
        fetch = fetched(batch(b"a", b"b"), batch(b"c", offset=2), batch(b"d", b"e", offset=3))
        assert values(fetch, limit) == [b"a", b"b", b"c", b"d", b"e"]

    @pytest.mark.parametrize("codec", list(CompressionType))
    def test_all_compression_codecs_are_read(self, codec: int) -> None:
        assert values(fetched(batch(b"a", b"b" * 1000, codec=codec)), 1) == [b"a", b"b" * 1000]

    def test_records_before_the_position_are_skipped(self) -> None:
        fetch = fetched(batch(b"a", b"b"), batch(b"c", b"d", offset=2), position=3)
        assert values(fetch) == [b"d"]

    def test_records_from_the_end_offset_on_are_skipped(self) -> None:
        fetch = fetched(batch(b"a", b"b"), batch(b"c", b"d", offset=2), end=3)
        assert values(fetch) == [b"a", b"b", b"c"]
        assert values(fetched(batch(b"a"), batch(b"b", offset=1), end=1)) == [b"a"]

    def test_one_fill_has_records_of_one_leader_epoch(self) -> None:
        fetch = fetched(batch(b"a", epoch=3), batch(b"b", offset=1, epoch=4))
        assert fetch.fill(10, BYTES)
        assert (fetch.count, fetch.leader_epoch) == (1, 3)
        fetch.position.offset = 1
        assert fetch.fill(10, BYTES)
        assert (fetch.records[0].value, fetch.leader_epoch) == (b"b", 4)

    def test_a_truncated_last_batch_is_ignored(self) -> None:
        assert values(fetched(batch(b"a"), batch(b"b", offset=1)[:-1])) == [b"a"]

    def test_records_have_their_timestamp_and_its_type(self) -> None:
        data = batch(b"a")
        data = with_max_timestamp(data, RecordBatchHeader(data, 0), 7777, True)
        fetch = fetched(data, batch(b"b", offset=1))
        assert fetch.fill(10, BYTES)
        first, second = fetch.records
        assert (first.timestamp_ms, first.timestamp_type) == (7777, TimestampType.LOG_APPEND_TIME)
        assert (second.timestamp_ms, second.timestamp_type) == (1000, TimestampType.CREATE_TIME)

    def test_offset_gaps_of_compaction_are_skipped(self) -> None:
        fetch = fetched(batch(b"a", offset=3), batch(b"b", offset=90))
        assert fetch.fill(10, BYTES)
        assert [record.offset for record in fetch.records] == [3, 90]


class TestTransactions:
    def log(self) -> list[bytes]:
        return [
            of_producer(b"aborted", offset=0, producer_id=1),
            of_producer(b"committed", offset=1, producer_id=2),
            batch(b"plain", offset=2),
            of_producer(b"aborted too", offset=3, producer_id=1),
            marker(ControlRecordType.ABORT, 4, producer_id=1),
            marker(ControlRecordType.COMMIT, 5, producer_id=2),
            of_producer(b"next one", offset=6, producer_id=1),
            marker(ControlRecordType.COMMIT, 7, producer_id=1),
        ]

    def test_control_batches_are_never_returned(self) -> None:
        assert values(fetched(*self.log())) == [
            b"aborted",
            b"committed",
            b"plain",
            b"aborted too",
            b"next one",
        ]

    @pytest.mark.parametrize("limit", [1, 100])
    def test_aborted_transactions_are_skipped_up_to_their_marker(self, limit: int) -> None:
        aborted = [AbortedTransaction(producer_id=1, first_offset=0)]
        fetch = fetched(*self.log(), aborted=aborted)
        assert values(fetch, limit) == [b"committed", b"plain", b"next one"]

    def test_a_transaction_aborted_that_began_before_the_fetch_is_skipped(self) -> None:
        aborted = [AbortedTransaction(producer_id=1, first_offset=0)]
        fetch = fetched(*self.log()[3:], position=3, aborted=aborted)
        assert values(fetch) == [b"next one"]

    def test_an_aborted_and_a_committed_transaction_of_one_producer_are_told_apart(self) -> None:
        log = [
            of_producer(b"1", offset=0, producer_id=1),
            marker(ControlRecordType.ABORT, 1, producer_id=1),
            of_producer(b"2", offset=2, producer_id=1),
            marker(ControlRecordType.ABORT, 3, producer_id=1),
            of_producer(b"3", offset=4, producer_id=1),
        ]
        aborted = [
            AbortedTransaction(producer_id=1, first_offset=2),
            AbortedTransaction(producer_id=1, first_offset=0),
        ]
        assert values(fetched(*log, aborted=aborted)) == [b"3"]


class TestCorruption:
    def test_a_corrupt_batch_is_raised_behind_earlier_records_every_time(self) -> None:
        bad = bytearray(batch(b"b", b"c", offset=1))
        bad[-1] ^= 1
        fetch = fetched(batch(b"a"), bytes(bad), batch(b"d", offset=3))
        assert fetch.fill(10, BYTES)
        assert [record.value for record in fetch.records] == [b"a"]
        fetch.position.offset = 1
        for _ in range(2):
            with pytest.raises(InvalidRecord, match=r"orders-0.*offset 1.*seek\(.*, 3\)") as failed:
                fetch.fill(10, BYTES)
            assert failed.value.code == ErrorCode.CORRUPT_MESSAGE

    def test_a_wrong_checksum_is_ignored_if_checksums_are_off(self) -> None:
        bad = bytearray(batch(b"abc"))
        bad[-2] ^= 1
        assert values(fetched(bytes(bad), check_crcs=False)) == [b"abb"]

    def test_corruption_inside_a_batch_is_raised_at_its_record(self) -> None:
        good = batch(b"a", b"b", b"c")
        bad = bytearray(good)
        bad[-1] = 99  # the number of headers of the last record
        fetch = fetched(bytes(bad), check_crcs=False)
        assert fetch.fill(10, BYTES)
        assert [record.value for record in fetch.records] == [b"a", b"b"]
        fetch.position.offset = 2
        with pytest.raises(InvalidRecord, match=r"offset 2.*seek\(.*, 3\)"):
            fetch.fill(10, BYTES)

    def test_corrupt_compressed_records_are_raised(self) -> None:
        bad = bytearray(batch(b"a" * 100, codec=CompressionType.GZIP))
        bad[61] ^= 0xFF  # the first byte of the stream
        with pytest.raises(InvalidRecord, match="damaged"):
            fetched(bytes(bad), check_crcs=False).fill(1, BYTES)


class TestDecoding:
    @staticmethod
    def picky(data: bytes) -> int:
        return int(data)

    def test_a_decode_error_is_raised_at_its_record_and_stays(self) -> None:
        numbers = Deserializers(deserializer(bytes), deserializer(self.picky))
        fetch = fetched(batch(b"1", b"two", b"3"))
        assert fetch.fill(10, numbers)
        assert [record.value for record in fetch.records] == [1]
        fetch.position.offset = 1
        for _ in range(2):
            with pytest.raises(DecodeError, match=r"orders-0 at offset 1.*picky.*seek") as failed:
                fetch.fill(10, numbers)
        raw = failed.value.record
        assert raw is not None
        assert (raw.offset, raw.key, raw.value) == (1, b"k", b"two")
        assert isinstance(failed.value.__cause__, ValueError)

    def test_decoding_is_tried_again_with_each_fill(self) -> None:
        trouble = [ConnectionError("the registry is down")]

        def resolve(data: bytes) -> bytes:
            if trouble:
                raise trouble.pop()
            return data

        fetch = fetched(batch(b"a"))
        deserializers = Deserializers(deserializer(bytes), deserializer(resolve))
        with pytest.raises(DecodeError, match="the registry is down"):
            fetch.fill(10, deserializers)
        assert fetch.fill(10, deserializers)
        assert fetch.records[0].value == b"a"

    def test_a_record_that_cannot_be_decoded_is_skipped_if_on_error_returns(self) -> None:
        errors: list[DecodeError] = []
        numbers = Deserializers(deserializer(bytes), deserializer(self.picky), errors.append)
        fetch = fetched(batch(b"1", b"two", b"3"))
        assert fetch.fill(10, numbers)
        assert [record.value for record in fetch.records] == [1, 3]
        assert [error.record.offset for error in errors if error.record] == [1]

    def test_a_record_that_cannot_be_decoded_is_set_aside(self) -> None:
        numbers = Deserializers(deserializer(bytes), deserializer(self.picky), set_aside=True)
        fetch = fetched(batch(b"1", b"two", b"3", b"four", b"5"))
        assert fetch.fill(4, numbers)
        assert [record.value for record in fetch.records] == [1, 3]
        assert fetch.count == 1, "comes before"
        offsets = [error.record.offset for error in fetch.undecoded if error.record]
        assert offsets == [1, 3], "together no more than were wanted"
        assert {error.field for error in fetch.undecoded} == {"value"}

    def test_corruption_behind_a_record_set_aside_is_raised_later(self) -> None:
        numbers = Deserializers(deserializer(bytes), deserializer(self.picky), set_aside=True)
        bad = bytearray(batch(b"one", b"2"))
        bad[-1] = 99
        fetch = fetched(bytes(bad), check_crcs=False)
        assert fetch.fill(10, numbers)
        assert (len(fetch.undecoded), fetch.count) == (1, 0)
        fetch.undecoded.clear()
        with pytest.raises(InvalidRecord):
            fetch.fill(10, numbers)

    def test_columns_start_before_records_that_were_set_aside(self) -> None:
        numbers = Deserializers(deserializer(bytes), deserializer(self.picky), set_aside=True)
        fetch = fetched(batch(b"one", b"two"))
        assert fetch.fill(10, numbers)
        columns = RecordColumns()
        assert not fetch.fill_columns(columns, list[ColumnRun](), 10, UNLIMITED)
        assert (columns.count, fetch.undecoded) == (2, [])

    def test_an_interrupted_fill_loses_no_records(self) -> None:
        interrupts = [KeyboardInterrupt()]

        def interrupted(data: bytes) -> bytes:
            if data == b"b" and interrupts:
                raise interrupts.pop()
            return data

        fetch = fetched(batch(b"a", b"b", b"c"))
        deserializers = Deserializers(deserializer(bytes), deserializer(interrupted))
        with pytest.raises(KeyboardInterrupt):
            fetch.fill(10, deserializers)
        assert [record.value for record in fetch.records] == [b"a"]
        fetch.position.offset = 1
        assert fetch.fill(10, deserializers)
        assert [record.value for record in fetch.records] == [b"b", b"c"]

    def test_null_keys_and_values_are_not_decoded(self) -> None:
        data = build([(None, None, [], 0)])
        fetch = fetched(data)
        numbers = Deserializers(deserializer(self.picky), deserializer(self.picky))
        assert fetch.fill(10, numbers)
        assert (fetch.records[0].key, fetch.records[0].value) == (None, None)


class TestColumns:
    def test_columns_move_the_position_and_have_runs_by_batch(self) -> None:
        fetch = fetched(batch(b"a", b"b"), batch(b"c", offset=2, epoch=1), batch(b"d", offset=3))
        columns, runs = RecordColumns(), list[ColumnRun]()
        assert fetch.fill_columns(columns, runs, 3, UNLIMITED)
        assert (columns.count, fetch.position.offset, fetch.position.leader_epoch) == (3, 3, 1)
        assert [(run.batch.leader_epoch, run.count) for run in runs] == [(0, 2), (1, 1)]
        assert not fetch.fill_columns(columns, runs, 10, UNLIMITED)
        assert columns.value.finish().data == b"abcd"
        assert fetch.position.offset == 4

    def test_columns_can_stop_inside_a_batch(self) -> None:
        fetch = fetched(batch(b"a", b"b", b"c"))
        for offset in (1, 2, 3):
            columns = RecordColumns()
            assert fetch.fill_columns(columns, [], 1, UNLIMITED)
            assert fetch.position.offset == offset

    def test_columns_go_on_behind_records_returned_one_by_one(self) -> None:
        aborted = [AbortedTransaction(producer_id=1, first_offset=0)]
        log = [
            of_producer(b"aborted", offset=0, producer_id=1),
            batch(b"a", b"b", offset=1),
            of_producer(b"aborted too", offset=3, producer_id=1),
            batch(b"c", offset=4),
        ]
        fetch = fetched(*log, aborted=aborted)
        assert fetch.fill(10, BYTES)
        assert [record.value for record in fetch.records] == [b"a", b"b", b"c"]
        fetch.index, fetch.position.offset = 1, 2  # only the first was handed out
        columns = RecordColumns()
        fetch.fill_columns(columns, [], 10, UNLIMITED)
        assert columns.value.finish().data == b"bc"

    def test_columns_stop_at_the_end_offset(self) -> None:
        fetch = fetched(batch(b"a", b"b"), batch(b"c", offset=2), end=1)
        columns = RecordColumns()
        assert not fetch.fill_columns(columns, [], 10, UNLIMITED)
        assert (columns.count, fetch.position.offset) == (1, 1)

    def test_columns_raise_corruption_behind_good_rows(self) -> None:
        bad = bytearray(batch(b"b", offset=1))
        bad[-1] ^= 1
        fetch = fetched(batch(b"a"), bytes(bad))
        columns = RecordColumns()
        with pytest.raises(InvalidRecord):
            fetch.fill_columns(columns, [], 10, UNLIMITED)
        assert (columns.count, fetch.position.offset) == (1, 1)


def test_compact_drops_the_rest_of_the_response() -> None:
    first, second = batch(b"a" * 100), batch(b"b", offset=1)
    at = Position(ORDERS)
    at.offset = 1
    data = first + second + first
    fetch = CompletedFetch(at, data, len(first), len(first) + len(second), 2, None, True)
    fetch.compact()
    assert values(fetch) == [b"b"]
