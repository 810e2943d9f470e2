"""`odradek.aio.process`: from topic to topic, each input exactly once, in the running loop.

    async def enrich(record):
        return {**record.value, "customer": await customers.get(record.key)}

    await odradek.aio.process("orders", enrich, to="enriched", group="enricher", value="json")

`client.processing` and `client.process_loop` describe how.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from odradek.client.aio.consumer import Consumer
from odradek.client.aio.producer import Producer
from odradek.client.process_loop import ProcessLoop, pace_of, table_writer, write_records
from odradek.client.processing import INTERVAL_S, MAX_RECORDS, check_form, plan_of
from odradek.client.producer.intercepted_send import ProducerRecord
from odradek.client.producer.send_path import SerializedRecord
from odradek.client.waiter import Waiter
from odradek.config.addresses import default_brokers

if TYPE_CHECKING:
    from odradek.client.arrow_types import Decode

T = TypeVar("T")


async def process(
    topics: str | Sequence[str],
    function: Callable[[Any], Awaitable[Any] | Any],
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
    stop: asyncio.Event | None = None,
    transactional_id: str | None = None,
    consumer: Mapping[str, Any] | None = None,
    producer: Mapping[str, Any] | None = None,
) -> int:
    """Read topics as a member of `group`, await `function` for one record after the other, or with
    `arrow=True` for one table after the other, and write what it returns, until `stop` is set or
    this is cancelled. Returns the number of inputs.

    The arguments and the errors are those of the blocking `odradek.process`. Cancelling aborts the
    present transaction: its records are read again by the next member.
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
    async with (
        initialized(Producer(plan.producer)) as writer,
        Consumer(*names, **plan.consumer) as reader,
    ):
        core, poll_loop = writer._core, reader._poll_loop
        pace = pace_of(poll_loop, core, max_records)

        async def wait(make: Callable[[], Waiter[T]]) -> T:
            return await writer._wait(lambda _: make())

        async def send_table(topic: str, table: Any, columns: Mapping[str, str]) -> None:
            await writer.send_arrow(topic, table, **columns)

        send_one = partial(send, writer)
        write: Callable[[Any], Awaitable[int]] = (
            table_writer(function, send_one, send_table, plan, decode)
            if arrow
            else partial(write_records, function, send_one, plan, pace)
        )
        loop = ProcessLoop(poll_loop, reader._calls, core, wait, write, pace, asyncio.sleep)
        done = 0
        while stop is None or not stop.is_set():
            done += await loop.run_once(interval, arrow)
        return done


@contextlib.asynccontextmanager
async def initialized(writer: Producer[Any, Any]) -> AsyncIterator[Producer[Any, Any]]:
    """Yield the producer when what its predecessor left open is aborted: only then the group's
    offsets can be fetched."""
    async with writer:
        await writer.init_transactions()
        yield writer


async def send(writer: Producer[Any, Any], record: ProducerRecord | SerializedRecord) -> None:
    """Queue an output; a dead letter goes past the serializers."""
    if isinstance(record, SerializedRecord):
        await writer._wait_for_room(record)
        return
    await writer.enqueue(
        record.topic,
        record.value,
        key=record.key,
        headers=record.headers,
        partition=record.partition,
        timestamp=record.timestamp_ms,
    )
