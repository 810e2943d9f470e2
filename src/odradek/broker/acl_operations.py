"""Authorized operations: the bit sets of ACL operations in describe responses (KIP-430).

Without an authorizer everybody may do all operations that a kind of resource supports, and requests
about ACLs are refused with SECURITY_DISABLED.
"""

from __future__ import annotations

from enum import IntEnum

from odradek.model.errors import ProtocolError

NOT_REQUESTED = -(2**31)
"""The value when the client did not request the operations."""


class AclOperation(IntEnum):
    """ACL operations by Kafka's codes."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


def operation_bits(*operations: AclOperation) -> int:
    """The operations as a number with one bit for each."""
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS = operation_bits(
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
GROUP_OPERATIONS = operation_bits(
    AclOperation.READ,
    AclOperation.DELETE,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
CLUSTER_OPERATIONS = operation_bits(
    AclOperation.CREATE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.CLUSTER_ACTION,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
    AclOperation.IDEMPOTENT_WRITE,
)

NO_AUTHORIZER = "No Authorizer is configured."
UNKNOWN = 0


def check_known_codes(*codes: int) -> None:
    """Raise `ProtocolError` if one of the codes of an ACL is 0, which clients must not send."""
    if UNKNOWN in codes:
        raise ProtocolError("an ACL has the code 0, which stands for unknown")
