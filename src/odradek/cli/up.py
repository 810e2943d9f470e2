"""`odradek up`: one broker in the foreground, or a cluster of several, until it is stopped.

    odradek up              one node, alone
    odradek up --cluster    one node that others may join: with a CLUSTER listener
    odradek up --join A:P   a node that joins the cluster of a broker (`joining`)
    odradek up -n 3         three nodes on this machine, a process each (`node_processes`)

A directory whose node was in a cluster starts as a part of it without any option
(`cluster_place`). The ready line is the only output on stdout: a sentence, or with `--json` one
JSON object for a program that starts the broker and waits for it. The first SIGINT or SIGTERM stops
cleanly (exit 0), the second one at once (exit 130). Invalid settings exit with 2, as invalid
arguments do; a port or a directory that cannot be used, with 1.

The command also sets what belongs to the whole process: the limit of descriptors, the garbage
collector and the allocator. A broker in a user's process (`odradek.testing.Broker`) leaves these as
they are.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import resource
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

import odradek
from odradek.broker.server import BadSettings, IdTaken, Server, StartFailed, identity_of
from odradek.cli import exits
from odradek.cli.cluster_place import (
    DEFAULT_HOST,
    DEFAULT_PORT,
    BadSettingsOfNodes,
    CannotPlace,
    KeptPlace,
    MadeDirectories,
    cluster_port,
    free_ports,
    host_of,
    is_controller_alone,
    is_reachable,
    kept_place,
    node_settings,
    open_to_nodes,
)
from odradek.config.addresses import (
    BROKER_VARIABLES,
    address_text,
    default_brokers,
    parse_address,
)
from odradek.config.http import HttpSettings, parse_http
from odradek.config.setting import ConfigError
from odradek.log.directory_identity import WrongDirectory
from odradek.network import allocator
from odradek.network.listener import AddressInUseError

if TYPE_CHECKING:
    from odradek.cli.nodes_plan import NodesPlan

DEFAULT_DIRECTORY = "odradek-data"
MOST_NODES = 9


@click.command()
@click.option(
    "-n",
    "--nodes",
    type=click.IntRange(1, MOST_NODES),
    default=1,
    show_default=True,
    help="How many nodes, each a process: a cluster on this machine.",
)
@click.option(
    "--cluster",
    is_flag=True,
    help="Also serve other nodes, so that they can join (at the port + 10000). A directory keeps "
    "it.",
)
@click.option(
    "--join",
    metavar="HOST:PORT",
    help="Join the cluster of this broker, or any of several after commas: the address that "
    "clients use. A directory that is in a cluster keeps its place without it.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="The port of clients, 0 for any; of several nodes the first one's.  [default: the one "
    f"that the cluster's directory has kept, or {DEFAULT_PORT}]",
)
@click.option(
    "--host",
    help="Name or address to listen on; 0.0.0.0 for every interface.  [default: the one that the "
    f"cluster's directory has kept, or {DEFAULT_HOST}]",
)
@click.option(
    "--data-dir",
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="The directory of the logs; with -n also DIR-2, DIR-3 ...  [default: "
    f"./{DEFAULT_DIRECTORY}]",
)
@click.option("--memory", is_flag=True, help="Keep everything in memory, nothing on disk.")
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="A broker setting, repeatable."
)
@click.option(
    "--http",
    metavar="ADDRESS:PORT|PORT|none",
    help="Where to serve metrics (/metrics) and health checks (/livez, /readyz) over HTTP; 'none' "
    "for nowhere.  [default: 127.0.0.1:9404, or the next free port]",
)
@click.option(
    "--http-token",
    metavar="TOKEN",
    envvar="ODRADEK_HTTP_TOKEN",
    show_envvar=True,
    help="The token that HTTP clients must send (Authorization: Bearer TOKEN). Needed where other "
    "machines can connect. A command line is visible to others: prefer the variable or a file.",
)
@click.option(
    "--http-token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with that token.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    show_default=True,
    help="The log level on stderr.",
)
@click.option("--json", "as_json", is_flag=True, help="The ready line as one JSON object.")
def up(
    nodes: int,
    cluster: bool,
    join: str | None,
    port: int | None,
    host: str | None,
    data_dir: Path | None,
    memory: bool,
    settings: tuple[str, ...],
    http: str | None,
    http_token: str | None,
    http_token_file: Path | None,
    log_level: str,
    as_json: bool,
) -> None:
    """Start a broker for any Kafka client, or a cluster of several."""
    if memory and data_dir is not None:
        raise click.UsageError("--memory keeps nothing on disk: leave out --data-dir, or --memory")
    if join is not None and nodes > 1:
        raise click.UsageError(
            "--join starts one node, and -n a cluster: leave out one of them. A cluster of -n is "
            "joined by others"
        )
    http_settings = parse_http_options(http, http_token, http_token_file)
    given = parse_settings(settings)
    logging.basicConfig(
        level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    raise_descriptor_limit()
    keep_freed_memory()
    tune_garbage_collector()
    directory = None if memory else (data_dir or Path(DEFAULT_DIRECTORY)).absolute()
    try:
        host = host_of(host, directory)
        if nodes > 1:
            from odradek.cli.nodes_plan import plan_nodes  # Only here: one node needs none of it.

            plan = plan_nodes(
                nodes, host=host, port=port, data_dir=directory, given=given, http=http_settings
            )
            code = run_nodes(plan, log_level, as_json)
            sys.stderr.flush()
            sys.exit(code)
        if join is None:
            node = one_node(host, port, directory, given, cluster=cluster)
            server = start(node, host, directory, http_settings)
        else:
            server = start_joined(join, host, port, directory, given, http_settings)
    except (StartFailed, CannotPlace, WrongDirectory, OSError) as failure:
        click.echo(f"odradek: {reason_text(failure)}", err=True)
        bad = isinstance(failure, BadSettings | BadSettingsOfNodes)
        sys.exit(exits.USAGE if bad else exits.FAILED)
    tell_where_others_reach(server, host)
    stop_on_signals(server)
    click.echo(ready_line(server, as_json))
    sys.stdout.flush()
    freeze_loaded()
    server.run(signals=True)


def reason_text(failure: Exception) -> str:
    """Return why a start failed, and what to do."""
    if isinstance(failure, AddressInUseError):
        return f"{failure.strerror}. What to do: stop that, or choose another port with --port"
    return str(failure)


@dataclass(frozen=True, slots=True)
class OneNode:
    """How the only node of this process starts. `place` None: it is alone."""

    port: int
    settings: Mapping[str, str]
    place: KeptPlace | None


def one_node(
    host: str,
    port: int | None,
    directory: Path | None,
    given: Mapping[str, str],
    *,
    cluster: bool,
    bootstrap: tuple[str, ...] = (),
) -> OneNode:
    """Return how one node starts: with the id of its directory, and as a part of the cluster that
    it was in. `bootstrap`: CLUSTER addresses of the cluster that it is to join.

    Raises `CannotPlace`, `WrongDirectory`, `OSError`.
    """
    identity = None if directory is None else identity_of(str(directory))
    kept = None if directory is None else kept_place(directory)
    settings = dict(given)
    if identity is not None and not {"node.id", "broker.id"} & given.keys():
        settings["node.id"] = str(identity.node_id)
    if kept is not None and kept.roles:
        settings.setdefault("process.roles", kept.roles)
    alone_in_role = is_controller_alone(settings)
    makes_place = cluster or (alone_in_role and "listeners" not in settings)
    if kept is None and not makes_place:
        return OneNode(DEFAULT_PORT if port is None else port, settings, None)
    if kept is None or (port and port != kept.port):
        first = DEFAULT_PORT if port is None else port
        (chosen,) = free_ports(host, first, 1, exact=True, taken=())
        before = () if kept is None else kept.bootstrap
        kept = KeptPlace(chosen, cluster_port(chosen), before)
    kept = replace(
        kept,
        host=host,
        bootstrap=bootstrap or kept.bootstrap,
        roles=settings["process.roles"] if alone_in_role else "",
    )
    node_id = int(settings.get("node.id", settings.get("broker.id", "1")))
    return OneNode(kept.port, node_settings(node_id, host, kept, settings), kept)


def start(
    node: OneNode,
    host: str,
    directory: Path | None,
    http: HttpSettings | None,
    *,
    id_was_free: bool = False,
) -> Server:
    """Start one node; `id_was_free` as of `Server`. A directory that a failed start has made is
    removed. Raises `StartFailed`, `OSError`.
    """
    server = Server(
        node.settings,
        host=host,
        port=node.port,
        data_dir=None if directory is None else str(directory),
        http=http,
        id_was_free=id_was_free,
        many_made=gc.freeze,
    )
    if node.place is None or directory is None:
        server.start(tell_opened)
        return server
    made = MadeDirectories([directory])
    try:
        node.place.write(directory)
        server.start(tell_opened)
    except BaseException:
        made.remove()
        raise
    return server


def start_joined(
    join: str,
    host: str,
    port: int | None,
    directory: Path | None,
    given: Mapping[str, str],
    http: HttpSettings | None,
) -> Server:
    """Start a node that joins a cluster, or is in it already. Raises `CannotPlace`, `StartFailed`,
    `WrongDirectory`, `OSError`.
    """
    from odradek.cli import joining  # Only here: it imports the clients.

    identity = None if directory is None else identity_of(str(directory))
    is_member = identity is not None and directory is not None and kept_place(directory) is not None
    found = joining.look_at_cluster(join) if is_member else joining.find_cluster(join)
    if found is None:
        return start(one_node(host, port, directory, given, cluster=True), host, directory, http)
    if identity is not None:
        joining.check_directory(found, identity.cluster_id, directory, join)
    joining.check_joinable(found, join)
    settings = {"cluster.id": found.cluster_id, **given}
    chooses = identity is None and not {"node.id", "broker.id"} & given.keys()
    if identity is None and not chooses:
        joining.check_id(found, int(given.get("node.id") or given["broker.id"]))
    taken: set[int] = set()
    while True:
        if chooses:
            settings["node.id"] = str(found.lowest_free_id(taken))
            if found.down and not taken:
                tell_of_replaced(found.down)
        node = one_node(host, port, directory, settings, cluster=True, bootstrap=found.bootstrap)
        try:
            return start(node, host, directory, http, id_was_free=chooses)
        except IdTaken:
            if not chooses:
                raise
            taken.add(int(settings["node.id"]))


def tell_of_replaced(down: tuple[int, ...]) -> None:
    """Say how a new node takes the place of one that is down."""
    listed = ", ".join(map(str, down))
    click.echo(
        f"odradek: of that cluster these nodes are down: {listed}. If this one replaces one of "
        f"them, start it with --set node.id={down[0]}; nodes that never come back are removed with "
        f"odradek cluster drain and odradek cluster remove",
        err=True,
    )


def tell_where_others_reach(server: Server, host: str) -> None:
    """Say on stderr what clients and nodes on other machines need to know."""
    if server.advertises_own_address:
        click.echo(
            f"odradek: listening on every interface; clients are told {server.bootstrap}. If they "
            f"cannot reach this machine there, set their address: "
            f"--set advertised.listeners=PLAINTEXT://HOST:PORT",
            err=True,
        )
    if server.node.cluster_address[1] and is_reachable(host):
        click.echo(open_to_nodes([server.node.cluster_address]), err=True)


def run_nodes(plan: NodesPlan, log_level: str, as_json: bool) -> int:
    """Run the nodes of a cluster until they have stopped; return the exit code."""
    from odradek.cli.node_processes import NodeProcesses

    directories = [each.data_dir for each in plan.nodes if each.data_dir is not None]
    made = MadeDirectories(directories)

    def all_ready(told: list[dict[str, Any]]) -> None:
        if plan.is_grown:
            raise_min_in_sync(plan, told)
        if is_reachable(plan.nodes[0].host):
            at = [parse_address(each["cluster_address"]) for each in told]
            click.echo(open_to_nodes(at), err=True)
        click.echo(nodes_ready_line(told, as_json))
        sys.stdout.flush()

    return NodeProcesses(plan.nodes, log_level, all_ready, made.remove).run()


def raise_min_in_sync(plan: NodesPlan, told: list[dict[str, Any]]) -> None:
    """Require two replicas in sync in a cluster that has just become one of three or more.

    It is a value of the cluster, which the node that was alone has recorded. Partitions with one
    replica go on as before.
    """
    from odradek import Admin  # Only here: it imports the clients.
    from odradek.client.errors import KafkaError

    name = "min.insync.replicas"
    wanted = plan.nodes[0].settings.get(name)
    if wanted is None:
        return
    try:
        with Admin(brokers=",".join(each["address"] for each in told)) as admin:
            admin.set_config({name: wanted}, broker="all")
    except KafkaError as error:
        click.echo(f"odradek: {name} could not be set to {wanted}: {error}", err=True)


def nodes_ready_line(told: list[dict[str, Any]], as_json: bool) -> str:
    bootstrap = ",".join(each["address"] for each in told)
    if as_json:
        line = {
            "bootstrap": bootstrap,
            "nodes": told,
            "pid": os.getpid(),
            "version": odradek.__version__,
        }
        return json.dumps(line)
    lines = [f"Odradek {odradek.__version__} is ready: bootstrap.servers={bootstrap}"]
    for each in told:
        metrics = "" if each["http"] is None else f"  metrics: {each['http']}/metrics"
        lines.append(
            f"  node {each['id']}: {each['address']}  pid {each['pid']}{metrics}  data: "
            f"{each['data_dir'] or 'memory'}"
        )
    lines.append(
        f"Next: see the cluster with  odradek cluster status -b {told[0]['address']}   "
        "(Ctrl-C stops all)"
    )
    return "\n".join([*lines, *other_port_lines(told[0]["address"])])


def other_port_lines(address: str) -> list[str]:
    """Return how other commands find a broker that is not where they look by default."""
    known = default_brokers(os.environ)
    ports = {each.rpartition(":")[2] for each in known.split(",")}
    if address.rpartition(":")[2] in ports:
        return []
    return [
        f"Other odradek commands look at {known}: give them  -b {address}  or set  "
        f"{BROKER_VARIABLES[0]}={address}"
    ]


def parse_settings(pairs: tuple[str, ...]) -> dict[str, str]:
    """`("a=1", "b=2")` -> `{"a": "1", "b": "2"}`; the broker's table checks names and values."""
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(
                f"--set {pair!r}: write NAME=VALUE, as in --set num.partitions=3"
            )
        settings[name.strip()] = value.strip()
    return settings


def parse_http_options(
    http: str | None, token: str | None, token_file: Path | None
) -> HttpSettings | None:
    """The settings of the options for HTTP. A file is preferred to the environment variable."""
    if token_file is not None:
        source = click.get_current_context().get_parameter_source("http_token")
        if source is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError("give --http-token or --http-token-file, not both")
        try:
            token = token_file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise click.UsageError(f"--http-token-file {token_file}: {error}") from error
    try:
        return parse_http(http, token)
    except ConfigError as error:
        raise click.UsageError(f"--http: {error}") from error


def ready_line(server: Server, as_json: bool) -> str:
    where = "memory" if server.data_dir is None else server.data_dir
    url = None if server.http is None else server.http.url
    if as_json:
        line = {
            "bootstrap": server.bootstrap if server.config.has_broker_role else None,
            "data_dir": server.data_dir,
            "http": url,
            "pid": os.getpid(),
            "version": odradek.__version__,
        }
        if server.node.cluster_address[1]:
            line["cluster_address"] = address_text(*server.node.cluster_address)
        return json.dumps(line)
    bootstrap = server.bootstrap
    metrics = "" if url is None else f"  metrics: {url}/metrics"
    if not server.config.has_broker_role:
        return (
            f"Odradek {odradek.__version__} is ready: a controller, for other nodes at {bootstrap}"
            f"{metrics}  data: {where}"
        )
    lines = [
        f"Odradek {odradek.__version__} is ready: bootstrap.servers={bootstrap}"
        f"{metrics}  data: {where}",
        f"Next: point any Kafka client at it, for example  kcat -b {bootstrap} -L   (Ctrl-C stops)",
        *other_port_lines(bootstrap),
    ]
    return "\n".join(lines)


def tell_opened(opened: int, total: int) -> None:
    click.echo(f"odradek: starting, {opened:,} of {total:,} logs are open", err=True)


def tell_progress(flushed: int, total: int) -> None:
    click.echo(f"odradek: stopping, {flushed:,} of {total:,} logs are flushed", err=True)


STOPPING = b"odradek: stopping (again to stop at once)\n"


def stop_on_signals(server: Server) -> None:
    seen = 0

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal seen
        seen += 1
        if seen > 1:
            os._exit(130)
        # Not through stderr's buffer: the signal may interrupt a write to it.
        with contextlib.suppress(OSError):
            os.write(2, STOPPING)
        server.request_stop(tell_progress)

    signal.signal(signal.SIGINT, on_signal)
    signal.signal(signal.SIGTERM, on_signal)


DESCRIPTORS_WANTED = 10_240 if sys.platform == "darwin" else 1 << 17

KEPT_BYTES = 64 << 20
"""Up to this much freed memory at the end of the heap is kept."""

HEAP_BYTES = 16 << 20
"""Blocks up to this size come from the heap; larger ones, which are rare, are mapped."""


def raise_descriptor_limit() -> None:
    """Raise the soft limit of descriptors to the hard limit, as a JVM does: every connection and
    every open file takes one, and the usual soft limit is 1,024.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = wanted_descriptors(soft, hard)
    if wanted != soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def wanted_descriptors(soft: int, hard: int) -> int:
    """The soft limit that a broker sets, given the limits that it has."""
    wanted = DESCRIPTORS_WANTED if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_WANTED)
    return soft if soft == resource.RLIM_INFINITY else max(soft, wanted)


NO_FULL_COLLECTION = 1_000_000


def tune_garbage_collector() -> None:
    """Collect less often than the default (every 700 new objects): reference counting frees nearly
    all objects of a broker. What a start makes stays: only `freeze_loaded` lets the collector look
    at old objects again.
    """
    gc.set_threshold(20_000, 20, NO_FULL_COLLECTION)


def freeze_loaded() -> None:
    """Freeze the loaded objects: the collector does not look at them again.

    The garbage of the imports, some thousand objects, is frozen too: to collect it would take the
    loop 30 ms before its first request, and with 10,000 partitions 150 ms. What is made for
    thousands of partitions later is frozen when all of them are open (`Env.many_made`): to look at
    10,000 of them takes 200 ms.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def keep_freed_memory() -> bool:
    """Let the allocator keep freed memory, up to `KEPT_BYTES`; False if it has no such setting.

    Otherwise page faults took most of the CPU time of large produce requests: see `allocator`.
    """
    return allocator.keep_up_to(KEPT_BYTES, HEAP_BYTES)
