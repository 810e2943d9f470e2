"""`odradek.aio.process`: from topic to topic, each input exactly once, in the running loop.

    async def enrich(record):
        return {**record.value, "customer": await customers.get(record.key)}

    await odradek.aio.process("orders", enrich, to="enriched", group="enricher", value="json")

`client.processing` describes how.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from odradek.client.aio.consumer import Consumer
from odradek.client.aio.producer import Producer
from odradek.client.consumer.application.poll_loop import RecordBuffer
from odradek.client.errors import KafkaError
from odradek.client.processing import (
    AGAIN_S,
    INTERVAL_S,
    MAX_FAILURES,
    MAX_RECORDS,
    Pace,
    Plan,
    awaited_outputs_of,
    may_go_on,
    offsets_after,
    plan_of,
)
from odradek.client.producer.send_path import SerializedRecord

log = logging.getLogger(__name__)


async def process(
    topics: str | Sequence[str],
    function: Callable[[Any], Awaitable[Any] | Any],
    *,
    to: str | None = None,
    group: str,
    brokers: str | Sequence[str] | None = None,
    key: Any = None,
    value: Any = None,
    interval: float = INTERVAL_S,
    max_records: int = MAX_RECORDS,
    on_error: str = "raise",
    stop: asyncio.Event | None = None,
    transactional_id: str | None = None,
    consumer: Mapping[str, Any] | None = None,
    producer: Mapping[str, Any] | None = None,
) -> int:
    """Read topics as a member of `group`, await `function` for one record after the other, and
    write what it returns, until `stop` is set or this is cancelled. Returns the number of inputs.

    The arguments and the errors are those of the blocking `odradek.process`, which also works on
    Arrow tables. Cancelling aborts the present transaction: its records are read again by the next
    member.
    """
    plan = plan_of(
        to=to,
        group=group,
        brokers=brokers,
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
        timeout_ms = writer._core.transactions_or_error.transaction.timeout_ms
        pace = Pace(max_records, timeout_ms, reader._poll_loop._driver.time)
        done = failures = 0
        while stop is None or not stop.is_set():
            buffer = RecordBuffer(reader._collector, pace.limit)
            await reader._poll_loop.fill(buffer, interval)
            if buffer.is_empty:
                continue
            offsets = reader._collector.consumed_offsets()
            pace.begin()
            try:
                async with writer.transaction() as transaction:
                    count = await write_records(function, writer, plan, pace, buffer)
                    rest = count < len(buffer.records)
                    if rest:
                        offsets = offsets_after(buffer.records[:count])
                    await transaction.commit_offsets(reader, offsets)
            except KafkaError as error:
                failures += 1
                if not may_go_on(error) or failures >= MAX_FAILURES:
                    slow = pace.too_slow(error)
                    if slow is not None:
                        raise slow from error
                    raise
                log.warning("reading %d partitions again: %s", len(offsets), error)
                await reader._poll_loop.rewind()
                await asyncio.sleep(AGAIN_S * failures)
                continue
            failures = 0
            pace.committed(count)
            if rest:
                await reader._poll_loop.rewind(offsets)
            done += count
        return done


@contextlib.asynccontextmanager
async def initialized(writer: Producer[Any, Any]) -> AsyncIterator[Producer[Any, Any]]:
    """Yield the producer when what its predecessor left open is aborted: only then the group's
    offsets can be fetched."""
    async with writer:
        await writer.init_transactions()
        yield writer


async def write_records(
    function: Callable[[Any], Any],
    writer: Producer[Any, Any],
    plan: Plan,
    pace: Pace,
    buffer: RecordBuffer,
) -> int:
    """Await the function for each record, and send what it returns, until the transaction is to get
    no more. Returns the number of these records."""
    for done, raw in enumerate(buffer.records):
        if done and pace.is_over:
            return done
        outputs = await awaited_outputs_of(function, raw, plan)
        if isinstance(outputs, SerializedRecord):
            await writer._wait_for_room(outputs)
            continue
        for each in outputs:
            await writer.enqueue(
                each.topic,
                each.value,
                key=each.key,
                headers=each.headers,
                partition=each.partition,
                timestamp=each.timestamp_ms,
            )
    return len(buffer.records)
