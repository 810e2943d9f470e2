"""The settings of a producer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from odradek.config.client import ClientConfig, ClientSettings
from odradek.config.client_names import ALIASES, normalised
from odradek.config.setting import (
    INT_MAX,
    MIB,
    ConfigError,
    at_least,
    between,
    between_or,
    boolean,
    choice,
    integer,
    long,
    refused,
)

MAX_IDEMPOTENT_IN_FLIGHT = 5
ELSEWHERE = dict.fromkeys(
    ("consistent", "consistent_random", "fnv1a", "fnv1a_random", "murmur2", "random"),
    "this producer chooses as Kafka's own does: leave it at murmur2_random, or give the "
    "constructor a function",
)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class BatchingSettings(ClientSettings):
    """Gathering records into batches."""

    batch_size = integer(
        "batch.size",
        16_384,
        at_least(0),
        doc="Bytes of records, as they will be sent but for compression, at which a batch is full.",
    )
    linger_ms = long(
        "linger.ms",
        5,
        at_least(0),
        doc="How long a batch waits for more records before it is sent, if it is not full.",
    )
    buffer_memory = long(
        "buffer.memory",
        32 * MIB,
        at_least(0),
        doc="Bytes of records that may wait to be sent. When they are all used, sending blocks.",
    )
    max_block_ms = long(
        "max.block.ms",
        60_000,
        at_least(0),
        doc="How long sending may block, for memory and for metadata of the topic together.",
    )
    max_request_size = integer(
        "max.request.size",
        MIB,
        at_least(0),
        doc="The most bytes of a request, and so of a record before compression.",
    )
    compression_type = choice(
        "compression.type",
        "none",
        CODECS,
        keyword='Literal["none", "gzip", "snappy", "lz4", "zstd"] | None',
        doc="How batches are compressed.",
    )
    compression_gzip_level = integer(
        "compression.gzip.level", -1, between_or(1, 9, -1), doc="gzip's level; -1: its own default."
    )
    compression_lz4_level = integer("compression.lz4.level", 9, between(1, 17), doc="lz4's level.")
    compression_zstd_level = integer(
        "compression.zstd.level", 3, between(-131_072, 22), doc="zstd's level."
    )


class DeliverySettings(ClientSettings):
    """What has to happen until a record counts as sent."""

    acks = choice(
        "acks",
        "all",
        ("all", "1", "0"),
        keyword='Literal["all", "1", "0"] | int',
        doc="Who has to have a record before it is acknowledged: all replicas in sync, its leader, "
        "or nobody.",
    )
    enable_idempotence = boolean(
        "enable.idempotence",
        True,
        doc="Write every record once and in order, however often it has to be sent. Needs "
        "acks=all, retries, and max.in.flight.requests.per.connection up to 5; it is off by itself "
        "where these are set otherwise.",
    )
    retries = integer(
        "retries",
        INT_MAX,
        between(0, INT_MAX),
        doc="How often a batch is sent again after an error that may pass. delivery.timeout.ms is "
        "the better limit.",
    )
    max_in_flight_requests_per_connection = integer(
        "max.in.flight.requests.per.connection",
        MAX_IDEMPOTENT_IN_FLIGHT,
        at_least(1),
        doc="Requests that may be under way to one broker. Above 1 and without idempotence, a "
        "batch that has to be sent again may come after the next one.",
    )
    delivery_timeout_ms = integer(
        "delivery.timeout.ms",
        120_000,
        at_least(0),
        doc="How long a record may take from being sent to being acknowledged, everything "
        "included. At least linger.ms and request.timeout.ms together.",
    )


class PartitioningSettings(ClientSettings):
    """Choosing partitions for records that name none."""

    partitioner = choice(
        "partitioner",
        "murmur2_random",
        ("murmur2_random", *ELSEWHERE),
        refused(ELSEWHERE),
        keyword='Literal["murmur2_random"] | PartitionerLike',
        doc="How keys choose partitions, by librdkafka's names: as Kafka's Java client does it, so "
        "that all producers agree. The constructor also takes a function of one's own.",
        ours=True,
    )
    partitioner_ignore_keys = boolean(
        "partitioner.ignore.keys",
        False,
        doc="Choose for records with a key as for those without: no longer by the key.",
    )
    partitioner_adaptive_partitioning_enable = boolean(
        "partitioner.adaptive.partitioning.enable",
        True,
        doc="Give brokers that are slow to take batches fewer records without a key.",
    )
    partitioner_availability_timeout_ms = long(
        "partitioner.availability.timeout.ms",
        0,
        at_least(0),
        doc="Give partitions of a broker that has taken nothing for so long no records without a "
        "key; 0: never mind.",
    )
    metadata_max_idle_ms = long(
        "metadata.max.idle.ms",
        300_000,
        at_least(5000),
        doc="A topic that nothing was sent to for so long is no longer kept track of.",
    )


class ProducerConfig(ClientConfig, BatchingSettings, DeliverySettings, PartitioningSettings):
    """All settings of a producer, with values: a snapshot."""

    kind = "producer"
    arguments: ClassVar[tuple[str, ...]] = (
        "brokers",
        "key",
        "value",
        "key_serializer",
        "value_serializer",
        "on_full",
    )

    @classmethod
    def load(cls, given: Mapping[str, Any], where: str = "") -> Self:
        return super().load(with_level_by_codec(given), where)

    def check(self) -> None:
        if self.enable_idempotence and self.is_given("enable.idempotence"):
            self._check_idempotence()
        least_ms = self.linger_ms + self.request_timeout_ms
        if self.is_given("delivery.timeout.ms") and self.delivery_timeout_ms < least_ms:
            raise ConfigError(
                f"delivery.timeout.ms ({self.delivery_timeout_ms}) is less than linger.ms plus "
                f"request.timeout.ms ({least_ms}): raise it, or lower those"
            )

    def _check_idempotence(self) -> None:
        problem = self.against_idempotence()
        if problem is not None:
            raise ConfigError(f"enable.idempotence is true, and {problem}")

    def against_idempotence(self) -> str | None:
        """What of the other settings rules idempotence out."""
        if self.acks != "all":
            return f"acks is {self.acks}: it has to be all"
        if self.retries == 0:
            return "retries is 0: it has to be at least 1"
        in_flight = self.max_in_flight_requests_per_connection
        if in_flight > MAX_IDEMPOTENT_IN_FLIGHT:
            return (
                f"max.in.flight.requests.per.connection is {in_flight}: it has to be at most "
                f"{MAX_IDEMPOTENT_IN_FLIGHT}"
            )
        return None

    @property
    def idempotent(self) -> bool:
        """Whether the producer is: as asked for, and, unless asked for, as the rest allows."""
        return self.enable_idempotence and self.against_idempotence() is None

    @property
    def delivery_limit_ms(self) -> int:
        """`delivery.timeout.ms`, or what linger and request take if its default is less."""
        return max(self.delivery_timeout_ms, self.linger_ms + self.request_timeout_ms)

    @property
    def required_acks(self) -> int:
        """`acks` as the protocol has it."""
        return -1 if self.acks == "all" else int(self.acks)

    @property
    def compression_level(self) -> int | None:
        """The level of the codec that is set; None for the codec's own default."""
        levels = {
            "gzip": None if self.compression_gzip_level == -1 else self.compression_gzip_level,
            "lz4": self.compression_lz4_level if self.is_given("compression.lz4.level") else None,
            "zstd": self.compression_zstd_level
            if self.is_given("compression.zstd.level")
            else None,
        }
        return levels.get(self.compression_type)


def with_level_by_codec(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """librdkafka's `compression.level` as that of the codec that is set, which has its own here."""
    by_name = {normalised(name): name for name in given}
    if "compression.level" not in by_name:
        return given
    level = given[by_name["compression.level"]]
    rest = {name: value for name, value in given.items() if name != by_name["compression.level"]}
    for name in (
        "compression.type",
        *(n for n, a in ALIASES.items() if a.name == "compression.type"),
    ):
        codec = str(given.get(by_name.get(name, ""), "")).lower()
        if f"compression.{codec}.level" in ProducerConfig.declared and str(level) != "-1":
            rest[f"compression.{codec}.level"] = level
    return rest
