"""The error codes of Kafka 4.4.

There are three kinds of errors. *Answers* are these codes, returned in responses. *Peer violations*
are `ProtocolError`s: the connection of a peer that breaks the protocol is closed, with one log
line. *Bugs* are assertions.

Each row of `ErrorCode` is `NAME = code, kind, text`. The kind says what a client does:

    FATAL    it raises an error
    RETRY    it sends the request again
    REFRESH  it requests metadata first, because a leader or topic may have moved

Names and codes are those of the protocol. The texts are Odradek's own.
"""

from __future__ import annotations

from enum import IntEnum


class ProtocolError(Exception):
    """The peer broke the protocol: its connection is closed, with one log line (limited by kind:
    see `network.violation_log`).
    """


class UnservedRequest(ProtocolError):
    """A request for an API, or a version of it, that is not served."""


FATAL, RETRY, REFRESH = "fatal", "retry", "refresh"


class ErrorCode(IntEnum):
    """An error code as an integer, with its properties as attributes."""

    retriable: bool
    refresh_metadata: bool
    text: str

    def __new__(cls, code: int, kind: str = FATAL, text: str = "") -> ErrorCode:
        self = int.__new__(cls, code)
        self._value_ = code
        self.retriable = kind != FATAL
        self.refresh_metadata = kind == REFRESH
        self.text = text
        return self

    UNKNOWN_SERVER_ERROR = -1, FATAL, "The server met an unexpected error."
    NONE = 0, FATAL, "No error."
    OFFSET_OUT_OF_RANGE = 1, FATAL, "The offset is outside the range this log holds."
    CORRUPT_MESSAGE = (
        2,
        RETRY,
        "The batch fails its checksum, has a bad size, or lacks a key on a compacted topic.",
    )
    UNKNOWN_TOPIC_OR_PARTITION = 3, REFRESH, "This server does not host this topic-partition."
    INVALID_FETCH_SIZE = 4, FATAL, "The fetch size is invalid."
    LEADER_NOT_AVAILABLE = 5, REFRESH, "This partition has no leader at the moment."
    NOT_LEADER_OR_FOLLOWER = (
        6,
        REFRESH,
        "This broker is not the leader, or not a replica, of this partition.",
    )
    REQUEST_TIMED_OUT = 7, RETRY, "The request timed out."
    BROKER_NOT_AVAILABLE = 8, FATAL, "The broker is not available."
    REPLICA_NOT_AVAILABLE = 9, REFRESH, "The replica of this topic-partition is not available."
    MESSAGE_TOO_LARGE = 10, FATAL, "A batch is larger than this topic accepts."
    STALE_CONTROLLER_EPOCH = 11, FATAL, "The controller moved to another broker."
    OFFSET_METADATA_TOO_LARGE = 12, FATAL, "The metadata committed with the offset is too large."
    NETWORK_EXCEPTION = 13, REFRESH, "The server disconnected before it answered."
    COORDINATOR_LOAD_IN_PROGRESS = 14, RETRY, "The coordinator is loading and cannot serve yet."
    COORDINATOR_NOT_AVAILABLE = 15, RETRY, "The coordinator is not available."
    NOT_COORDINATOR = 16, RETRY, "This broker is not the coordinator."
    INVALID_TOPIC_EXCEPTION = 17, FATAL, "The topic name is not allowed here."
    RECORD_LIST_TOO_LARGE = 18, FATAL, "The batches are larger than a segment."
    NOT_ENOUGH_REPLICAS = 19, RETRY, "Fewer replicas are in sync than min.insync.replicas asks for."
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        RETRY,
        "Written, but to fewer in-sync replicas than asked for.",
    )
    INVALID_REQUIRED_ACKS = 21, FATAL, "The number of acks must be 0, 1 or -1."
    ILLEGAL_GENERATION = 22, FATAL, "The group's generation is another one."
    INCONSISTENT_GROUP_PROTOCOL = (
        23,
        FATAL,
        "The member's protocols do not match those of the group.",
    )
    INVALID_GROUP_ID = 24, FATAL, "The group id is invalid."
    UNKNOWN_MEMBER_ID = 25, FATAL, "The coordinator does not know this member."
    INVALID_SESSION_TIMEOUT = (
        26,
        FATAL,
        "The session timeout is outside the range this broker allows.",
    )
    REBALANCE_IN_PROGRESS = 27, FATAL, "The group is rebalancing: join again."
    INVALID_COMMIT_OFFSET_SIZE = 28, FATAL, "The size of the committed offset is invalid."
    TOPIC_AUTHORIZATION_FAILED = 29, FATAL, "Not authorized for this topic."
    GROUP_AUTHORIZATION_FAILED = 30, FATAL, "Not authorized for this group."
    CLUSTER_AUTHORIZATION_FAILED = 31, FATAL, "Not authorized for this cluster."
    INVALID_TIMESTAMP = 32, FATAL, "The timestamp of a record is out of the acceptable range."
    UNSUPPORTED_SASL_MECHANISM = 33, FATAL, "The broker does not support this SASL mechanism."
    ILLEGAL_SASL_STATE = 34, FATAL, "This request is not valid in this state of authentication."
    UNSUPPORTED_VERSION = 35, FATAL, "This version of the API is not supported."
    TOPIC_ALREADY_EXISTS = 36, FATAL, "A topic with this name exists already."
    INVALID_PARTITIONS = 37, FATAL, "The number of partitions is invalid."
    INVALID_REPLICATION_FACTOR = (
        38,
        FATAL,
        "The replication factor is below 1 or above the number of brokers.",
    )
    INVALID_REPLICA_ASSIGNMENT = 39, FATAL, "The replica assignment is invalid."
    INVALID_CONFIG = 40, FATAL, "The configuration is invalid."
    NOT_CONTROLLER = 41, RETRY, "This broker is not the controller."
    INVALID_REQUEST = 42, FATAL, "The request is malformed or does not fit this broker."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, FATAL, "The message format does not support this request."
    POLICY_VIOLATION = 44, FATAL, "The request does not satisfy the configured policy."
    OUT_OF_ORDER_SEQUENCE_NUMBER = (
        45,
        FATAL,
        "The batch's sequence number does not follow the last one.",
    )
    DUPLICATE_SEQUENCE_NUMBER = 46, FATAL, "The batch's sequence number was seen before."
    INVALID_PRODUCER_EPOCH = 47, FATAL, "The producer's epoch is an old one."
    INVALID_TXN_STATE = 48, FATAL, "The transaction's state does not allow this operation."
    INVALID_PRODUCER_ID_MAPPING = (
        49,
        FATAL,
        "The producer id is not the one of this transactional id.",
    )
    INVALID_TRANSACTION_TIMEOUT = (
        50,
        FATAL,
        "The transaction timeout is above transaction.max.timeout.ms.",
    )
    CONCURRENT_TRANSACTIONS = 51, RETRY, "Another operation on this transaction is under way."
    TRANSACTION_COORDINATOR_FENCED = (
        52,
        FATAL,
        "The sender is no longer this producer's transaction coordinator.",
    )
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, FATAL, "Not authorized for this transactional id."
    SECURITY_DISABLED = 54, FATAL, "Security features are disabled."
    OPERATION_NOT_ATTEMPTED = (
        55,
        FATAL,
        "Not attempted, because another operation of the request failed.",
    )
    KAFKA_STORAGE_ERROR = 56, REFRESH, "The log's disk failed."
    LOG_DIR_NOT_FOUND = 57, FATAL, "The broker has no such log directory."
    SASL_AUTHENTICATION_FAILED = 58, FATAL, "SASL authentication failed."
    UNKNOWN_PRODUCER_ID = 59, FATAL, "The broker has no state of this producer id."
    REASSIGNMENT_IN_PROGRESS = 60, FATAL, "A reassignment of partitions is in progress."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, FATAL, "Delegation tokens are not enabled."
    DELEGATION_TOKEN_NOT_FOUND = 62, FATAL, "The server has no such delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = (
        63,
        FATAL,
        "The principal is not owner or renewer of the token.",
    )
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (
        64,
        FATAL,
        "Token requests are not allowed on this channel.",
    )
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, FATAL, "Not authorized for this delegation token."
    DELEGATION_TOKEN_EXPIRED = 66, FATAL, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, FATAL, "This type of principal is not supported."
    NON_EMPTY_GROUP = 68, FATAL, "The group is not empty."
    GROUP_ID_NOT_FOUND = 69, FATAL, "There is no such group."
    FETCH_SESSION_ID_NOT_FOUND = 70, RETRY, "There is no such fetch session."
    INVALID_FETCH_SESSION_EPOCH = 71, RETRY, "The fetch session's epoch is another one."
    LISTENER_NOT_FOUND = (
        72,
        REFRESH,
        "The leader has no listener of the name the request came in on.",
    )
    TOPIC_DELETION_DISABLED = 73, FATAL, "Deleting topics is disabled."
    FENCED_LEADER_EPOCH = 74, REFRESH, "The request's leader epoch is older than the broker's."
    UNKNOWN_LEADER_EPOCH = 75, RETRY, "The request's leader epoch is newer than the broker's."
    UNSUPPORTED_COMPRESSION_TYPE = (
        76,
        FATAL,
        "The requesting client does not know this compression.",
    )
    STALE_BROKER_EPOCH = 77, FATAL, "The broker's epoch has changed."
    OFFSET_NOT_AVAILABLE = (
        78,
        RETRY,
        "The leader's high watermark has not caught up after an election.",
    )
    MEMBER_ID_REQUIRED = 79, FATAL, "Join again with the member id given here."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, REFRESH, "The preferred leader is not available."
    GROUP_MAX_SIZE_REACHED = 81, FATAL, "The group has as many members as are allowed."
    FENCED_INSTANCE_ID = 82, FATAL, "Another member has taken over this group.instance.id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, REFRESH, "No replica that may lead is available."
    ELECTION_NOT_NEEDED = 84, REFRESH, "This partition needs no election."
    NO_REASSIGNMENT_IN_PROGRESS = 85, FATAL, "No reassignment of this partition is in progress."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, FATAL, "The group still subscribes to this topic."
    INVALID_RECORD = 87, FATAL, "A record fails the broker's checks."
    UNSTABLE_OFFSET_COMMIT = 88, RETRY, "There are offsets of open transactions."
    THROTTLING_QUOTA_EXCEEDED = 89, RETRY, "The quota is exceeded."
    PRODUCER_FENCED = 90, FATAL, "A newer producer with this transactional id has taken over."
    RESOURCE_NOT_FOUND = 91, FATAL, "There is no such resource."
    DUPLICATE_RESOURCE = 92, FATAL, "The request names the same resource twice."
    UNACCEPTABLE_CREDENTIAL = 93, FATAL, "The credential does not meet the criteria."
    INCONSISTENT_VOTER_SET = 94, FATAL, "Sender or receiver is not one of the expected voters."
    INVALID_UPDATE_VERSION = 95, FATAL, "The version of the update is invalid."
    FEATURE_UPDATE_FAILED = 96, FATAL, "The finalized features could not be updated."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, FATAL, "The forwarded principal cannot be read."
    SNAPSHOT_NOT_FOUND = 98, FATAL, "There is no such snapshot."
    POSITION_OUT_OF_RANGE = 99, FATAL, "The position is outside the snapshot."
    UNKNOWN_TOPIC_ID = 100, REFRESH, "This server does not host this topic id."
    DUPLICATE_BROKER_REGISTRATION = 101, FATAL, "This broker id is in use."
    BROKER_ID_NOT_REGISTERED = 102, FATAL, "This broker id is not registered."
    INCONSISTENT_TOPIC_ID = 103, REFRESH, "The log's topic id is not the one of the request."
    INCONSISTENT_CLUSTER_ID = (
        104,
        FATAL,
        "The server belongs to another cluster than the request names.",
    )
    TRANSACTIONAL_ID_NOT_FOUND = 105, FATAL, "There is no such transactional id."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, RETRY, "The fetch session mixes topic ids and topic names."
    INELIGIBLE_REPLICA = 107, FATAL, "The new ISR has a replica that is not eligible."
    NEW_LEADER_ELECTED = 108, FATAL, "The partition was changed, and its leader with it."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, FATAL, "The offset has moved to tiered storage."
    FENCED_MEMBER_EPOCH = (
        110,
        FATAL,
        "The member's epoch is fenced: give up all partitions and join again.",
    )
    UNRELEASED_INSTANCE_ID = 111, FATAL, "The instance id is still used by another member."
    UNSUPPORTED_ASSIGNOR = 112, FATAL, "The group does not support this assignor."
    STALE_MEMBER_EPOCH = 113, FATAL, "The member's epoch is old: retry after the next heartbeat."
    MISMATCHED_ENDPOINT_TYPE = 114, FATAL, "The request went to the wrong type of endpoint."
    UNSUPPORTED_ENDPOINT_TYPE = 115, FATAL, "This type of endpoint is not supported yet."
    UNKNOWN_CONTROLLER_ID = 116, FATAL, "This controller id is not known."
    UNKNOWN_SUBSCRIPTION_ID = 117, FATAL, "The telemetry subscription is unknown or old."
    TELEMETRY_TOO_LARGE = 118, FATAL, "The telemetry is larger than this broker accepts."
    INVALID_REGISTRATION = 119, FATAL, "The controller finds the registration invalid."
    TRANSACTION_ABORTABLE = 120, FATAL, "The transaction failed; abort it to go on."
    INVALID_RECORD_STATE = 121, FATAL, "The record's state does not allow this acknowledgement."
    SHARE_SESSION_NOT_FOUND = 122, RETRY, "There is no such share session."
    INVALID_SHARE_SESSION_EPOCH = 123, RETRY, "The share session's epoch is another one."
    FENCED_STATE_EPOCH = 124, FATAL, "The state epoch is another one."
    INVALID_VOTER_KEY = 125, FATAL, "The voter key is not the receiving replica's."
    DUPLICATE_VOTER = 126, FATAL, "This replica is a voter already."
    VOTER_NOT_FOUND = 127, FATAL, "This replica is not a voter."
    INVALID_REGULAR_EXPRESSION = 128, FATAL, "The regular expression is not valid."
    REBOOTSTRAP_REQUIRED = (
        129,
        FATAL,
        "The client's metadata is stale: start from the bootstrap servers.",
    )
    STREAMS_INVALID_TOPOLOGY = 130, FATAL, "The topology is invalid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, FATAL, "The topology epoch is invalid."
    STREAMS_TOPOLOGY_FENCED = 132, FATAL, "The topology epoch is outdated."
    SHARE_SESSION_LIMIT_REACHED = 133, RETRY, "There are as many share sessions as are allowed."
    GROUP_DELETION_FAILED = 134, FATAL, "The group could not be deleted; see its error message."
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = (
        135,
        FATAL,
        "The topology description was not taken.",
    )
    CONTROLLER_ID_NOT_REGISTERED = 136, FATAL, "This controller id is not registered."


def error_code(value: int) -> ErrorCode:
    """The error code of a number; UNKNOWN_SERVER_ERROR if it is not in the table."""
    try:
        return ErrorCode(value)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
