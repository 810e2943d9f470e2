"""The errors of the clients, as exceptions by kind.

    KafkaError                     all errors of clients, except for wrong settings
    ├─ Disconnected                a connection could not be made, or broke
    ├─ KafkaTimeout, a TimeoutError: RequestTimeout, ApiTimeout, MaxBlockTimeout, DeliveryTimeout,
    │  CommitUnknown
    ├─ BufferFull, ClientClosed, WrongCluster, UnsupportedVersion, SerializationError, DecodeError,
    │  DeadLetterFailed, TransactionFailed …
    └─ BrokerError                 an error that a broker returned: UnknownTopicOrPartition,
                                   RecordTooLarge, AuthorizationError and its kinds, GroupError and
                                   its kinds …
    ConfigError, a ValueError      an unknown setting, or a wrong value of one

`code` and `name` are those of the protocol for errors of brokers. Errors that the client finds have
the code that fits best, or None. `retriable`: the same may succeed later, and the client has
retried as long as it was allowed to. `fatal`: this client object cannot go on. `requires_abort`:
the open transaction has to be aborted.

A message says what was attempted, what went wrong, and what to do; `error_for` makes it for a code.
Errors are values too: the engine makes them, and the API raises them. They can be pickled.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from odradek.config.setting import ConfigError
from odradek.model.errors import ErrorCode, error_code
from odradek.model.topics import TopicPartition
from odradek.network_client.errors import (
    BrokerError,
    ClientClosed,
    Disconnected,
    InvalidRequest,
    KafkaError,
    KafkaTimeout,
    RequestTimeout,
    UnsupportedVersion,
)

if TYPE_CHECKING:
    from odradek.client.consumer.record import Record

__all__ = [
    "ApiTimeout",
    "AuthenticationError",
    "AuthorizationError",
    "BrokerError",
    "BufferFull",
    "ClientClosed",
    "ClusterAuthorizationError",
    "CommitFailed",
    "CommitUnknown",
    "ConfigError",
    "CoordinatorNotAvailable",
    "DeadLetterFailed",
    "DecodeError",
    "DeliveryTimeout",
    "Disconnected",
    "FencedInstance",
    "GroupAuthorizationError",
    "GroupError",
    "GroupNotEmpty",
    "GroupNotFound",
    "IllegalGeneration",
    "IllegalState",
    "InconsistentGroupProtocol",
    "InvalidConfig",
    "InvalidGroupId",
    "InvalidPartitions",
    "InvalidRecord",
    "InvalidReplicationFactor",
    "InvalidRequest",
    "InvalidTopic",
    "KafkaError",
    "KafkaTimeout",
    "LogTruncated",
    "MaxBlockTimeout",
    "NoOffsetForPartition",
    "NotEnoughReplicas",
    "NotLeader",
    "OffsetOutOfRange",
    "OutOfOrderSequence",
    "PolicyViolation",
    "ProducerFenced",
    "RebalanceInProgress",
    "RecordTooLarge",
    "RequestTimeout",
    "SerializationError",
    "StorageError",
    "TopicAlreadyExists",
    "TopicAuthorizationError",
    "TransactionFailed",
    "TransactionalIdAuthorizationError",
    "UnknownMember",
    "UnknownTopicOrPartition",
    "UnsupportedVersion",
    "WrongCluster",
    "error_for",
]


class ApiTimeout(KafkaTimeout):
    """A call did not succeed within its time limit, with all its retries."""


class MaxBlockTimeout(KafkaTimeout):
    """There was no metadata or no room in the buffer within max.block.ms."""


class DeliveryTimeout(KafkaTimeout):
    """A record was not acknowledged within delivery.timeout.ms. The message says whether it may
    have been written nevertheless; if not, sending it again makes no duplicate."""


class BufferFull(KafkaError, BufferError):
    """There is no room in buffer.memory, and the call does not wait for it."""

    advice = "wait for earlier records, send more slowly, or raise buffer.memory"


class WrongCluster(KafkaError):
    """The nodes belong to another cluster than those of the first connection."""

    fatal = True
    default_code = ErrorCode.INCONSISTENT_CLUSTER_ID
    advice = "make bootstrap.servers name the brokers of one cluster"


class SerializationError(KafkaError, ValueError):
    """A key, value or header cannot be serialized."""


class DecodeError(KafkaError, ValueError):
    """The bytes of a key or value cannot be deserialized."""

    record: Record[bytes, bytes] | None = None
    """The raw record; None if the error is not about a single record."""
    field: str = "value"
    """The field with the error: "key" or "value"."""


class DeadLetterFailed(KafkaError):
    """A record that cannot be decoded could not be written to the dead letter topic either. The
    consumer's position stays before it, and the next poll retries."""

    record: Record[bytes, bytes] | None = None
    """The raw record."""
    advice = (
        "check the dead letter topic and poll again; or handle the error's `record` and seek "
        "to the offset after it"
    )


class CommitFailed(KafkaError):
    """Offsets were not committed, because the partitions belong to another member now."""

    advice = "poll more often, or raise max.poll.interval.ms or lower max.poll.records"


class NoOffsetForPartition(KafkaError):
    """There is no committed offset, and auto.offset.reset=none forbids a default."""

    advice = "commit or seek first, or set auto.offset.reset"


class IllegalState(KafkaError):
    """The consumer is in the wrong state for this call; the message says what has to come first."""


class TransactionFailed(KafkaError):
    """The open transaction cannot be committed, because a record or a request of it failed.

    `__cause__` is the first error. Leaving `with producer.transaction()` by this error has aborted
    the transaction; with `commit_transaction` the application aborts it."""

    requires_abort = True
    advice = (
        "abort the transaction, as leaving `with producer.transaction()` does, and send its "
        "records again in another one"
    )


class CommitUnknown(KafkaTimeout):
    """The commit of a transaction was not answered in time: it may or may not take effect. The
    producer goes on asking; `commit_transaction` waits for the answer."""

    advice = "call commit_transaction() again, until it returns or raises another error"


class InvalidConfig(InvalidRequest):
    """An unknown setting of a topic or broker, or a wrong value of one."""


class InvalidTopic(InvalidRequest):
    """A name that topics cannot have, or a topic that may not be used so."""

    advice = "use up to 249 letters, digits, dots, underscores and hyphens"


class InvalidPartitions(InvalidRequest):
    """An invalid number of partitions, or an invalid assignment of replicas."""


class InvalidReplicationFactor(InvalidRequest):
    """More replicas than brokers, or none."""


class PolicyViolation(InvalidRequest):
    """A policy of the cluster forbids the request."""


class TopicAlreadyExists(BrokerError):
    """There is already a topic of that name."""


class UnknownTopicOrPartition(BrokerError):
    """There is no such topic, or no such partition of it."""

    advice = "check the name, or create the topic"


class NotLeader(BrokerError):
    """The partition has no leader now, or another one than the broker of the request."""


class NotEnoughReplicas(BrokerError):
    """Fewer replicas are in sync than min.insync.replicas requires."""


class StorageError(BrokerError):
    """The disk of the partition's leader failed."""


class RecordTooLarge(BrokerError, ValueError):
    """A record or batch larger than the topic, the broker or this client accepts."""

    default_code = ErrorCode.MESSAGE_TOO_LARGE
    advice = "raise the topic's max.message.bytes and the producer's max.request.size, or send less"


class InvalidRecord(BrokerError, ValueError):
    """A record that the broker rejects: damaged, with a wrong timestamp, or without a required
    key."""


class OffsetOutOfRange(BrokerError):
    """The offset is before the log start or behind the log end. `offsets` are the requested
    ones."""

    default_code = ErrorCode.OFFSET_OUT_OF_RANGE
    offsets: Mapping[TopicPartition, int] = MappingProxyType({})


class LogTruncated(OffsetOutOfRange):
    """Records that were read are no longer in the log: the new leader did not have them. `offsets`
    are the first that differ; -1 if they are not known."""


class AuthenticationError(BrokerError):
    """The broker could not authenticate the client."""

    fatal = True


class AuthorizationError(BrokerError):
    """The user is not authorized for the request."""

    advice = "get the permission, or check the user of this client"


class TopicAuthorizationError(AuthorizationError):
    """Not allowed for this topic."""


class GroupAuthorizationError(AuthorizationError):
    """Not allowed for this group."""


class ClusterAuthorizationError(AuthorizationError):
    """Not allowed for the cluster."""


class TransactionalIdAuthorizationError(AuthorizationError):
    """Not allowed for this transactional id."""


class ProducerFenced(BrokerError):
    """A newer producer has replaced this one, or its transaction was open for too long."""

    fatal = True
    advice = (
        "close this producer; give each running producer a transactional.id of its own, and raise "
        "transaction.timeout.ms if its transactions take longer"
    )


class OutOfOrderSequence(BrokerError):
    """The broker misses earlier records of this producer."""


class GroupError(BrokerError):
    """An error about a consumer group."""


class CoordinatorNotAvailable(GroupError):
    """The group's coordinator is moving, loading or unavailable."""


class TransactionalIdNotFound(BrokerError):
    """No coordinator knows the transactional id; an id that is not used expires."""

    advice = "check the id: Admin.list_transactions() returns all that the brokers know"


class GroupNotFound(GroupError):
    """There is no such group."""


class GroupNotEmpty(GroupError):
    """The group has members, or is still subscribed to the topic."""

    advice = "stop the members of the group first"


class InvalidGroupId(GroupError):
    """The group id is invalid or missing."""


class UnknownMember(GroupError):
    """The coordinator does not know this member (any more)."""


class IllegalGeneration(GroupError):
    """The group has rebalanced since then."""


class RebalanceInProgress(GroupError):
    """The group is being rebalanced."""


class InconsistentGroupProtocol(GroupError):
    """The members of the group have no common assignor."""

    fatal = True
    advice = "give all members a common partition.assignment.strategy"


class FencedInstance(GroupError):
    """Another member with the same group.instance.id has replaced this one."""

    fatal = True
    advice = "give every running member a group.instance.id of its own"


KINDS: dict[ErrorCode, type[KafkaError]] = {
    ErrorCode.OFFSET_OUT_OF_RANGE: OffsetOutOfRange,
    ErrorCode.CORRUPT_MESSAGE: InvalidRecord,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: UnknownTopicOrPartition,
    ErrorCode.LEADER_NOT_AVAILABLE: NotLeader,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: NotLeader,
    ErrorCode.REQUEST_TIMED_OUT: RequestTimeout,
    ErrorCode.MESSAGE_TOO_LARGE: RecordTooLarge,
    ErrorCode.NETWORK_EXCEPTION: Disconnected,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: CoordinatorNotAvailable,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: CoordinatorNotAvailable,
    ErrorCode.NOT_COORDINATOR: CoordinatorNotAvailable,
    ErrorCode.INVALID_TOPIC_EXCEPTION: InvalidTopic,
    ErrorCode.RECORD_LIST_TOO_LARGE: RecordTooLarge,
    ErrorCode.NOT_ENOUGH_REPLICAS: NotEnoughReplicas,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: NotEnoughReplicas,
    ErrorCode.INVALID_REQUIRED_ACKS: InvalidRequest,
    ErrorCode.ILLEGAL_GENERATION: IllegalGeneration,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: InconsistentGroupProtocol,
    ErrorCode.INVALID_GROUP_ID: InvalidGroupId,
    ErrorCode.UNKNOWN_MEMBER_ID: UnknownMember,
    ErrorCode.INVALID_SESSION_TIMEOUT: GroupError,
    ErrorCode.REBALANCE_IN_PROGRESS: RebalanceInProgress,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: TopicAuthorizationError,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: GroupAuthorizationError,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ClusterAuthorizationError,
    ErrorCode.INVALID_TIMESTAMP: InvalidRecord,
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: AuthenticationError,
    ErrorCode.ILLEGAL_SASL_STATE: AuthenticationError,
    ErrorCode.UNSUPPORTED_VERSION: UnsupportedVersion,
    ErrorCode.TOPIC_ALREADY_EXISTS: TopicAlreadyExists,
    ErrorCode.INVALID_PARTITIONS: InvalidPartitions,
    ErrorCode.INVALID_REPLICATION_FACTOR: InvalidReplicationFactor,
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: InvalidPartitions,
    ErrorCode.INVALID_CONFIG: InvalidConfig,
    ErrorCode.INVALID_REQUEST: InvalidRequest,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: UnsupportedVersion,
    ErrorCode.POLICY_VIOLATION: PolicyViolation,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: OutOfOrderSequence,
    ErrorCode.INVALID_PRODUCER_EPOCH: ProducerFenced,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: TransactionalIdAuthorizationError,
    ErrorCode.KAFKA_STORAGE_ERROR: StorageError,
    ErrorCode.SASL_AUTHENTICATION_FAILED: AuthenticationError,
    ErrorCode.UNKNOWN_PRODUCER_ID: OutOfOrderSequence,
    ErrorCode.NON_EMPTY_GROUP: GroupNotEmpty,
    ErrorCode.GROUP_ID_NOT_FOUND: GroupNotFound,
    ErrorCode.GROUP_MAX_SIZE_REACHED: GroupError,
    ErrorCode.FENCED_INSTANCE_ID: FencedInstance,
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: GroupNotEmpty,
    ErrorCode.INVALID_RECORD: InvalidRecord,
    ErrorCode.PRODUCER_FENCED: ProducerFenced,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: TransactionalIdNotFound,
    ErrorCode.UNKNOWN_TOPIC_ID: UnknownTopicOrPartition,
    ErrorCode.INCONSISTENT_CLUSTER_ID: WrongCluster,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: UnsupportedVersion,
}
"""The class for each code; all other codes are `BrokerError`s."""
ADVICE_BY_CODE: dict[ErrorCode, str] = {
    ErrorCode.INVALID_SESSION_TIMEOUT: "give a session.timeout.ms between the broker's "
    "group.min.session.timeout.ms and group.max.session.timeout.ms",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "close another member of the group, or raise the broker's "
    "group.max.size",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "give a transaction.timeout.ms of at least 1 and at "
    "most the brokers' transaction.max.timeout.ms, or raise that",
    ErrorCode.INVALID_REGULAR_EXPRESSION: "give one of RE2's syntax, which has neither look-around "
    "nor back-references",
}
"""Advice for codes that share their class with others."""


def error_for(code: int, what: str, broker_text: str | None = None) -> KafkaError:
    """Return the error for a code of the protocol. `what` was attempted, of whom; `broker_text` is
    the broker's text."""
    known = error_code(code)
    kind = KINDS.get(known, BrokerError)
    text = f"{what}: {known.name}: {broker_text or known.text}"
    if known != code:
        text += f" (code {code})"
    advice = ADVICE_BY_CODE.get(known, kind.advice)
    if advice:
        text = f"{text.rstrip('.')}. What to do: {advice}."
    return kind(text, known)
