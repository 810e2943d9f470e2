"""The settings of a consumer, and the rules between them."""

from __future__ import annotations

from typing import ClassVar

from odradek.config.client import PROTOCOL_TEXT_MAX, ClientConfig, ClientSettings
from odradek.config.offset_reset import (
    AutoOffsetResetStrategy,
    parse_offset_reset,
    valid_offset_reset,
)
from odradek.config.setting import (
    MIB,
    ConfigError,
    Validator,
    at_least,
    at_most_bytes,
    boolean,
    choice,
    integer,
    one_of,
    optional_string,
    refused,
    string,
    strings,
)

ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")


class GroupMembershipSettings(ClientSettings):
    """Membership of a group."""

    group_id = optional_string(
        "group.id",
        at_most_bytes(PROTOCOL_TEXT_MAX),
        doc="The group whose members share the partitions, and for which positions are committed. "
        "Without a group, partitions are assigned by hand and nothing is committed.",
    )
    group_instance_id = optional_string(
        "group.instance.id",
        Validator("not empty", lambda value: None if value else "it must not be empty"),
        at_most_bytes(PROTOCOL_TEXT_MAX),
        doc="Makes this member a static one (KIP-345): it keeps its partitions if it restarts "
        "within session.timeout.ms.",
    )
    group_protocol = choice(
        "group.protocol",
        "classic",
        ("classic", "consumer"),
        refused({"consumer": "KIP-848 is not supported yet: leave it at classic"}),
        doc="The protocol by which the group assigns partitions.",
    )
    partition_assignment_strategy = strings(
        "partition.assignment.strategy",
        ("range", "cooperative-sticky"),
        one_of(*ASSIGNORS),
        doc="The assignors, in order of preference. The group uses the first one that all members "
        "support.",
    )
    session_timeout_ms = integer(
        "session.timeout.ms",
        45_000,
        at_least(1),
        doc="The group removes a member from which it received no heartbeat for this long.",
    )
    heartbeat_interval_ms = integer(
        "heartbeat.interval.ms",
        3_000,
        at_least(1),
        doc="The time between two heartbeats. A third of session.timeout.ms, or less, is "
        "recommended.",
    )
    max_poll_interval_ms = integer(
        "max.poll.interval.ms",
        300_000,
        at_least(1),
        doc="A member that does not poll for this long leaves the group, and others get its "
        "partitions.",
    )
    client_rack = string(
        "client.rack",
        "",
        at_most_bytes(PROTOCOL_TEXT_MAX),
        doc="The rack of this consumer, for assignors.",
    )


class OffsetSettings(ClientSettings):
    """Positions, commits and the choice of records."""

    auto_offset_reset = string(
        "auto.offset.reset",
        "latest",
        valid_offset_reset(),
        doc="Where to begin if no offset is committed, or the committed offset was deleted: at "
        "the oldest record, after the newest, at the first record of the given duration, or "
        "with an error.",
    )
    enable_auto_commit = boolean(
        "enable.auto.commit",
        True,
        doc="Commit positions in the background, for records that polls have returned.",
    )
    auto_commit_interval_ms = integer(
        "auto.commit.interval.ms", 5_000, at_least(0), doc="The time between two automatic commits."
    )
    isolation_level = choice(
        "isolation.level",
        "read_committed",
        ("read_uncommitted", "read_committed"),
        doc="Whether to read records of open and aborted transactions. With read_committed, as in "
        "librdkafka, a partition is read up to the first transaction that is still open.",
    )
    exclude_internal_topics = boolean(
        "exclude.internal.topics",
        True,
        doc="Whether subscriptions by pattern ignore the cluster's internal topics.",
    )
    allow_auto_create_topics = boolean(
        "allow.auto.create.topics",
        True,
        doc="Whether subscribing to a missing topic may create it, if brokers allow that.",
    )


class FetchSettings(ClientSettings):
    """Polls and fetches."""

    max_poll_records = integer(
        "max.poll.records", 500, at_least(1), doc="The number of records of one poll for batches."
    )
    fetch_min_bytes = integer(
        "fetch.min.bytes",
        1,
        at_least(0),
        doc="A broker delays its response until it has this many bytes, or fetch.max.wait.ms are "
        "over.",
    )
    fetch_max_bytes = integer(
        "fetch.max.bytes",
        50 * MIB,
        at_least(0),
        doc="The size limit of a response, except for a larger first batch.",
    )
    fetch_max_wait_ms = integer(
        "fetch.max.wait.ms",
        500,
        at_least(0),
        doc="The time for which a broker waits for fetch.min.bytes.",
    )
    max_partition_fetch_bytes = integer(
        "max.partition.fetch.bytes",
        MIB,
        at_least(0),
        doc="The size limit of one partition in a response, except for a larger first batch.",
    )
    prefetch_max_bytes = integer(
        "prefetch.max.bytes",
        64 * MIB,
        at_least(1),
        doc="The number of bytes that are fetched ahead of the application's polls.",
        ours=True,
    )
    check_crcs = boolean(
        "check.crcs", True, doc="Whether to verify the checksum of each fetched batch."
    )
    default_api_timeout_ms = integer(
        "default.api.timeout.ms",
        60_000,
        at_least(0),
        doc="The timeout of calls for which none is given.",
    )


class ConsumerConfig(ClientConfig, GroupMembershipSettings, OffsetSettings, FetchSettings):
    """A snapshot of the values of all settings of a consumer."""

    kind = "consumer"
    arguments: ClassVar[tuple[str, ...]] = (
        "brokers",
        "group",
        "key",
        "value",
        "key_deserializer",
        "value_deserializer",
        "assignors",
        "on_decode_error",
        "interceptors",
    )

    def check(self) -> None:
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                f"heartbeat.interval.ms ({self.heartbeat_interval_ms}) must be less than "
                f"session.timeout.ms ({self.session_timeout_ms}): a third of it is recommended"
            )
        if self.group_id is None:
            for name in ("enable.auto.commit", "group.instance.id"):
                if self.is_given(name) and self.value(self.find(name)):
                    raise ConfigError(f"{name} is set without a group.id: give one")
        if self.group_id == "":
            raise ConfigError("group.id is empty: give the name of a group, or leave it out")

    @property
    def offset_reset(self) -> AutoOffsetResetStrategy:
        return parse_offset_reset(self.auto_offset_reset)

    @property
    def read_committed(self) -> bool:
        """True if the consumer reads only records of committed transactions."""
        return self.isolation_level == "read_committed"
