"""A simulated transactional producer: transaction after transaction, at whichever brokers serve it.

    InitProducerId ──► a pause ──► writes, perhaps offsets of its group ──► EndTxn ──► the next one
          ▲                                        │                           │
          └──── a pause ◄── an error that is no retriable one: fenced, aborted by its timeout ...

    a request without an answer ──► the same again, or given up ──► EndTxn(abort) ──► a new epoch

It follows `transaction.version` 1 (AddPartitionsToTxn and AddOffsetsToTxn before what is new in a
transaction, the epoch stays) or 2 (Produce and TxnOffsetCommit add, EndTxn gives a new epoch). With
`follows_level` it asks before each transaction which of them the cluster has agreed on, 0 as 1.
When that goes up it takes a new epoch first, as Java's producer does: what it sent in version 1 may
still arrive, and with the same epoch would take effect in a transaction of version 2. A
request without an answer is sent again over a new connection, while the old one still delivers. Or
the client gives it up, as real ones do when a batch is too old: it aborts, and what it gave up may
arrive after that. It needs a new epoch then: in version 1 it asks for one (KIP-360).

Several may have the same transactional id: each that starts fences the others, which learn of it
at their next request, and then fence it in turn. Such a zombie goes on sending what it has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from odradek.controller.features import TRANSACTION_VERSION_FEATURE
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol import record_batch_builder
from odradek.protocol.api.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from odradek.protocol.api.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from odradek.protocol.api.end_txn import EndTxnRequest, EndTxnResponse
from odradek.protocol.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.api.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from odradek.testing.history import History
from odradek.testing.scheduler import MS
from odradek.testing.transactions import (
    Acknowledged,
    ClientTransaction,
    Takeover,
    TransactionHistory,
    TransactionOutcome,
)
from odradek.testing.workload.cluster_client import (
    GROUP,
    TRANSACTION,
    ClusterClient,
    CoordinatorKey,
)
from odradek.testing.workload.topics import TopicLife

INIT_VERSIONS, PRODUCE_VERSIONS, OFFSETS_VERSIONS, END_VERSIONS = (4, 5), (11, 13), (3, 5), (3, 5)
"""The versions of requests for `transaction.version` 1 and 2."""
ADD_VERSION = 3
RETRY_MS = (10, 400)
RESTART_MS = (10, 3_000)
ENDS_IT = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
)
"""Errors by which a producer loses its transaction: it was fenced, or the transaction timed out."""
WRITES = ("AddPartitionsToTxn", "AddOffsetsToTxn", "Produce", "TxnOffsetCommit")


def group_of(transactional_id: str) -> str:
    """Return the group whose offsets the producers of an id commit."""
    return f"group-{transactional_id}"


@dataclass(frozen=True, slots=True)
class TransactionalProducerPlan:
    """The plan of a transactional producer. Times in ms; rates out of 1000."""

    name: str
    transactional_id: str
    partitions: Sequence[TopicPartition]
    transactions: int
    version: int
    """The newest `transaction.version` that it knows: 1 or 2."""
    timeout_ms: int
    """After which the coordinator aborts a transaction."""
    abort_rate: int = 200
    offsets_rate: int = 400
    linger_rate: int = 50
    """How often it stays in a transaction until that has timed out, or nearly."""
    give_up_rate: int = 300
    """How often it gives up a request without an answer, and aborts."""
    most_writes: int = 5
    pause_ms: tuple[int, int] = (1, 200)

    @property
    def group(self) -> str:
        """The group whose offsets it commits."""
        return group_of(self.transactional_id)


@dataclass(slots=True, eq=False)
class SimTransactionalProducer:
    """Runs a plan; it is finished when it has tried as many transactions as the plan says."""

    client: ClusterClient
    history: History
    observed: TransactionHistory
    plan: TransactionalProducerPlan
    topics: Mapping[str, TopicLife]
    committed: Callable[[], None] = lambda: None
    """Called when a commit is acknowledged."""
    follows_level: bool = False
    """It transacts in the version that the cluster has agreed on, if it knows that one."""
    tried: int = 0
    last_error: str = "no error yet"
    _producer_id: int = -1
    _epoch: int = -1
    _version: int = field(init=False)
    """The `transaction.version` of the open transaction, or of the one before."""
    _has_transacted: bool = False
    """True if a transaction was begun with this epoch."""
    _values: int = 0
    _sequences: dict[TopicPartition, int] = field(default_factory=dict)
    _added: set[TopicPartition] = field(default_factory=set)
    _open: ClientTransaction | None = None
    _steps: list[Callable[[], None]] = field(default_factory=list)
    _in_identity: int = 0
    """Answers of an identity that was given up are not taken."""

    def __post_init__(self) -> None:
        self._version = self.plan.version

    def start(self) -> None:
        self._identify()

    @property
    def finished(self) -> bool:
        return self.tried == self.plan.transactions and self._open is None

    def pending(self) -> str:
        """Return what is unfinished, for a report."""
        left = self.plan.transactions - self.tried
        return f"{self.plan.name}: {left} transactions to make; {self._open}; {self.last_error}"

    def abandon(self) -> None:
        """Make no more transactions; the outcome of an open one is unknown if it was to commit."""
        self._lose()
        self.tried = self.plan.transactions

    def _lose(self) -> None:
        self._in_identity += 1
        self._steps.clear()
        if self._open is not None:
            self._open.lose()
            self._open = None

    # Asking.

    @property
    def _key(self) -> CoordinatorKey:
        return CoordinatorKey(TRANSACTION, self.plan.transactional_id)

    def _now_ns(self) -> int:
        return self.client.process.scheduler.now_ns

    def _later(self, delay_ms: tuple[int, int], step: Callable[[], None]) -> None:
        identity = self._in_identity

        def go_on() -> None:
            if identity == self._in_identity:
                step()

        self.client.process.post(self.client.chance.between(*delay_ms) * MS, "transaction", go_on)

    def _ask(
        self,
        what: str,
        send: Callable[[Callable[[Any], None], Callable[[], None]], None],
        error_of: Callable[[Any], ErrorCode],
        done: Callable[[Any], None],
        note_error: Callable[[ErrorCode], None],
    ) -> None:
        """Send a request until its answer decides; `send` gets what handles an answer, or none.

        What writes may be given up.
        """
        identity, sent_ns = self._in_identity, self._now_ns()
        producer_id, epoch = self._producer_id, self._epoch

        def again() -> None:
            self._later(RETRY_MS, lambda: self._ask(what, send, error_of, done, note_error))

        def answered(response: Any) -> None:
            error = error_of(response)
            if error is ErrorCode.NONE and producer_id >= 0:
                self.observed.acknowledged.append(
                    Acknowledged(
                        sent_ns,
                        self.plan.transactional_id,
                        self.plan.name,
                        what,
                        producer_id,
                        epoch,
                    )
                )
            if identity != self._in_identity:
                return
            if error is ErrorCode.NONE:
                done(response)
                return
            self._reach(f"{what} {error.name}")
            self.last_error = f"{what}: {error.name}"
            note_error(error)
            if error in ENDS_IT:
                self._start_over()
            elif error.retriable or error is ErrorCode.KAFKA_STORAGE_ERROR:
                again()
            else:
                self.history.surprise("refused", f"{self.plan.name}: {what} {error.name}")
                self._start_over()

        def failed() -> None:
            if identity == self._in_identity:
                self._reach(f"{what} has no answer")
                if what in WRITES and self.client.chance.chance(self.plan.give_up_rate):
                    self._give_up()
                else:
                    again()

        send(answered, failed)

    def _ask_coordinator(
        self,
        what: str,
        key: CoordinatorKey,
        request: Any,
        version: int,
        response_type: type[Any],
        error_of: Callable[[Any], ErrorCode],
        done: Callable[[Any], None],
    ) -> None:
        def send(answered: Callable[[Any], None], failed: Callable[[], None]) -> None:
            self.client.call_coordinator(key, request, version, response_type, answered, failed)

        def note_error(error: ErrorCode) -> None:
            self.client.note_coordinator_error(key, error)

        self._ask(what, send, error_of, done, note_error)

    def _of_version(self, versions: tuple[int, int]) -> int:
        return versions[self._version - 1]

    def _reach(self, what: str) -> None:
        self.client.process.scheduler.reach(f"transaction: {what}")

    # The identity.

    def _identify(self) -> None:
        self._producer_id = self._epoch = -1
        self._ask_for_epoch()

    def _ask_for_epoch(self) -> None:
        """Ask for an epoch: as a new producer, or after the one that it has."""
        request = InitProducerIdRequest(
            transactional_id=self.plan.transactional_id,
            transaction_timeout_ms=self.plan.timeout_ms,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
        )
        self._ask_coordinator(
            "InitProducerId",
            self._key,
            request,
            self._of_version(INIT_VERSIONS),
            InitProducerIdResponse,
            error_of_response,
            self._identified,
        )

    def _identified(self, response: InitProducerIdResponse) -> None:
        self._take_identity(response.producer_id, response.producer_epoch)
        self.observed.takeovers.append(
            Takeover(
                self._now_ns(),
                self.plan.transactional_id,
                self.plan.name,
                response.producer_id,
                response.producer_epoch,
            )
        )
        self._later(self.plan.pause_ms, self._begin)

    def _take_identity(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self._producer_id, self._epoch):
            self._producer_id, self._epoch = producer_id, epoch
            self._has_transacted = False
            self._sequences.clear()

    def _start_over(self) -> None:
        """Drop the transaction, and ask for a new epoch after a while."""
        self._lose()
        if not self.finished:
            self._later(RESTART_MS, self._identify)

    # One transaction.

    def _begin(self) -> None:
        if self.finished:
            return
        if self.follows_level:
            identity = self._in_identity

            def learnt() -> None:
                if identity == self._in_identity:
                    self._agree()

            self.client.learn_features(learnt)
        else:
            self._transact()

    def _agree(self) -> None:
        """Begin a transaction in the version that the cluster has agreed on."""
        known = self.client.features.get(TRANSACTION_VERSION_FEATURE, 0)
        version = min(max(known, 1), self.plan.version)
        is_raised, self._version = version > self._version, version
        if is_raised and self._has_transacted:
            self._reach("takes a new epoch for version 2")
            self._ask_for_epoch()
        else:
            self._transact()

    def _transact(self) -> None:
        chance, plan = self.client.chance, self.plan
        self.tried += 1
        self._has_transacted = True
        self._added.clear()
        self._open = self.observed.begin(plan.transactional_id, plan.name)
        self._steps = [self._write for _ in range(chance.between(1, plan.most_writes))]
        if chance.chance(plan.offsets_rate):
            self._open.has_offsets = True
            self._steps.insert(chance.below(len(self._steps) + 1), self._add_offsets)
        if chance.chance(plan.linger_rate):
            self._steps.insert(chance.between(1, len(self._steps)), self._linger)
        self._steps.append(self._end)
        self._next_step()

    def _next_step(self) -> None:
        self._later((0, self.plan.pause_ms[1]), self._steps.pop(0))

    def _linger(self) -> None:
        self._reach("lingers near its timeout")
        near_ms = self.plan.timeout_ms
        self._later((near_ms - near_ms // 4, near_ms + near_ms // 4), self._steps.pop(0))

    def _give_up(self) -> None:
        """Abort, though a request may still arrive that is of this transaction."""
        self._reach("gives up a write")
        self._steps.clear()
        self._ask_for_end(commits=False, after=self._ask_for_epoch)

    # Records.

    def _write(self) -> None:
        assert self._open is not None
        tp = self.client.chance.pick(self.plan.partitions)
        values = []
        for _ in range(self.client.chance.between(1, 4)):
            self._values += 1
            values.append(f"{self.plan.name}/{tp}/{self._values}".encode())
        self._open.records += [(tp, value) for value in values]
        if self._version == 1 and tp not in self._added:
            self._add_partition(tp, values)
        else:
            self._produce(tp, values)

    def _add_partition(self, tp: TopicPartition, values: Sequence[bytes]) -> None:
        topic = AddPartitionsToTxnTopic(name=self.topics[tp.topic].name, partitions=[tp.partition])
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.plan.transactional_id,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[topic],
        )

        def added(_: AddPartitionsToTxnResponse) -> None:
            self._added.add(tp)
            self._produce(tp, values)

        self._ask_coordinator(
            "AddPartitionsToTxn",
            self._key,
            request,
            ADD_VERSION,
            AddPartitionsToTxnResponse,
            error_of_added,
            added,
        )

    def _produce(self, tp: TopicPartition, values: Sequence[bytes]) -> None:
        now_ms = self.client.process.clock.wall_ms()
        sequence = self._sequences.get(tp, 0)
        records = record_batch_builder.build(
            [(None, value, (), now_ms) for value in values],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
            transactional=True,
        )
        to = self.topics[tp.topic]
        partition = PartitionProduceData(index=tp.partition, records=records)
        request = ProduceRequest(
            transactional_id=self.plan.transactional_id,
            acks=-1,
            timeout_ms=1500,
            topic_data=[TopicProduceData(name=to.name, topic_id=to.id, partition_data=[partition])],
        )

        def send(answered: Callable[[Any], None], failed: Callable[[], None]) -> None:
            version = self._of_version(PRODUCE_VERSIONS)
            self.client.call_leader(tp, request, version, ProduceResponse, answered, failed)

        def done(_: ProduceResponse) -> None:
            self._sequences[tp] = sequence + len(values)
            self._next_step()

        def note_error(error: ErrorCode) -> None:
            self.client.note_error(tp, error)

        self._ask("Produce", send, error_of_produce, done, note_error)

    # Offsets.

    def _add_offsets(self) -> None:
        if self._version == 2:
            self._commit_offsets()
            return
        request = AddOffsetsToTxnRequest(
            transactional_id=self.plan.transactional_id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            group_id=self.plan.group,
        )
        self._ask_coordinator(
            "AddOffsetsToTxn",
            self._key,
            request,
            ADD_VERSION,
            AddOffsetsToTxnResponse,
            error_of_response,
            lambda _: self._commit_offsets(),
        )

    def _commit_offsets(self) -> None:
        assert self._open is not None
        first = self.plan.partitions[0]
        partition = TxnOffsetCommitRequestPartition(
            partition_index=first.partition,
            committed_offset=self._open.number,
            committed_metadata="",
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.plan.transactional_id,
            group_id=self.plan.group,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=self.topics[first.topic].name, partitions=[partition]
                )
            ],
        )
        self._ask_coordinator(
            "TxnOffsetCommit",
            CoordinatorKey(GROUP, self.plan.group),
            request,
            self._of_version(OFFSETS_VERSIONS),
            TxnOffsetCommitResponse,
            error_of_offsets,
            lambda _: self._next_step(),
        )

    # The end.

    def _end(self) -> None:
        commits = not self.client.chance.chance(self.plan.abort_rate)
        self._ask_for_end(commits=commits, after=self._begin)

    def _ask_for_end(self, *, commits: bool, after: Callable[[], None]) -> None:
        """Commit or abort; then go on with `after`, unless the end gives a new epoch anyhow."""
        assert self._open is not None
        transaction = self._open
        if commits:
            transaction.commit_sent_ns = self._now_ns()
        request = EndTxnRequest(
            transactional_id=self.plan.transactional_id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=commits,
        )

        def ended(response: EndTxnResponse) -> None:
            outcome = TransactionOutcome.COMMITTED if commits else TransactionOutcome.ABORTED
            transaction.outcome = outcome
            self._open = None
            self._reach(f"{outcome.value} in version {self._version}")
            if commits:
                self.committed()
            if self._version == 2:
                self._take_identity(response.producer_id, response.producer_epoch)
            self._later(self.plan.pause_ms, after if self._version == 1 else self._begin)

        self._ask_coordinator(
            "EndTxn",
            self._key,
            request,
            self._of_version(END_VERSIONS),
            EndTxnResponse,
            error_of_response,
            ended,
        )


def error_of_response(response: Any) -> ErrorCode:
    """Return the error of a response that has one."""
    return ErrorCode(response.error_code)


def error_of_added(response: AddPartitionsToTxnResponse) -> ErrorCode:
    """Return the error of the only partition."""
    (topic,) = response.results_by_topic_v3_and_below
    return ErrorCode(topic.results_by_partition[0].partition_error_code)


def error_of_produce(response: ProduceResponse) -> ErrorCode:
    """Return the error of the only batch; a duplicate is in the log."""
    error = ErrorCode(response.responses[0].partition_responses[0].error_code)
    return ErrorCode.NONE if error is ErrorCode.DUPLICATE_SEQUENCE_NUMBER else error


def error_of_offsets(response: TxnOffsetCommitResponse) -> ErrorCode:
    """Return the error of the only offset."""
    return ErrorCode(response.topics[0].partitions[0].error_code)
