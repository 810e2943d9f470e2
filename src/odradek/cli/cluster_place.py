"""A node's place in a cluster: its id, its addresses, and what its directory keeps of them.

    <data directory>/cluster.properties
        port=9093                   of its clients
        host=0.0.0.0                that it listens on, if that is not the default
        cluster.port=19093          of other nodes: the CLUSTER listener
        bootstrap=10.0.0.1:19092    CLUSTER addresses of nodes that know the quorum; may be absent
        roles=controller            of a node that is a controller alone; else absent

A node that is alone has no such file. The file is written before a node first takes part in a
cluster, so that from then on it starts as a part of it, whatever the command line says.

The CLUSTER listener follows `--host`, on the port of clients + 10000 (or - 10000 where that is more
than 65535).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom

from odradek.config.addresses import (
    CLUSTER,
    EVERY_INTERFACE,
    Listener,
    address_text,
    parse_listener,
)
from odradek.network.listener import AddressInUseError, bound_socket, own_address

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 9092
CLUSTER_FILE = "cluster.properties"
PORTS_APART = 10_000
HIGHEST_PORT = 65_535
LEAST_PORT, MOST_PORT = 10_240, 16_700
"""The first port of a cluster that may have any: it and the CLUSTER port are below those that
systems give to connections, so that no connection gets a port of a node that is down. Between them
there is room for the ports of `odradek.testing.Cluster`."""
PORTS_TRIED = 500
REPLICAS = 3
MIN_IN_SYNC = 2


class CannotPlace(Exception):
    """A node cannot have its place: its file is unreadable, or there is no free port."""


class BadSettingsOfNodes(CannotPlace):
    """A setting was given that each node has a value of its own of."""


def cluster_port(port: int) -> int:
    """Return the port of the CLUSTER listener of a node whose clients have `port`."""
    return port + PORTS_APART if port + PORTS_APART <= HIGHEST_PORT else port - PORTS_APART


@dataclass(frozen=True, slots=True)
class KeptPlace:
    """The contents of `cluster.properties`."""

    port: int
    cluster_port: int
    bootstrap: tuple[str, ...] = ()
    roles: str = ""
    """`process.roles`, of a node that is a controller alone."""
    host: str = DEFAULT_HOST
    """The host on which the node listened when it last started."""

    def write(self, directory: Path) -> None:
        """Write the file durably, into a directory that is made if it is missing."""
        directory.mkdir(parents=True, exist_ok=True)
        text = f"#\nport={self.port}\ncluster.port={self.cluster_port}\n"
        if self.host != DEFAULT_HOST:
            text += f"host={self.host}\n"
        if self.bootstrap:
            text += f"bootstrap={','.join(self.bootstrap)}\n"
        if self.roles:
            text += f"roles={self.roles}\n"
        temporary = directory / f"{CLUSTER_FILE}.tmp"
        with temporary.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(directory / CLUSTER_FILE)
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def kept_place(directory: Path) -> KeptPlace | None:
    """Return what a directory keeps, None if its node is alone. Raises `CannotPlace`, `OSError`."""
    path = directory / CLUSTER_FILE
    if not path.exists():
        return None
    lines = path.read_text().splitlines()
    values = dict(line.partition("=")[::2] for line in lines if not line.startswith("#"))
    try:
        bootstrap = tuple(each for each in values.get("bootstrap", "").split(",") if each)
        ports = int(values["port"]), int(values["cluster.port"])
        host = values.get("host", DEFAULT_HOST)
        return KeptPlace(*ports, bootstrap, values.get("roles", ""), host)
    except (KeyError, ValueError) as error:
        raise CannotPlace(
            f"{path} cannot be read ({error}). What to do: write port= and cluster.port= into it, "
            "those under which the other nodes know this one"
        ) from error


def host_of(given: str | None, directory: Path | None) -> str:
    """Return the host to listen on: what `--host` names, what the directory keeps, or loopback.

    Raises `CannotPlace`, `OSError`.
    """
    if given is not None:
        return given
    kept = None if directory is None else kept_place(directory)
    return DEFAULT_HOST if kept is None else kept.host


def node_settings(
    node_id: int, host: str, place: KeptPlace, given: Mapping[str, str]
) -> dict[str, str]:
    """Return the broker settings of a node with this place; those `given` by the user win."""
    listeners = [Listener(CLUSTER, host, place.cluster_port)]
    if not is_controller_alone(given):
        listeners.insert(0, Listener("PLAINTEXT", host, place.port))
    settings = {
        "node.id": str(node_id),
        "listeners": ",".join(map(str, listeners)),
        "controller.quorum.auto.join.enable": "true",
        **given,
    }
    texts = _advertised(given)
    if not any(parse_listener(each).name == CLUSTER for each in texts):
        at = Listener(CLUSTER, reached_host(host, given), place.cluster_port)
        settings["advertised.listeners"] = ",".join([*texts, str(at)])
    if place.bootstrap:
        settings.setdefault("controller.quorum.bootstrap.servers", ",".join(place.bootstrap))
    return settings


def is_controller_alone(given: Mapping[str, str]) -> bool:
    """True if the settings make a node that serves no clients."""
    return given.get("process.roles", "").strip() == "controller"


def reached_host(host: str, given: Mapping[str, str]) -> str:
    """Return the host at which other nodes reach one that listens on `host`: as its clients do."""
    named = [parse_listener(each).host for each in _advertised(given)]
    for each in named:
        if each not in EVERY_INTERFACE:
            return each
    return own_address(host) if host in EVERY_INTERFACE else host.strip("[]")


def _advertised(given: Mapping[str, str]) -> list[str]:
    return [each for each in given.get("advertised.listeners", "").split(",") if each.strip()]


def safe_defaults(nodes: int) -> dict[str, str]:
    """Return the settings of new topics in a cluster of so many nodes."""
    defaults = {"default.replication.factor": str(min(REPLICAS, nodes))}
    if nodes >= REPLICAS:
        defaults["min.insync.replicas"] = str(MIN_IN_SYNC)
    return defaults


def is_reachable(host: str) -> bool:
    """True if other machines may connect to a listener on this host."""
    return host not in ("127.0.0.1", "::1", "localhost")


def open_to_nodes(addresses: Iterable[tuple[str, int]]) -> str:
    """Return what to tell about CLUSTER listeners that other machines can reach."""
    where = ", ".join(address_text(*each) for each in addresses)
    return (
        f"odradek: other nodes are served at {where}, on the host of --host and without "
        "authentication: let only nodes of this cluster reach it"
    )


# Ports


def free_ports(
    host: str, first: int, count: int, *, exact: bool, taken: Iterable[int]
) -> list[int]:
    """Return ports for the clients of `count` nodes, from `first` on, 0 for any; the CLUSTER port
    of each is free, too.

    `exact`: the first one must be free, as it was asked for. Raises `CannotPlace`,
    `AddressInUseError`, `CannotListenError`.
    """
    used = {each for port in taken for each in (port, cluster_port(port))}
    found: list[int] = []
    port = first or SystemRandom().randrange(LEAST_PORT, MOST_PORT)
    for _ in range(PORTS_TRIED):
        if len(found) == count or port > HIGHEST_PORT:
            break
        if exact and first and not found:
            check_free(host, port, cluster_port(port))
        if not {port, cluster_port(port)} & used and _is_free(host, port, cluster_port(port)):
            found.append(port)
            used |= {port, cluster_port(port)}
        port += 1
    if len(found) < count:
        raise CannotPlace(
            f"there are not enough free ports from {first or port} on, each with the one of the "
            "CLUSTER listener. What to do: choose others with --port"
        )
    return found


def check_free(host: str, *ports: int) -> None:
    """Raise `AddressInUseError` or `CannotListenError` if nobody can listen there now."""
    for port in ports:
        bound_socket(host, port).close()


def _is_free(host: str, *ports: int) -> bool:
    try:
        check_free(host, *ports)
    except AddressInUseError:
        return False
    return True


# Directories that a failed start has made


class MadeDirectories:
    """The directories that did not exist, or were empty, before a start."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self._made = [each for each in directories if not each.exists()]
        self._emptied = [each for each in directories if each.is_dir() and not any(each.iterdir())]

    def remove(self) -> None:
        """Remove what the start put there: it failed before any node was ready."""
        import shutil  # Only here: nearly no start needs it.

        for each in self._made:
            shutil.rmtree(each, ignore_errors=True)
        for each in self._emptied:
            for inner in each.iterdir():
                if inner.is_dir():
                    shutil.rmtree(inner, ignore_errors=True)
                else:
                    inner.unlink(missing_ok=True)
