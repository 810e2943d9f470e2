"""Broker settings about consumer groups and the topic that keeps them."""

from __future__ import annotations

from odradek.config.checks import at_least
from odradek.config.setting import INT_MAX, MIB, integer, long, short
from odradek.config.settings import Settings


class GroupSettings(Settings):
    """Consumer groups and their offsets."""

    group_min_session_timeout_ms = integer(
        "group.min.session.timeout.ms",
        6_000,
        at_least(1),
        doc="The shortest session that a member may ask for. A shorter one finds failures sooner "
        "and takes more heartbeats.",
    )
    group_max_session_timeout_ms = integer(
        "group.max.session.timeout.ms",
        1_800_000,
        at_least(1),
        doc="The longest session that a member may ask for.",
    )
    group_initial_rebalance_delay_ms = integer(
        "group.initial.rebalance.delay.ms",
        3_000,
        at_least(0),
        doc="How long a group that was empty waits for more members before its first generation, "
        "and again after each that comes meanwhile.",
    )
    group_max_size = integer(
        "group.max.size",
        INT_MAX,
        at_least(1),
        doc="The most members that a group may have.",
    )
    offsets_topic_num_partitions = integer(
        "offsets.topic.num.partitions",
        50,
        at_least(1),
        doc="Partitions of __consumer_offsets, which is made when the first group asks for its "
        "coordinator. Not to be changed afterwards: groups would be looked for elsewhere.",
    )
    offsets_topic_replication_factor = short(
        "offsets.topic.replication.factor",
        3,
        at_least(1),
        doc="Replicas of __consumer_offsets; as many as there are brokers, if these are fewer.",
    )
    offsets_topic_segment_bytes = integer(
        "offsets.topic.segment.bytes",
        100 * MIB,
        at_least(1),
        doc="Size at which a segment of __consumer_offsets is closed. Only closed segments are "
        "compacted, and a start reads all of them.",
    )
    offset_metadata_max_bytes = integer(
        "offset.metadata.max.bytes",
        4096,
        doc="The longest text that a client may keep with a committed offset.",
    )
    offsets_retention_minutes = integer(
        "offsets.retention.minutes",
        7 * 24 * 60,
        at_least(1),
        doc="How long offsets are kept after their group lost its last member, or, of groups "
        "without members, after they were committed.",
    )
    offsets_retention_check_interval_ms = long(
        "offsets.retention.check.interval.ms",
        600_000,
        at_least(1),
        doc="Time between two looks for offsets that have been kept long enough.",
    )
