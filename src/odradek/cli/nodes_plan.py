"""Plans the nodes of `odradek up -n N`: ids, directories, addresses, and who votes.

    DIR, DIR-2, DIR-3 ...      a directory that has an identity keeps its id, its records and its
                               ports; a new one gets the lowest free id
    none has an identity       a new cluster: the first three nodes are the voters of its quorum
                               from the start; of one or two nodes only the first one is
    some have                  new nodes join the cluster of the others, and become voters there

Two voters would be worse than one: the loss of either would end the quorum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import SystemRandom

from odradek.broker.server import identity_of
from odradek.cli.cluster_place import (
    DEFAULT_PORT,
    BadSettingsOfNodes,
    KeptPlace,
    cluster_port,
    free_ports,
    kept_place,
    node_settings,
    reached_host,
    safe_defaults,
)
from odradek.config.addresses import CLUSTER, address_text
from odradek.config.http import HttpSettings
from odradek.log.directory_identity import MetaProperties, WrongDirectory
from odradek.model.topics import new_uuid, uuid_text
from odradek.raft.replicas import QuorumEndpoint, ReplicaKey, Voter, VoterSet

VOTERS = 3
ELECTION_TIMEOUT_MS = 300
"""Less than Kafka's second: on one machine a vote takes no time, and a start waits for it."""
OF_ONE_NODE = (
    "node.id",
    "broker.id",
    "cluster.id",
    "listeners",
    "advertised.listeners",
    "log.dirs",
    "process.roles",
    "controller.quorum.voters",
    "controller.quorum.bootstrap.servers",
    "controller.quorum.moved.voters",
)
"""Settings that `odradek up -n` gives to each node itself."""


@dataclass(frozen=True, slots=True)
class NodeStart:
    """How one node is started."""

    node_id: int
    host: str
    place: KeptPlace
    data_dir: Path | None
    """None: in memory."""
    settings: Mapping[str, str]
    http: HttpSettings | None
    identity: MetaProperties | None = None
    """With what a new directory is formatted; None: it is not."""
    voters: VoterSet | None = None


@dataclass(frozen=True, slots=True)
class NodesPlan:
    """The nodes to start. `is_grown`: some of them join others that have records."""

    nodes: tuple[NodeStart, ...]
    is_grown: bool


def directories_of(data_dir: Path, count: int) -> list[Path]:
    """Return the directories of the nodes: with -2, -3 ... behind the name of the first one."""
    others = [data_dir.with_name(f"{data_dir.name}-{number}") for number in range(2, count + 1)]
    return [data_dir, *others]


def plan_nodes(
    count: int,
    *,
    host: str,
    port: int | None,
    data_dir: Path | None,
    given: Mapping[str, str],
    http: HttpSettings | None,
) -> NodesPlan:
    """Plan `count` nodes. `port`: of the first one, 0 for any, None for the one it had or 9092.
    `data_dir` None: all in memory. `given`: broker settings of all nodes.

    Raises `CannotPlace`, `WrongDirectory`, `AddressInUseError`, `CannotListenError`, `OSError`.
    """
    check_settings(given)
    directories: Sequence[Path | None] = [None] * count
    identities: list[MetaProperties | None] = [None] * count
    kept: list[KeptPlace | None] = [None] * count
    if data_dir is not None:
        directories = directories_of(data_dir, count)
        identities = [identity_of(str(each)) for each in directories]
        kept = [kept_place(each) for each in directories if each is not None]
    ids = node_ids(identities, directories)
    places = _places(host, port, kept)
    reached = reached_host(host, given)
    addresses = [address_text(reached, place.cluster_port) for place in places]
    begins = all(each is None for each in identities)
    bootstrap = tuple(
        address for address, each in zip(addresses, identities, strict=True) if each is not None
    )
    formatted: list[MetaProperties | None] = [None] * count
    voters = VoterSet()
    if begins:
        random = SystemRandom()
        cluster_id = uuid_text(new_uuid(random))
        new = [MetaProperties(cluster_id, each, new_uuid(random)) for each in ids]
        formatted = [*new]
        voters = VoterSet(
            Voter(
                ReplicaKey(each.node_id, each.directory_id),
                (QuorumEndpoint(CLUSTER, reached, place.cluster_port),),
            )
            for each, place in list(zip(new, places, strict=True))[
                : VOTERS if count >= VOTERS else 1
            ]
        )
    cluster = next((each.cluster_id for each in identities if each is not None), None)
    shared = {
        **safe_defaults(count),
        "controller.quorum.election.timeout.ms": str(ELECTION_TIMEOUT_MS),
        "controller.quorum.moved.voters": ",".join(
            f"{node_id}@{address}" for node_id, address in zip(ids, addresses, strict=True)
        ),
        **given,
    }
    nodes = []
    for number, node_id in enumerate(ids):
        place, settings = places[number], dict(shared)
        if cluster is not None and identities[number] is None:
            place = replace(place, bootstrap=bootstrap)
            settings["cluster.id"] = cluster
        nodes.append(
            NodeStart(
                node_id,
                host,
                place,
                directories[number],
                node_settings(node_id, host, place, settings),
                _http_of(http, number),
                formatted[number],
                voters if begins else None,
            )
        )
    return NodesPlan(tuple(nodes), not begins and None in identities)


def node_ids(
    identities: Sequence[MetaProperties | None], directories: Sequence[Path | None]
) -> list[int]:
    """Return the id of each node. Raises `WrongDirectory` if the directories do not belong
    together.
    """
    known: dict[int, Path | None] = {}
    first: tuple[MetaProperties, Path | None] | None = None
    for identity, directory in zip(identities, directories, strict=True):
        if identity is None:
            continue
        first = first or (identity, directory)
        if identity.cluster_id != first[0].cluster_id:
            raise WrongDirectory(
                f"{directory} belongs to cluster {identity.cluster_id}, and {first[1]} to cluster "
                f"{first[0].cluster_id}. What to do: start each with `odradek up --data-dir`, or "
                "give another --data-dir, whose neighbours are new"
            )
        if identity.node_id in known:
            raise WrongDirectory(
                f"{directory} and {known[identity.node_id]} both belong to node "
                f"{identity.node_id}: one is a copy. What to do: move the copy away"
            )
        known[identity.node_id] = directory
    free = (each for each in range(1, len(identities) + len(known) + 1) if each not in known)
    return [next(free) if each is None else each.node_id for each in identities]


def _places(host: str, port: int | None, kept: Sequence[KeptPlace | None]) -> list[KeptPlace]:
    """Return the ports of each node: those that it had, or free ones after the first node's."""
    has_moved = port not in (None, 0) and kept[0] is not None and kept[0].port != port
    known = [None if has_moved else each for each in kept]
    taken = [each.port for each in known if each is not None]
    asked = port if port is not None else DEFAULT_PORT
    places: list[KeptPlace] = []
    for number, each in enumerate(known):
        if each is None:
            exact = number == 0
            first = asked if exact or not asked else places[0].port + 1
            found = free_ports(host, first, 1, exact=exact, taken=taken)[0]
            taken.append(found)
            each = KeptPlace(found, cluster_port(found))
        places.append(replace(each, host=host))
    return places


def _http_of(http: HttpSettings | None, number: int) -> HttpSettings | None:
    """Return where a node serves HTTP: after the first one's port, unless any is meant."""
    if http is None or http.port == 0:
        return http
    return replace(http, port=http.port + number)


def check_settings(given: Mapping[str, str]) -> None:
    """Raise `BadSettingsOfNodes` for a setting that each node has a value of its own of."""
    for name in OF_ONE_NODE:
        if name in given:
            raise BadSettingsOfNodes(
                f"--set {name} is of one node, and -n gives each its own. What to do: leave it "
                "out, or start each node with a command of its own (odradek up --join)"
            )
