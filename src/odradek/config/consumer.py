"""The settings of a consumer."""

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
    """Being a member of a group."""

    group_id = optional_string(
        "group.id",
        at_most_bytes(PROTOCOL_TEXT_MAX),
        doc="The group whose members share the partitions, and under whose name positions are "
        "committed. Without one, partitions are assigned by hand and nothing is committed.",
    )
    group_instance_id = optional_string(
        "group.instance.id",
        Validator("not empty", lambda value: None if value else "it must not be empty"),
        at_most_bytes(PROTOCOL_TEXT_MAX),
        doc="Makes this member a static one (KIP-345): it keeps its partitions when it restarts "
        "within session.timeout.ms.",
    )
    group_protocol = choice(
        "group.protocol",
        "classic",
        ("classic", "consumer"),
        refused({"consumer": "KIP-848 is not spoken yet: leave it at classic"}),
        doc="How the group agrees on who reads what.",
    )
    partition_assignment_strategy = strings(
        "partition.assignment.strategy",
        ("range", "cooperative-sticky"),
        one_of(*ASSIGNORS),
        doc="How partitions are assigned, best first; the first that all members know is taken.",
    )
    session_timeout_ms = integer(
        "session.timeout.ms",
        45_000,
        at_least(1),
        doc="A member that the group has not heard of for so long is taken for dead.",
    )
    heartbeat_interval_ms = integer(
        "heartbeat.interval.ms",
        3_000,
        at_least(1),
        doc="How often the group is told that this member lives. Best a third of "
        "session.timeout.ms, or less.",
    )
    max_poll_interval_ms = integer(
        "max.poll.interval.ms",
        300_000,
        at_least(1),
        doc="A member that does not poll for so long leaves the group, so that others go on with "
        "its partitions.",
    )
    client_rack = string(
        "client.rack",
        "",
        at_most_bytes(PROTOCOL_TEXT_MAX),
        doc="Where this consumer stands, for assignors.",
    )


class OffsetSettings(ClientSettings):
    """Where to read, and what is remembered of it."""

    auto_offset_reset = string(
        "auto.offset.reset",
        "latest",
        valid_offset_reset(),
        doc="Where to begin when nothing is committed, or what is has been deleted: at the oldest "
        "record, after the newest, at the first of the last so long, or with an error.",
    )
    enable_auto_commit = boolean(
        "enable.auto.commit",
        True,
        doc="Commit positions in the background, of records that polling has handed out.",
    )
    auto_commit_interval_ms = integer(
        "auto.commit.interval.ms", 5_000, at_least(0), doc="How often that happens."
    )
    isolation_level = choice(
        "isolation.level",
        "read_uncommitted",
        ("read_uncommitted", "read_committed"),
        doc="Whether records of transactions that are open or were aborted are read.",
    )
    exclude_internal_topics = boolean(
        "exclude.internal.topics",
        True,
        doc="Whether a pattern passes over the cluster's own topics.",
    )
    allow_auto_create_topics = boolean(
        "allow.auto.create.topics",
        True,
        doc="Whether subscribing to a topic that is not there may create it, if brokers do that.",
    )


class FetchSettings(ClientSettings):
    """Getting records."""

    max_poll_records = integer(
        "max.poll.records", 500, at_least(1), doc="The most records of one poll for batches."
    )
    fetch_min_bytes = integer(
        "fetch.min.bytes",
        1,
        at_least(0),
        doc="A broker waits until there is so much to send, or fetch.max.wait.ms are over.",
    )
    fetch_max_bytes = integer(
        "fetch.max.bytes",
        50 * MIB,
        at_least(0),
        doc="The most bytes of one answer, unless its first batch is larger.",
    )
    fetch_max_wait_ms = integer(
        "fetch.max.wait.ms", 500, at_least(0), doc="How long a broker waits for fetch.min.bytes."
    )
    max_partition_fetch_bytes = integer(
        "max.partition.fetch.bytes",
        MIB,
        at_least(0),
        doc="The most bytes of one partition in an answer, unless its first batch is larger.",
    )
    prefetch_max_bytes = integer(
        "prefetch.max.bytes",
        64 * MIB,
        at_least(1),
        doc="How many bytes are fetched before they are asked for.",
        ours=True,
    )
    check_crcs = boolean(
        "check.crcs", True, doc="Whether the checksum of every batch that was fetched is checked."
    )
    default_api_timeout_ms = integer(
        "default.api.timeout.ms",
        60_000,
        at_least(0),
        doc="How long a call may take that was given no time of its own.",
    )


class ConsumerConfig(ClientConfig, GroupMembershipSettings, OffsetSettings, FetchSettings):
    """All settings of a consumer, with values: a snapshot."""

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
    )

    def check(self) -> None:
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                f"heartbeat.interval.ms ({self.heartbeat_interval_ms}) has to be less than "
                f"session.timeout.ms ({self.session_timeout_ms}): a third of it is good"
            )
        if self.group_id is None:
            for name in ("enable.auto.commit", "group.instance.id"):
                if self.is_given(name) and self.value(self.find(name)):
                    raise ConfigError(f"{name} is set, and there is no group.id: give one")
        if self.group_id == "":
            raise ConfigError("group.id is empty: give the group a name, or leave it out")

    @property
    def offset_reset(self) -> AutoOffsetResetStrategy:
        """`auto.offset.reset`, understood."""
        return parse_offset_reset(self.auto_offset_reset)

    @property
    def read_committed(self) -> bool:
        """Whether only what was committed is read."""
        return self.isolation_level == "read_committed"
