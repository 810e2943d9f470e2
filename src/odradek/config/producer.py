"""The settings of a producer, and the rules between them."""

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
    optional_string,
    refused,
)

MAX_IDEMPOTENT_IN_FLIGHT = 5
OTHER_PARTITIONERS = dict.fromkeys(
    ("consistent", "consistent_random", "fnv1a", "fnv1a_random", "murmur2", "random"),
    "this producer chooses partitions as Kafka's Java client does: leave it at murmur2_random, or "
    "give the constructor a function",
)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class BatchingSettings(ClientSettings):
    """Batches of records."""

    batch_size = integer(
        "batch.size",
        16_384,
        at_least(0),
        doc="The size in bytes at which a batch is full, before compression.",
    )
    linger_ms = long(
        "linger.ms",
        5,
        at_least(0),
        doc="The time for which a batch that is not full waits for more records before it is sent.",
    )
    buffer_memory = long(
        "buffer.memory",
        32 * MIB,
        at_least(0),
        doc="The bytes of records that may wait to be sent. If they are used up, sending blocks.",
    )
    max_block_ms = long(
        "max.block.ms",
        60_000,
        at_least(0),
        doc="The time for which sending may block, for memory and metadata together.",
    )
    max_request_size = integer(
        "max.request.size",
        MIB,
        at_least(0),
        doc="The size limit of a request, and so of a record before compression.",
    )
    compression_type = choice(
        "compression.type",
        "none",
        CODECS,
        keyword='Literal["none", "gzip", "snappy", "lz4", "zstd"] | None',
        doc="The compression of batches.",
    )
    compression_gzip_level = integer(
        "compression.gzip.level",
        -1,
        between_or(1, 9, -1),
        doc="The level of gzip; -1 for its default.",
    )
    compression_lz4_level = integer(
        "compression.lz4.level", 9, between(1, 17), doc="The level of lz4."
    )
    compression_zstd_level = integer(
        "compression.zstd.level", 3, between(-131_072, 22), doc="The level of zstd."
    )


class DeliverySettings(ClientSettings):
    """Acknowledgements, retries and delivery timeouts."""

    acks = choice(
        "acks",
        "all",
        ("all", "1", "0"),
        keyword='Literal["all", "1", "0"] | int',
        doc="The replicas that must have a record before it is acknowledged: all in-sync "
        "replicas, the leader, or none.",
    )
    enable_idempotence = boolean(
        "enable.idempotence",
        True,
        doc="Write each record once and in order, even if it is sent again. It requires acks=all, "
        "retries, and max.in.flight.requests.per.connection of at most 5. If it is not set, "
        "these settings turn it off.",
    )
    retries = integer(
        "retries",
        INT_MAX,
        between(0, INT_MAX),
        doc="How often a batch is sent again after a retriable error. delivery.timeout.ms is the "
        "better limit.",
    )
    max_in_flight_requests_per_connection = integer(
        "max.in.flight.requests.per.connection",
        MAX_IDEMPOTENT_IN_FLIGHT,
        at_least(1),
        doc="The number of unanswered requests to one broker. Above 1 and without idempotence, a "
        "batch that is sent again may end up behind the next one.",
    )
    delivery_timeout_ms = integer(
        "delivery.timeout.ms",
        120_000,
        at_least(0),
        doc="The time from sending a record to its acknowledgement, everything included. It must "
        "be at least linger.ms plus request.timeout.ms.",
    )


class TransactionSettings(ClientSettings):
    """Transactions."""

    transactional_id = optional_string(
        "transactional.id",
        keyword="str | None",
        doc="The name under which this producer writes in transactions. Of producers with one id, "
        "the newest shuts the others out. It requires idempotence.",
    )
    transaction_timeout_ms = integer(
        "transaction.timeout.ms",
        60_000,
        at_least(1),
        doc="The time after which the coordinator aborts a transaction that is still open. At most "
        "the brokers' transaction.max.timeout.ms.",
    )


class PartitioningSettings(ClientSettings):
    """The choice of partitions for records without one."""

    partitioner = choice(
        "partitioner",
        "murmur2_random",
        ("murmur2_random", *OTHER_PARTITIONERS),
        refused(OTHER_PARTITIONERS),
        keyword='Literal["murmur2_random"] | PartitionerLike',
        doc="How keys choose partitions, by librdkafka's name. This is the method of Kafka's Java "
        "client, so that all producers agree. The constructor also takes a function.",
        ours=True,
    )
    partitioner_ignore_keys = boolean(
        "partitioner.ignore.keys",
        False,
        doc="Choose the partition of a record with a key as for one without, not by the key.",
    )
    partitioner_adaptive_partitioning_enable = boolean(
        "partitioner.adaptive.partitioning.enable",
        True,
        doc="Give slow brokers fewer of the records without a key.",
    )
    partitioner_availability_timeout_ms = long(
        "partitioner.availability.timeout.ms",
        0,
        at_least(0),
        doc="Give partitions of a broker that accepted nothing for this long no records without a "
        "key; 0 turns this off.",
    )
    metadata_max_idle_ms = long(
        "metadata.max.idle.ms",
        300_000,
        at_least(5000),
        doc="The time after which the producer forgets the metadata of a topic to which nothing "
        "is sent.",
    )


class ProducerConfig(
    ClientConfig, BatchingSettings, DeliverySettings, TransactionSettings, PartitioningSettings
):
    """A snapshot of the values of all settings of a producer."""

    kind = "producer"
    arguments: ClassVar[tuple[str, ...]] = (
        "brokers",
        "key",
        "value",
        "key_serializer",
        "value_serializer",
        "on_full",
        "interceptors",
    )

    @classmethod
    def load(cls, given: Mapping[str, Any], where: str = "") -> Self:
        return super().load(with_codec_level(given), where)

    def check(self) -> None:
        if self.transactional_id is not None:
            self._check_transactional_id()
        if self.enable_idempotence and self.is_given("enable.idempotence"):
            self._check_idempotence()
        least_ms = self.linger_ms + self.request_timeout_ms
        if self.is_given("delivery.timeout.ms") and self.delivery_timeout_ms < least_ms:
            raise ConfigError(
                f"delivery.timeout.ms ({self.delivery_timeout_ms}) is less than linger.ms plus "
                f"request.timeout.ms ({least_ms}): raise it, or lower those"
            )

    def _check_idempotence(self) -> None:
        problem = self.idempotence_problem()
        if problem is not None:
            raise ConfigError(f"enable.idempotence is true, and {problem}")

    def _check_transactional_id(self) -> None:
        if not self.transactional_id:
            raise ConfigError("transactional.id is empty: give a name, or leave it out")
        problem = self.idempotence_problem()
        if not self.enable_idempotence:
            problem = "enable.idempotence is false: it must be true"
        if problem is not None:
            raise ConfigError(f"transactional.id is set, and {problem}")

    def idempotence_problem(self) -> str | None:
        """The first setting that makes idempotence impossible; None if none does."""
        if self.acks != "all":
            return f"acks is {self.acks}: it must be all"
        if self.retries == 0:
            return "retries is 0: it must be at least 1"
        in_flight = self.max_in_flight_requests_per_connection
        if in_flight > MAX_IDEMPOTENT_IN_FLIGHT:
            return (
                f"max.in.flight.requests.per.connection is {in_flight}: it must be at most "
                f"{MAX_IDEMPOTENT_IN_FLIGHT}"
            )
        return None

    @property
    def idempotent(self) -> bool:
        """True if the producer is idempotent: not if other settings make that impossible."""
        return self.enable_idempotence and self.idempotence_problem() is None

    @property
    def delivery_limit_ms(self) -> int:
        """`delivery.timeout.ms`, and at least `linger.ms` plus `request.timeout.ms`."""
        return max(self.delivery_timeout_ms, self.linger_ms + self.request_timeout_ms)

    @property
    def required_acks(self) -> int:
        """`acks` as in a Produce request: -1 for all."""
        return -1 if self.acks == "all" else int(self.acks)

    @property
    def compression_level(self) -> int | None:
        """The compression level; None for the default of the codec."""
        levels = {
            "gzip": None if self.compression_gzip_level == -1 else self.compression_gzip_level,
            "lz4": self.compression_lz4_level if self.is_given("compression.lz4.level") else None,
            "zstd": self.compression_zstd_level
            if self.is_given("compression.zstd.level")
            else None,
        }
        return levels.get(self.compression_type)


def with_codec_level(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings with librdkafka's `compression.level` replaced by that of the codec."""
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
