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

from odradek.client.errors.answers import (
    AuthenticationError,
    AuthorizationError,
    BrokerError,
    ClusterAuthorizationError,
    CoordinatorNotAvailable,
    FencedInstance,
    GroupAuthorizationError,
    GroupError,
    GroupNotEmpty,
    GroupNotFound,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidConfig,
    InvalidGroupId,
    InvalidPartitions,
    InvalidRecord,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    LogTruncated,
    NotEnoughReplicas,
    NotLeader,
    OffsetOutOfRange,
    OutOfOrderSequence,
    PolicyViolation,
    ProducerFenced,
    RebalanceInProgress,
    RecordTooLarge,
    StorageError,
    TopicAlreadyExists,
    TopicAuthorizationError,
    TransactionalIdAuthorizationError,
    UnknownMember,
    UnknownTopicOrPartition,
    error_for,
)
from odradek.client.errors.base import KafkaError
from odradek.client.errors.own import (
    ApiTimeout,
    BufferFull,
    ClientClosed,
    CommitFailed,
    DeadLetterFailed,
    DecodeError,
    DeliveryTimeout,
    Disconnected,
    IllegalState,
    KafkaTimeout,
    MaxBlockTimeout,
    NoOffsetForPartition,
    RequestTimeout,
    SerializationError,
    UnsupportedVersion,
    WrongCluster,
)
from odradek.config.setting import ConfigError

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
