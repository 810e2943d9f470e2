"""Transactions: carries out the steps of a producer's transactions, by requests to coordinators.

    init ──────────► FindCoordinator ─► InitProducerId
    begin            no request; the first of version 2 after those of version 1 ─► InitProducerId
    a batch ───────► version 1: AddPartitionsToTxn first; version 2: the Produce request adds it
    commit_offsets ► version 1: AddOffsetsToTxn ─► TxnOffsetCommit 3; version 2: TxnOffsetCommit 5
    commit ────────► flush ─► EndTxn
    abort ─────────► all waiting records fail ─► EndTxn ─► version 1, in doubt: InitProducerId

Every request is sent again until its answer is known; `transaction_phases` has the effects of all
errors. A step returns a waiter, and its timeout ends the waiting only: a commit goes on, and the
next `commit` waits for the same answer. In an abort of version 1 the answers to records in
flight are awaited, or their partitions would begin the next transaction with them; in version 2 the
epoch of the next transaction keeps late records out.

Outside of an open transaction the accumulator refuses records, with the reason.

Owner thread only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from odradek.client.consumer.arguments import Offsets, is_confluent_partition, offsets_of
from odradek.client.consumer.assignor.partition_assignor import ConsumerGroupMetadata
from odradek.client.consumer.batch import OffsetAndMetadata
from odradek.client.engine import Engine
from odradek.client.errors import (
    ApiTimeout,
    CommitUnknown,
    IllegalState,
    KafkaError,
    KafkaTimeout,
    TransactionFailed,
    error_for,
)
from odradek.client.find_coordinator import GROUP, TRANSACTION, located
from odradek.client.producer import transaction_requests as requests
from odradek.client.producer.metrics import ProducerMetrics
from odradek.client.producer.record_accumulator import RecordAccumulator
from odradek.client.producer.sender import Sender
from odradek.client.producer.transaction_manager import (
    NO_PRODUCER,
    ProducerIdAndEpoch,
    TransactionManager,
)
from odradek.client.producer.transaction_phases import (
    ErrorClass,
    Phase,
    ProducerTransaction,
    Step,
    TxnRequest,
    class_of,
    class_of_failure,
    reason_of,
)
from odradek.client.transaction import TRANSACTION_VERSION, VERSION_2, OpenTransaction
from odradek.client.waiter import Waiter, completed, failed, gather, spawn
from odradek.model.errors import ErrorCode, error_code
from odradek.model.sampled_stat import SampledStat
from odradek.model.topics import TopicPartition
from odradek.protocol.api.add_offsets_to_txn import AddOffsetsToTxnResponse
from odradek.protocol.api.add_partitions_to_txn import AddPartitionsToTxnResponse
from odradek.protocol.api.end_txn import EndTxnResponse
from odradek.protocol.api.init_producer_id import InitProducerIdResponse
from odradek.protocol.api.txn_offset_commit import TxnOffsetCommitResponse

log = logging.getLogger(__name__)

R = TypeVar("R")
T = TypeVar("T")

MAX_COORDINATORS = 1000
"""How many places of coordinators are kept: a producer may take one transactional id after the
other, as in Spark."""
ENDING_BACKOFF_MS = 20
"""Between two requests while the coordinator still ends the transaction before. Kafka's."""


class RequestRefused(Exception):
    """An answer that is final. `is_unknown`: an earlier attempt may have succeeded, because its
    answer did not come."""

    def __init__(self, asked: TxnRequest, code: ErrorCode, detail: str, is_unknown: bool) -> None:
        super().__init__(code.name)
        self.asked = asked
        self.code = code
        self.detail = detail
        self.is_unknown = is_unknown


class Abandoned(Exception):
    """The transaction ended, or failed, while a request was to be sent again."""


def tell(outcome: Waiter[None], forget: Callable[[], None]) -> Waiter[None]:
    """Return a waiter for a caller of a step, who may give up before the step has an outcome.
    `forget` is called if the caller is told: the step is kept for the next call until then."""
    told: Waiter[None] = Waiter()

    def ended(outcome: Waiter[None]) -> None:
        if told.done:
            return
        forget()
        if outcome.error is None:
            told.complete(None)
        else:
            told.fail(outcome.error)

    outcome.add_callback(ended)
    return told


class Transactions:
    """The transactions of one producer. `flush` sends all records and waits for their outcome."""

    def __init__(
        self,
        engine: Engine,
        manager: TransactionManager,
        accumulator: RecordAccumulator,
        sender: Sender,
        flush: Callable[[], Waiter[int]],
        metrics: ProducerMetrics,
    ) -> None:
        assert manager.transaction is not None
        self.transaction: ProducerTransaction = manager.transaction
        self._engine = engine
        self._manager = manager
        self._accumulator = accumulator
        self._sender = sender
        self._flush = flush
        self._metrics = metrics
        self._coordinators: dict[tuple[int, str], int] = {}
        """The node to send to, by key type and key."""
        self._identity_of_version_1 = NO_PRODUCER
        """The last identity with which a transaction of version 1 was begun."""
        self._initializing: Waiter[None] | None = None
        """The attempt to get a producer id whose outcome nobody was told yet."""
        self._ending: tuple[Step, Waiter[None]] | None = None
        """The commit or abort whose outcome nobody was told yet."""
        self._adding: Waiter[None] = completed(None)
        self._committing_offsets: Waiter[Any] = completed(None)
        """Done when all commits of offsets are."""
        self._offset_commits = 0
        """How many commits of offsets have no outcome yet."""
        self._nothing_in_flight: Waiter[None] | None = None
        self._failure_handled: KafkaError | None = None
        self._last_error: KafkaError | None = None
        sender.after_run = self._sender_ran
        self._refuse("send")

    # The steps of the application.

    def init(self, timeout_ms: int, transactional_id: str | None = None) -> Waiter[None]:
        """Get a producer id and epoch, which fences all earlier producers of the transactional id
        and aborts what they left open. Another id may be given between two transactions.

        A call after one that was late goes on with the same attempt, as Kafka's does: with requests
        sent anew each time a slow coordinator would only fall further behind."""
        transaction, initializing = self.transaction, self._initializing
        if initializing is None or transactional_id not in (None, transaction.transactional_id):
            try:
                self._check_told(Step.INIT)
                transaction.step(Step.INIT)
            except KafkaError as error:
                return failed(error)
            if transactional_id is not None:
                transaction.transactional_id = transactional_id
            initializing = self._initializing = spawn(self._init(NO_PRODUCER))
            self._measure(initializing, self._metrics.txn_init_time)

        def forget() -> None:
            if self._initializing is initializing:
                self._initializing = None

        told = tell(initializing, forget)
        what = f"getting a producer id for transactional id {transaction.transactional_id}"
        advice = "call init_transactions() again, which goes on with it, or raise max.block.ms"
        return self._engine.within(timeout_ms, told, lambda: self._late(what, timeout_ms, advice))

    async def _init(self, identity: ProducerIdAndEpoch) -> None:
        try:
            self._manager.begin_anew(await self._identity_for(identity))
            self.transaction.step(Step.INITIALIZED)
        finally:
            self.transaction.give_up_init()
            self._refuse("send")

    def begin(self) -> Waiter[None]:
        """Begin a transaction, in the version that the cluster has agreed on. An abort that is
        still under way is awaited; so is a new epoch, if the version has gone up. With the epoch of
        transactions of version 1, what was sent in one and arrives late would take effect in this
        one: in version 2 no connection of the coordinator tells the two apart."""
        if self._ending is not None and self._ending[0] is Step.ABORT:
            waiter = spawn(self._begin_after(self._ending[1]))
        else:
            try:
                self._check_told(Step.BEGIN)
                if not self._needs_epoch_of_version_2:
                    self._begin()
                    return completed(None)
            except KafkaError as error:
                return failed(error)
            waiter = spawn(self._begin_with_new_epoch())
        self._measure(waiter, self._metrics.txn_begin_time)
        return waiter

    async def _begin_after(self, abort: Waiter[None]) -> None:
        await abort
        self._ending = None
        if self._needs_epoch_of_version_2:
            await self._begin_with_new_epoch()
        else:
            self._begin()

    @property
    def _agreed_version(self) -> int:
        """The `transaction.version` of the cluster, as far as it is known."""
        return self._engine.client.features.get(TRANSACTION_VERSION, 0)

    @property
    def _needs_epoch_of_version_2(self) -> bool:
        identity = self._identity_of_version_1
        is_used = identity.is_valid and identity == self._manager.identity
        return (
            is_used and self._agreed_version >= VERSION_2 and self.transaction.phase is Phase.READY
        )

    async def _begin_with_new_epoch(self) -> None:
        self.transaction.step(Step.INIT)
        await self._init(self._manager.identity)
        self._begin()

    def _begin(self) -> None:
        self.transaction.begin(self._agreed_version, self._engine.now_ms)
        self._initializing = None
        if self.transaction.version < VERSION_2:
            self._identity_of_version_1 = self._manager.identity
        self._failure_handled = None
        self._accumulator.accept()

    def commit(self, timeout_ms: int | None) -> Waiter[None]:
        """Commit: all records sent so far, and the offsets. If one of them failed, the waiter fails
        and the transaction has to be aborted. A commit that was not told before is told now."""
        told = self._end(Step.COMMIT, self._commit, timeout_ms, self._commit_unknown)
        self._measure(told, self._metrics.txn_commit_time)
        return told

    def abort(self, timeout_ms: int | None) -> Waiter[None]:
        """Abort: nothing of the transaction will be read by consumers of committed records."""
        told = self._end(Step.ABORT, self._abort, timeout_ms, self._abort_late)
        self._measure(told, self._metrics.txn_abort_time)
        return told

    def _end(
        self,
        step: Step,
        run: Callable[[], Coroutine[Waiter[Any], None, None]],
        timeout_ms: int | None,
        late: Callable[[int], KafkaError],
    ) -> Waiter[None]:
        if self._ending is None or self._ending[0] is not step:
            try:
                self._check_told(step)
                self.transaction.step(step)
            except KafkaError as error:
                return failed(error)
            self._refuse("send")
            self._ending = step, spawn(run())
        ending = self._ending[1]

        def forget() -> None:
            if self._ending is not None and self._ending[1] is ending:
                self._ending = None

        told = tell(ending, forget)
        if timeout_ms is not None:
            self._engine.within(timeout_ms, told, lambda: late(timeout_ms))
        return told

    def _check_told(self, step: Step) -> None:
        """Raise if the outcome of the last commit is not told yet: it would be lost."""
        if self._ending is not None and self._ending[0] is Step.COMMIT:
            raise IllegalState(
                f"{step.value}: the outcome of the last commit of transactional id "
                f"{self.transaction.transactional_id} was not told yet. What to do: "
                f"{CommitUnknown.advice}"
            )

    def detach(self, timeout_ms: int) -> Waiter[OpenTransaction | None]:
        """Send all records, and leave the transaction open for somebody else to end. The producer
        has no id then. None: the coordinator knows of no transaction, because nothing was sent."""
        if self.transaction.phase is not Phase.IN_TRANSACTION:
            return failed(self.transaction.refusal(Step.DETACH.value))
        self._refuse("send")
        what = f"detaching the transaction of {self.transaction.transactional_id}"
        advice = "abort the transaction, and give the next one more time"
        return self._engine.within(
            timeout_ms, spawn(self._detach()), lambda: self._late(what, timeout_ms, advice)
        )

    async def _detach(self) -> OpenTransaction | None:
        await self._complete_transaction()
        transaction = self.transaction
        found = None if transaction.is_empty else self._open_transaction
        transaction.detach()
        self._manager.begin_anew(NO_PRODUCER)
        self._refuse("send")
        return found

    def record_refused(self, error: KafkaError) -> None:
        """Fail the open transaction, because a record of it was not queued: what is committed is
        complete."""
        if self.transaction.phase is Phase.IN_TRANSACTION:
            self.transaction.fail_transaction(error)
            self._accumulator.wake()

    def commit_offsets(
        self,
        group: ConsumerGroupMetadata,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        timeout_ms: int,
    ) -> Waiter[None]:
        """Commit a group's offsets with the transaction."""
        if self.transaction.phase is not Phase.IN_TRANSACTION:
            return failed(self.transaction.refusal("commit_offsets"))
        if not offsets:
            return completed(None)
        before, waiter = self._committing_offsets, spawn(self._commit_offsets(group, offsets))
        # A waiter for several keeps them: one that is done would be kept for ever.
        self._committing_offsets = waiter if before.done else gather([before, waiter])
        self._measure(waiter, self._metrics.txn_send_offsets_time)
        what = f"committing offsets of group {group.group_id}"
        waiter.add_callback(lambda waiter: self._offsets_ended(waiter, what))
        return self._engine.within(timeout_ms, waiter, lambda: self._offsets_late(what, timeout_ms))

    def _measure(self, waiter: Waiter[None], stat: SampledStat) -> None:
        """Record how long a step takes, if it succeeds."""
        began_ms = self._engine.now_ms

        def ended(waiter: Waiter[None]) -> None:
            if waiter.error is None:
                now_ms = self._engine.now_ms
                stat.record(now_ms - began_ms, now_ms)

        waiter.add_callback(ended)

    def finish(self, timeout_ms: int | None) -> Waiter[None]:
        """Abort what is open, and wait for what is under way, before the producer is closed. Errors
        are logged. Without a timeout, as long as the coordinator would wait for the transaction: no
        longer, if no coordinator can be reached."""
        return spawn(
            self._finish(self.transaction.timeout_ms if timeout_ms is None else timeout_ms)
        )

    async def _finish(self, timeout_ms: int) -> None:
        deadline_ms = self._engine.now_ms + timeout_ms
        try:
            if self._ending is not None and self._ending[0] is Step.COMMIT:
                await self.commit(timeout_ms)
        except KafkaError as error:
            log.warning("closing a transactional producer: %s", error)
        phase = self.transaction.phase
        try:
            if phase in (Phase.IN_TRANSACTION, Phase.ABORTABLE_ERROR, Phase.ABORTING):
                await self.abort(max(0, deadline_ms - self._engine.now_ms))
        except KafkaError as error:
            log.warning("closing a transactional producer: %s", error)

    # The producer id.

    async def _identity_for(self, identity: ProducerIdAndEpoch) -> ProducerIdAndEpoch:
        transaction = self.transaction
        request = requests.init_producer_id(
            transaction.transactional_id, transaction.timeout_ms, *identity
        )
        try:
            answer = await self._ask(
                TxnRequest.INIT_PRODUCER_ID, request, InitProducerIdResponse, code_only
            )
        except RequestRefused as refused:
            raise self._failed(refused) from None
        return ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)

    # Partitions and offsets.

    async def _add_partitions(self) -> None:
        """Tell the coordinator of the partitions that records wait for (version 1)."""
        transaction = self.transaction
        while transaction.to_add and self._is_open():
            wanted = list(transaction.to_add)
            request = requests.add_partitions(self._open_transaction, wanted)
            try:
                await self._ask(
                    TxnRequest.ADD_PARTITIONS,
                    request,
                    AddPartitionsToTxnResponse,
                    requests.added_error,
                    self._is_open,
                )
            except Abandoned:
                self._may_be_known()
                return
            except RequestRefused as refused:
                if refused.is_unknown:
                    self._may_be_known()
                self._failed(refused)
                return
            for partition in wanted:
                transaction.to_add.pop(partition, None)
            transaction.added_to_transaction(wanted)

    def _may_be_known(self) -> None:
        """Note that a request may have taken effect, or may do so later. In version 1 only another
        epoch ends what it began, even if nothing else of the transaction is known."""
        if self.transaction.version < VERSION_2:
            self.transaction.needs_new_epoch = True

    def _is_open(self) -> bool:
        return self.transaction.phase in (Phase.IN_TRANSACTION, Phase.COMMITTING)

    async def _commit_offsets(
        self, group: ConsumerGroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        transaction, opened = self.transaction, self._open_transaction
        self._offset_commits += 1
        try:
            if opened.transaction_version < VERSION_2:
                await self._ask(
                    TxnRequest.ADD_OFFSETS,
                    requests.add_offsets(opened, group.group_id),
                    AddOffsetsToTxnResponse,
                    code_only,
                    self._is_open,
                )
            transaction.is_empty = False
            await self._ask(
                TxnRequest.COMMIT_OFFSETS,
                requests.commit_offsets(opened, group, offsets),
                TxnOffsetCommitResponse,
                requests.offsets_error,
                self._is_open,
                group.group_id,
            )
        except RequestRefused as refused:
            if refused.is_unknown:
                self._may_be_known()
            raise self._failed(refused, f"group {group.group_id}") from None
        except Abandoned:
            self._may_be_known()
            raise transaction.refusal("commit_offsets") from None
        finally:
            self._offset_commits -= 1
            self._sender.run_soon()

    def _offsets_ended(self, waiter: Waiter[None], what: str) -> None:
        """Fail the transaction if the application gave up waiting for its offsets: it may be
        committed with them or without."""
        if waiter.error is None or not self._offset_commits:
            return
        self._may_be_known()
        if self._is_open():
            self.transaction.fail_transaction(
                KafkaTimeout(
                    f"{what}: the application gave up waiting ({type(waiter.error).__name__}), so "
                    "they may or may not be part of the transaction"
                )
            )
            self._sender.run_soon()

    # The end.

    async def _complete_transaction(self) -> None:
        """Wait until all records and offsets are part of the transaction. Raises if one failed."""
        await self._flush()
        await wait_until_done(self._adding)
        await wait_until_done(self._committing_offsets)
        if self.transaction.has_failed:
            assert self.transaction.error is not None
            raise self.transaction.error

    async def _commit(self) -> None:
        await self._complete_transaction()
        try:
            await self._end_txn(TxnRequest.COMMIT)
        except RequestRefused as refused:
            unknown = "an earlier attempt was not answered, so the transaction may be committed"
            raise self._failed(refused, unknown if refused.is_unknown else "") from None

    async def _abort(self) -> None:
        transaction = self.transaction
        reason = transaction.error or TransactionFailed(
            "the transaction was aborted before the record was acknowledged"
        )
        self._sender.abort_incomplete(reason)
        await wait_until_done(self._committing_offsets)
        if transaction.version < VERSION_2:
            await wait_until_done(self._adding)
            await self._until_nothing_is_in_flight()
            if self._manager.is_in_doubt:
                transaction.needs_new_epoch = True
        try:
            if not transaction.needs_new_epoch or transaction.version < VERSION_2:
                await self._end_txn(TxnRequest.ABORT)
        except RequestRefused as refused:
            if class_of(TxnRequest.ABORT, refused.code) is not ErrorClass.ABORT:
                raise self._failed(refused) from None
            transaction.needs_new_epoch = True
        if transaction.needs_new_epoch:
            self._manager.begin_anew(await self._identity_for(self._manager.identity))
        if transaction.phase is Phase.ABORTING:
            transaction.ended()
            self._refuse("send")

    async def _end_txn(self, asked: TxnRequest) -> None:
        """Have the coordinator end the transaction, unless it cannot know of it."""
        transaction = self.transaction
        if not transaction.is_empty:
            request = requests.end_txn(self._open_transaction, committed=asked is TxnRequest.COMMIT)
            answer = await self._ask(asked, request, EndTxnResponse, code_only)
            if transaction.version >= VERSION_2 and answer.producer_id >= 0:
                self._manager.begin_anew(
                    ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
                )
        if asked is TxnRequest.COMMIT:
            transaction.ended()
            self._refuse("send")

    async def _until_nothing_is_in_flight(self) -> None:
        if self._sender.in_flight:
            self._nothing_in_flight = Waiter()
            await self._nothing_in_flight

    # Events of the sender.

    def _sender_ran(self) -> None:
        transaction = self.transaction
        if transaction.has_failed and self._failure_handled is not transaction.error:
            self._failure_handled = transaction.error
            self._give_up_records()
        if transaction.to_add and self._adding.done and self._is_open():
            self._adding = spawn(self._add_partitions())
            self._adding.add_callback(lambda _: self._sender.run_soon())
        if self._nothing_in_flight is not None and not self._sender.in_flight:
            waiter, self._nothing_in_flight = self._nothing_in_flight, None
            waiter.complete(None)

    def _give_up_records(self) -> None:
        """Fail the records of a transaction that cannot be committed, and refuse further ones."""
        error = self.transaction.error
        assert error is not None
        if self.transaction.phase is Phase.FATAL_ERROR:
            self._sender.fail_all(error)
        else:
            self._accumulator.refuse(error)
            self._sender.abort_incomplete(error)

    def _refuse(self, what: str) -> None:
        self._accumulator.refuse(self.transaction.refusal(what))

    # Requests.

    @property
    def _open_transaction(self) -> OpenTransaction:
        producer_id, epoch = self._manager.identity
        transaction = self.transaction
        return OpenTransaction(
            transaction.transactional_id, producer_id, epoch, transaction.version
        )

    async def _ask(
        self,
        asked: TxnRequest,
        request: Any,
        response_type: type[R],
        error_of: Callable[[R], tuple[ErrorCode, str]],
        goes_on: Callable[[], bool] = lambda: True,
        group_id: str | None = None,
    ) -> R:
        """Send a request to the transaction's coordinator, or to the group's, until the answer is
        final. Raises `RequestRefused`, the error of a connection that cannot be used, and
        `Abandoned` if it is no longer to go on."""
        key = (
            (TRANSACTION, self.transaction.transactional_id)
            if group_id is None
            else (GROUP, group_id)
        )
        attempts = 0
        is_unknown = False
        while True:
            wait_ms = self._engine.backoff.backoff_ms(attempts)
            try:
                node_id = await self._find(*key)
                answer = await self._engine.call(node_id, request, response_type)
            except RequestRefused as refused:
                refused.is_unknown = is_unknown
                raise
            except KafkaError as error:
                if class_of_failure(error) is ErrorClass.FATAL:
                    raise self.transaction.fail(asked, error) from None
                self._coordinators.pop(key, None)
                self._last_error = error
                is_unknown = True
            else:
                code, detail = error_of(answer)
                if code is ErrorCode.NONE:
                    self._last_error = None
                    return answer
                kind = class_of(asked, code)
                if kind in (ErrorClass.ABORT, ErrorClass.FATAL):
                    raise RequestRefused(asked, code, detail, is_unknown)
                if kind is ErrorClass.FIND:
                    self._coordinators.pop(key, None)
                if code is ErrorCode.CONCURRENT_TRANSACTIONS:
                    wait_ms = min(wait_ms, ENDING_BACKOFF_MS)
                self._last_error = error_for(code, asked.value)
            await self._engine.sleep(wait_ms)
            attempts += 1
            if not goes_on():
                raise Abandoned

    async def _find(self, key_type: int, key: str) -> int:
        """Return the node of a coordinator, asking for it if it is not known. One attempt."""
        known = self._coordinators.get((key_type, key))
        if known is not None:
            return known
        found = await located(self._engine, key, key_type)
        error = error_code(found.error)
        if error is not ErrorCode.NONE:
            kind = class_of(TxnRequest.FIND_COORDINATOR, error)
            if kind in (ErrorClass.RETRY, ErrorClass.FIND):
                raise ApiTimeout(f"there is no coordinator of {key} now: {error.name}", error)
            text = found.broker_text or ""
            raise RequestRefused(TxnRequest.FIND_COORDINATOR, error, text, False)
        self._coordinators[key_type, key] = found.node_id
        if len(self._coordinators) > MAX_COORDINATORS:
            del self._coordinators[next(iter(self._coordinators))]
        return found.node_id

    # Errors.

    def _failed(self, refused: RequestRefused, detail: str = "") -> KafkaError:
        """Note that a request was refused; return the error for the application."""
        transaction = self.transaction
        what = f"{refused.asked.value} of transactional id {transaction.transactional_id}"
        for each in (detail, refused.detail):
            if each:
                what += f" ({each})"
        is_open = transaction.phase not in (Phase.UNINITIALIZED, Phase.INITIALIZING, Phase.READY)
        open_ms = self._engine.now_ms - transaction.began_ms if is_open else -1
        error = transaction.fenced(what, refused.code, open_ms)
        self._sender.run_soon()
        return transaction.fail(refused.asked, error)

    def _late(self, what: str, timeout_ms: int, advice: str) -> KafkaError:
        last = self._last_error or self._engine.metadata.last_error
        why = f"; last error: {reason_of(last)}" if last else ""
        return ApiTimeout(f"{what}: not done within {timeout_ms} ms{why}. What to do: {advice}")

    def _offsets_late(self, what: str, timeout_ms: int) -> KafkaError:
        """Return the error of offsets that may or may not be part of the transaction."""
        error = self.transaction.fail_transaction(
            self._late(what, timeout_ms, "give it more time: its timeout, or max.block.ms")
        )
        self._sender.run_soon()
        return error

    def _commit_unknown(self, timeout_ms: int) -> KafkaError:
        why = f"; last error: {self._last_error}" if self._last_error else ""
        return CommitUnknown(
            f"the commit of transactional id {self.transaction.transactional_id} was not answered "
            f"within {timeout_ms} ms: it may or may not take effect{why}. What to do: "
            f"{CommitUnknown.advice}"
        )

    def _abort_late(self, timeout_ms: int) -> KafkaError:
        what = f"aborting the transaction of {self.transaction.transactional_id}"
        advice = "begin the next transaction, which waits for the end of this one"
        return self._late(what, timeout_ms, advice)


def offsets_of_positions(positions: Any) -> Offsets:
    """Return offsets by partition: from what a commit takes, or from a list of partitions with
    offsets, as confluent-kafka has them. Raises `TypeError` and `ValueError`."""
    if not isinstance(positions, list):
        return offsets_of(positions)
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    for each in positions:
        if is_confluent_partition(each) and each.offset < 0:
            continue  # There is no position.
        found.update(offsets_of(each))
    return found


def code_only(response: Any) -> tuple[ErrorCode, str]:
    """Return the error of a response that has one for all."""
    return error_code(response.error_code), ""


async def wait_until_done(waiter: Waiter[T]) -> None:
    """Wait until a waiter is done, whatever its outcome."""
    done: Waiter[None] = Waiter()
    waiter.add_callback(lambda _: done.complete(None))
    await done
