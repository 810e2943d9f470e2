"""ProcessLoop: the steps of `odradek.process`, transaction by transaction.

    read for `interval` ─► begin ─► write ─► the group's offsets ─► commit ─► read on
          ▲                                                           │
          └── rewind, pause ◄── abort ◄── an error after which another transaction may succeed

Written as coroutines over the driver of the consumer's `PollLoop` and the producer's `wait`. So the
blocking API, asyncio and the simulator run the same loop.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from odradek.client.consumer.application.calls import ConsumerCalls
from odradek.client.consumer.application.poll_loop import (
    ColumnBuffer,
    PollLoop,
    RecordBuffer,
)
from odradek.client.consumer.batch import OffsetAndMetadata
from odradek.client.errors import ConfigError, DecodeError, KafkaError, RebalanceInProgress
from odradek.client.processing import (
    AGAIN_S,
    MAX_FAILURES,
    VALUE_CONVERTER,
    Plan,
    TransactionLimit,
    arrow_columns,
    awaited_outputs_of,
    letter_of,
    may_go_on,
    offsets_after,
)
from odradek.client.producer.intercepted_send import ProducerRecord
from odradek.client.producer.producer_core import ProducerCore
from odradek.client.producer.send_path import SerializedRecord
from odradek.client.producer.transaction_block import TransactionBlock, Wait
from odradek.client.waiter import spawn
from odradek.model.topics import TopicPartition

if TYPE_CHECKING:
    from odradek.client.arrow_types import Decode

log = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


def pace_of(reader: PollLoop, writer: ProducerCore, max_records: int) -> TransactionLimit:
    """Return the pace of transactions of this producer."""
    timeout_ms = writer.transactions_or_error.transaction.timeout_ms
    return TransactionLimit(
        max_records, timeout_ms, reader.driver.time, reader.max_poll_interval_ms
    )


class ProcessLoop:
    """Runs one transaction after the other. `write` calls the function and sends what it returns;
    it returns how many of the records that takes in."""

    def __init__(
        self,
        reader: PollLoop,
        calls: ConsumerCalls,
        writer: ProducerCore,
        wait: Wait,
        write: Callable[[Any], Awaitable[int]],
        pace: TransactionLimit,
        pause: Callable[[float], Awaitable[object]],
    ) -> None:
        self.pace = pace
        self._reader = reader
        self._calls = calls
        self._writer = writer
        self._wait = wait
        self._write = write
        self._pause = pause
        self._failures = 0

    async def run_once(self, interval_s: float, arrow: bool = False) -> int:
        """Read for `interval_s`, records or with `arrow` their columns, and process what came, in
        one transaction. Returns the number of inputs; 0 if none came, or if they will be read
        again."""
        reader, limit = self._reader, self.pace.limit
        buffer: RecordBuffer | ColumnBuffer = (
            ColumnBuffer(reader.collector, limit)
            if arrow
            else RecordBuffer(reader.collector, limit)
        )
        await reader.fill(buffer, interval_s)
        if buffer.is_empty:
            return 0
        offsets: Offsets = reader.collector.consumed_offsets()
        count, rest = buffer.count, False
        self.pace.begin()
        try:
            async with self.transaction() as block:
                count = await self._write(buffer)
                if isinstance(buffer, RecordBuffer) and count < len(buffer.records):
                    rest = True
                    offsets = offsets_after(buffer.records[:count])
                await self.commit_offsets(block, offsets)
        except KafkaError as error:
            if self.pace.is_over:
                self.pace.ended(count)
            await self._failed(error, len(offsets))
            return 0
        self._failures = 0
        self.pace.ended(count)
        if rest:
            await reader.rewind(offsets)
        return count

    def transaction(self) -> TransactionBlock:
        """Return the block of the next transaction."""
        return TransactionBlock(self._writer, self._wait)

    async def commit_offsets(self, block: TransactionBlock, offsets: Offsets) -> None:
        """Commit the offsets with the transaction, as the member that the consumer is now."""
        calls = self._calls
        found, group = await self._reader.driver.wait(lambda: spawn(calls.for_transaction(offsets)))
        self._reader.collector.refresh()
        await block.commit_offsets(found, group)

    async def _failed(self, error: KafkaError, partitions: int) -> None:
        """Go back to where the transaction began, after it was aborted. Raises errors after which
        another one would not succeed either."""
        if not isinstance(error, RebalanceInProgress):  # A rebalance ends soon, and is no failure.
            self._failures += 1
        slow = self.pace.too_slow(error)
        if not may_go_on(error) or self._failures >= MAX_FAILURES:
            if slow is not None:
                raise slow from error
            raise error
        log.warning(
            "transaction aborted; going back to the committed offsets of %d partitions: %s",
            partitions,
            slow or error,
        )
        await self._reader.rewind()
        await self._pause(AGAIN_S * max(1, self._failures))


Send = Callable[[ProducerRecord | SerializedRecord], Awaitable[object]]
"""Queues an output, or a dead letter, which is serialized already."""


async def write_records(
    function: Callable[[Any], Any],
    send: Send,
    plan: Plan,
    pace: TransactionLimit,
    buffer: RecordBuffer,
) -> int:
    """Await the function for each record, and send what it returns, until the transaction is to get
    no more. Returns the number of these records."""
    for done, raw in enumerate(buffer.records):
        if done and pace.is_over:
            return done
        outputs = await awaited_outputs_of(function, raw, plan)
        for each in (outputs,) if isinstance(outputs, SerializedRecord) else outputs:
            await send(each)
    return len(buffer.records)


def table_writer(
    function: Callable[[Any], Any],
    send: Callable[[SerializedRecord], Awaitable[object]],
    send_table: Callable[[str, Any, Mapping[str, str]], Awaitable[object]],
    plan: Plan,
    decode: Decode | None,
) -> Callable[[ColumnBuffer], Coroutine[Any, Any, int]]:
    """Return what calls a function, or awaits it, with an Arrow table of the rows that are no dead
    letters, if there are such, and sends the table that it returns, by the columns that
    `send_arrow` takes."""
    from odradek.client.arrow import pyarrow as pa  # Heavy, and optional.
    from odradek.client.arrow.json_values import JsonValues
    from odradek.client.arrow.record_batches import record_batch

    letters: list[DecodeError] = []
    on_error = None if plan.dead_letter_topic is None else letters.append
    values = None if decode is None else JsonValues(decode, on_error)

    async def write(buffer: ColumnBuffer) -> int:
        letters.clear()
        table = pa.Table.from_batches([record_batch(buffer, values, with_offsets=False)])
        for error in letters:
            assert error.record is not None and plan.dead_letter_topic is not None
            reason = error.__cause__ or error
            await send(letter_of(error.record, plan.dead_letter_topic, VALUE_CONVERTER, reason))
        table = without(table, letters)
        result = function(table) if table.num_rows else None
        if isinstance(result, Awaitable):
            result = await result
        if result is not None:
            if plan.to is None:
                raise ConfigError(
                    "the function returned a table, and there is no topic for it. What to do: give "
                    "`to`, or return None"
                )
            await send_table(plan.to, result, arrow_columns(result.schema.names))
        return buffer.count

    return write


def without(table: Any, letters: Sequence[DecodeError]) -> Any:
    """Return the Arrow table without the rows of these records."""
    if not letters:
        return table
    dropped = {
        (error.record.topic, error.record.partition, error.record.offset)
        for error in letters
        if error.record is not None
    }
    columns = (table.column(name).to_pylist() for name in ("topic", "partition", "offset"))
    kept = [row not in dropped for row in zip(*columns, strict=True)]
    return table.filter(kept)
