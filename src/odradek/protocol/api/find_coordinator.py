"""FindCoordinator (key 10, versions 0 to 6): the broker that coordinates a group or a transaction.

- 1: `key_type`, throttle time, error messages. 3: flexible.
- 4: many keys in one request (KIP-699), in `coordinator_keys` and `coordinators`.
- 5: error TRANSACTION_ABORTABLE (KIP-890).
- 6: share groups (KIP-932): key type 2, keys of the form `group:topic id:partition`.

Key types: 0 group, 1 transaction, 2 share.
"""

from __future__ import annotations

from odradek.protocol.schema import field, i8, i16, i32, message, struct


@message(api=10, versions=(0, 6), flexible=3)
class FindCoordinatorRequest:
    """Requests the coordinators of keys."""

    key: str = field(default="", until=3)
    key_type: i8 = field(default=0, since=1, doc="0 group, 1 transaction, 2 share.")
    coordinator_keys: list[str] = field(factory=list, since=4)


@struct
class Coordinator:
    """The coordinator of one key."""

    key: str
    node_id: i32
    host: str
    port: i32
    error_code: i16
    error_message: str | None = None


@message(api=10, versions=(0, 6), flexible=3)
class FindCoordinatorResponse:
    """The coordinator: at the top level up to version 3, per key from 4."""

    throttle_time_ms: i32 = field(default=0, since=1, ignorable=True)
    error_code: i16 = field(default=0, until=3)
    error_message: str | None = field(default="", since=1, until=3, ignorable=True)
    node_id: i32 = field(default=0, until=3)
    host: str = field(default="", until=3)
    port: i32 = field(default=0, until=3)
    coordinators: list[Coordinator] = field(factory=list, since=4)
