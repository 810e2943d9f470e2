"""The calls that `process` makes, and their order, with clients that only note them."""

from __future__ import annotations

import asyncio
from functools import partial
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from odradek.client.aio import process as awaited
from odradek.client.arrow.record_batches import SCHEMA
from odradek.client.blocking import process as blocking
from odradek.client.consumer.application.poll_loop import run_now
from odradek.client.errors import CommitFailed, ConfigError, RebalanceInProgress, TransactionFailed
from odradek.client.process_loop import ProcessLoop, pace_of, table_writer, write_records
from odradek.client.processing import MAX_FAILURES, TransactionLimit
from odradek.client.producer.send_path import SerializedRecord
from unit.client.test_processing import RAW, plan


class ReaderIsMade(Exception):
    """The consumer of a processing would begin to read now."""


class Notes:
    """The calls of a producer."""

    def __init__(self, settings: Any = None) -> None:
        self.init = 0
        self.sent: list[Any] = []

    def check_ended(self) -> None:
        assert self.init == 1, "the predecessor was not fenced before"


class Writer(Notes):
    """A producer that notes its calls."""

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *error: object) -> None:
        self.check_ended()

    def init_transactions(self) -> None:
        self.init += 1

    def send(self, topic: str, value: Any, **given: Any) -> None:
        self.sent.append(value)

    def send_arrow(self, topic: str, table: Any, **columns: str) -> None:
        self.sent.append(table)

    def _wait_for_room(self, letter: SerializedRecord) -> None:
        self.sent.append(letter)


class AwaitedWriter(Notes):
    """The same, to be awaited."""

    async def __aenter__(self) -> AwaitedWriter:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.check_ended()

    async def init_transactions(self) -> None:
        self.init += 1

    async def enqueue(self, topic: str, value: Any, **given: Any) -> None:
        self.sent.append(value)


def reader(*topics: str, **settings: Any) -> Any:
    raise ReaderIsMade


def test_the_predecessor_is_fenced_before_the_group_reads(monkeypatch):
    monkeypatch.setattr(blocking, "Producer", Writer)
    monkeypatch.setattr(blocking, "Consumer", reader)
    with pytest.raises(ReaderIsMade):
        blocking.process("in", print, group="g", transactional_id="id")


def test_the_predecessor_is_fenced_before_the_group_reads_with_awaited_clients(monkeypatch):
    monkeypatch.setattr(awaited, "Producer", AwaitedWriter)
    monkeypatch.setattr(awaited, "Consumer", reader)
    with pytest.raises(ReaderIsMade):
        asyncio.run(awaited.process("in", print, group="g", transactional_id="id"))


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"arrow": True, "value": "json"}, 'value of process.* give decode="json"'),
        ({"arrow": True, "key": "text"}, "key of process.* is a serializer of records"),
        ({"decode": "json"}, "decode of process.* give arrow=True too"),
    ],
)
def test_what_counts_for_records_only_or_for_tables_only_is_refused(
    given: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        blocking.process("in", print, group="g", **given)
    with pytest.raises(ConfigError, match=problem):
        asyncio.run(awaited.process("in", print, group="g", **given))


def slow_pace() -> TransactionLimit:
    """Each look at the clock finds a third of a transaction gone."""
    seconds = iter(range(100))
    pace = TransactionLimit(100, 3_000, lambda: next(seconds))
    pace.begin()
    return pace


def test_records_after_half_of_the_timeout_are_left_to_the_next_transaction():
    buffer: Any = SimpleNamespace(records=[RAW] * 10)
    writer: Any = Writer()

    def function(record: Any) -> int:
        return record.offset

    assert blocking.write_records(function, writer, plan(), slow_pace(), buffer) == 2
    awaited_writer: Any = AwaitedWriter()
    send = partial(awaited.send, awaited_writer)
    count = asyncio.run(write_records(function, send, plan(), slow_pace(), buffer))
    assert count == 2 and writer.sent == awaited_writer.sent == [5, 5]


class SlowTables:
    """A processing of tables whose function takes 3 s for 100 rows; its member is taken for lost
    after 2 s, and its commit fails.
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        self.max_poll_interval_ms = 2_000
        self.driver = SimpleNamespace(time=lambda: self.now_s)
        self.collector = SimpleNamespace(consumed_offsets=dict)
        self.transactions_or_error = SimpleNamespace(transaction=SimpleNamespace(timeout_ms=60_000))
        self.noted: list[str] = []
        here: Any = self
        self.loop = ProcessLoop(
            here, here, here, here, self.write, pace_of(here, here, 100), self.pause
        )
        self.loop.transaction = lambda: here  # type: ignore[method-assign]
        self.loop.commit_offsets = self.commit_offsets  # type: ignore[method-assign]

    async def fill(self, buffer: Any, interval_s: float) -> None:
        buffer.records.extend([RAW] * 100)
        self.noted.append("read")

    async def rewind(self) -> None:
        self.noted.append("rewind")

    async def pause(self, seconds: float) -> None:
        self.noted.append("pause")

    async def write(self, buffer: Any) -> int:
        self.now_s += 3.0
        return 100

    async def commit_offsets(self, block: Any, offsets: Any) -> None:
        raise CommitFailed("it is no member any more")

    async def __aenter__(self) -> SlowTables:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.noted.append("abort")


def test_a_function_that_outlasts_its_membership_gets_fewer_rows_and_is_told_why(caplog):
    tables = SlowTables()
    assert run_now(tables.loop.run_once(0.1)) == 0
    assert tables.noted == ["read", "abort", "rewind", "pause"]
    assert tables.loop.pace.limit == 33
    assert "took 3.0 s, longer than max.poll.interval.ms=2000" in caplog.text
    for _ in range(MAX_FAILURES - 2):
        run_now(tables.loop.run_once(0.1))
    with pytest.raises(CommitFailed, match="longer than max"):
        run_now(tables.loop.run_once(0.1))


class Tables:
    """The tables that a function gets for values of in-0, and what it wrote."""

    def __init__(self, monkeypatch: Any, values: list[bytes]) -> None:
        rows = [
            {"key": b"k", "value": value, "topic": "in", "partition": 0, "offset": offset}
            | {"timestamp": 1, "timestampType": 0, "headers": []}
            for offset, value in enumerate(values)
        ]
        batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
        monkeypatch.setattr(
            "odradek.client.arrow.record_batches.record_batch",
            lambda buffer, decoder, with_offsets: decoder.decode(batch) if decoder else batch,
        )
        self.buffer: Any = SimpleNamespace(count=len(values))
        self.writer: Any = Writer()
        self.given: list[Any] = []

    def function(self, table: Any) -> Any:
        self.given.append(table["value"].to_pylist())
        return table.select(["value"])

    def write(self, **given: Any) -> int:
        async def send(letter: SerializedRecord) -> None:
            self.writer._wait_for_room(letter)

        async def send_table(topic: str, table: Any, columns: Any) -> None:
            self.writer.send_arrow(topic, table, **columns)

        write = table_writer(self.function, send, send_table, plan(**given), "json")
        return run_now(write(self.buffer))


def test_a_table_without_a_topic_is_an_error(monkeypatch):
    tables = Tables(monkeypatch, [b'{"a": 1}'])
    with pytest.raises(ConfigError, match="give `to`"):
        tables.write(to=None)


def test_a_table_has_no_rows_of_records_that_became_dead_letters(monkeypatch):
    tables = Tables(monkeypatch, [b'{"a": 1}', b"broken", b'{"a": 2}'])
    assert tables.write(on_error="dlq:dead") == 3
    assert tables.given == [[{"a": 1}, {"a": 2}]]
    letter, table = tables.writer.sent
    assert letter.value == b"broken" and table.num_rows == 2


def test_the_function_is_not_called_if_all_records_became_dead_letters(monkeypatch):
    tables = Tables(monkeypatch, [b"broken"])
    assert tables.write(on_error="dlq:dead") == 1
    assert tables.given == [] and len(tables.writer.sent) == 1


def test_a_rebalance_that_is_under_way_does_not_count_as_a_failure():
    async def nothing(*_: Any) -> None:
        pass

    reader: Any = SimpleNamespace(rewind=nothing)
    none: Any = None
    loop = ProcessLoop(reader, none, none, none, none, slow_pace(), nothing)
    for _ in range(2 * MAX_FAILURES):
        run_now(loop._failed(RebalanceInProgress("joining"), 1))
    for _ in range(MAX_FAILURES - 1):
        run_now(loop._failed(TransactionFailed("aborted"), 1))
    with pytest.raises(TransactionFailed):
        run_now(loop._failed(TransactionFailed("aborted"), 1))
