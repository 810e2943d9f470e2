"""The path of a record through a producer's interceptors, in front of the `SendPath`.

    arguments ─► ProducerRecord ─► on_send … ─► SendPath ─┬─► queued ─► acknowledged, or failed ─┐
                                                          └─► refused ───────────────────────────┤
                                                              Acknowledgement ◄──────────────────┘

A producer without interceptors has a `SendPath` instead of an `InterceptedSendPath`, so none costs
nothing. A `ProducerRecord` checks its fields when it is made: what it refuses never reaches an
interceptor, and an interceptor cannot make a record that nobody could send.

Compiled, because each record of a producer with interceptors passes through here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, final

from odradek.client.arguments import UNCHANGED, Unchanged, text_of
from odradek.client.errors import KafkaError
from odradek.client.interceptor_hook import close_all
from odradek.client.interceptors import ProducerInterceptor, hooks
from odradek.client.producer.futures import Deliveries, Delivery, FutureRecordMetadata
from odradek.client.producer.producer_batch import DeliveryCallback
from odradek.client.producer.record_input import RecordInput
from odradek.client.producer.send_path import (
    BulkSend,
    SendPath,
    SerializedRecord,
    checked_partition,
    timestamp_ms_of,
)
from odradek.client.serializers import headers_of
from odradek.model.env import Clock
from odradek.protocol.records import Header

NO_HEADER_LIST: Final[list[Header]] = []
UNKNOWN_PARTITION: Final = -1
UNKNOWN: Final = -1
"""Offset and timestamp of a record that was not queued."""


@final
class ProducerRecord:
    """A record that `send` got, before it is serialized. It is immutable.

    `key` and `value` are the application's objects. `partition` and `timestamp_ms` are None if they
    were not given.
    """

    def __init__(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Any = None,
        partition: int | None = None,
        timestamp: datetime | int | None = None,
    ) -> None:
        """Raises `SerializationError` for invalid headers or an invalid time, `ValueError` for an
        invalid partition, and `TypeError` for a topic that is not text."""
        self._topic = topic if isinstance(topic, str) else text_of("topic", topic)
        self._value = value
        self._key = key
        self._headers = headers_of(headers) if headers else NO_HEADER_LIST
        self._partition = None if partition is None else checked_partition(partition)
        self._timestamp_ms = None if timestamp is None else timestamp_ms_of(timestamp)

    @property
    def topic(self) -> str:
        return self._topic

    @property
    def value(self) -> Any:
        return self._value

    @property
    def key(self) -> Any:
        return self._key

    @property
    def headers(self) -> list[Header]:
        """Pairs of name and value (bytes or None)."""
        return self._headers.copy()

    @property
    def partition(self) -> int | None:
        return self._partition

    @property
    def timestamp_ms(self) -> int | None:
        """Milliseconds since 1970."""
        return self._timestamp_ms

    def replace(
        self,
        topic: str | Unchanged = UNCHANGED,
        value: Any = UNCHANGED,
        key: Any = UNCHANGED,
        headers: Any = UNCHANGED,
        partition: int | Unchanged | None = UNCHANGED,
        timestamp: datetime | int | Unchanged | None = UNCHANGED,
    ) -> ProducerRecord:
        """Return a record with some fields replaced. They may be given in all forms that `send`
        takes. Raises as the constructor does."""
        return ProducerRecord(
            self._topic if isinstance(topic, Unchanged) else topic,
            self._value if isinstance(value, Unchanged) else value,
            self._key if isinstance(key, Unchanged) else key,
            self._headers if isinstance(headers, Unchanged) else headers,
            self._partition if isinstance(partition, Unchanged) else partition,
            self._timestamp_ms if isinstance(timestamp, Unchanged) else timestamp,
        )

    def __repr__(self) -> str:
        return (
            f"ProducerRecord(topic={self._topic!r}, value={self._value!r}, key={self._key!r}, "
            f"headers={self._headers!r}, partition={self._partition}, "
            f"timestamp_ms={self._timestamp_ms})"
        )


class ArrowColumns(NamedTuple):
    """The names of the columns that `send_arrow` got: key, value and headers of each row."""

    key: str | None
    value: str
    headers: str | None


@final
class ProducerRecords:
    """The records that one `send_many` or `send_arrow` got. It is immutable.

    Of `send_many`, `values` and `keys` are the application's objects and `columns` is None. Of
    `send_arrow`, `values` is the Arrow data and `columns` has the names of its columns. `headers`
    are for every record; a row's own come after them. `partition` and `timestamp_ms` are for every
    record, the name of a column, or None.
    """

    def __init__(
        self,
        topic: str,
        values: Any,
        keys: Sequence[Any] | None = None,
        headers: Any = None,
        partition: int | str | None = None,
        timestamp: datetime | int | str | None = None,
        columns: ArrowColumns | None = None,
    ) -> None:
        """Raises as `ProducerRecord` does."""
        self._topic = topic if isinstance(topic, str) else text_of("topic", topic)
        self._values = values
        self._keys = keys
        self._headers = headers_of(headers) if headers else NO_HEADER_LIST
        self._partition = checked_partition(partition) if isinstance(partition, int) else partition
        self._timestamp_ms: int | str | None = None
        if isinstance(timestamp, str):
            self._timestamp_ms = timestamp
        elif timestamp is not None:
            self._timestamp_ms = timestamp_ms_of(timestamp)
        self._columns = columns

    @property
    def topic(self) -> str:
        return self._topic

    @property
    def values(self) -> Any:
        return self._values

    @property
    def keys(self) -> Sequence[Any] | None:
        return self._keys

    @property
    def headers(self) -> list[Header]:
        """Pairs of name and value (bytes or None)."""
        return self._headers.copy()

    @property
    def partition(self) -> int | str | None:
        return self._partition

    @property
    def timestamp_ms(self) -> int | str | None:
        """Milliseconds since 1970."""
        return self._timestamp_ms

    @property
    def columns(self) -> ArrowColumns | None:
        return self._columns

    def replace(
        self,
        topic: str | Unchanged = UNCHANGED,
        values: Any = UNCHANGED,
        keys: Sequence[Any] | Unchanged | None = UNCHANGED,
        headers: Any = UNCHANGED,
        partition: int | str | Unchanged | None = UNCHANGED,
        timestamp: datetime | int | str | Unchanged | None = UNCHANGED,
        columns: ArrowColumns | Unchanged = UNCHANGED,
    ) -> ProducerRecords:
        """Return the records with some fields replaced, which apply to every record. Raises as the
        constructor does."""
        return ProducerRecords(
            self._topic if isinstance(topic, Unchanged) else topic,
            self._values if isinstance(values, Unchanged) else values,
            self._keys if isinstance(keys, Unchanged) else keys,
            self._headers if isinstance(headers, Unchanged) else headers,
            self._partition if isinstance(partition, Unchanged) else partition,
            self._timestamp_ms if isinstance(timestamp, Unchanged) else timestamp,
            self._columns if isinstance(columns, Unchanged) else columns,
        )


@final
class ProducerInterceptors:
    """The interceptors of one producer, as one. Any thread."""

    def __init__(self, interceptors: Sequence[ProducerInterceptor], clock: Clock) -> None:
        base = ProducerInterceptor
        self._on_send = hooks(interceptors, base.on_send, clock)
        self._on_send_many = hooks(interceptors, base.on_send_many, clock)
        self._on_acknowledgement = hooks(interceptors, base.on_acknowledgement, clock)
        self._on_acknowledgement_many = hooks(interceptors, base.on_acknowledgement_many, clock)
        self._close = hooks(interceptors, base.close, clock)
        self.acknowledges = len(self._on_acknowledgement) > 0
        """An interceptor wants to know the outcome of records."""
        self.sees_records = self.acknowledges or len(self._on_send) > 0
        """An interceptor wants to see records that are sent one by one."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        for hook in self._on_send:
            try:
                made = hook.call(record)
                if not isinstance(made, ProducerRecord):
                    raise TypeError(wrong_result(made, "ProducerRecord"))
                record = made
            except Exception as error:
                hook.failed(error)
        return record

    def on_send_many(self, records: ProducerRecords) -> ProducerRecords:
        for hook in self._on_send_many:
            try:
                made = hook.call(records)
                if not isinstance(made, ProducerRecords):
                    raise TypeError(wrong_result(made, "ProducerRecords"))
                if (made.columns is None) != (records.columns is None):
                    raise TypeError("records cannot become Arrow data, nor Arrow data records")
                records = made
            except Exception as error:
                hook.failed(error)
        return records

    def on_acknowledgement(
        self, delivery: Delivery, error: BaseException | None, headers: Sequence[Header]
    ) -> None:
        for hook in self._on_acknowledgement:
            try:
                hook.call(delivery, error, headers)
            except (Exception, SystemExit) as raised:
                hook.failed(raised)

    def on_acknowledgement_many(
        self, deliveries: Deliveries, error: BaseException | None, headers: Sequence[Header]
    ) -> None:
        for hook in self._on_acknowledgement_many:
            try:
                hook.call(deliveries, error, headers)
            except (Exception, SystemExit) as raised:
                hook.failed(raised)

    def close(self) -> None:
        """Close all interceptors. A second call does nothing."""
        close_all(self._close)


def wrong_result(made: object, wanted: str) -> str:
    """Return the error text for an interceptor that returned something else."""
    return f"it returned a {type(made).__name__}: it must return a {wanted}"


@final
class PlainAcknowledgement:
    """Tells the interceptors the outcome of records without headers and `on_delivery` that were
    queued at once. One for all of them, so that a batch keeps no object for each (`CallbackRun`).
    """

    def __init__(self, interceptors: ProducerInterceptors) -> None:
        self._interceptors = interceptors

    def __call__(self, error: KafkaError | None, delivery: Delivery) -> None:
        self._interceptors.on_acknowledgement(delivery, error, [])


@final
class Acknowledgement:
    """Tells the interceptors the outcome of one record, and then its `on_delivery`. Once."""

    def __init__(
        self,
        interceptors: ProducerInterceptors,
        record: ProducerRecord,
        callback: DeliveryCallback | None,
    ) -> None:
        self._interceptors = interceptors
        self._headers = record._headers
        self._callback = callback
        self._told = False

    def __call__(self, error: KafkaError | None, delivery: Delivery) -> None:
        if not self._told:
            self._told = True
            self._interceptors.on_acknowledgement(delivery, error, self._headers.copy())
        if self._callback is not None:
            self._callback(error, delivery)

    def refused(self, topic: str, partition: int, error: BaseException) -> None:
        """The record was not queued, unless the outcome was told already: a wait that ends may
        cross with the queueing of its record."""
        if not self._told:
            self._told = True
            tell_refused(self._interceptors, topic, partition, error, self._headers)


def tell_refused(
    interceptors: ProducerInterceptors,
    topic: str,
    partition: int,
    error: BaseException,
    headers: list[Header],
) -> None:
    """Tell that a record was not queued. `partition` is negative if none was chosen."""
    place = Delivery(topic, max(partition, UNKNOWN_PARTITION), UNKNOWN, UNKNOWN)
    interceptors.on_acknowledgement(place, error, headers.copy())


def record_refused(record: SerializedRecord, error: BaseException) -> None:
    """Tell the interceptors, if there are any, that a record that had to wait was not queued."""
    callback = record.callback
    if isinstance(callback, Acknowledgement):
        callback.refused(record.topic, record.partition, error)


@final
class InterceptedSendPath:
    """A `SendPath` behind interceptors, with the same methods. Any thread."""

    def __init__(self, send_path: SendPath, interceptors: ProducerInterceptors) -> None:
        self._send_path = send_path
        self._interceptors = interceptors
        self._acknowledgement = PlainAcknowledgement(interceptors)

    def send(
        self,
        topic: str,
        value: object,
        key: object,
        headers: Any,
        partition: int | None,
        timestamp: datetime | int | None,
        callback: DeliveryCallback | None,
    ) -> FutureRecordMetadata | SerializedRecord:
        """Do what `SendPath.send` does, with the record that the interceptors return. The caller
        passes a record that has to wait, and then is not queued, to `record_refused`."""
        interceptors = self._interceptors
        if not interceptors.sees_records:
            return self._send_path.send(topic, value, key, headers, partition, timestamp, callback)
        record = ProducerRecord(topic, value, key, headers, partition, timestamp)
        try:
            record = interceptors.on_send(record)
            if not interceptors.acknowledges:
                pass
            elif callback is None and not record._headers:
                callback = self._acknowledgement
            else:
                callback = Acknowledgement(interceptors, record, callback)
            sent = self._send_path.send(
                record._topic,
                record._value,
                record._key,
                record._headers,
                record._partition,
                record._timestamp_ms,
                callback,
            )
            if callback is self._acknowledgement and isinstance(sent, SerializedRecord):
                sent.callback = Acknowledgement(interceptors, record, None)
            return sent
        except BaseException as error:
            given = record._partition
            place = UNKNOWN_PARTITION if given is None else given
            tell_refused(interceptors, record._topic, place, error, record._headers)
            raise

    def send_many(
        self,
        topic: str,
        values: Sequence[object],
        keys: Sequence[object] | None,
        headers: Any,
        partition: int | None,
        timestamp: datetime | int | None,
    ) -> BulkSend:
        """Do what `SendPath.send_many` does, with the records that the interceptors return."""
        given = ProducerRecords(topic, values, keys, headers, partition, timestamp)

        def make(records: ProducerRecords) -> BulkSend:
            return self._send_path.send_many(
                records._topic,
                records._values,
                records._keys,
                records._headers,
                records._partition,
                records._timestamp_ms,
            )

        return self._bulk(given, make)

    def send_arrow(
        self,
        make_inputs: Callable[..., Iterable[RecordInput]],
        topic: str,
        data: Any,
        key: str | None,
        value: str,
        headers: str | None,
        partition: int | str | None,
        timestamp: datetime | int | str | None,
    ) -> BulkSend:
        """Do what `SendPath.send_arrow` does, with the data that the interceptors return."""
        columns = ArrowColumns(key, value, headers)
        given = ProducerRecords(topic, data, None, None, partition, timestamp, columns)

        def make(records: ProducerRecords) -> BulkSend:
            names = records._columns
            assert names is not None
            return self._send_path.send_arrow(
                make_inputs,
                records._topic,
                records._values,
                names.key,
                names.value,
                names.headers,
                records._partition,
                records._timestamp_ms,
                records._headers,
            )

        return self._bulk(given, make)

    def _bulk(
        self, records: ProducerRecords, make: Callable[[ProducerRecords], BulkSend]
    ) -> BulkSend:
        interceptors = self._interceptors
        sent = records
        try:
            sent = interceptors.on_send_many(records)
            many = make(sent)
        except BaseException as error:
            interceptors.on_acknowledgement_many(Deliveries(), error, sent.headers)
            raise

        def ended(error: BaseException | None) -> None:
            many.deliveries.when_done(
                lambda: interceptors.on_acknowledgement_many(many.deliveries, error, sent.headers)
            )

        many.on_end = ended
        return many
