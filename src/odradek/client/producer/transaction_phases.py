"""ProducerTransaction: the phases of a producer's transactions, and the effects of errors on them.

                       init         initialized   begin        commit      abort      ended
    UNINITIALIZED      INITIALIZING     -            -            -           -          -
    INITIALIZING       -            READY            -            -           -          -
    READY              INITIALIZING     -        IN_TRANSACTION   -           -          -
    IN_TRANSACTION     -                -            -        COMMITTING  ABORTING       -
    ABORTABLE_ERROR    -                -            -            -       ABORTING       -
    COMMITTING         -                -            -            -           -        READY
    ABORTING           -                -            -            -           -        READY
    FATAL_ERROR        -                -            -            -           -          -

A step that the table does not have raises `IllegalState`, which says what has to come first. Three
more steps: `detach` leads from IN_TRANSACTION to UNINITIALIZED, `give_up` from INITIALIZING back to
where it came from, and an error leads from IN_TRANSACTION and COMMITTING to ABORTABLE_ERROR, or
from everywhere to FATAL_ERROR, by its class (KIP-1050):

    RETRY    the request is sent again after a back-off: the application never sees such an error
    FIND     the same, after the coordinator was looked up again
    ABORT    the transaction cannot be committed: abort it, and begin another (`requires_abort`)
    FATAL    another producer has taken the transactional id over, or the user is not authorized, or
             the brokers do not have transactions: this producer cannot go on (`fatal`)

An error of any record, also of one that expired or was never queued, is an ABORT: what is committed
is complete.

Pure; owner thread only. `transaction_steps` sends the requests.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from odradek.client.errors import (
    Disconnected,
    IllegalState,
    KafkaError,
    KafkaTimeout,
    ProducerFenced,
    TransactionFailed,
    error_for,
)
from odradek.client.transaction import VERSION_1, VERSION_2
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition


class Phase(Enum):
    """The phase of a transactional producer. Kafka's TransactionManager.State."""

    UNINITIALIZED = "has no producer id yet"
    INITIALIZING = "is getting its producer id"
    READY = "has no open transaction"
    IN_TRANSACTION = "has an open transaction"
    COMMITTING = "is committing its transaction"
    ABORTABLE_ERROR = "has a transaction that failed"
    ABORTING = "is aborting its transaction"
    FATAL_ERROR = "cannot go on"


class Step(Enum):
    """A step of the application, or the end of one."""

    INIT = "init_transactions"
    INITIALIZED = "the answer to InitProducerId"
    BEGIN = "begin_transaction"
    COMMIT = "commit_transaction"
    ABORT = "abort_transaction"
    ENDED = "the answer to EndTxn"
    DETACH = "detach_transaction"


NEXT: Final = {
    (Phase.UNINITIALIZED, Step.INIT): Phase.INITIALIZING,
    (Phase.READY, Step.INIT): Phase.INITIALIZING,
    (Phase.INITIALIZING, Step.INITIALIZED): Phase.READY,
    (Phase.READY, Step.BEGIN): Phase.IN_TRANSACTION,
    (Phase.IN_TRANSACTION, Step.COMMIT): Phase.COMMITTING,
    (Phase.IN_TRANSACTION, Step.ABORT): Phase.ABORTING,
    (Phase.IN_TRANSACTION, Step.DETACH): Phase.UNINITIALIZED,
    (Phase.ABORTABLE_ERROR, Step.ABORT): Phase.ABORTING,
    (Phase.COMMITTING, Step.ENDED): Phase.READY,
    (Phase.ABORTING, Step.ENDED): Phase.READY,
}
"""The phase after a step; a step that is not here is not allowed."""

WHAT_TO_DO: Final = {
    Phase.UNINITIALIZED: "call init_transactions() first, or use `with producer.transaction()`",
    Phase.INITIALIZING: "wait for init_transactions() to return",
    Phase.READY: "call begin_transaction() first, or use `with producer.transaction()`",
    Phase.IN_TRANSACTION: "commit or abort it first",
    Phase.COMMITTING: "call commit_transaction() again, which tells the outcome",
    Phase.ABORTABLE_ERROR: "abort it",
    Phase.ABORTING: "call abort_transaction() again, which waits for the end",
}

WHAT_TO_DO_TEXT: Final = ". What to do: "


class ErrorClass(Enum):
    """The effect of an error on a transaction: see the module."""

    RETRY = "retry"
    FIND = "find the coordinator again"
    ABORT = "abort"
    FATAL = "fatal"


class TxnRequest(Enum):
    """The request that was answered with an error."""

    FIND_COORDINATOR = "finding the transaction coordinator"
    INIT_PRODUCER_ID = "getting a producer id"
    ADD_PARTITIONS = "adding partitions to the transaction"
    ADD_OFFSETS = "adding the group's offsets to the transaction"
    COMMIT_OFFSETS = "committing offsets in the transaction"
    PRODUCE = "sending records in the transaction"
    COMMIT = "committing the transaction"
    ABORT = "aborting the transaction"


COORDINATOR_MOVED: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}
)
ALWAYS_FATAL: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)
FATAL_TO_COORDINATORS: Final = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE}
)
"""Fatal as answers of a coordinator. A partition's leader may give them for a transaction that has
timed out; then the coordinator's answer to the abort tells whether the producer can go on."""
ABORTABLE_AT_THE_END: Final = frozenset(
    {
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)
FORGOTTEN: Final = frozenset({ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.UNKNOWN_PRODUCER_ID})
"""The coordinator has forgotten the producer id: it would not take an EndTxn, and has to give
another."""


def class_of(asked: TxnRequest, code: ErrorCode) -> ErrorClass:
    """Return the effect of an error code, as the answer to this request."""
    if code in COORDINATOR_MOVED:
        return ErrorClass.FIND
    if code.retriable:
        return ErrorClass.RETRY
    if code in ALWAYS_FATAL:
        return ErrorClass.FATAL
    if asked is TxnRequest.PRODUCE:
        return ErrorClass.ABORT
    if code in FATAL_TO_COORDINATORS:
        return ErrorClass.FATAL
    if asked in (TxnRequest.COMMIT, TxnRequest.ABORT):
        return ErrorClass.ABORT if code in ABORTABLE_AT_THE_END else ErrorClass.FATAL
    if asked is TxnRequest.INIT_PRODUCER_ID:
        abortable = code is ErrorCode.TRANSACTION_ABORTABLE
        return ErrorClass.ABORT if abortable else ErrorClass.FATAL
    return ErrorClass.ABORT


def class_of_failure(error: KafkaError) -> ErrorClass:
    """Return the effect of a failed connection, after which the coordinator may be elsewhere."""
    passes = isinstance(error, Disconnected | KafkaTimeout)
    return ErrorClass.FIND if passes else ErrorClass.FATAL


class ProducerTransaction:
    """The phase of one transactional producer, and the contents of its open transaction."""

    def __init__(self, transactional_id: str, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.phase = Phase.UNINITIALIZED
        self.version = VERSION_2
        """How the open transaction works: see `client.transaction`."""
        self.error: KafkaError | None = None
        """Why the transaction failed, or why the producer cannot go on: for the application."""
        self.cause: KafkaError | None = None
        """The first error of the open transaction, which `error` is about."""
        self.added: set[TopicPartition] = set()
        """The partitions that the coordinator knows to be part of the transaction."""
        self.to_add: dict[TopicPartition, None] = {}
        """The partitions with records that wait until the coordinator knows of them (version 1)."""
        self.began_ms = 0
        self.is_empty = True
        """True as long as the coordinator cannot know of the transaction: it needs no end."""
        self.needs_new_epoch = False
        """True if only another epoch keeps late requests of this transaction out of the next one
        (version 1; in version 2 every end bumps the epoch)."""

    def step(self, step: Step) -> None:
        """Go on to the next phase. Raises `IllegalState`, and the error that is in the way."""
        after = NEXT.get((self.phase, step))
        if after is None:
            raise self.refusal(step.value)
        self.phase = after

    def give_up_init(self) -> None:
        """Note that the producer has no id, because the application waits no longer for one."""
        if self.phase is Phase.INITIALIZING:
            self.phase = Phase.UNINITIALIZED

    def begin(self, version: int, now_ms: int) -> None:
        """Begin a transaction."""
        self.step(Step.BEGIN)
        self.version = version if version >= VERSION_2 else VERSION_1
        self.began_ms = now_ms
        self._forget()

    def ended(self) -> None:
        """Note that the transaction is committed or aborted."""
        self.step(Step.ENDED)
        self._forget()

    def detach(self) -> None:
        """Note that somebody else will end the transaction."""
        self.step(Step.DETACH)
        self._forget()

    def _forget(self) -> None:
        self.error = self.cause = None
        self.added.clear()
        self.to_add.clear()
        self.is_empty = True
        self.needs_new_epoch = False

    # Records.

    def may_send(self, partition: TopicPartition) -> bool:
        """True if the next batch of a partition may be sent. If the coordinator has to know of the
        partition first, it is noted in `to_add`."""
        if self.phase not in (Phase.IN_TRANSACTION, Phase.COMMITTING):
            return False
        if partition in self.added:
            return True
        if self.version >= VERSION_2:
            self.added.add(partition)
            self.is_empty = False
            return True
        self.to_add[partition] = None
        return False

    def added_to_transaction(self, partitions: list[TopicPartition]) -> None:
        """Note that the coordinator knows of these partitions."""
        self.is_empty = False
        self.added.update(partitions)

    # Errors.

    def fail(self, asked: TxnRequest, error: KafkaError) -> KafkaError:
        """Note an error that is not retried; return the one for the application."""
        code = ErrorCode.UNKNOWN_SERVER_ERROR if error.code is None else error.code
        if class_of(asked, code) is ErrorClass.FATAL:
            return self.fail_for_good(error)
        return self.fail_transaction(error)

    def fail_transaction(self, error: KafkaError) -> KafkaError:
        """Note that the open transaction cannot be committed. The first error is kept."""
        if self.phase is not Phase.FATAL_ERROR:
            error.fatal = False  # The producer goes on, whatever the class of the error says.
        if self.phase in (Phase.IN_TRANSACTION, Phase.COMMITTING):
            self.phase = Phase.ABORTABLE_ERROR
            self.cause = error
            self.error = failed_transaction(self.transactional_id, error)
        if error.code in FORGOTTEN:
            self.needs_new_epoch = True
        return self.error or error

    def fail_for_good(self, error: KafkaError) -> KafkaError:
        """Note that the producer cannot go on."""
        if self.phase is not Phase.FATAL_ERROR:
            self.phase = Phase.FATAL_ERROR
            self.cause = error
            error.fatal = True
            self.error = error
        return self.error or error

    @property
    def has_failed(self) -> bool:
        return self.phase in (Phase.ABORTABLE_ERROR, Phase.FATAL_ERROR)

    def refusal(self, what: str) -> KafkaError:
        """Return the error of a call that the phase does not allow."""
        if self.error is not None and self.has_failed:
            return self.error
        return IllegalState(
            f"{what}: the producer of transactional id {self.transactional_id} {self.phase.value}. "
            f"What to do: {WHAT_TO_DO.get(self.phase, 'make another producer')}"
        )

    def fenced(self, what: str, code: ErrorCode, open_ms: int) -> KafkaError:
        """Return the error of a producer whose id or epoch the coordinator does not take any
        more. `open_ms`: for how long the transaction was open, -1 if none was."""
        is_late = open_ms >= self.timeout_ms
        # In version 2 the commit of a transaction that the coordinator has aborted looks like one
        # that was sent again after an abort. In version 1 that would be PRODUCER_FENCED.
        aborted = code is ErrorCode.INVALID_TXN_STATE and (
            is_late or (open_ms >= 0 and self.version >= VERSION_2)
        )
        if not aborted and code not in (
            ErrorCode.PRODUCER_FENCED,
            ErrorCode.INVALID_PRODUCER_EPOCH,
        ):
            return error_for(code, what)
        if is_late:
            why = (
                f"the transaction was open for {open_ms} ms, and so the coordinator has aborted it "
                f"after transaction.timeout.ms={self.timeout_ms}. What to do: make another "
                "producer; end transactions sooner, or raise transaction.timeout.ms"
            )
        else:
            why = (
                "another producer has taken the transactional id over, or the coordinator has "
                f"aborted a transaction after transaction.timeout.ms={self.timeout_ms}. What to "
                "do: close this producer; give each running producer a transactional.id of its own"
            )
        return ProducerFenced(
            f"{what}: {code.name}: transactional id {self.transactional_id}: {why}",
            code,
        )


def failed_transaction(transactional_id: str, error: KafkaError) -> TransactionFailed:
    """Return the error for the application whose transaction cannot be committed."""
    advice = str(error).partition(WHAT_TO_DO_TEXT)[2].rstrip(".")
    if error.retriable or not advice:
        advice = TransactionFailed.advice
    else:
        advice = (
            "abort the transaction, as leaving `with producer.transaction()` does; before its "
            f"records are sent again, {advice}"
        )
    failed = TransactionFailed(
        f"the transaction of {transactional_id} cannot be committed: {reason_of(error)}"
        f"{WHAT_TO_DO_TEXT}{advice}",
        error.code,
    )
    failed.__cause__ = error
    return failed


def reason_of(error: KafkaError) -> str:
    """Return the text of an error without its advice."""
    return str(error).partition(WHAT_TO_DO_TEXT)[0].rstrip(".")
