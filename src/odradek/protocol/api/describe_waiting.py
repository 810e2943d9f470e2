"""DescribeWaiting (key 20000, version 0): what waits in a broker. Odradek's own.

The lists that can be long come in pages: a request says how many rows of each it wants, and a
response has the totals. Times are in milliseconds.
"""

from __future__ import annotations

from odradek.protocol.schema import field, i16, i32, i64, message, struct


@message(api=20_000, versions=(0, 0), flexible=0)
class DescribeWaitingRequest:
    """Requests what waits; a limit of 0 leaves out that list."""

    kinds: list[str] = field(
        factory=list, doc="Only operations of these requests, by API name; empty: all."
    )
    operations_offset: i32 = field(default=0, doc="How many operations to pass over.")
    operations_limit: i32 = 0
    transitions_before: i64 = field(
        default=-1, doc="Only transitions with a lower number than this; -1: the newest."
    )
    transitions_limit: i32 = 0
    topics: list[str] | None = field(
        default=None, doc="Only segments and durable ends of these topics; null: all."
    )
    segments_offset: i32 = 0
    segments_limit: i32 = 0
    durable_ends_offset: i32 = 0
    durable_ends_limit: i32 = 0


@struct
class WaitingOperation:
    """A request that waits."""

    kind: str = field(doc="The name of its API.")
    client_id: str | None
    host: str
    port: i32
    keys: list[str] = field(doc="What it waits for: partitions, a group; some of them if many.")
    key_count: i32
    waited_ms: i64
    left_ms: i64 = field(doc="-1: it has no deadline of its own.")


@struct
class KindCount:
    """A number of things of one kind."""

    kind: str
    count: i32


@struct
class WheelBucket:
    """A bucket that holds timers."""

    expires_in_ms: i64
    count: i32


@struct
class WheelLevel:
    """One level of the timing wheel with its buckets that are not empty, the earliest first."""

    tick_ms: i64
    size: i32
    buckets: list[WheelBucket]


@struct
class GroupTransition:
    """A change of state of a group."""

    number: i64
    time_ms: i64 = field(doc="Since the epoch.")
    group_id: str
    from_state: str
    to_state: str
    generation: i32
    members: i32
    pending_members: i32 = field(doc="Ids that were given out and not joined with.")
    reason: str


@struct
class SegmentOfLog:
    """A segment of a log."""

    topic: str
    partition: i32
    base_offset: i64
    size: i64 = field(doc="Bytes of its `.log` file.")
    active: bool


@struct
class PartitionEnds:
    """The offsets of a partition up to which its log is what."""

    topic: str
    partition: i32
    segments: i32
    log_start: i64
    durable_end: i64 = field(doc="The records before it are on disk.")
    recovery_point: i64
    high_watermark: i64
    log_end: i64
    error_code: i16 = field(doc="Why the partition is offline; its offsets are -1 then.")


@message(api=20_000, versions=(0, 0), flexible=0)
class DescribeWaitingResponse:
    """What waits in the broker, as it was while the broker looked."""

    throttle_time_ms: i32 = 0
    error_code: i16
    error_message: str | None = None
    operations_total: i32 = field(default=0, doc="Of the requested kinds.")
    operations: list[WaitingOperation] = field(factory=list)
    waiting: list[KindCount] = field(factory=list, doc="All operations that wait, by kind.")
    levels: list[WheelLevel] = field(factory=list, doc="The lowest first.")
    timers: list[KindCount] = field(factory=list)
    transitions_total: i64 = field(default=0, doc="Since the broker started.")
    transitions: list[GroupTransition] = field(factory=list, doc="The newest first.")
    segments_total: i32 = 0
    segments: list[SegmentOfLog] = field(factory=list)
    durable_ends_total: i32 = 0
    durable_ends: list[PartitionEnds] = field(factory=list)
