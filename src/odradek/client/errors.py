"""What can go wrong, as exceptions by kind.

    KafkaError                     all that clients raise, but for bad settings
    ├─ Disconnected                a connection could not be made, or broke
    ├─ KafkaTimeout, a TimeoutError: RequestTimeout, ApiTimeout, MaxBlockTimeout, DeliveryTimeout
    ├─ BufferFull, ClientClosed, WrongCluster, UnsupportedVersion, SerializationError, DecodeError,
    │  DeadLetterFailed …
    └─ BrokerError                 what a broker answered: UnknownTopicOrPartition, RecordTooLarge,
                                   AuthorizationError and its kinds, GroupError and its kinds …
    ConfigError, a ValueError      a setting that is not known or has no such value

`code` and `name` are those of the protocol where a broker said so; what the client itself found has
the code that says it best, or None. `retriable`: the same may succeed later, and the client has
tried as long as it was allowed to. `fatal`: this client instance cannot go on. `requires_abort`:
the open transaction cannot.

A message says what was wanted, what went wrong, and what to do; `error_for` makes it for a code.
Errors are values too: the engine makes them, and a face raises them. They can be pickled.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from odradek.config.setting import ConfigError
from odradek.model.errors import ErrorCode, error_code
from odradek.model.topics import TopicPartition

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
    "TransactionalIdAuthorizationError",
    "UnknownMember",
    "UnknownTopicOrPartition",
    "UnsupportedVersion",
    "WrongCluster",
    "error_for",
]

ADVICE_MARK = ". What to do: "


class KafkaError(Exception):
    """The base of what clients raise."""

    fatal: bool = False
    """This client instance cannot go on; close it."""
    default_code: ErrorCode | None = None
    advice: str = ""
    """What to do, for the messages of `error_for`."""

    def __init__(self, message: str = "", code: ErrorCode | None = None) -> None:
        super().__init__(with_one_advice(message))
        self.code = self.default_code if code is None else code

    @property
    def name(self) -> str:
        """The protocol's name of the code, or the kind's own."""
        return type(self).__name__ if self.code is None else self.code.name

    @property
    def retriable(self) -> bool:
        """Whether the same may succeed later."""
        return self.code is not None and self.code.retriable

    @property
    def requires_abort(self) -> bool:
        """Whether the transaction that is open has to be aborted before anything else is sent."""
        return self.code is ErrorCode.TRANSACTION_ABORTABLE

    @property
    def refresh_metadata(self) -> bool:
        """Whether what is known of the cluster may be out of date."""
        return self.code is not None and self.code.refresh_metadata


def with_one_advice(message: str) -> str:
    """What happened, and of all advice the last: an error that tells of another brings that one's
    along, and knows better what was wanted. Every message comes through here, however it was made.
    """
    happened, mark, rest = message.partition(ADVICE_MARK)
    return happened + mark + rest.rpartition(ADVICE_MARK)[2].lstrip()


class Disconnected(KafkaError):
    """A connection could not be made, or broke before the answer came: the request may have been
    carried out, or not."""

    default_code = ErrorCode.NETWORK_EXCEPTION
    advice = "check bootstrap.servers, the broker's log, and its advertised.listeners"


class KafkaTimeout(KafkaError, TimeoutError):
    """Something took longer than a setting or an argument allows."""

    default_code = ErrorCode.REQUEST_TIMED_OUT


class RequestTimeout(KafkaTimeout):
    """A broker did not answer within request.timeout.ms."""


class ApiTimeout(KafkaTimeout):
    """A call did not succeed within its time, however often it was tried."""


class MaxBlockTimeout(KafkaTimeout):
    """Metadata or buffer space did not come within max.block.ms."""


class DeliveryTimeout(KafkaTimeout):
    """A record was not acknowledged within delivery.timeout.ms. The message says whether it may
    have been written all the same; if it was not, it can be sent again without a second thought."""


class BufferFull(KafkaError, BufferError):
    """There is no room in buffer.memory, and nobody wanted to wait."""

    advice = "wait for earlier records, send more slowly, or raise buffer.memory"


class ClientClosed(KafkaError):
    """The client was closed before, or while, it was used."""


class WrongCluster(KafkaError):
    """The nodes that answer belong to another cluster than the one first met."""

    fatal = True
    default_code = ErrorCode.INCONSISTENT_CLUSTER_ID
    advice = "make bootstrap.servers name the brokers of one cluster"


class UnsupportedVersion(KafkaError):
    """This client and a broker have no version of a request in common, or one that can say this."""

    default_code = ErrorCode.UNSUPPORTED_VERSION
    advice = "use a broker that supports it, or leave out what it does not support"


class SerializationError(KafkaError, ValueError):
    """A key or value cannot be turned into bytes."""


class DecodeError(KafkaError, ValueError):
    """The bytes of a record cannot be turned into a key or value."""

    record: Record[bytes, bytes] | None = None
    """As it came; None where what cannot be decoded is no single record."""
    field: str = "value"
    """"key" or "value": which of them."""


class DeadLetterFailed(KafkaError):
    """A record that cannot be decoded could not be written to the dead letter topic either. The
    consumer stands before it, and its next poll tries again."""

    record: Record[bytes, bytes] | None = None
    """As it came."""
    advice = (
        "see to the dead letter topic and poll again; or look at the error's `record` and seek "
        "behind it"
    )


class CommitFailed(KafkaError):
    """Offsets were not committed, for the partitions belong to another member by now."""

    advice = "poll more often, or raise max.poll.interval.ms or lower max.poll.records"


class NoOffsetForPartition(KafkaError):
    """There is no committed offset, and auto.offset.reset=none forbids to choose one."""

    advice = "commit or seek first, or set auto.offset.reset"


class IllegalState(KafkaError):
    """The consumer is not in a state for this: what would have to come first is in the message."""


class BrokerError(KafkaError):
    """A broker could not do it; the code says why."""


class InvalidRequest(BrokerError):
    """A broker does not accept the request as it is."""


class InvalidConfig(InvalidRequest):
    """A setting of a topic or broker that it does not have, or a value it does not take."""


class InvalidTopic(InvalidRequest):
    """A topic cannot have this name, or may not be used so."""

    advice = "use up to 249 letters, digits, dots, underscores and hyphens"


class InvalidPartitions(InvalidRequest):
    """A number of partitions, or an assignment of replicas, that cannot be."""


class InvalidReplicationFactor(InvalidRequest):
    """More replicas than brokers, or none."""


class PolicyViolation(InvalidRequest):
    """The cluster's policy forbids it."""


class TopicAlreadyExists(BrokerError):
    """There is a topic of that name."""


class UnknownTopicOrPartition(BrokerError):
    """There is no such topic, or no such partition of it."""

    advice = "check the name, or create the topic"


class NotLeader(BrokerError):
    """No broker leads the partition at the moment, or another than the one asked."""


class NotEnoughReplicas(BrokerError):
    """Fewer replicas are in sync than min.insync.replicas asks for."""


class StorageError(BrokerError):
    """The disk of the partition's leader fails."""


class RecordTooLarge(BrokerError, ValueError):
    """A record or batch larger than the topic, the broker or this client accepts."""

    default_code = ErrorCode.MESSAGE_TOO_LARGE
    advice = "raise the topic's max.message.bytes and the producer's max.request.size, or send less"


class InvalidRecord(BrokerError, ValueError):
    """A record that the broker does not take: damaged, badly timed, or without a needed key."""


class OffsetOutOfRange(BrokerError):
    """The offset is before the log's start or behind its end. `offsets` are those asked for."""

    default_code = ErrorCode.OFFSET_OUT_OF_RANGE
    offsets: Mapping[TopicPartition, int] = MappingProxyType({})


class LogTruncated(OffsetOutOfRange):
    """What was read is no longer in the log: its leader was replaced by one that did not have it.
    `offsets` are the first that differ; -1 where that is not known."""


class AuthenticationError(BrokerError):
    """The broker does not know who this is."""

    fatal = True


class AuthorizationError(BrokerError):
    """The broker does not let this user do it."""

    advice = "ask for the right, or check which user this client is"


class TopicAuthorizationError(AuthorizationError):
    """Not allowed for this topic."""


class GroupAuthorizationError(AuthorizationError):
    """Not allowed for this group."""


class ClusterAuthorizationError(AuthorizationError):
    """Not allowed for the cluster."""


class TransactionalIdAuthorizationError(AuthorizationError):
    """Not allowed for this transactional id."""


class ProducerFenced(BrokerError):
    """A newer producer has taken this one's place."""

    fatal = True


class OutOfOrderSequence(BrokerError):
    """The broker misses records of this producer that were sent before."""


class GroupError(BrokerError):
    """Something about a consumer group."""


class CoordinatorNotAvailable(GroupError):
    """The group's coordinator is moving, loading or gone."""


class GroupNotFound(GroupError):
    """There is no such group."""


class GroupNotEmpty(GroupError):
    """The group has members, or still subscribes to the topic."""

    advice = "stop the members of the group first"


class InvalidGroupId(GroupError):
    """A group cannot have this id, or needs one."""


class UnknownMember(GroupError):
    """The coordinator does not know this member (any more)."""


class IllegalGeneration(GroupError):
    """The group has had a rebalance since."""


class RebalanceInProgress(GroupError):
    """The group is being rebalanced."""


class InconsistentGroupProtocol(GroupError):
    """The members of the group have no assignor in common."""

    fatal = True
    advice = "give all members a partition.assignment.strategy in common"


class FencedInstance(GroupError):
    """Another member with this group.instance.id has taken this one's place."""

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
    ErrorCode.UNKNOWN_TOPIC_ID: UnknownTopicOrPartition,
    ErrorCode.INCONSISTENT_CLUSTER_ID: WrongCluster,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: UnsupportedVersion,
}
"""Codes with a kind of their own; all others are `BrokerError`s."""
ADVICE_BY_CODE: dict[ErrorCode, str] = {
    ErrorCode.INVALID_SESSION_TIMEOUT: "give a session.timeout.ms between the broker's "
    "group.min.session.timeout.ms and group.max.session.timeout.ms",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "close another member of the group, or raise the broker's "
    "group.max.size",
}
"""What to do about codes that share their kind with others."""


def error_for(code: int, what: str, broker_text: str | None = None) -> KafkaError:
    """The error for a code of the wire. `what` was wanted, of whom; `broker_text` is the broker's text."""
    known = error_code(code)
    kind = KINDS.get(known, BrokerError)
    text = f"{what}: {known.name}: {broker_text or known.text}"
    if known != code:
        text += f" (code {code})"
    advice = ADVICE_BY_CODE.get(known, kind.advice)
    if advice:
        text = f"{text.rstrip('.')}. What to do: {advice}."
    return kind(text, known)
