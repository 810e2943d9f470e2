"""Transactional batches are appended once the coordinator knows that they belong to a transaction.

Before a partition takes the first batch of a transaction, its leader asks the transaction
coordinator (KIP-890). For a client of Produce 12 (TransactionsV2) the coordinator *adds* the
partition to the transaction; for an older client, which has to add it itself, the coordinator
*verifies* that it did. So no partition holds a transaction that no coordinator would ever end.

    start ─┬─ open already, or refused at once ───────────────────────────► answered
           └─ a guard ─► coordinator: here, or over CLUSTER ─► its errors ─► answered
                 ▲                             │
                 └── CONCURRENT_TRANSACTIONS ──┘   at most `CONCURRENT_WAIT_MS`

The *guard* belongs to the answer: a marker that is written meanwhile voids it, and the append with
it is refused. So if the marker of the transaction before has overtaken the question, that is asked
once more, with another guard; a refusal would end the next transaction for nothing. The producer's
epoch is compared before anything else, so that a zombie learns that it is fenced (KAFKA-19690). A
guard goes when all that wait for it are refused: who invents producer ids must not fill the memory
with guards. (Kafka's stay for `producer.id.expiration.ms`, a day.)

An error of the coordinator becomes one that the client handles well, as in Kafka: Produce answers
NOT_ENOUGH_REPLICAS if the coordinator cannot be reached, so that clients try again without asking
for metadata. CONCURRENT_TRANSACTIONS means that the transaction before is being ended. A client of
TransactionsV2 has sent no AddPartitionsToTxn that it could repeat, so the broker waits for that end
(KAFKA-18654).

Requests of one connection overlap here, unlike in Kafka. So the requests of one producer are
answered in their order, each as soon as the ones before it are; else a later sequence could be
appended first.

Another node gets one AddPartitionsToTxn at a time. The next one has all partitions that were asked
for meanwhile, with each transactional id once: partitions of the same producer are joined, those of
an older epoch are refused (INVALID_PRODUCER_EPOCH).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from odradek.log.verification import VerificationGuard
from odradek.model.errors import ErrorCode, error_code
from odradek.model.topics import TopicPartition
from odradek.replication.partition import Partition

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.protocol.api.add_partitions_to_txn import AddPartitionsToTxnResponse

CONCURRENT_WAIT_MS: Final = 100
"""How long a batch waits for the end of the transaction before it; Kafka's."""
REQUEST_TIMEOUT_MS: Final = 30_000
FIRST_RETRY_MS: Final = 2
"""The first wait before a coordinator on another node is asked again; each one is twice as long."""
NONE: Final = ErrorCode.NONE
CONCURRENT: Final = ErrorCode.CONCURRENT_TRANSACTIONS
Errors = dict[TopicPartition, ErrorCode]


class TransactionSupportedOperation(Enum):
    """The operation that a request stands for, by its version; Kafka's names."""

    DEFAULT_ERROR = "verify"
    GENERIC_ERROR_SUPPORTED = "verify, and the client knows TRANSACTION_ABORTABLE"
    ADD_PARTITION = "add the partition"


DEFAULT_ERROR: Final = TransactionSupportedOperation.DEFAULT_ERROR
GENERIC_ERROR_SUPPORTED: Final = TransactionSupportedOperation.GENERIC_ERROR_SUPPORTED
ADD_PARTITION: Final = TransactionSupportedOperation.ADD_PARTITION


def operation_of_produce(version: int) -> TransactionSupportedOperation:
    """The operation that a Produce request of this version stands for."""
    if version > 11:
        return ADD_PARTITION
    return GENERIC_ERROR_SUPPORTED if version > 10 else DEFAULT_ERROR


def operation_of_txn_offset_commit(version: int) -> TransactionSupportedOperation:
    """The operation that a TxnOffsetCommit request of this version stands for."""
    if version > 4:
        return ADD_PARTITION
    return GENERIC_ERROR_SUPPORTED if version > 3 else DEFAULT_ERROR


class VerificationResult(NamedTuple):
    """The result: partitions whose batch is refused, and the guards of the others that need one."""

    errors: Errors
    guards: dict[TopicPartition, VerificationGuard]


VERIFIED: Final = VerificationResult({}, {})


class TransactionalBatches(NamedTuple):
    """The batches of one request: their producer, and each partition with its first sequence."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[tuple[Partition, int]]
    operation: TransactionSupportedOperation

    @property
    def keys(self) -> list[TopicPartition]:
        """The partitions by name."""
        return [partition.topic_partition for partition, _ in self.partitions]

    @property
    def verify_only(self) -> bool:
        """True if the client has added the partitions itself."""
        return self.operation is not ADD_PARTITION


class PendingVerification:
    """The verification of one request, until it is answered."""

    __slots__ = (
        "answered",
        "asked_again",
        "batches",
        "began_ms",
        "errors",
        "guards",
        "retry_ms",
        "verified",
    )

    def __init__(
        self,
        batches: TransactionalBatches,
        answered: Callable[[VerificationResult], None],
        now_ms: int,
    ) -> None:
        self.batches = batches
        self.answered = answered
        self.began_ms = now_ms
        self.retry_ms = FIRST_RETRY_MS
        self.asked_again = False
        """True if a guard was void when the coordinator had answered."""
        self.errors: Errors = {}
        self.guards: dict[TopicPartition, VerificationGuard] = {}
        self.verified: VerificationResult | None = None

    def take_guards(self) -> None:
        """Take the guards of the partitions where the transaction is not open."""
        batches = self.batches
        adds = not batches.verify_only
        self.errors, self.guards = {}, {}
        for partition, base_sequence in batches.partitions:
            found = partition.start_verification(
                batches.producer_id, batches.producer_epoch, base_sequence, adds
            )
            if isinstance(found, ErrorCode):
                self.errors[partition.topic_partition] = found
            elif found is not None:
                self.guards[partition.topic_partition] = found

    @property
    def is_void(self) -> bool:
        """True if a guard does not stand any more."""
        return any(
            not partition.guard_stands(self.batches.producer_id, guard)
            for partition, _ in self.batches.partitions
            if (guard := self.guards.get(partition.topic_partition)) is not None
        )


class TransactionVerification:
    """Asks transaction coordinators about the batches of this broker. Owner thread only."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._waiting: dict[int, deque[PendingVerification]] = {}
        self._nodes: dict[int, NodeRequests] = {}

    def __len__(self) -> int:
        """The number of requests that wait for their coordinator."""
        return sum(map(len, self._waiting.values()))

    def is_needed(
        self, partitions: Sequence[tuple[Partition, int]], producer_id: int, producer_epoch: int
    ) -> bool:
        """False if the producer's transaction is open in all partitions, and none of its requests
        waits for the coordinator, as this one would have to wait behind it."""
        if producer_id in self._waiting:
            return True
        for partition, _ in partitions:
            if not partition.has_open_transaction(producer_id, producer_epoch):
                return True
        return False

    def verify(
        self, batches: TransactionalBatches, answered: Callable[[VerificationResult], None]
    ) -> VerificationResult | None:
        """Return the result if it is known at once; else None, and `answered` gets it.

        A batch with an error in it must not be appended; one with a guard only with it.
        """
        if batches.producer_id < 0:  # Nobody would end what it begins; Kafka takes it all the same.
            return VerificationResult(
                dict.fromkeys(batches.keys, ErrorCode.INVALID_PRODUCER_ID_MAPPING), {}
            )
        if batches.verify_only and not self._broker.replicas.verifies_transactions:
            return VERIFIED
        verification = PendingVerification(batches, answered, self._broker.timer.now_ms)
        verification.take_guards()
        queue = self._waiting.get(batches.producer_id)
        if not verification.guards and queue is None:
            return VerificationResult(verification.errors, {})
        if queue is None:
            queue = self._waiting[batches.producer_id] = deque()
        queue.append(verification)
        if verification.guards:
            self._ask(verification)
        else:
            self._complete(verification, {})
        return None

    def _ask(self, verification: PendingVerification) -> None:
        """Ask the coordinator of the transactional id about the partitions with a guard."""
        batches, partitions = verification.batches, list(verification.guards)
        node_id = self._broker.transactions.coordinator_node(batches.transactional_id)

        def answered(errors: Errors) -> None:
            self._coordinator_answered(verification, errors)

        if node_id == self._broker.node_id:
            self._broker.transactions.add_partitions_to_transaction(
                batches.transactional_id,
                batches.producer_id,
                batches.producer_epoch,
                batches.verify_only,
                partitions,
                answered,
            )
        elif node_id < 0:
            answered(dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE))
        else:
            asked = AskedTransaction(
                batches.transactional_id,
                batches.producer_id,
                batches.producer_epoch,
                batches.verify_only,
                dict.fromkeys(partitions),
                [(partitions, answered)],
            )
            self._node(node_id).ask(asked)

    def _node(self, node_id: int) -> NodeRequests:
        found = self._nodes.get(node_id)
        if found is None:
            found = self._nodes[node_id] = NodeRequests(self._broker, node_id)
        return found

    def _coordinator_answered(self, verification: PendingVerification, errors: Errors) -> None:
        batches = verification.batches

        def again() -> None:
            verification.take_guards()
            if verification.guards:
                self._ask(verification)
            else:
                self._complete(verification, {})

        if not any(errors.values()) and verification.is_void and not verification.asked_again:
            verification.asked_again = True
            again()
            return
        waited_ms = self._broker.timer.now_ms - verification.began_ms
        is_concurrent = CONCURRENT in errors.values() and not batches.verify_only
        if not is_concurrent or waited_ms >= CONCURRENT_WAIT_MS:
            refused = {
                key: client_error(error, batches.operation)
                for key, error in errors.items()
                if error is not NONE
            }
            self._complete(verification, refused)
            return
        left_ms = CONCURRENT_WAIT_MS - waited_ms
        transactions = self._broker.transactions
        if transactions.coordinator_node(batches.transactional_id) == self._broker.node_id:
            transactions.after_end(batches.transactional_id, left_ms, again)
        else:
            self._broker.timer.call_later(min(left_ms, verification.retry_ms), again)
            verification.retry_ms *= 2

    def _complete(self, verification: PendingVerification, errors: Errors) -> None:
        """Note the result, and answer what is first in its producer's order."""
        producer_id = verification.batches.producer_id
        queue = self._waiting[producer_id]
        refused = {
            key: verification.guards.pop(key) for key in errors if key in verification.guards
        }
        for partition, _ in verification.batches.partitions:
            key = partition.topic_partition
            if key in refused and not any(key in each.guards for each in queue):
                partition.end_verification(producer_id, refused[key])
        verification.verified = VerificationResult(
            {**verification.errors, **errors}, verification.guards
        )
        answers = []
        while queue and (verified := queue[0].verified) is not None:
            answers.append(partial(queue.popleft().answered, verified))
        if not queue:
            del self._waiting[producer_id]
        run_all(answers)


def run_all(answers: Iterable[Callable[[], None]]) -> None:
    """Give all answers: an exception of one, which is a bug, is raised after the others."""
    given = list(answers)
    if len(given) == 1:
        given[0]()
        return
    with ExitStack() as left:
        for each in reversed(given):
            left.callback(each)


def client_error(error: ErrorCode, operation: TransactionSupportedOperation) -> ErrorCode:
    """The error for the client in place of a coordinator's."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and operation is DEFAULT_ERROR:
        return ErrorCode.INVALID_TXN_STATE
    return error


AskedAnswer = tuple[Sequence[TopicPartition], Callable[[Errors], None]]


class AskedTransaction(NamedTuple):
    """The partitions of one transaction that a node is asked about, for one or several requests."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool
    partitions: dict[TopicPartition, None]
    answers: list[AskedAnswer]

    def answer(self, errors: Errors) -> None:
        """Give each request the errors of its partitions."""
        run_all(
            partial(answered, {key: errors[key] for key in partitions if key in errors})
            for partitions, answered in self.answers
        )

    def refuse(self, error: ErrorCode) -> None:
        """Give each request this error for all of its partitions."""
        self.answer(dict.fromkeys(self.partitions, error))


class NodeRequests:
    """The requests to the coordinators of one other node: one in flight, the next being filled."""

    def __init__(self, broker: Broker, node_id: int) -> None:
        self._broker = broker
        self._node_id = node_id
        self._next: dict[str, AskedTransaction] = {}
        self._in_flight = False

    def ask(self, asked: AskedTransaction) -> None:
        """Ask about a transaction with the next request."""
        known = self._next.get(asked.transactional_id)
        if known is None:
            self._next[asked.transactional_id] = asked
        elif known[1:4] == asked[1:4]:
            known.partitions.update(asked.partitions)
            known.answers.extend(asked.answers)
        elif known.producer_epoch > asked.producer_epoch:
            asked.refuse(ErrorCode.INVALID_PRODUCER_EPOCH)
        else:
            self._next[asked.transactional_id] = asked
            is_older = known.producer_epoch < asked.producer_epoch
            known.refuse(
                ErrorCode.INVALID_PRODUCER_EPOCH if is_older else ErrorCode.NETWORK_EXCEPTION
            )
        if not self._in_flight:
            self._in_flight = True
            self._broker.env.call_soon(self._send)

    def _send(self) -> None:
        """Send what waits; what another node coordinates by now is refused."""
        waiting, self._next = self._next, {}
        coordinator_node = self._broker.transactions.coordinator_node
        moved = [each for each in waiting if coordinator_node(each) != self._node_id]
        refused = [waiting.pop(each) for each in moved]
        self._in_flight = bool(waiting)
        if waiting:
            self._transmit(waiting)
        run_all(partial(each.refuse, ErrorCode.NOT_COORDINATOR) for each in refused)

    def _transmit(self, transactions: dict[str, AskedTransaction]) -> None:
        channel = self._broker.broker_channel
        assert channel is not None, "a node that is alone asks itself"

        def answered(response: AddPartitionsToTxnResponse | None) -> None:
            # The next request first: an answer may ask again, for the request after that one.
            run_all([self._send, partial(answer_all, transactions, response)])

        request = add_partitions_request(transactions.values())
        channel.send(self._node_id, request, answered, REQUEST_TIMEOUT_MS)


def add_partitions_request(transactions: Iterable[AskedTransaction]) -> Any:
    """The AddPartitionsToTxn request, version 4 or later, for these transactions."""
    from odradek.protocol.api.add_partitions_to_txn import (
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnTopic,
        AddPartitionsToTxnTransaction,
    )

    made = []
    for each in transactions:
        topics: dict[str, AddPartitionsToTxnTopic] = {}
        for topic, number in each.partitions:
            known = topics.get(topic)
            if known is None:
                known = topics[topic] = AddPartitionsToTxnTopic(name=topic, partitions=[])
            known.partitions.append(number)
        made.append(
            AddPartitionsToTxnTransaction(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                producer_epoch=each.producer_epoch,
                verify_only=each.verify_only,
                topics=list(topics.values()),
            )
        )
    return AddPartitionsToTxnRequest(transactions=made)


def answer_all(
    asked: dict[str, AskedTransaction], response: AddPartitionsToTxnResponse | None
) -> None:
    """Answer the transactions of one request; None: the node did not answer."""
    if response is None or response.error_code != NONE:
        error = ErrorCode.NETWORK_EXCEPTION if response is None else error_code(response.error_code)
        if error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            error = ErrorCode.INVALID_TXN_STATE
        run_all(partial(each.refuse, error) for each in asked.values())
        return
    errors = {
        result.transactional_id: {
            TopicPartition(topic.name, partition.partition_index): error_code(
                partition.partition_error_code
            )
            for topic in result.topic_results
            for partition in topic.results_by_partition
            if partition.partition_error_code != NONE
        }
        for result in response.results_by_transaction
    }
    run_all(
        partial(each.answer, errors[name])
        if name in errors
        else partial(each.refuse, ErrorCode.NETWORK_EXCEPTION)
        for name, each in asked.items()
    )
