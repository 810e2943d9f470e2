"""Broker settings of replication between brokers: names, meanings and defaults are Kafka's."""

from __future__ import annotations

from odradek.config.setting import LONG_MAX, MIB, Setting, UpdateMode, at_least, integer, long
from odradek.config.settings import Settings


def throttled_rate(name: str, doc: str) -> Setting[int]:
    """Declare a rate that Kafka shows only where it is set."""
    return long(
        name,
        LONG_MAX,
        at_least(0),
        update=UpdateMode.CLUSTER_WIDE,
        hidden_unless_set=True,
        doc=doc,
    )


class ReplicationSettings(Settings):
    """Leaders and their followers on other brokers. One broker alone has none."""

    replica_lag_time_max_ms = long(
        "replica.lag.time.max.ms",
        30_000,
        at_least(1),
        doc="A follower that has not caught up with its leader's log for this long leaves the "
        "in-sync replicas.",
    )
    replica_fetch_max_bytes = integer(
        "replica.fetch.max.bytes",
        MIB,
        at_least(0),
        doc="The bytes of one partition that a follower asks for at a time. A first batch that is "
        "larger is sent whole.",
    )
    replica_fetch_response_max_bytes = integer(
        "replica.fetch.response.max.bytes",
        10 * MIB,
        at_least(0),
        doc="The bytes of all partitions that a follower asks for at a time. A first batch that is "
        "larger is sent whole.",
    )
    replica_fetch_wait_max_ms = integer(
        "replica.fetch.wait.max.ms",
        500,
        at_least(0),
        doc="How long the leader may hold a follower's request back while there is nothing new.",
    )
    replica_fetch_min_bytes = integer(
        "replica.fetch.min.bytes",
        1,
        at_least(0),
        doc="Sent with each request of a follower. A leader of this broker's kind answers as soon "
        "as there is anything new, whatever the value.",
    )
    replica_fetch_backoff_ms = integer(
        "replica.fetch.backoff.ms",
        1_000,
        at_least(0),
        doc="The longest wait of a follower before it fetches a partition again after an error.",
    )
    leader_replication_throttled_rate = throttled_rate(
        "leader.replication.throttled.rate",
        "Bytes per second that this broker sends as a leader to throttled replicas: those of "
        "leader.replication.throttled.replicas of each topic that are not in sync.",
    )
    follower_replication_throttled_rate = throttled_rate(
        "follower.replication.throttled.rate",
        "Bytes per second that this broker fetches as a follower for throttled replicas: those of "
        "follower.replication.throttled.replicas of each topic that are not in sync.",
    )
