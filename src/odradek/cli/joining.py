"""`odradek up --join HOST:PORT`: what a node asks the cluster that it is to join.

Any broker knows the rest: the cluster's id, which ids are in use, and where the voters of its
quorum serve other nodes (DescribeCluster, DescribeQuorum). A new node takes the lowest free id; two
that take the same one at the same time are told by the controller, which registers one of them, and
the other takes the next.

A directory that was in the cluster before needs none of this: after a power failure all nodes start
together, and none could answer before the others are there. So it only looks whether the address
is of another cluster, and does not insist on an answer.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import click

from odradek import Admin
from odradek.cli.cluster_place import CannotPlace
from odradek.client.errors import KafkaError
from odradek.config.addresses import CLUSTER, address_text, parse_address, parse_addresses
from odradek.config.setting import ConfigError

PATIENCE_S = 30.0
PAUSE_S = 1.0
ASK_MS = 5_000
PROBE_S = 2.0


class NotJoined(CannotPlace):
    """The cluster cannot be joined; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class FoundCluster:
    """A cluster as one of its brokers describes it."""

    cluster_id: str
    used_ids: frozenset[int]
    """The ids of its brokers, running or not, and of what follows its quorum."""
    running: Mapping[int, str]
    """The brokers that count as running, and where clients reach them."""
    bootstrap: tuple[str, ...]
    """The CLUSTER addresses of its voters."""
    down: tuple[int, ...]
    """Voters and brokers that do not run."""

    def lowest_free_id(self, taken: Iterable[int] = ()) -> int:
        """Return the lowest id from 1 on that no node has."""
        used = self.used_ids.union(taken)
        return next(each for each in range(1, len(used) + 2) if each not in used)


def find_cluster(join: str, *, patience_s: float = PATIENCE_S) -> FoundCluster:
    """Ask brokers at these addresses, until one answers or `patience_s` is over. Raises
    `NotJoined`.
    """
    try:
        addresses = parse_addresses(join.split(","))
    except ConfigError as error:
        raise NotJoined(f"--join: {error}") from error
    brokers = ",".join(address_text(*each) for each in addresses)
    deadline = time.monotonic() + patience_s
    told = False
    while True:
        try:
            return _ask(brokers)
        except KafkaError as error:
            if time.monotonic() >= deadline:
                raise NotJoined(
                    f"no broker of a cluster answers at {join}: {error}. What to do: give the "
                    "address that clients use of any node of the cluster (its bootstrap.servers, "
                    "such as node1:9092), and see that it runs"
                ) from error
            if not told:
                click.echo(
                    f"odradek: no broker answers at {join}; trying for {patience_s:g} s", err=True
                )
                told = True
            time.sleep(PAUSE_S)


def look_at_cluster(join: str) -> FoundCluster | None:
    """Ask once, and return None if nobody answers. Raises `NotJoined` for a bad address."""
    try:
        return find_cluster(join, patience_s=0)
    except NotJoined as error:
        if isinstance(error.__cause__, ConfigError):
            raise
        return None


def _ask(brokers: str) -> FoundCluster:
    with Admin(brokers=brokers, default_api_timeout_ms=ASK_MS) as admin:
        everyone = admin.cluster(include_fenced=True)
        running = {node.id: address_text(node.host, node.port) for node in admin.cluster().nodes}
        quorum = admin.quorum()
    replicas = (*quorum.voters, *quorum.observers)
    known = {node.id for node in everyone.nodes}
    return FoundCluster(
        everyone.cluster_id,
        frozenset(known.union(each.node_id for each in replicas)),
        running,
        tuple(
            listeners[CLUSTER]
            for node_id, listeners in sorted(quorum.listeners.items())
            if CLUSTER in listeners
        ),
        tuple(sorted((known - running.keys()) | quorum.silent_voters())),
    )


def check_joinable(found: FoundCluster, join: str) -> None:
    """Raise `NotJoined` if no node of the cluster serves other nodes."""
    if not found.bootstrap:
        raise NotJoined(
            f"the broker at {join} serves no other nodes: it was started alone. What to do: stop "
            "it and start it again with --cluster (it keeps its records and its clients), then "
            "start this one"
        )


def check_directory(found: FoundCluster, cluster_id: str, directory: object, join: str) -> None:
    """Raise `NotJoined` if the directory is of another cluster."""
    if found.cluster_id != cluster_id:
        raise NotJoined(
            f"data directory {directory} belongs to cluster {cluster_id}, and {join} is of cluster "
            f"{found.cluster_id}. What to do: give a new --data-dir, or the address of its own "
            "cluster; records cannot be joined, only copied by clients"
        )


def check_id(found: FoundCluster, node_id: int) -> None:
    """Raise `NotJoined` if a running node has the id that was given.

    One that was killed counts as running until its session ends, but does not answer: the start
    waits for that.
    """
    address = found.running.get(node_id)
    if address is not None and _answers(address):
        raise NotJoined(
            f"node {node_id} of that cluster runs. What to do: leave out --set node.id, and this "
            "node takes the lowest free one; or stop that node first, if this one replaces it"
        )


def _answers(address: str) -> bool:
    """True if a broker answers at this address of a client."""
    try:
        socket.create_connection(parse_address(address), PROBE_S).close()
    except OSError:
        return False
    return look_at_cluster(address) is not None
