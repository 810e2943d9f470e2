"""`odradek cluster`: brokers and quorum of any Kafka cluster, and moves of replicas between them.

`grow`, `drain` and `topic alter --replicas` follow a plan of `replica_plan`: a bounded number of
partitions is copied at a time. Interrupted, what is under way goes on in the cluster, and the same
command goes on with the rest.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from odradek.cli import exits
from odradek.cli.clients import admin, broker_options, cluster_settings
from odradek.cli.options import (
    DRY_RUN,
    YES,
    AliasedGroup,
    confirm,
    json_flag,
    json_option,
    repeat,
    watch_option,
)
from odradek.cli.output import Listing, plural, print_stderr, report_done, show
from odradek.cli.replica_plan import Placement, Plan, PlanError, Planner
from odradek.client.admin.results import LogDirectory, Quorum, Reassignment, Topic
from odradek.client.errors import KafkaError
from odradek.model.topics import TopicPartition

if TYPE_CHECKING:
    from odradek import Admin

DEFAULT_REPLICAS = 3
LEAST_VOTERS = 2
"""The number of voters that must all run for one to be removed. Of more, it is stopped first."""
AT_ONCE = 50
LOOK_EVERY_S = 0.5
SAY_EVERY_S = 5.0
ADDRESS_UNKNOWN = "runs"
"""In the place of the address of a node that runs."""

AT_ONCE_OPTION = click.option(
    "--at-once",
    type=click.IntRange(1, 10_000),
    default=AT_ONCE,
    show_default=True,
    help="How many partitions are copied at a time.",
)


@click.group(cls=AliasedGroup, aliases={"describe": "status", "info": "status"})
def cluster() -> None:
    """The cluster: status, grow, drain, remove."""


@cluster.command("status")
@watch_option
@json_option
@broker_options
@click.pass_context
def status(ctx: click.Context, pause_s: float | None, as_json: bool) -> None:
    """Show brokers, the metadata quorum, and what is wrong with partitions."""
    with admin(cluster_settings(ctx)) as client:

        def look() -> None:
            found = client.cluster()
            topics = client.topics(internal=True)
            quorum = client.quorum()
            directories = client.log_dirs()
            sizes, cordoned = sizes_of(directories), cordoned_among(directories)
            replicas = Counter(r for t in topics for p in t.partitions for r in p.replicas)
            leaders = Counter(p.leader for t in topics for p in t.partitions)
            brokers = Listing(
                (
                    "broker",
                    "address",
                    "rack",
                    "leads",
                    "replicas",
                    "bytes",
                    "quorum",
                    "behind",
                    "cordoned",
                ),
                title=f"cluster {found.cluster_id}",
            )
            roles = {node: (role, behind) for node, role, behind in quorum_roles(quorum)}
            nodes = {node.id: node for node in found.nodes}
            registered = {node.id for node in client.cluster(include_fenced=True).nodes}
            controllers = controllers_alone(quorum, registered)
            for node_id in sorted({*nodes, *roles, *replicas}):
                node = nodes.get(node_id)
                role, behind = roles.get(node_id, (None, None))
                brokers.add(
                    node_id,
                    controllers.get(node_id, "down")
                    if node is None
                    else f"{node.host}:{node.port}",
                    None if node is None else node.rack,
                    leaders[node_id],
                    replicas[node_id],
                    sizes.get(node_id),
                    role,
                    behind,
                    node_id in cordoned,
                )
            show(brokers, as_json=as_json)
            show(partition_summary(topics, client.reassignments()), as_json=as_json)

        repeat(pause_s, look)


def quorum_roles(quorum: Quorum) -> list[tuple[int, str, int | None]]:
    """Return each node's part in the quorum, and how many records it is behind the leader."""
    ends = {each.node_id: each.log_end_offset for each in (*quorum.voters, *quorum.observers)}
    end = ends.get(quorum.leader, quorum.high_watermark)

    def behind(node_id: int) -> int | None:
        return None if ends[node_id] < 0 else max(0, end - ends[node_id])

    return [
        (
            each.node_id,
            "leader" if each.node_id == quorum.leader else role,
            behind(each.node_id),
        )
        for role, nodes in (("voter", quorum.voters), ("observer", quorum.observers))
        for each in nodes
    ]


def controllers_alone(quorum: Quorum, brokers: Collection[int]) -> dict[int, str]:
    """Return the running nodes of the quorum that are none of the `brokers`, and where nodes reach
    them: of those that do not vote (yet) that is not known.
    """
    observers = {each.node_id for each in quorum.observers}.difference(brokers)
    found = dict.fromkeys(observers - quorum.silent_observers(), ADDRESS_UNKNOWN)
    elsewhere = quorum.silent_voters().union(brokers)
    for node_id, listeners in quorum.listeners.items():
        if listeners and node_id not in elsewhere:
            found[node_id] = next(iter(listeners.values()))
    return found


def sizes_of(found: Mapping[int, Sequence[LogDirectory]]) -> dict[int, int]:
    """Return the bytes of the replicas of each broker, from its data directories."""
    return {
        broker: sum(size for directory in directories for size in directory.replicas.values())
        for broker, directories in found.items()
    }


def cordoned_among(found: Mapping[int, Sequence[LogDirectory]]) -> set[int]:
    """Return the brokers that take no new partitions, from their data directories."""
    return {
        broker
        for broker, directories in found.items()
        if directories and all(each.is_cordoned for each in directories)
    }


def partition_summary(
    topics: Iterable[Topic], moving: Mapping[TopicPartition, Reassignment]
) -> Listing:
    """Count the partitions, and those that need attention."""
    partitions = [partition for topic in topics for partition in topic.partitions]
    columns = ("partitions", "without_leader", "under_replicated", "not_preferred", "moving")
    listing = Listing(columns)
    listing.add(
        len(partitions),
        sum(each.leader < 0 for each in partitions),
        sum(len(each.isr) < len(each.replicas) for each in partitions),
        sum(each.leader != each.replicas[0] for each in partitions),
        len(moving),
    )
    return listing


@cluster.command("grow")
@click.option(
    "-r",
    "--replicas",
    type=click.IntRange(1, 2**15 - 1),
    default=DEFAULT_REPLICAS,
    show_default=True,
    help="Replicas of each partition that has fewer; at most the number of brokers.",
)
@AT_ONCE_OPTION
@YES
@DRY_RUN
@json_flag()
@broker_options
@click.pass_context
def grow(
    ctx: click.Context, replicas: int, at_once: int, yes: bool, dry_run: bool, as_json: bool
) -> None:
    """Give partitions more replicas, those of internal topics too, and spread the leaders."""
    with admin(cluster_settings(ctx)) as client:
        placements = present_placements(client)
        plan = planner(client, placements).grow(replicas)
        carry_out(client, plan, placements, at_once, yes=yes, dry_run=dry_run, as_json=as_json)


@cluster.command("drain")
@click.argument("broker", metavar="BROKER", type=click.IntRange(0))
@AT_ONCE_OPTION
@YES
@DRY_RUN
@json_flag()
@broker_options
@click.pass_context
def drain(
    ctx: click.Context, broker: int, at_once: int, yes: bool, dry_run: bool, as_json: bool
) -> None:
    """Move all replicas from one broker to the others, so that it can be removed."""
    with admin(cluster_settings(ctx)) as client:
        placements = present_placements(client)
        known = {node.id for node in client.cluster().nodes}
        if broker not in known and not any(broker in p.replicas for p in placements.values()):
            print_stderr(f"odradek: there is no broker {broker}; there are {ids(known)}")
            ctx.exit(exits.NOT_FOUND)
        try:
            plan = planner(client, placements).drain(broker)
        except PlanError as error:
            raise click.ClickException(str(error)) from error
        carry_out(client, plan, placements, at_once, yes=yes, dry_run=dry_run, as_json=as_json)


@cluster.command("remove")
@click.argument("broker", metavar="BROKER", type=click.IntRange(0))
@YES
@DRY_RUN
@json_flag()
@broker_options
@click.pass_context
def remove(ctx: click.Context, broker: int, yes: bool, dry_run: bool, as_json: bool) -> None:
    """Remove a drained broker: from the quorum's voters, and, once it is stopped, for good."""
    with admin(cluster_settings(ctx)) as client:
        holding = [key for key, p in present_placements(client).items() if broker in p.replicas]
        if holding:
            raise click.ClickException(
                f"broker {broker} has replicas of {plural(len(holding), 'partition')}. What to do: "
                f"odradek cluster drain {broker}"
            )
        quorum = client.quorum()
        voter = next((each for each in quorum.voters if each.node_id == broker), None)
        is_registered = any(n.id == broker for n in client.cluster(include_fenced=True).nodes)
        if is_registered or voter is None:
            runs = any(node.id == broker for node in client.cluster().nodes)
        else:
            runs = broker not in quorum.silent_voters()
        if runs and (voter is None or len(quorum.voters) > LEAST_VOTERS):
            # A node that joins the quorum by itself would be a voter again.
            raise click.ClickException(
                f"broker {broker} runs, and would join again. What to do: stop it, then odradek "
                f"cluster remove {broker}"
            )
        steps = Listing(("step", "broker"))
        if voter is not None:
            if len(quorum.voters) == 1:
                raise click.ClickException(
                    f"broker {broker} is the only voter of the metadata quorum. What to do: add "
                    "another node first"
                )
            steps.add("remove the voter", broker)
        if is_registered or voter is None:
            steps.add("unregister" if not runs else "unregister, once it is stopped", broker)
        if not confirm(steps, "Remove", yes=yes, dry_run=dry_run, as_json=as_json):
            return
        if voter is not None:
            client.remove_voter(broker, voter.directory_id)
            report_done(
                f"broker {broker}: no voter any more", as_json=as_json, broker=broker, voter=False
            )
        if runs:
            raise click.ClickException(
                f"broker {broker} runs, and would register again. What to do: stop it, then "
                f"odradek cluster remove {broker}"
            )
        if is_registered or voter is None:
            client.unregister_broker(broker)
        report_done(f"broker {broker}: removed", as_json=as_json, broker=broker, removed=True)


def present_placements(client: Admin) -> dict[TopicPartition, Placement]:
    """Return where all replicas are, or will be when the moves that are under way are done."""
    moving = client.reassignments()
    placements = {}
    for topic in client.topics(internal=True):
        for each in topic.partitions:
            key = TopicPartition(topic.name, each.partition)
            replicas = each.replicas
            if key in moving:
                replicas = tuple(r for r in moving[key].replicas if r not in moving[key].removing)
            placements[key] = Placement(replicas, each.leader, each.isr)
    return placements


def planner(client: Admin, placements: Mapping[TopicPartition, Placement]) -> Planner:
    """Return a planner over the brokers that run and are not cordoned."""
    cordoned = cordoned_among(client.log_dirs())
    racks = {node.id: node.rack for node in client.cluster().nodes if node.id not in cordoned}
    return Planner(racks, placements)


def carry_out(
    client: Admin,
    plan: Plan,
    placements: Mapping[TopicPartition, Placement],
    at_once: int,
    *,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Show a plan, ask, and carry it out; then wait for what is under way and elect the preferred
    leaders. Exits with an error if a partition could not be moved."""
    listing = Listing(("topic", "partition", "replicas", "new_replicas"))
    for key, replicas in plan.items():
        listing.add(key.topic, key.partition, list(placements[key].replicas), list(replicas))
    if plan and not confirm(listing, "Move", yes=yes, dry_run=dry_run, as_json=as_json):
        return
    if not plan:
        print_stderr("odradek: every partition is where it should be")
    if dry_run:
        return
    moves = Moves(client, plan, at_once, as_json)
    moves.run()
    elect_preferred(client, as_json)
    if moves.failed:
        raise click.ClickException(
            f"{plural(moves.failed, 'partition')} could not be moved. What to do: see above, then "
            "run the command again"
        )
    if moves.moved:
        print_stderr(f"odradek: {plural(moves.moved, 'partition')} moved")


class Moves:
    """Carries out a plan, `at_once` partitions at a time, and tells what is done."""

    def __init__(self, client: Admin, plan: Plan, at_once: int, as_json: bool) -> None:
        self.moved = self.failed = 0
        self._client = client
        self._left = dict(plan)
        self._total = len(plan)
        self._at_once = at_once
        self._as_json = as_json
        self._plan = plan
        self._moving: set[TopicPartition] = set()
        self._said_s = time.monotonic()

    def run(self) -> None:
        """Move everything, and wait for moves of others that are under way."""
        while True:
            under_way = self._client.reassignments()
            for key in sorted(self._moving.difference(under_way)):
                self._done(key)
            self._moving &= set(under_way)
            self._begin(self._at_once - len(under_way))
            if not self._left and not self._moving and not under_way:
                return
            self._say(under_way)
            time.sleep(LOOK_EVERY_S)

    def _begin(self, room: int) -> None:
        batch = dict(list(self._left.items())[: max(0, room)])
        if not batch:
            return
        for key, error in self._client.alter_reassignments(batch).items():
            del self._left[key]
            if error is None:
                self._moving.add(key)
            else:
                self._refused(key, error)

    def _done(self, key: TopicPartition) -> None:
        self.moved += 1
        replicas = list(self._plan[key])
        if self._as_json:
            report_done(
                "", as_json=True, topic=key.topic, partition=key.partition, replicas=replicas
            )

    def _refused(self, key: TopicPartition, error: KafkaError) -> None:
        self.failed += 1
        print_stderr(f"odradek: {error}")
        if self._as_json:
            report_done(
                "", as_json=True, topic=key.topic, partition=key.partition, error=str(error)
            )

    def _say(self, under_way: Mapping[TopicPartition, Reassignment]) -> None:
        now = time.monotonic()
        if now - self._said_s >= SAY_EVERY_S:
            self._said_s = now
            print_stderr(
                f"odradek: {self.moved:,} of {plural(self._total, 'partition')} moved, "
                f"{len(under_way):,} under way{self._copied_text(under_way)} "
                "(Ctrl-C leaves those to the cluster)"
            )

    def _copied_text(self, under_way: Mapping[TopicPartition, Reassignment]) -> str:
        try:
            directories = self._client.log_dirs()
        except KafkaError:
            return ""  # A broker that restarts; only the progress would need it.
        sizes = {
            broker_id: {key: size for each in found for key, size in each.replicas.items()}
            for broker_id, found in directories.items()
        }
        copied, whole = copied_bytes(under_way, sizes)
        return f", {copied / 1e6:,.0f} of {whole / 1e6:,.0f} MB copied" if whole else ""


def copied_bytes(
    under_way: Mapping[TopicPartition, Reassignment],
    sizes: Mapping[int, Mapping[TopicPartition, int]],
) -> tuple[int, int]:
    """The bytes that new replicas have, and those that they will have. `sizes`: of the replicas of
    each broker.
    """
    copied = whole = 0
    for key, move in under_way.items():
        known = {broker_id: sizes.get(broker_id, {}).get(key, 0) for broker_id in move.replicas}
        most = max(known.values(), default=0)
        whole += most * len(move.adding)
        copied += sum(known.get(broker_id, 0) for broker_id in move.adding)
    return copied, whole


def elect_preferred(client: Admin, as_json: bool) -> None:
    """Elect the preferred leader of each partition that another one leads."""
    wrong = [
        TopicPartition(topic.name, each.partition)
        for topic in client.topics(internal=True)
        for each in topic.partitions
        if each.leader != each.replicas[0] and each.replicas[0] in each.isr
    ]
    if not wrong:
        return
    errors = [error for error in client.elect_leaders(wrong).values() if error is not None]
    for error in errors:
        print_stderr(f"odradek: {error}")
    report_done(
        f"preferred leaders elected of {plural(len(wrong) - len(errors), 'partition')}",
        as_json=as_json,
        elected=len(wrong) - len(errors),
    )


def ids(brokers: Iterable[int]) -> str:
    return ", ".join(str(each) for each in sorted(brokers))
