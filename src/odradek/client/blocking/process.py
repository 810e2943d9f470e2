"""`odradek.process`: from topic to topic, each input exactly once.

    def enrich(record):
        return {**record.value, "seen": True}

    odradek.process("orders", enrich, to="enriched", group="enricher", value="json")

`client.processing` and `client.process_loop` describe how, `examples/enrich.py` runs one. It runs
on the caller's thread, until it is stopped.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from odradek.client.blocking.consumer import Consumer
from odradek.client.blocking.producer import Producer
from odradek.client.consumer.application.poll_loop import (
    RecordBuffer,
    run_now,
)
from odradek.client.consumer.record import Record
from odradek.client.process_loop import ProcessLoop, pace_of, table_writer
from odradek.client.processing import (
    INTERVAL_S,
    MAX_RECORDS,
    Plan,
    TransactionLimit,
    check_form,
    outputs_of,
    plan_of,
)
from odradek.client.producer.send_path import SerializedRecord
from odradek.client.waiter import Waiter
from odradek.config.addresses import default_brokers

if TYPE_CHECKING:
    from odradek.client.arrow_types import Decode

T = TypeVar("T")


class Stop(Protocol):
    """Ends a processing: a `threading.Event`, or an object like it."""

    def is_set(self) -> bool:
        """True as soon as the processing is to end."""
        ...


def process(
    topics: str | Sequence[str],
    function: Callable[[Any], Any],
    *,
    to: str | None = None,
    group: str,
    brokers: str | Sequence[str] | None = None,
    key: Any = None,
    value: Any = None,
    arrow: bool = False,
    decode: Decode | None = None,
    interval: float = INTERVAL_S,
    max_records: int = MAX_RECORDS,
    on_error: str = "raise",
    stop: Stop | None = None,
    transactional_id: str | None = None,
    consumer: Mapping[str, Any] | None = None,
    producer: Mapping[str, Any] | None = None,
) -> int:
    """Read topics as a member of `group`, call `function` for every record, and write what it
    returns, until `stop` is set. Outputs and the group's offsets are committed together, in a
    transaction for the records of each `interval` (seconds): each input takes effect once, whatever
    fails. Returns the number of inputs.

    The function gets a `Record` and returns None, a value, which goes to the topic `to` with the
    key of the record, or a `ProducerRecord`; or several of these, in a list or as a generator.
    `key` and `value` are names of serializers, or objects that do both ways (`Serde`); there are
    none with `arrow=True`. Then the function gets a table, as `Consumer.arrow` makes it (`decode`
    too), and returns a table or None: its columns `key`, `value` and `headers` are written; without
    a `value`, its other columns as JSON.

    A record that cannot be decoded, or for which the function raises, ends the processing with that
    exception; with `on_error="dlq:TOPIC"` it is written there instead, in the same transaction.
    (An exception of a function of tables is always raised.) A transaction that failed is aborted,
    and its records are read again; after five failures in a row the error is raised.

    Start as many of these, with one `group`, as there are partitions at most. Without `stop`, on
    the main thread, SIGTERM ends it: the present transaction is finished and the group left. Give
    each running process a `transactional_id` of its own that it keeps over restarts; by default it
    has a new one each time, and one that was killed delays its successor by
    `transaction.timeout.ms` (10 s here). `brokers` are by default those of the environment
    (ODRADEK_BROKERS, KAFKA_BOOTSTRAP_SERVERS), else localhost:9092; `consumer` and `producer` are
    further settings. Raises `ConfigError`, and the `KafkaError`s of consumer and producer.
    """
    check_form(arrow=arrow, decode=decode, key=key, value=value)
    plan = plan_of(
        to=to,
        group=group,
        brokers=brokers,
        default_brokers=default_brokers(os.environ),
        key=key,
        value=value,
        on_error=on_error,
        transactional_id=transactional_id or f"{group}-{uuid.uuid4()}",
        consumer=consumer,
        producer=producer,
    )
    names = [topics] if isinstance(topics, str) else list(topics)
    with (
        stopped_by_sigterm() if stop is None else contextlib.nullcontext(stop) as stopped,
        initialized(Producer(plan.producer)) as writer,
        Consumer(*names, **plan.consumer) as reader,
    ):
        core, poll_loop = writer._core, reader._poll_loop
        pace = pace_of(poll_loop, core, max_records)

        async def send_dead_letter(letter: SerializedRecord) -> None:
            send_letter(writer, letter)

        async def send_table(topic: str, table: Any, columns: Mapping[str, str]) -> None:
            writer.send_arrow(topic, table, **columns)

        async def wait(make: Callable[[], Waiter[T]]) -> T:
            return writer._wait(make)

        async def write(buffer: RecordBuffer) -> int:
            return write_records(function, writer, plan, pace, buffer)

        async def pause(seconds: float) -> None:
            threading.Event().wait(seconds)

        written: Callable[[Any], Awaitable[int]] = (
            table_writer(function, send_dead_letter, send_table, plan, decode) if arrow else write
        )
        loop = ProcessLoop(poll_loop, reader._calls, core, wait, written, pace, pause)
        done = 0
        while not stopped.is_set():
            done += run_now(loop.run_once(interval, arrow))
        return done


@contextlib.contextmanager
def initialized(writer: Producer[Any, Any]) -> Iterator[Producer[Any, Any]]:
    """Yield the producer when what its predecessor left open is aborted: only then the group's
    offsets can be fetched."""
    with writer:
        writer.init_transactions()
        yield writer


def write_records(
    function: Callable[[Record[Any, Any]], Any],
    writer: Producer[Any, Any],
    plan: Plan,
    pace: TransactionLimit,
    buffer: RecordBuffer,
) -> int:
    """Call the function for each record, and send what it returns, until the transaction is to get
    no more. Returns the number of these records."""
    for done, raw in enumerate(buffer.records):
        if done and pace.is_over:
            return done
        outputs = outputs_of(function, raw, plan)
        if isinstance(outputs, SerializedRecord):
            send_letter(writer, outputs)
            continue
        for each in outputs:
            writer.send(
                each.topic,
                each.value,
                key=each.key,
                headers=each.headers,
                partition=each.partition,
                timestamp=each.timestamp_ms,
            )
    return len(buffer.records)


def send_letter(writer: Producer[Any, Any], letter: SerializedRecord) -> None:
    """Send a dead letter as it is, past the serializers."""
    writer._wait_for_room(letter)


@contextlib.contextmanager
def stopped_by_sigterm() -> Iterator[threading.Event]:
    """Yield an event that SIGTERM sets; on another thread, or if the application handles the signal
    itself, one that nothing sets."""
    stop = threading.Event()
    default = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if threading.current_thread() is not threading.main_thread() or not default:
        yield stop
        return

    def handle(number: int, frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, handle)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
