"""BrokerHeartbeat (key 63, versions 0 to 2): a broker keeps its session with the controller.

- 1: failed directories (KIP-858). 2: directories that get no new partitions (KIP-1066).
"""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import field, i16, i32, i64, message


@message(api=63, versions=(0, 2), flexible=0)
class BrokerHeartbeatRequest:
    """How far a broker has replayed the metadata, and the state that it wants."""

    broker_id: i32
    broker_epoch: i64 = -1
    current_metadata_offset: i64
    want_fence: bool
    want_shut_down: bool
    offline_log_dirs: list[UUID] = field(factory=list, tag=0, since=1)
    cordoned_log_dirs: list[UUID] | None = field(default=None, tag=1, since=2)


@message(api=63, versions=(0, 2), flexible=0)
class BrokerHeartbeatResponse:
    """The state that the broker has now."""

    throttle_time_ms: i32 = 0
    error_code: i16
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool
    metadata_end: i64 = field(
        default=-1,
        tag=100,
        ignorable=True,
        doc="Odradek's own: the end of the metadata that is decided. A broker whose session had "
        "ended serves its partitions again when it has applied all before it; -1: at once.",
    )
