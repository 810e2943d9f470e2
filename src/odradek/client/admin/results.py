"""The values that administrative calls return."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import NamedTuple
from uuid import UUID

from odradek.client.errors import KafkaError
from odradek.model.node import Node
from odradek.model.topics import TopicPartition

SILENT_MS = 10_000
"""A node that fetches nothing for so long does not run."""


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition of a topic: its leader, its replicas, its in-sync replicas."""

    partition: int
    leader: int
    """The id of the leader; -1 while there is none."""
    replicas: tuple[int, ...]
    """The ids of the brokers with a replica, the preferred leader first."""
    isr: tuple[int, ...]
    """The replicas that are in sync."""
    offline: tuple[int, ...] = ()
    """The replicas that are offline."""
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic as the cluster describes it."""

    name: str
    topic_id: UUID
    internal: bool
    """True for topics of the cluster itself."""
    partitions: tuple[Partition, ...]

    @property
    def replication(self) -> int:
        """The number of replicas of the first partition."""
        return len(self.partitions[0].replicas) if self.partitions else 0


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. -1: the default of the broker."""

    name: str
    partitions: int = -1
    replication: int = -1
    config: Mapping[str, str] = field(default_factory=dict)
    """Its settings, by Kafka's names."""
    assignments: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Brokers by partition, instead of `partitions` and `replication`."""


@dataclass(frozen=True, slots=True)
class Reassignment:
    """One partition that is being moved to other brokers."""

    replicas: tuple[int, ...]
    """All brokers that have a replica now, or will have one."""
    adding: tuple[int, ...]
    """The brokers that copy it now."""
    removing: tuple[int, ...]
    """The brokers that remove it once the others have it."""


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """One node of the metadata quorum, as the leader sees it. Times are milliseconds since 1970 by
    the leader's clock, -1 if they are unknown; the leader's own are the present."""

    node_id: int
    directory_id: UUID
    log_end_offset: int
    """The end of its metadata log; -1 unknown."""
    last_fetch_ms: int
    last_caught_up_ms: int


@dataclass(frozen=True, slots=True)
class Quorum:
    """The metadata quorum."""

    leader: int
    epoch: int
    high_watermark: int
    """The offset of the metadata log up to which records are committed."""
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    """The nodes that follow the log and do not vote."""
    listeners: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """The addresses of the voters, `host:port` by the names of their listeners."""

    @property
    def now_ms(self) -> int:
        """The time of the leader's clock, which its own last fetch has; -1 if it tells no times."""
        everyone = (*self.voters, *self.observers)
        return max((each.last_fetch_ms for each in everyone), default=-1)

    def silent_voters(self, within_ms: int = SILENT_MS) -> frozenset[int]:
        """Return the voters that have fetched nothing for so long; for 10 s: they do not run."""
        return self._silent(self.voters, within_ms)

    def silent_observers(self, within_ms: int = SILENT_MS) -> frozenset[int]:
        """Return the observers that have fetched nothing for so long; see `silent_voters`."""
        return self._silent(self.observers, within_ms)

    def _silent(self, replicas: tuple[QuorumReplica, ...], within_ms: int) -> frozenset[int]:
        since_ms = self.now_ms - within_ms
        return frozenset(
            each.node_id
            for each in replicas
            if each.node_id != self.leader and each.last_fetch_ms < since_ms
        )


class ResourceType(IntEnum):
    """The kinds of resources with settings, by the protocol's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Source(Enum):
    """The source of a setting's value."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8

    @classmethod
    def of(cls, code: int) -> Source:
        """Return the source for a number of the protocol; UNKNOWN for newer ones."""
        return cls(code) if code in range(1, 9) else cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting of a resource. `value` is None if it is null or sensitive."""

    name: str
    value: str | None
    source: Source
    read_only: bool
    sensitive: bool
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        """True if it was not set dynamically."""
        return self.source in (Source.DEFAULT, Source.STATIC_BROKER)


@dataclass(frozen=True, slots=True)
class Group:
    """One group of a list."""

    group_id: str
    state: str
    """The state by the broker's name: `Stable`, `Empty` …; "" from brokers before Kafka 2.6."""
    type: str
    protocol_type: str


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a group."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    """Sorted; empty for groups that are not consumer groups."""
    assignment_error: str | None = None
    """Why the assignment cannot be decoded, and is empty here; None if it can."""


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """One group with its members."""

    group_id: str
    state: str
    protocol_type: str
    """The protocol type: `consumer` for consumer groups."""
    assignor: str
    """The assignment strategy; "" if none is chosen."""
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Lag:
    """The position of a group in one partition."""

    committed: int | None
    """The committed offset; None if there is none."""
    start: int | None
    """The log start offset; None if the partition is deleted."""
    end: int | None
    """The high watermark; None if the partition is deleted."""

    @property
    def lag(self) -> int | None:
        """The number of offsets from the committed one (or the log start) to the end; None if the
        partition is deleted."""
        if self.start is None or self.end is None:
            return None
        return max(0, self.end - (self.start if self.committed is None else self.committed))


class Move(NamedTuple):
    """The move of a group in one partition; `before` is None if nothing was committed."""

    before: int | None
    after: int


@dataclass(frozen=True, slots=True, eq=False)
class SeekPlan(Mapping[TopicPartition, Move]):
    """The moves of a group by partition. With `dry_run` nothing was changed."""

    group_id: str
    moves: Mapping[TopicPartition, Move]
    dry_run: bool

    def __getitem__(self, partition: TopicPartition) -> Move:
        return self.moves[partition]

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self.moves)

    def __len__(self) -> int:
        return len(self.moves)


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """One data directory of a broker. Sizes in bytes; -1 if the broker does not return them."""

    path: str
    total_bytes: int
    usable_bytes: int
    replicas: Mapping[TopicPartition, int]
    """The sizes of its logs in bytes."""
    is_cordoned: bool = False
    """True if it takes no new partitions (`cordoned.log.dirs`, KIP-1066)."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster as one broker sees it."""

    cluster_id: str
    controller_id: int
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class WaitingRequest:
    """A request that waits in a broker. Times in ms."""

    kind: str
    """The name of its API: `Produce`, `Fetch`, `JoinGroup` …"""
    client_id: str | None
    host: str
    port: int
    keys: tuple[str, ...]
    """What it waits for, as text: partitions (`orders-0`) or a group; the first ones if many."""
    key_count: int
    waited_ms: int
    left_ms: int | None
    """The time until its deadline; None if it has none of its own."""


@dataclass(frozen=True, slots=True)
class WheelLevel:
    """One level of a broker's timing wheel."""

    tick_ms: int
    size: int
    """The number of its buckets."""
    buckets: tuple[tuple[int, int], ...]
    """(time until it expires in ms, number of timers) of each bucket that holds timers."""

    @property
    def timers(self) -> int:
        """The number of timers on this level."""
        return sum(count for _, count in self.buckets)


@dataclass(frozen=True, slots=True)
class GroupTransition:
    """A change of state of a group; the counts of members are those after it."""

    number: int
    """Ascending from 0 since the broker started."""
    time_ms: int
    """Since the epoch."""
    group_id: str
    from_state: str
    to_state: str
    generation: int
    members: int
    pending_members: int
    """Ids that were given out and not joined with yet."""
    reason: str


@dataclass(frozen=True, slots=True)
class LogSegment:
    """A segment of a log. Size in bytes."""

    partition: TopicPartition
    base_offset: int
    size: int
    active: bool
    """True for the last one, which is appended to."""


@dataclass(frozen=True, slots=True)
class PartitionEnds:
    """The offsets of a partition; all -1 while it is offline."""

    partition: TopicPartition
    segments: int
    log_start: int
    durable_end: int
    """The records before it are on disk."""
    recovery_point: int
    """The records before it need no check after a crash."""
    high_watermark: int
    log_end: int
    error_code: int
    """Why it is offline; 0 if it is not."""


@dataclass(frozen=True, slots=True)
class WaitingReport:
    """What waits in one broker. Each list has the requested page; the totals count all."""

    operations: tuple[WaitingRequest, ...]
    operations_total: int
    """The number of all requests of the requested kinds that wait."""
    by_kind: Mapping[str, int]
    """The number of all requests that wait, by kind."""
    levels: tuple[WheelLevel, ...]
    """The levels of the timing wheel, the lowest first."""
    timers: Mapping[str, int]
    """The number of timers by kind."""
    transitions: tuple[GroupTransition, ...]
    """The newest first."""
    transitions_total: int
    """The number of transitions since the broker started; it keeps the last 10,000."""
    segments: tuple[LogSegment, ...]
    segments_total: int
    """The number of all segments of the requested topics; 0 if none were requested."""
    durable_ends: tuple[PartitionEnds, ...]
    durable_ends_total: int
    """The number of partitions of the requested topics; 0 if none were requested."""


@dataclass(frozen=True, slots=True)
class MetricHistogram:
    """The distribution of values of a broker's metric, in its unit."""

    count: int
    sum: float
    buckets: tuple[tuple[float, int], ...]
    """(upper bound, number of values up to it), ascending."""


@dataclass(frozen=True, slots=True)
class BrokerMetricSample:
    """A value of a broker's metric."""

    labels: Mapping[str, str]
    value: float | MetricHistogram


@dataclass(frozen=True, slots=True)
class BrokerMetric:
    """A metric of a broker with its values."""

    name: str
    kind: str
    """`counter`, `gauge`, `histogram` or `summary`; the last two have histograms as values."""
    unit: str
    help: str
    samples: tuple[BrokerMetricSample, ...]
    error: KafkaError | None = None
    """The reason why a broker does not have a metric that was asked for by name; the rest is empty
    then. Brokers of different versions have different metrics."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transactional id, as it is listed."""

    transactional_id: str
    producer_id: int
    state: str
    """Kafka's name: `Empty`, `Ongoing`, `PrepareCommit`, `PrepareAbort`, `CompleteCommit` …"""
    coordinator: int
    """The id of the broker that coordinates it."""


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id, as its coordinator describes it. Times are milliseconds since 1970."""

    transactional_id: str
    state: str
    producer_id: int
    epoch: int
    timeout_ms: int
    start_ms: int | None
    """When the open transaction began; None if none is open."""
    partitions: tuple[TopicPartition, ...]
    """The partitions of the open transaction; while it ends, those that do not know it yet."""
    coordinator: int
    """The id of the broker that coordinates it."""


@dataclass(frozen=True, slots=True)
class PartitionProducer:
    """A producer that a partition remembers. `last_timestamp` is in milliseconds since 1970."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    """The epoch of the coordinator of the last marker; -1 if none was written."""
    transaction_start_offset: int | None
    """The first offset of its open transaction; None if none is open."""


@dataclass(frozen=True, slots=True)
class OpenProducer:
    """A producer with an open transaction in a partition."""

    partition: TopicPartition
    producer: PartitionProducer
