"""The transaction coordinator: one method per request, called by the handlers.

Checks that need no transaction are made here; the rest of a request runs as an operation on the
shard of its transactional id. Responses are passed to the callback `respond`, possibly before the
method returns.

A client's request that meets a transaction which is just ending would be answered with
CONCURRENT_TRANSACTIONS, and the client would ask again after a while. Here it waits up to
`END_WAIT_MS` for that end, in a purgatory keyed by the transactional id, and is run again. Requests
of other brokers, which carry several transactions, are answered at once; who asks in this process
waits with `after_end`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from odradek.coordinator.operation import OperationResult, Reply
from odradek.coordinator.transaction.add_partitions import (
    NO_CONNECTION,
    ProducerIdentity,
    add_partitions,
    verify_partitions,
)
from odradek.coordinator.transaction.end_txn import complete, end_error, end_txn
from odradek.coordinator.transaction.init_producer_id import init_error, init_producer_id
from odradek.coordinator.transaction.listing import TransactionFilter, describe, describe_error
from odradek.coordinator.transaction.markers import RETRY_MS, TransactionEnd, TransactionMarkers
from odradek.coordinator.transaction.transaction_counters import TransactionCounters
from odradek.coordinator.transaction.transaction_metadata import EPOCH_BUMP_VERSION
from odradek.coordinator.transaction.transaction_shard import TransactionShard
from odradek.coordinator.transaction.transaction_state import ENDING, KEPT, TransactionState
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol.api.end_txn import EndTxnRequest, EndTxnResponse
from odradek.protocol.api.list_transactions import ListedTransaction, ListTransactionsResponse
from odradek.timing import DelayedOperation, DelayedOperationPurgatory, SystemTimer

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig
    from odradek.coordinator.runtime import CoordinatorRuntime
    from odradek.protocol.api.describe_transactions import DescribedTransaction
    from odradek.protocol.api.init_producer_id import (
        InitProducerIdRequest,
        InitProducerIdResponse,
    )

log = logging.getLogger(__name__)
R = TypeVar("R")

END_WAIT_MS = 100
"""How long a request waits for the end of a transaction."""
FIRST_END_WITH_EPOCH_BUMP = 5
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS


class DelayedEnd(DelayedOperation):
    """Waits for the end of a transaction that is under way; calls `ended` then, or in time."""

    def __init__(
        self, delay_ms: int, is_ending: Callable[[], bool], ended: Callable[[], None]
    ) -> None:
        super().__init__(delay_ms)
        self._is_ending = is_ending
        self._ended = ended

    def try_complete(self) -> bool:
        return not self._is_ending() and self.force_complete()

    def on_complete(self) -> None:
        self._ended()

    def on_expiration(self) -> None:
        """Nothing to do: `on_complete` has called `ended`."""


class OperationAfterEnd(Generic[R]):
    """An operation of a request; run again after the end of a transaction that is under way."""

    def __init__(
        self,
        coordinator: TransactionCoordinator,
        transactional_id: str,
        operation: Callable[[TransactionShard, OperationResult, Reply[R]], None],
        is_concurrent: Callable[[R], bool],
        refusal: Callable[[ErrorCode], R],
        respond: Callable[[R], None],
    ) -> None:
        self._coordinator = coordinator
        self._transactional_id = transactional_id
        self._deadline_ms = coordinator.now_ms + END_WAIT_MS
        self._operation = operation
        self._is_concurrent = is_concurrent
        self._refusal = refusal
        self._respond = respond

    def run(self) -> None:
        """Run it now."""
        reply = Reply(self._answered, self._refusal)
        operation = partial(self._run_on, reply)
        self._coordinator.runtime.run(self._transactional_id, operation, reply.refuse)

    def _run_on(self, reply: Reply[R], shard: TransactionShard, result: OperationResult) -> None:
        self._operation(shard, result, reply)

    def _answered(self, response: R) -> None:
        coordinator = self._coordinator
        left_ms = self._deadline_ms - coordinator.now_ms
        if self._is_concurrent(response) and left_ms > 0:
            # Not at once: the answer may come from within an operation.
            coordinator.call_soon(
                partial(coordinator.after_end, self._transactional_id, left_ms, self.run)
            )
        else:
            self._respond(response)


class TransactionCoordinator:
    """Requests of transactional producers. All methods run on the owner thread.

    It is the `TransactionEnvironment` of its shards. `runtime` and `markers` are set by the wiring,
    which makes them with this object.
    """

    runtime: CoordinatorRuntime[TransactionShard]
    markers: TransactionMarkers

    def __init__(
        self,
        config: BrokerConfig,
        timer: SystemTimer,
        call_soon: Callable[[Callable[[], None]], None],
        next_producer_id: Callable[[], int | None],
        transaction_version: Callable[[], int],
        leader_of: Callable[[TopicPartition], int | None],
    ) -> None:
        """`next_producer_id()`: an id, or None after asking for more. `transaction_version()`: the
        finalized level of that feature. `leader_of`: as for `TransactionMarkers`.
        """
        self.config = config
        self.counters = TransactionCounters()
        self.purgatory = DelayedOperationPurgatory("Transaction", timer)
        self._timer = timer
        self.call_soon = call_soon
        self.next_producer_id = next_producer_id
        self.transaction_version = transaction_version
        self._leader_of = leader_of

    @property
    def now_ms(self) -> int:
        """The present time of the timer."""
        return self._timer.now_ms

    def coordinator_node(self, transactional_id: str) -> int:
        """The broker that coordinates an id by the metadata; -1 if there is none now."""
        number = self.runtime.partition_of(transactional_id)
        leader = self._leader_of(TopicPartition(self.runtime.topic, number))
        return -1 if leader is None else leader

    # -- producers ---------------------------------------------------------------------------------

    def init_producer_id(
        self, request: InitProducerIdRequest, respond: Callable[[InitProducerIdResponse], None]
    ) -> None:
        """Give a producer its id and epoch, and shut out earlier ones of its transactional id."""
        transactional_id = request.transactional_id
        if not transactional_id:
            respond(init_error(ErrorCode.INVALID_REQUEST))
        elif not 0 < request.transaction_timeout_ms <= self.config.transaction_max_timeout_ms:
            respond(init_error(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
        else:
            OperationAfterEnd(
                self,
                transactional_id,
                partial(initialized, request),
                is_concurrent_response,
                init_error,
                respond,
            ).run()

    def end_txn(
        self,
        request: EndTxnRequest,
        version: int,
        connection: int,
        respond: Callable[[EndTxnResponse], None],
    ) -> None:
        """Commit or abort a transaction. `version`: of the request; `connection`: the number of
        the client's, which grows with each one that is accepted.
        """
        if not request.transactional_id:
            respond(end_error(ErrorCode.INVALID_REQUEST))
            return
        producer = ProducerIdentity(
            request.transactional_id, request.producer_id, request.producer_epoch
        )
        bumps_epoch = version >= FIRST_END_WITH_EPOCH_BUMP
        OperationAfterEnd(
            self,
            request.transactional_id,
            partial(self._end, producer, request.committed, bumps_epoch, connection),
            is_concurrent_response,
            end_error,
            respond,
        ).run()

    def _end(
        self,
        producer: ProducerIdentity,
        committed: bool,
        bumps_epoch: bool,
        connection: int,
        shard: TransactionShard,
        result: OperationResult,
        reply: Reply[EndTxnResponse],
    ) -> None:
        now_ms = self._timer.now_ms
        end_txn(shard, result, producer, committed, bumps_epoch, connection, now_ms, reply)

    # -- partitions --------------------------------------------------------------------------------

    def add_partitions(
        self,
        producer: ProducerIdentity,
        partitions: Collection[TopicPartition],
        connection: int,
        respond: Callable[[ErrorCode], None],
    ) -> None:
        """Add partitions, which exist, to a transaction for a client before transaction version 2.

        `connection` as for `end_txn`.
        """
        if not producer.transactional_id:
            respond(ErrorCode.INVALID_REQUEST)
            return
        OperationAfterEnd(
            self,
            producer.transactional_id,
            partial(added_by_client, producer, partitions, connection),
            is_concurrent,
            unchanged,
            respond,
        ).run()

    def add_partitions_to_transaction(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        verify_only: bool,
        partitions: Collection[TopicPartition],
        answer: Callable[[dict[TopicPartition, ErrorCode]], None],
    ) -> None:
        """Add partitions, which exist, to a transaction for their leader, or verify that they are
        in it (KIP-890). An error is that of AddPartitionsToTxn 5, for each partition.
        """
        reply = Reply(answer, partial(same_of_each, partitions))
        if not transactional_id:
            reply.refuse(ErrorCode.INVALID_REQUEST)
            return
        producer = ProducerIdentity(transactional_id, producer_id, producer_epoch)
        operation = verified if verify_only else added_by_leader
        self.runtime.run(
            transactional_id, partial(operation, producer, partitions, reply), reply.refuse
        )

    # -- waiting for an end ------------------------------------------------------------------------

    def after_end(
        self, transactional_id: str, timeout_ms: int, callback: Callable[[], None]
    ) -> None:
        """Call `callback` when the end of a transaction is complete, or after the timeout; at once
        if none is under way here.
        """
        waiting = DelayedEnd(timeout_ms, partial(self._is_ending, transactional_id), callback)
        self.purgatory.try_complete_else_watch(waiting, (transactional_id,))

    def _is_ending(self, transactional_id: str) -> bool:
        shard = self.runtime.state_machine(transactional_id)
        metadata = None if shard is None else shard.get(transactional_id)
        return metadata is not None and metadata.state in ENDING

    # -- as the environment of the shards ----------------------------------------------------------

    def write_markers(self, end: TransactionEnd) -> None:
        """Write the markers of a decided transaction."""
        self.markers.write(end)

    def markers_written(self, end: TransactionEnd) -> None:
        """All markers of a transaction are written: note that it is complete, until it is."""
        reply = Reply(partial(self._completed, end), unchanged)
        self.runtime.run_on(end.shard, partial(completed, end, reply), left_to_others)

    def _completed(self, end: TransactionEnd, error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            self._timer.call_later(RETRY_MS, partial(self.markers_written, end))

    def ended(self, transactional_id: str) -> None:
        """Go on with requests that wait for the end of a transaction."""
        self.call_soon(partial(self._check_waiting, transactional_id))

    def _check_waiting(self, transactional_id: str) -> None:
        self.purgatory.check_and_complete(transactional_id)

    def shard_unloaded(self, number: int) -> None:
        """Write no markers for a shard that this node leads no more."""
        self.markers.forget(number)

    def count_end(self, committed: bool) -> None:
        """Count a transaction that is complete."""
        if committed:
            self.counters.committed += 1
        else:
            self.counters.aborted += 1

    def count_timeout(self) -> None:
        """Count a transaction that is aborted because of its timeout."""
        self.counters.timed_out += 1

    # -- for tools ---------------------------------------------------------------------------------

    def describe(
        self, transactional_id: str, respond: Callable[[DescribedTransaction], None]
    ) -> None:
        """Describe one id."""
        reply = Reply(respond, partial(describe_error, transactional_id))
        if not transactional_id:
            reply.refuse(ErrorCode.INVALID_REQUEST)
            return

        def operation(shard: TransactionShard, result: OperationResult) -> None:
            metadata = shard.get(transactional_id)
            if metadata is None:
                error = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
                result.answer(reply, describe_error(transactional_id, error))
            else:
                result.answer(reply, describe(metadata, self.markers.left(transactional_id)))

        self.runtime.run(transactional_id, operation, reply.refuse)

    def list(
        self, selected: TransactionFilter, respond: Callable[[ListTransactionsResponse], None]
    ) -> None:
        """List the ids of all shards here that are selected, or an error while one is loading.

        One shard is read in a turn of the loop.
        """
        partitions = iter(self.runtime.partitions)
        found: list[ListedTransaction] = []

        def read_next() -> None:
            number = next(partitions, None)
            if number is None:
                respond(
                    ListTransactionsResponse(
                        error_code=ErrorCode.NONE,
                        unknown_state_filters=selected.unknown_states,
                        transaction_states=found,
                    )
                )
                return
            reply = Reply(was_read, lambda error: error)

            def operation(shard: TransactionShard, result: OperationResult) -> None:
                found.extend(selected.select(shard))
                result.answer(reply, ErrorCode.NONE)

            self.runtime.run_on(number, operation, reply.refuse)

        def was_read(error: ErrorCode) -> None:
            if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                respond(
                    ListTransactionsResponse(
                        error_code=error, unknown_state_filters=[], transaction_states=[]
                    )
                )
            else:  # A shard that has moved away is listed by another broker.
                self.call_soon(read_next)

        read_next()

    def states(self) -> dict[TransactionState, int]:
        """How many ids of this coordinator are in each state."""
        totals = dict.fromkeys(KEPT, 0)
        for shard in self.runtime.state_machines():
            for state, count in shard.counts.items():
                totals[state] += count
        return totals


# -- operations, with what belongs to their request first ----------------------------------------


def initialized(
    request: InitProducerIdRequest,
    shard: TransactionShard,
    result: OperationResult,
    reply: Reply[InitProducerIdResponse],
) -> None:
    init_producer_id(shard, result, request, reply)


def added_by_client(
    producer: ProducerIdentity,
    partitions: Collection[TopicPartition],
    connection: int,
    shard: TransactionShard,
    result: OperationResult,
    reply: Reply[ErrorCode],
) -> None:
    add_partitions(shard, result, producer, partitions, 0, connection, reply)


def added_by_leader(
    producer: ProducerIdentity,
    partitions: Collection[TopicPartition],
    reply: Reply[dict[TopicPartition, ErrorCode]],
    shard: TransactionShard,
    result: OperationResult,
) -> None:
    added = Reply(reply.refuse, unchanged)  # One error, or none, for each.
    add_partitions(shard, result, producer, partitions, EPOCH_BUMP_VERSION, NO_CONNECTION, added)


def verified(
    producer: ProducerIdentity,
    partitions: Collection[TopicPartition],
    reply: Reply[dict[TopicPartition, ErrorCode]],
    shard: TransactionShard,
    result: OperationResult,
) -> None:
    verify_partitions(shard, result, producer, partitions, reply)


def completed(
    end: TransactionEnd, reply: Reply[ErrorCode], shard: TransactionShard, result: OperationResult
) -> None:
    if shard.coordinator_epoch != end.coordinator_epoch:
        result.answer(reply, ErrorCode.NONE)  # Another leadership of this node goes on.
        return
    complete(shard, result, end, reply)


def left_to_others(error: ErrorCode) -> None:
    """Leave the rest of an end to the leadership that loads the shard here, or elsewhere."""


def unchanged(error: ErrorCode) -> ErrorCode:
    """The response of a request that is answered by an error alone."""
    return error


def same_of_each(
    partitions: Collection[TopicPartition], error: ErrorCode
) -> dict[TopicPartition, ErrorCode]:
    """The response with the same error for each partition."""
    return dict.fromkeys(partitions, error)


def is_concurrent(error: ErrorCode) -> bool:
    """True if the end of a transaction is under way."""
    return error is CONCURRENT


def is_concurrent_response(response: EndTxnResponse | InitProducerIdResponse) -> bool:
    """The same of a response."""
    return response.error_code == CONCURRENT
