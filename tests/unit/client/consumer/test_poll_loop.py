"""The poll loop: everything that an application waits for wakes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from odradek.client.consumer.application.poll_loop import RecordBuffer, run_now
from odradek.client.consumer.group.member import CallListener, Raise, RebalanceEvent
from odradek.client.consumer.group.rebalance import RebalanceListener
from odradek.client.errors import ClientClosed, LogTruncated, TopicAuthorizationError
from odradek.client.waiter import Waiter
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol.control_records import end_transaction_batch
from odradek.testing.scripted import ScriptedCluster
from odradek.testing.scripted_logs import ScriptedLogs
from unit.client.consumer.application import Application, numbered, rows
from unit.client.consumer.simulated_reader import FOREVER_MS, Reader

ORDERS = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)
SECOND = 1000


class TestWakeUps:
    def test_a_record_wakes_the_application(self) -> None:
        reader = Reader()
        reader.application.assign([ORDERS])
        reader.later(3 * SECOND, lambda: reader.logs[ORDERS].append(rows(b"late")))
        record = reader.poll()
        assert record is not None and record.value == b"late"

    def test_poll_returns_none_after_its_timeout(self) -> None:
        reader = Reader()
        reader.application.assign([ORDERS])
        began_ms = reader.cluster.now_ms
        assert reader.poll(1.5) is None
        assert reader.cluster.now_ms - began_ms == 1500

    def test_an_error_wakes_the_application(self) -> None:
        reader = Reader()
        reader.application.assign([ORDERS])
        reader.poll(1)
        reader.logs[ORDERS].errors = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        with pytest.raises(TopicAuthorizationError):
            reader.poll()

    def test_a_truncation_found_meanwhile_wakes_the_application(self) -> None:
        reader = Reader(brokers=2, metadata_max_age_ms=FOREVER_MS)
        reader.logs[ORDERS].append(numbered(0, 2))
        reader.logs[ORDERS].append(numbered(2, 2))
        reader.application.assign([ORDERS], starts={ORDERS: 0})
        for _ in range(4):
            reader.poll()

        def truncate() -> None:
            reader.logs[ORDERS].truncate(2)
            reader.cluster.move("orders", 0, leader=2)
            reader.logs[ORDERS].append(rows(b"other"), epoch=1)

        reader.later(SECOND, truncate)
        record = reader.poll()
        assert record is not None
        assert (record.offset, record.value) == (2, b"other")

    def test_a_truncation_that_is_raised_wakes_the_application(self) -> None:
        reader = Reader(brokers=2, metadata_max_age_ms=FOREVER_MS, auto_offset_reset="none")
        reader.logs[ORDERS].append(numbered(0, 2))
        reader.application.assign([ORDERS], starts={ORDERS: 0})
        for _ in range(2):
            reader.poll()

        def truncate() -> None:
            reader.logs[ORDERS].truncate(0)
            reader.cluster.move("orders", 0, leader=2)

        reader.later(SECOND, truncate)
        with pytest.raises(LogTruncated):
            reader.poll()

    def test_a_close_elsewhere_wakes_the_application(self) -> None:
        reader = Reader()
        reader.application.assign([ORDERS])

        def close() -> None:
            reader.poll_loop.closed = True
            reader.consumer.request_attention()
            reader.consumer.close()

        reader.later(SECOND, close)
        with pytest.raises(ClientClosed):
            reader.poll()


class WatchedConfig:
    """A config that calls a function when one of its settings is read."""

    def __init__(self, config: Any, setting: str, looked: Callable[[], object]) -> None:
        self._config = config
        self._setting = setting
        self._looked = looked

    def __getattr__(self, name: str) -> Any:
        if name == self._setting:
            self._looked()
        return getattr(self._config, name)


class TestPrefetchLimit:
    @pytest.mark.parametrize(
        "setting", ["prefetch_max_bytes", "max_partition_fetch_bytes", "fetch_max_bytes"]
    )
    def test_bytes_freed_while_the_fetcher_counts_start_a_fetch(self, setting: str) -> None:
        """The application takes all records whenever the fetcher reads a setting, so also between
        counting the bytes and giving up.
        """
        found: list[int] = []
        applications: list[Application] = []

        def take_all() -> None:
            for application in applications:
                found.extend(r.offset for r in iter(application.collector.next_record, None))

        cluster = ScriptedCluster()
        cluster.create("orders")
        logs = ScriptedLogs(cluster)
        for first in range(20):
            logs[ORDERS].append(numbered(first, 1))
        application = Application(
            cluster,
            seen_as=lambda config: WatchedConfig(config, setting, take_all),
            prefetch_max_bytes=1,
            max_partition_fetch_bytes=10,
            metadata_max_age_ms=FOREVER_MS,
        )
        application.on_wake = lambda: application.side.process.call_soon(take_all)
        application.assign([ORDERS])
        applications.append(application)
        cluster.until(lambda: len(found) == 20)
        assert found == list(range(20))

    @pytest.mark.parametrize("prefetch_max_bytes", [1, 2, 100, 150])
    def test_reading_goes_on_with_the_smallest_prefetch_limit(
        self, prefetch_max_bytes: int
    ) -> None:
        reader = Reader(
            leaders=(1, 2, 1),
            brokers=2,
            prefetch_max_bytes=prefetch_max_bytes,
            metadata_max_age_ms=FOREVER_MS,
        )
        partitions = [("orders", n) for n in range(3)]
        for partition in partitions:
            for first in range(5):
                reader.logs[partition].append(numbered(first, 1))
        reader.application.assign(partitions, ends=dict.fromkeys(partitions, 5))
        assert sorted(reader.all()) == [(p, offset) for p in range(3) for offset in range(5)]


class TestBoundedRead:
    def test_a_bounded_read_ends_behind_the_last_record(self) -> None:
        reader = Reader(leaders=(1, 1))
        for partition in (ORDERS, OTHER):
            reader.logs[partition].append(numbered(0, 10))
        reader.application.assign(
            [ORDERS, OTHER], starts={ORDERS: 3, OTHER: 8}, ends={ORDERS: 5, OTHER: 9}
        )
        assert sorted(reader.all()) == [(0, 3), (0, 4), (1, 8)]
        assert reader.poll() is None, "and stays so"

    def test_a_bounded_read_does_not_end_while_the_engine_rotates_partitions(self) -> None:
        """The application checks for the end at any moment of the engine's thread: here while a
        partition is being moved.
        """
        reader = Reader(leaders=(1, 1))
        reader.logs[ORDERS].append(numbered(0, 1))
        reader.application.assign(
            [OTHER, ORDERS], starts={ORDERS: 0, OTHER: 0}, ends={ORDERS: 1, OTHER: 1}
        )
        assert reader.poll() is not None
        assert reader.poll(1) is None
        answers: list[bool] = []

        class Asking(TopicPartition):
            def __hash__(self) -> int:
                answers.append(reader.consumer.is_exhausted)
                return super().__hash__()

        subscriptions = reader.application.subscriptions
        subscriptions.move_to_end(Asking(*OTHER))
        assert answers and not any(answers)
        assert [state.topic_partition for state in subscriptions.states] == [ORDERS, OTHER]

    def test_a_bounded_read_of_nothing_ends(self) -> None:
        reader = Reader()
        reader.application.assign([ORDERS], ends={ORDERS: 0})
        assert reader.poll() is None

    def test_a_bounded_read_ends_if_the_log_starts_behind_its_end(self) -> None:
        reader = Reader()
        reader.logs[ORDERS].append(numbered(0, 5))
        reader.logs[ORDERS].append(numbered(5, 5))
        reader.logs[ORDERS].trim(5)
        reader.application.assign([ORDERS], starts={ORDERS: 1}, ends={ORDERS: 4})
        assert reader.poll() is None

    def test_a_bounded_read_fills_a_last_partial_buffer(self) -> None:
        reader = Reader()
        reader.logs[ORDERS].append(numbered(0, 3))
        reader.application.assign([ORDERS], ends={ORDERS: 3})
        buffer = RecordBuffer(reader.application.collector, 100)
        more = run_now(reader.poll_loop.fill(buffer, None))
        assert [record.offset for record in buffer.records] == [0, 1, 2]
        assert not more, "there will never be more"


class TestOffsetsToCommit:
    def test_partitions_lost_before_the_first_record_are_left_out(self) -> None:
        reader = Reader(leaders=(1, 1))
        reader.logs[ORDERS].append_batch(end_transaction_batch(7, 0, 0, True, 0))
        reader.application.assign([ORDERS, OTHER], starts={ORDERS: 0, OTHER: 0})

        def lose() -> None:
            assert reader.application.collector.can_undo, "the position has passed the marker"
            reader.application.assign([OTHER], starts={OTHER: 0})
            reader.logs[OTHER].append(rows(b"x"))

        reader.later(SECOND, lose)
        buffer = RecordBuffer(reader.application.collector, 1)
        assert run_now(reader.poll_loop.fill(buffer, None))
        assert [record.value for record in buffer.records] == [b"x"]
        assert list(reader.application.collector.consumed_offsets()) == [OTHER]


class TestInterruption:
    @pytest.mark.parametrize("kind", [KeyboardInterrupt, LookupError])
    def test_an_interrupted_fill_moves_the_positions_back(self, kind: type[BaseException]) -> None:
        reader = Reader()
        reader.logs[ORDERS].append(numbered(0, 3))
        reader.application.assign([ORDERS], ends={ORDERS: 5})
        reader.cluster.run(SECOND)
        reader.driver.interruption = kind()
        collector = reader.application.collector
        with pytest.raises(kind):
            run_now(reader.poll_loop.fill(RecordBuffer(collector, 100), None))
        assert reader.application.position(ORDERS) == 0
        reader.logs[ORDERS].append(numbered(3, 2))
        buffer = RecordBuffer(collector, 100)
        run_now(reader.poll_loop.fill(buffer, None))
        assert [record.offset for record in buffer.records] == [0, 1, 2, 3, 4]

    def test_an_interrupting_close_keeps_its_signal(self) -> None:
        """Another thread may be waiting for the same signal."""
        reader = Reader()
        reader.logs[ORDERS].append(numbered(0, 3))
        reader.application.assign([ORDERS], starts={ORDERS: 0})

        def close() -> None:
            reader.poll_loop.closed = True
            reader.consumer.request_attention()

        reader.later(SECOND, close)
        buffer = RecordBuffer(reader.application.collector, 100)
        assert run_now(reader.poll_loop.fill(buffer, None))
        assert len(buffer.records) == 3
        assert reader.driver.is_signalled

    def test_an_interrupted_poll_loses_no_record(self) -> None:
        reader = Reader()
        reader.application.assign([ORDERS])
        reader.driver.interruption = KeyboardInterrupt()
        with pytest.raises(KeyboardInterrupt):
            reader.poll()
        reader.logs[ORDERS].append(numbered(0, 1))
        record = reader.poll()
        assert record is not None and record.offset == 0


class TestCallbacks:
    def subscribed(self, on_assign: Callable[..., object]) -> Reader:
        reader = Reader()
        reader.logs[ORDERS].append(rows(b"x"))
        reader.poll_loop.listener = RebalanceListener(on_assign)
        reader.application.side.do(lambda: reader.consumer.subscribe(["orders"]))
        return reader

    def test_callbacks_run_inside_a_waiting_poll(self) -> None:
        calls: list[object] = []
        reader = self.subscribed(lambda *given: calls.append(given))
        record = reader.poll()
        assert record is not None and record.value == b"x"
        assert calls == [(reader, [ORDERS])]

    @pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, LookupError])
    def test_an_exception_of_a_callback_is_raised_once(self, kind: type[BaseException]) -> None:
        calls: list[object] = []

        def assigned(_: object, partitions: object) -> None:
            calls.append(partitions)
            raise kind

        reader = self.subscribed(assigned)
        with pytest.raises(kind):
            reader.poll()
        assert not reader.consumer.group.for_application
        record = reader.poll()
        assert record is not None and record.value == b"x"
        assert calls == [[ORDERS]]

    def test_run_with_callbacks_waits_for_its_waiter(self) -> None:
        reader = self.subscribed(lambda *given: None)
        waiter: Waiter[None] = Waiter()
        reader.later(SECOND, lambda: waiter.complete(None))
        run_now(reader.poll_loop.run_with_callbacks(lambda: waiter))
        assert waiter.done

    def test_close_finishes_before_a_pending_error_is_raised(self) -> None:
        waiter: Waiter[None] = Waiter()
        reader = Reader()
        reader.poll_loop.listener = RebalanceListener(lambda *given: waiter.complete(None))
        group = reader.consumer.group
        group.for_application.append(Raise(LookupError("of before")))
        group.for_application.append(CallListener(RebalanceEvent.ASSIGNED, [ORDERS]))
        with pytest.raises(LookupError, match="of before"):
            run_now(reader.poll_loop.run_with_callbacks(lambda: waiter))
        assert waiter.done

    def test_run_with_callbacks_raises_if_the_engine_stopped(self) -> None:
        reader = Reader()
        reader.poll_loop.listener = RebalanceListener(lambda *given: reader.consumer.close())
        reader.consumer.group.for_application.append(
            CallListener(RebalanceEvent.ASSIGNED, [ORDERS])
        )
        with pytest.raises(ClientClosed):
            run_now(reader.poll_loop.run_with_callbacks(Waiter[None]))

    def test_no_record_is_returned_after_a_callback_closed_the_consumer(self) -> None:
        """The record would not be committed."""
        reader = self.subscribed(lambda *given: None)
        reader.logs[ORDERS].append(rows(b"y"))
        assert reader.poll() is not None
        reader.cluster.run(SECOND)
        reader.poll_loop.listener = RebalanceListener(lambda *_: run_now(reader.poll_loop.close(1)))
        reader.consumer.group.for_application.append(CallListener(RebalanceEvent.ASSIGNED, [OTHER]))
        reader.consumer.request_attention()
        with pytest.raises(ClientClosed):
            reader.poll()
