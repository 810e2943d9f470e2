"""Transactions of the producer that is awaited: an `async with` block, and the five methods.

    async with Producer(brokers="localhost:9092", transactional_id="billing-1") as producer:
        async with producer.transaction() as tx:
            await producer.enqueue("invoices", invoice)
            await tx.commit_offsets(consumer)    # what was read, with what was written

Leaving the block commits; an exception aborts. All records of the block and all offsets become
visible together, to consumers of committed records, or none does.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from odradek.client.aio.client import Client
from odradek.client.arguments import milliseconds_of
from odradek.client.consumer.arguments import Committable
from odradek.client.consumer.assignor.partition_assignor import ConsumerGroupMetadata
from odradek.client.producer.producer_core import ProducerCore
from odradek.client.producer.transaction_block import TransactionBlock
from odradek.client.producer.transaction_steps import offsets_of_positions
from odradek.client.transaction import OpenTransaction
from odradek.client.waiter import Waiter

if TYPE_CHECKING:
    from odradek.client.aio.consumer import Consumer

T = TypeVar("T")


class TransactionalProducer(Client):
    """The methods about transactions, for a producer with a `_core`. Timeouts are in seconds, and a
    negative one is for ever. None is for ever too, unless a method says otherwise."""

    _core: ProducerCore

    @property
    def _running_core(self) -> ProducerCore:
        """The core. Raises `ClientClosed` before the start and after the end."""
        self._check_running()
        return self._core

    def transaction(self, timeout: float | None = None) -> Transaction:
        """Return a block whose records and offsets are committed together.

        `timeout` limits the commit at its end: see `commit_transaction`. Before its first
        transaction the producer calls `init_transactions`. Raises `IllegalState` if a transaction
        is open, and the errors of those two."""
        return Transaction(self, timeout)

    async def init_transactions(
        self, timeout: float | None = None, *, transactional_id: str | None = None
    ) -> None:
        """Get a producer id, which shuts out all earlier producers of the transactional id and
        aborts what they left open. By default it waits up to `max.block.ms`.

        Between two transactions another `transactional_id` may be given. Raises `ApiTimeout`, and
        `TransactionalIdAuthorizationError` and other errors that are `fatal`."""
        core = self._running_core
        timeout_ms = core.timeout_or_max_block_ms(timeout)
        await self._wait(lambda _: core.transactions_or_error.init(timeout_ms, transactional_id))

    async def begin_transaction(self) -> None:
        """Begin a transaction. Raises `IllegalState` before `init_transactions`, and while one is
        open."""
        core = self._running_core
        await self._wait(lambda _: core.transactions_or_error.begin())

    async def send_offsets_to_transaction(
        self,
        positions: Any,
        group_metadata: ConsumerGroupMetadata,
        timeout: float | None = None,
    ) -> None:
        """Commit offsets of a group with the open transaction: offsets by partition, as `commit` of
        a consumer takes them, or a list of objects with topic, partition and offset.
        `group_metadata` is what `consumer_group_metadata` of the consumer returns. By default it
        waits up to `max.block.ms`.

        Raises `TransactionFailed`, which requires an abort: for example if the member was replaced
        in a rebalance."""
        core = self._running_core
        offsets = offsets_of_positions(positions)
        timeout_ms = core.timeout_or_max_block_ms(timeout)
        await self._wait(
            lambda _: core.transactions_or_error.commit_offsets(group_metadata, offsets, timeout_ms)
        )

    async def commit_transaction(self, timeout: float | None = None) -> None:
        """Send all records of the open transaction and commit it. An answer that does not come is
        asked for again, for up to `timeout` seconds.

        Raises `TransactionFailed` (`requires_abort`) if a record or a request of it failed,
        `ProducerFenced` (`fatal`) if another producer has taken over, and `CommitUnknown` after
        the timeout: then the commit goes on, and the next call waits for its outcome."""
        core = self._running_core
        await self._wait(lambda _: core.transactions_or_error.commit(milliseconds_of(timeout)))

    async def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort the open transaction: records that were not sent yet fail, and those that were are
        not read by consumers of committed records. Raises `ApiTimeout` after the timeout: the
        abort goes on, and the next transaction waits for it."""
        core = self._running_core
        await self._wait(lambda _: core.transactions_or_error.abort(milliseconds_of(timeout)))

    async def detach_transaction(self, timeout: float | None = None) -> OpenTransaction | None:
        """Send all records of the open transaction and leave it open, to be committed or
        aborted later by whoever has what this returns; None if nothing was sent. By default it
        waits up to `max.block.ms`.

        The producer has no producer id then: `init_transactions` may be called with the next
        transactional id. Raises `TransactionFailed` if a record failed."""
        core = self._running_core
        timeout_ms = core.timeout_or_max_block_ms(timeout)
        found: OpenTransaction | None = await self._wait(
            lambda _: core.transactions_or_error.detach(timeout_ms)
        )
        return found


class Transaction:
    """An `async with` block whose records and offsets are committed together."""

    def __init__(self, producer: TransactionalProducer, timeout: float | None) -> None:
        self._producer = producer
        self._timeout = timeout
        self._block: TransactionBlock | None = None

    async def __aenter__(self) -> Self:
        producer = self._producer

        async def wait(make: Callable[[], Waiter[T]]) -> T:
            return await producer._wait(lambda _: make())

        core, timeout_ms = producer._running_core, milliseconds_of(self._timeout)
        self._block = await TransactionBlock(core, wait, timeout_ms).__aenter__()
        return self

    async def commit_offsets(self, consumer: Consumer[Any, Any], what: Committable = None) -> None:
        """Commit offsets of the consumer's group with the transaction: what its `commit` takes, by
        default the positions of all records that it has returned.

        The consumer needs a group, and `enable.auto.commit` false. Raises as
        `send_offsets_to_transaction`."""
        await self._producer.send_offsets_to_transaction(
            *await consumer.offsets_for_transaction(what)
        )

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._block is not None
        await self._block.__aexit__(kind, error, traceback)
