"""Broker settings of the metadata quorum: names, meanings and defaults are Kafka's."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.config.addresses import NAMES_BETWEEN_NODES, parse_address
from odradek.config.setting import (
    at_least,
    boolean,
    integer,
    matching,
    one_of,
    optional_string,
    strings,
)
from odradek.config.settings import Settings

VOTER_PATTERN = r"([0-9]+)@(\[[0-9A-Fa-f:.%a-z0-9]+\]|[^\[\]:/,@\s]+):([0-9]{1,5})"
ADDRESS_PATTERN = r"(\[[0-9A-Fa-f:.%a-z0-9]+\]|[^\[\]:/,@\s]+):([0-9]{1,5})"


class QuorumSettings(Settings):
    """The metadata quorum. A node without a CLUSTER listener is the only voter of its own."""

    cluster_id = optional_string(
        "cluster.id",
        doc="The id of the cluster that a new data directory belongs to, as "
        "kafka-storage.sh random-uuid makes one: the same for all nodes. A directory that belongs "
        "to another cluster is refused. Without it a new directory begins a cluster of its own.",
        ours=True,
    )
    controller_listener_names = strings(
        "controller.listener.names",
        (),
        one_of(*NAMES_BETWEEN_NODES),
        doc="The name of the listener for other nodes, as configurations of Kafka have it: "
        "`CONTROLLER` is another name of the CLUSTER listener. If given, listeners must have it.",
    )
    controller_quorum_voters = strings(
        "controller.quorum.voters",
        (),
        matching(VOTER_PATTERN, "expected ID@HOST:PORT, such as 1@node1:19092", "`ID@HOST:PORT`"),
        doc="The voters of a quorum that does not change: the id and the CLUSTER address of each. "
        "They are known by their ids alone, so a voter whose disk was lost cannot be told from one "
        "that is new: until it has caught up, nothing is decided with it unless all voters agree, "
        "and the first election needs all of them. Better empty: the voters, with their "
        "directories, are recorded in the metadata log (KIP-853), at first the node that begins "
        "the cluster alone.",
    )
    controller_quorum_bootstrap_servers = strings(
        "controller.quorum.bootstrap.servers",
        (),
        matching(ADDRESS_PATTERN, "expected HOST:PORT, such as node1:19092", "`HOST:PORT`"),
        doc="CLUSTER addresses of nodes that know the leader of the quorum. A node with an empty "
        "data directory joins their cluster, as an observer of the quorum.",
    )
    controller_quorum_auto_join_enable = boolean(
        "controller.quorum.auto.join.enable",
        False,
        doc="Whether this node becomes a voter of the quorum by itself: when there are three "
        "brokers and fewer than three voters. Stop a node before its voter is removed, or it joins "
        "again.",
    )
    controller_quorum_moved_voters = strings(
        "controller.quorum.moved.voters",
        (),
        matching(VOTER_PATTERN, "expected ID@HOST:PORT, such as 1@node1:19092", "`ID@HOST:PORT`"),
        doc="CLUSTER addresses of recorded voters that are elsewhere now: when most of them have "
        "moved, they would not find each other. `odradek up -n` sets it. Other nodes in it are "
        "ignored.",
        ours=True,
    )
    controller_quorum_election_timeout_ms = integer(
        "controller.quorum.election.timeout.ms",
        1_000,
        at_least(1),
        doc="The least time to wait for a majority of votes before another election begins.",
    )
    controller_quorum_election_backoff_max_ms = integer(
        "controller.quorum.election.backoff.max.ms",
        1_000,
        at_least(1),
        doc="The longest wait before a candidate that lost an election stands again.",
    )
    controller_quorum_fetch_timeout_ms = integer(
        "controller.quorum.fetch.timeout.ms",
        2_000,
        at_least(1),
        doc="The time without an answer of the leader after which a voter stands for election. A "
        "leader from which a majority does not fetch for one and a half times that resigns.",
    )
    controller_quorum_retry_backoff_ms = integer(
        "controller.quorum.retry.backoff.ms",
        20,
        at_least(1),
        doc="The wait before a failed request of the quorum is sent again.",
    )
    broker_heartbeat_interval_ms = integer(
        "broker.heartbeat.interval.ms",
        2_000,
        at_least(1),
        doc="The time between two heartbeats of a broker to the active controller.",
    )
    initial_broker_registration_timeout_ms = integer(
        "initial.broker.registration.timeout.ms",
        60_000,
        at_least(1),
        doc="How long a broker that starts tries to register with the active controller.",
    )

    def quorum_voters(self) -> list[tuple[int, str, int]]:
        """Return the id, host and port of each configured voter."""
        return _voters(self.controller_quorum_voters)

    def moved_voters(self) -> list[tuple[int, str, int]]:
        """Return the id, host and port of each recorded voter that is elsewhere now."""
        return _voters(self.controller_quorum_moved_voters)

    def quorum_bootstrap(self) -> list[tuple[str, int]]:
        """Return the host and port of each bootstrap server."""
        return [parse_address(text) for text in self.controller_quorum_bootstrap_servers]


def _voters(texts: Sequence[str]) -> list[tuple[int, str, int]]:
    found = []
    for text in texts:
        node_id, _, address = text.partition("@")
        found.append((int(node_id), *parse_address(address)))
    return found
