"""What administrative calls give: plain values, each for itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import NamedTuple
from uuid import UUID

from odradek.client.metadata.cluster_image import Node
from odradek.model.topics import TopicPartition


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition of a topic: who leads it, who has it, who is in sync."""

    partition: int
    leader: int
    """-1 while there is none."""
    replicas: tuple[int, ...]
    """The ids of the brokers that have it, the preferred leader first."""
    isr: tuple[int, ...]
    """Those of them that are in sync."""
    offline: tuple[int, ...] = ()
    """Those of them that cannot serve it now."""
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic as the cluster describes it."""

    name: str
    topic_id: UUID
    internal: bool
    """Whether it is the cluster's own."""
    partitions: tuple[Partition, ...]

    @property
    def replication(self) -> int:
        """How many replicas its first partition has."""
        return len(self.partitions[0].replicas) if self.partitions else 0


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be created. -1: as the broker's own settings say."""

    name: str
    partitions: int = -1
    replication: int = -1
    config: Mapping[str, str] = field(default_factory=dict)
    """Its settings, by Kafka's names."""
    assignments: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Brokers by partition; instead of `partitions` and `replication`."""


class ResourceType(IntEnum):
    """What has settings."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Source(Enum):
    """Where a setting's value comes from."""

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
        """Of the wire's number; newer ones than these are unknown."""
        return cls(code) if code in range(1, 9) else cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting of a resource. `value` is None where it is null, or secret."""

    name: str
    value: str | None
    source: Source
    read_only: bool
    sensitive: bool
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        """Whether it was not set while the cluster ran."""
        return self.source in (Source.DEFAULT, Source.STATIC_BROKER)


@dataclass(frozen=True, slots=True)
class Group:
    """One group in a list."""

    group_id: str
    state: str
    """As the broker says it: `Stable`, `Empty` …; empty if it is too old to say."""
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
    """Sorted; empty for groups that are not of consumers."""


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """One group with its members."""

    group_id: str
    state: str
    protocol_type: str
    """What its members speak with each other: `consumer`, for those that share partitions."""
    assignor: str
    """The strategy by which they share them; empty where none is chosen."""
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a group is in one partition."""

    committed: int | None
    """None where nothing was committed."""
    start: int | None
    """The log start offset; None where the partition is deleted."""
    end: int | None
    """The high watermark; None where the partition is deleted."""

    @property
    def lag(self) -> int | None:
        """Records that were not read, as far as that can be said; None where the partition is
        deleted.
        """
        if self.start is None or self.end is None:
            return None
        return max(0, self.end - (self.start if self.committed is None else self.committed))


class Move(NamedTuple):
    """Where a group goes in one partition; `before` None where nothing was committed."""

    before: int | None
    after: int


@dataclass(frozen=True, slots=True, eq=False)
class SeekPlan(Mapping[TopicPartition, Move]):
    """Where a group goes, by partition, or would go: with `dry_run` nothing was changed."""

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
    """One data directory of a broker. Sizes in bytes; -1 where the broker does not tell."""

    path: str
    total_bytes: int
    usable_bytes: int
    replicas: Mapping[TopicPartition, int]
    """Sizes of the logs in it."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster as one broker sees it."""

    cluster_id: str
    controller_id: int
    nodes: tuple[Node, ...]
