"""A producer's interceptors: what they see of a record, change, and are told of its outcome."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from odradek.client.errors import (
    ClientClosed,
    ConfigError,
    DeliveryTimeout,
    MaxBlockTimeout,
    RecordTooLarge,
    SerializationError,
)
from odradek.client.interceptors import ProducerInterceptor, checked_interceptors
from odradek.client.producer.futures import Deliveries, Delivery, FutureRecordMetadata
from odradek.client.producer.intercepted_send import (
    InterceptedSendPath,
    ProducerInterceptors,
    ProducerRecord,
    ProducerRecords,
    record_refused,
)
from odradek.client.producer.send_path import SendPath, SerializedRecord
from odradek.client.serializers import serializer
from odradek.model.errors import ErrorCode
from odradek.protocol.records import Header
from unit.client.producer.producing import Producing


class FixedClock:
    """A clock that stands still."""

    def monotonic_ms(self) -> int:
        return 0

    def monotonic_ns(self) -> int:
        return 0

    def wall_ms(self) -> int:
        return 0


class Audit(ProducerInterceptor):
    """Notes every call."""

    def __init__(self, notes: list[Any], name: str = "") -> None:
        self.notes = notes
        self.name = name

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.notes.append((f"{self.name}send", record))
        return record

    def on_send_many(self, records: ProducerRecords) -> ProducerRecords:
        self.notes.append((f"{self.name}send many", records))
        return records

    def on_acknowledgement(
        self, delivery: Delivery, error: BaseException | None, headers: Sequence[Header]
    ) -> None:
        self.notes.append((f"{self.name}acknowledged", delivery, error, headers))

    def on_acknowledgement_many(
        self, deliveries: Deliveries, error: BaseException | None, headers: Sequence[Header]
    ) -> None:
        self.notes.append((f"{self.name}acknowledged many", deliveries, error, headers))

    def close(self) -> None:
        self.notes.append(f"{self.name}closed")


class Adding(ProducerInterceptor):
    """Adds a letter to each value."""

    def __init__(self, letter: str) -> None:
        self.letter = letter

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record.replace(value=record.value + self.letter)


class Failing(ProducerInterceptor):
    """Raises in every method, or returns something else than a record."""

    def __init__(self, returned: Any = None) -> None:
        self.returned = returned

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        if self.returned is not None:
            return self.returned
        raise ValueError("on_send is broken")

    def on_acknowledgement(self, *_: Any) -> None:
        raise ValueError("on_acknowledgement is broken")

    def close(self) -> None:
        raise ValueError("close is broken")


class Intercepted:
    """A producer in simulated time behind these interceptors."""

    def __init__(self, *interceptors: ProducerInterceptor, **given: Any) -> None:
        self.producing = Producing(**given)
        clock = self.producing.side.env.clock
        self.chain = ProducerInterceptors(interceptors, clock)
        key, value = serializer("key", None), serializer("value", None)
        router = self.producing.core.router
        self.path = InterceptedSendPath(SendPath(router, key, value, clock), self.chain)

    def send(self, value: Any, **given: Any) -> FutureRecordMetadata:
        """Send as a client does, and wait until the record is queued."""
        p = self.producing
        arguments = {"topic": "t", "key": None, "headers": None, "partition": None} | given
        arguments |= {"timestamp": 1_000, "callback": given.get("callback")}
        names = ("topic", "value", "key", "headers", "partition", "timestamp", "callback")
        arguments["value"] = value
        taken = p.side.do(lambda: self.path.send(*(arguments[name] for name in names)))
        if isinstance(taken, FutureRecordMetadata):
            return taken
        assert isinstance(taken, SerializedRecord)
        try:
            return self.queued(taken)
        except BaseException as error:
            record_refused(taken, error)
            raise

    def queued(self, record: SerializedRecord) -> FutureRecordMetadata:
        """Wait until there is room for a record."""
        p = self.producing
        waiter = p.side.do(lambda: p.core.send_later(record).waiter)
        p.cluster.until(lambda: waiter.done, 600_000)
        return waiter.result()

    def delivered(self, value: Any, **given: Any) -> Any:
        """Send, and return the delivery or the error."""
        return self.producing.outcome(self.send(value, **given))


class TestOnSend:
    def test_interceptors_run_in_order_each_on_what_the_one_before_returned(self) -> None:
        p = Intercepted(Adding("1"), Adding("2"), Adding("3"))
        p.delivered("v")
        assert p.producing.values() == [b"v123"]

    def test_all_that_send_was_given_can_be_seen(self) -> None:
        notes: list[Any] = []
        p = Intercepted(Audit(notes), leaders={"t": [1, 1]})
        p.delivered("v", key="k", headers={"h": "x"})
        record = notes[0][1]
        assert (record.topic, record.value, record.key, record.partition, record.timestamp_ms) == (
            "t",
            "v",
            "k",
            None,
            1_000,
        )
        assert record.headers == [("h", b"x")]

    def test_topic_partition_headers_and_timestamp_may_be_changed(self) -> None:
        class Moving(ProducerInterceptor):
            def on_send(self, record: ProducerRecord) -> ProducerRecord:
                return record.replace("other", partition=1, headers=[("a", b"1")], timestamp=7)

        notes: list[Any] = []
        p = Intercepted(Moving(), Audit(notes), leaders={"t": [1], "other": [1, 1]})
        delivery = p.delivered("v", partition=0)
        assert (delivery.topic, delivery.partition, delivery.timestamp_ms) == ("other", 1, 7)
        assert p.producing.values("other", 1) == [b"v"]
        assert p.producing.values("t") == []
        assert notes[1][0] == "acknowledged"
        assert notes[1][3] == [("a", b"1")]

    def test_a_record_cannot_be_changed_in_place(self) -> None:
        record = ProducerRecord("t", "v", headers={"h": "x"})
        record.headers.append(("other", b""))
        assert record.headers == [("h", b"x")]
        with pytest.raises(AttributeError):
            record.topic = "other"  # type: ignore[misc]

    @pytest.mark.parametrize(
        "changes",
        [{"topic": None}, {"partition": -3}, {"headers": {"h": 1}}, {"timestamp": "soon"}],
    )
    def test_an_invalid_change_is_the_interceptors_failure(
        self, changes: dict[str, Any], caplog: pytest.LogCaptureFixture
    ) -> None:
        class Invalid(ProducerInterceptor):
            def on_send(self, record: ProducerRecord) -> ProducerRecord:
                return record.replace(**changes)

        p = Intercepted(Adding("1"), Invalid(), Adding("2"))
        p.delivered("v")
        assert p.producing.values() == [b"v12"]
        assert "Invalid.on_send failed and was skipped" in caplog.text

    def test_a_record_that_send_refuses_at_once_reaches_no_interceptor(self) -> None:
        notes: list[Any] = []
        p = Intercepted(Audit(notes))
        with pytest.raises(ValueError, match="no partition -2"):
            p.send("v", partition=-2)
        with pytest.raises(TypeError):
            p.send("v", topic=b"t")
        with pytest.raises(SerializationError):
            p.send("v", headers={"h": 1})
        assert notes == []


class TestFailures:
    @pytest.mark.parametrize("returned", [None, "v", b"v"])
    def test_the_chain_goes_on_with_the_last_good_record(
        self, returned: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        notes: list[Any] = []
        p = Intercepted(Adding("1"), Failing(returned), Adding("2"), Audit(notes))
        assert p.delivered("v").offset == 0
        assert p.producing.values() == [b"v12"]
        assert [note[0] for note in notes] == ["send", "acknowledged"]
        assert "interceptor Failing.on_send failed and was skipped" in caplog.text

    def test_failures_are_logged_once_in_ten_seconds(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        p = Intercepted(Failing())
        for _ in range(1_000):
            p.send("v")
        p.producing.flush()
        sends = [text for text in caplog.messages if "on_send" in text]
        assert len(sends) == 1
        p.producing.cluster.run(10_000)
        p.send("v")
        sends = [text for text in caplog.messages if "on_send" in text]
        assert len(sends) == 2
        assert "(999 more times since the last message)" in sends[1]

    def test_an_interceptor_that_fails_at_the_acknowledgement_harms_no_record(self) -> None:
        notes: list[Any] = []
        told: list[Any] = []
        p = Intercepted(Failing(), Audit(notes))
        futures = [p.send("v", callback=lambda *outcome: told.append(outcome)) for _ in range(9)]
        p.producing.flush()
        assert [future.result(0).offset for future in futures] == list(range(9))
        assert [delivery.offset for _, delivery in told] == list(range(9))
        assert len([note for note in notes if note[0] == "acknowledged"]) == 9

    def test_an_exception_that_ends_the_program_is_raised_by_send(self) -> None:
        class Interrupting(ProducerInterceptor):
            def on_send(self, record: ProducerRecord) -> ProducerRecord:
                raise KeyboardInterrupt

        notes: list[Any] = []
        p = Intercepted(Audit(notes), Interrupting())
        with pytest.raises(KeyboardInterrupt):
            p.send("v")
        assert [note[0] for note in notes] == ["send", "acknowledged"]
        assert isinstance(notes[1][2], KeyboardInterrupt)

    def test_a_method_that_is_not_overridden_is_not_called(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        p = Intercepted(ProducerInterceptor())
        monkeypatch.setattr(ProducerInterceptor, "on_send", None)
        p.delivered("v")
        assert not p.chain.acknowledges


class TestOnAcknowledgement:
    def test_a_delivery_is_told_in_order_and_before_on_delivery(self) -> None:
        notes: list[Any] = []
        p = Intercepted(Audit(notes, "a "), Audit(notes, "b "))
        p.delivered(
            "value",
            key="k",
            headers={"h": "x"},
            callback=lambda error, delivery: notes.append(("callback", delivery)),
        )
        names = [note[0] for note in notes]
        assert names == ["a send", "b send", "a acknowledged", "b acknowledged", "callback"]
        _, delivery, error, headers = notes[2]
        assert error is None
        assert delivery == Delivery("t", 0, 0, 1_000, 1, 5)
        assert headers == [("h", b"x")]

    def test_a_record_that_fails_is_told_with_its_partition_and_error(self) -> None:
        notes: list[Any] = []
        p = Intercepted(Audit(notes))
        p.producing.brokers.fail_next("t", 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        error = p.delivered("v")
        assert notes[1][2] is error
        assert notes[1][1] == Delivery("t", 0, -1, 1_000, -1, 1)

    def test_a_record_that_expires_is_told_once(self) -> None:
        notes: list[Any] = []
        p = Intercepted(Audit(notes), delivery_timeout_ms=1_000)
        p.send("v")
        p.producing.cluster[1].stop()
        p.producing.cluster.run(5_000)
        told = [note for note in notes if note[0] == "acknowledged"]
        assert len(told) == 1
        assert isinstance(told[0][2], DeliveryTimeout)

    def test_a_record_that_cannot_be_serialized_is_told_without_a_partition(self) -> None:
        notes: list[Any] = []
        p = Intercepted(Audit(notes))
        with pytest.raises(SerializationError):
            p.send(1, headers={"h": "x"})
        assert notes[1][1] == Delivery("t", -1, -1, -1)
        assert isinstance(notes[1][2], SerializationError)
        assert notes[1][3] == [("h", b"x")]

    def test_a_record_that_is_too_large_is_told_with_the_partition_it_was_given(self) -> None:
        notes: list[Any] = []
        p = Intercepted(Audit(notes), max_request_bytes=100, leaders={"t": [1, 1]})
        p.delivered("small", partition=1)
        with pytest.raises(RecordTooLarge):
            p.send("v" * 100, partition=1)
        assert notes[-1][1] == Delivery("t", 1, -1, -1)
        assert isinstance(notes[-1][2], RecordTooLarge)

    def test_a_record_for_an_unknown_topic_is_told_when_the_wait_is_over(self) -> None:
        notes: list[Any] = []
        p = Intercepted(Audit(notes), max_block_ms=1_000)
        p.producing.cluster[1].stop()
        with pytest.raises(MaxBlockTimeout):
            p.send("v", topic="nowhere")
        assert notes[-1][1] == Delivery("nowhere", -1, -1, -1)
        assert isinstance(notes[-1][2], MaxBlockTimeout)

    def test_a_record_after_the_close_is_told_too(self) -> None:
        notes: list[Any] = []
        p = Intercepted(Audit(notes))
        p.delivered("v")
        p.producing.side.wait(lambda: p.producing.core.close(None))
        with pytest.raises(ClientClosed):
            p.send("v")
        assert isinstance(notes[-1][2], ClientClosed)
        assert len(notes) == 4

    def test_records_of_a_split_batch_are_told_one_by_one(self) -> None:
        notes: list[Any] = []
        p = Intercepted(Audit(notes), linger_ms=50)
        p.producing.brokers.max_batch_bytes = 150
        futures = [p.send("v" * 50, headers={"n": str(n)}) for n in range(6)]
        p.producing.flush()
        assert [future.result(0).offset for future in futures] == list(range(6))
        told = [note for note in notes if note[0] == "acknowledged"]
        assert [note[1].offset for note in told] == list(range(6))
        assert [note[1].serialized_value_size for note in told] == [50] * 6
        assert [note[3] for note in told] == [[("n", b"%d" % n)] for n in range(6)]


class TestMany:
    def many(self, p: Intercepted, values: Any, **given: Any) -> Deliveries:
        names = ("keys", "headers", "partition", "timestamp")
        bulk = p.path.send_many("t", values, *(given.get(name) for name in names))
        try:
            while (record := p.producing.side.do(bulk.step)) is not None:
                bulk.add_queued(p.queued(record))
        except BaseException as error:
            bulk.end(error)
            raise
        bulk.end(None)
        return bulk.deliveries

    def test_it_is_called_once_for_all_records_and_told_once(self) -> None:
        notes: list[Any] = []
        p = Intercepted(Audit(notes))
        deliveries = self.many(p, ["a", "b", "c"], headers={"h": "x"}, keys=["k"] * 3)
        assert [note[0] for note in notes] == ["send many"]
        records = notes[0][1]
        assert (records.topic, records.values, records.keys) == ("t", ["a", "b", "c"], ["k"] * 3)
        assert records.columns is None
        p.producing.flush()
        assert [note[0] for note in notes] == ["send many", "acknowledged many"]
        assert notes[1][1:] == (deliveries, None, [("h", b"x")])

    def test_values_and_headers_may_be_changed(self) -> None:
        class Changing(ProducerInterceptor):
            def on_send_many(self, records: ProducerRecords) -> ProducerRecords:
                assert records.headers == []
                return records.replace(values=[v * 2 for v in records.values], headers={"a": "b"})

        p = Intercepted(Changing())
        self.many(p, ["a", "b"])
        p.producing.flush()
        assert p.producing.values() == [b"aa", b"bb"]

    def test_records_before_the_one_at_fault_are_told_with_its_error(self) -> None:
        notes: list[Any] = []
        p = Intercepted(Audit(notes))
        with pytest.raises(SerializationError) as raised:
            self.many(p, ["a", "b", 3])
        assert [note[0] for note in notes] == ["send many"]
        p.producing.flush()
        assert notes[1][2] is raised.value
        assert sum(part.records for part in notes[1][1].result(0)) == 2

    def test_a_call_that_queues_nothing_is_told_at_once(self) -> None:
        notes: list[Any] = []
        p = Intercepted(Audit(notes))
        with pytest.raises(TypeError):
            self.many(p, "abc")
        assert [note[0] for note in notes] == ["send many", "acknowledged many"]
        assert isinstance(notes[1][2], TypeError)
        assert len(notes[1][1]) == 0

    def test_an_interceptor_that_fails_is_passed_over(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        class Wrong(ProducerInterceptor):
            def on_send_many(self, records: ProducerRecords) -> ProducerRecords:
                return records.values

        p = Intercepted(Wrong())
        self.many(p, ["a"])
        p.producing.flush()
        assert p.producing.values() == [b"a"]
        assert "Wrong.on_send_many failed and was skipped: it returned a list" in caplog.text


class TestClose:
    def test_all_are_closed_once_in_order_though_one_fails(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        notes: list[Any] = []
        chain = ProducerInterceptors(
            [Audit(notes, "a "), Failing(), Audit(notes, "b ")], FixedClock()
        )
        with caplog.at_level(logging.WARNING):
            chain.close()
            chain.close()
        assert notes == ["a closed", "b closed"]
        assert "Failing.close" in caplog.text


class TestArguments:
    @pytest.mark.parametrize(
        ("given", "text"),
        [
            (ProducerInterceptor(), "not a list of interceptors"),
            ("Audit", "not a list of interceptors"),
            ([Audit], "not derived from ProducerInterceptor"),
            ([object()], "not derived from ProducerInterceptor"),
        ],
    )
    def test_a_value_that_is_no_list_of_interceptors_is_refused(
        self, given: Any, text: str
    ) -> None:
        with pytest.raises(ConfigError, match=text):
            checked_interceptors(given, ProducerInterceptor)

    def test_a_coroutine_function_is_refused(self) -> None:
        class Asynchronous(ProducerInterceptor):
            async def on_send(self, record: ProducerRecord) -> ProducerRecord:  # type: ignore[override]
                return record

        with pytest.raises(ConfigError, match=r"Asynchronous\.on_send is a coroutine function"):
            checked_interceptors([Asynchronous()], ProducerInterceptor)
