"""TransactionBlock: what `with producer.transaction()` does.

    enter ─► InitProducerId, before the first transaction ─► begin ─► the block
    leave ─┬─ no exception ─► commit ─► an error that requires an abort ─► abort, raise it
           └─ an exception ─► abort, if the transaction is still open; it goes on

Written as coroutines over a `wait`, as `PollLoop` is over its driver: the blocking API runs them to
their end (`run_now`), asyncio awaits them, the simulator spawns them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from odradek.client.consumer.assignor.partition_assignor import ConsumerGroupMetadata
from odradek.client.consumer.batch import OffsetAndMetadata
from odradek.client.errors import KafkaError
from odradek.client.producer.producer_core import ProducerCore
from odradek.client.producer.transaction_phases import Phase
from odradek.client.waiter import Waiter
from odradek.model.topics import TopicPartition

log = logging.getLogger(__name__)

T = TypeVar("T")


class Wait(Protocol):
    """Makes a waiter on the thread of the producer's engine, and returns its result."""

    def __call__(self, make: Callable[[], Waiter[T]]) -> Coroutine[Any, Any, T]: ...


class TransactionBlock:
    """A block whose records and offsets are committed together. `timeout_ms` limits the commit."""

    def __init__(self, core: ProducerCore, wait: Wait, timeout_ms: int | None = None) -> None:
        self._core = core
        self._wait = wait
        self._timeout_ms = timeout_ms
        self._transactions = core.transactions_or_error

    async def __aenter__(self) -> Self:
        transactions, max_block_ms = self._transactions, self._core.settings.max_block_ms
        if transactions.transaction.phase in (Phase.UNINITIALIZED, Phase.INITIALIZING):
            await self._wait(lambda: transactions.init(max_block_ms))
        await self._wait(transactions.begin)
        return self

    async def commit_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        """Commit a group's offsets with the transaction."""
        transactions, max_block_ms = self._transactions, self._core.settings.max_block_ms
        await self._wait(lambda: transactions.commit_offsets(group, offsets, max_block_ms))

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            await self._abort(error)
            return
        try:
            await self._wait(lambda: self._transactions.commit(self._timeout_ms))
        except KafkaError as failure:
            if failure.requires_abort:
                await self._abort(failure)
            raise

    async def _abort(self, error: BaseException) -> None:
        """Abort because of an error, which is raised afterwards; raise only that the producer
        cannot go on."""
        if isinstance(error, GeneratorExit):
            return  # The coroutine is dropped, and cannot wait.
        transactions, max_block_ms = self._transactions, self._core.settings.max_block_ms
        if transactions.transaction.phase not in (Phase.IN_TRANSACTION, Phase.ABORTABLE_ERROR):
            return  # It was ended in the block, or the producer cannot go on and has said so.
        try:
            await self._wait(lambda: transactions.abort(max_block_ms))
        except KafkaError as failure:
            if failure.fatal and isinstance(error, KafkaError):
                raise failure from error
            log.warning("a transaction could not be aborted: %s", failure)
