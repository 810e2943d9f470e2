"""`odradek cluster`: brokers and quorum of any Kafka cluster, and moves of replicas between them.

`grow`, `drain` and `topic alter --replicas` follow a plan of `replica_plan`, which `replica_moves`
carries out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

import click

from odradek.cli import exits
from odradek.cli.clients import admin, broker_options, cluster_settings
from odradek.cli.cordon import Effect, cordon, cordon_of, is_running, uncordon
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
from odradek.cli.replica_moves import (
    AT_ONCE_OPTION,
    Moves,
    brokers_text,
    carry_out,
    cordoned_among,
    is_confirmed,
    planner,
    present_placements,
)
from odradek.cli.replica_plan import Placement, Plan, PlanError
from odradek.client.admin.results import LogDirectory, Quorum, Reassignment, Topic
from odradek.client.errors import ApiTimeout
from odradek.config.broker import BrokerConfig
from odradek.model.topics import TopicPartition

if TYPE_CHECKING:
    from odradek import Admin

DEFAULT_REPLICAS = 3
LEAST_VOTERS = 2
"""The number of voters that must all run for one to be removed. Of more, it is stopped first."""
ADDRESS_UNKNOWN = "runs"
"""In the place of the address of a node that runs."""
QUORUM_FETCH_TIMEOUT_MS = BrokerConfig.controller_quorum_fetch_timeout_ms.default
"""A node that runs fetches the metadata log every 500 ms."""
NOT_ANSWERING = "not answering"
"""In the place of the address of a node that has not fetched the metadata log for a while."""
NO_QUORUM = Quorum(-1, -1, -1, (), ())
"""In the place of a quorum without a leader."""
NO_LEADER = (
    "odradek: the metadata quorum does not answer: a majority of its voters has to run for it to "
    "have a leader. Brokers and partitions are shown as they were when it had one: some of these "
    "brokers do not run, and no partition gets another leader. Bytes and cordons are not known. "
    "What to do: start the nodes that are down"
)


@click.group(cls=AliasedGroup, aliases={"describe": "status", "info": "status"})
def cluster() -> None:
    """The cluster: status, grow, drain, uncordon, remove."""


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
            quorum, moving = quorum_and_moves(client)
            directories = {} if quorum is NO_QUORUM else known_directories(client)
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
                    "fetched_ms_ago",
                    "caught_up_ms_ago",
                    "cordoned",
                ),
                title=f"cluster {found.cluster_id}",
            )
            roles = {node: (role, behind) for node, role, behind in quorum_roles(quorum)}
            ages = quorum_ages(quorum)
            nodes = {node.id: node for node in found.nodes}
            registered = {node.id for node in client.cluster(include_fenced=True).nodes}
            controllers = controllers_alone(quorum, registered)
            for node_id in sorted({*registered, *nodes, *roles, *replicas}):
                node = nodes.get(node_id)
                role, behind = roles.get(node_id, (None, None))
                fetched_ms_ago, caught_up_ms_ago = ages.get(node_id, (None, None))
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
                    fetched_ms_ago,
                    caught_up_ms_ago,
                    node_id in cordoned if node_id in directories else None,
                )
            show(brokers, as_json=as_json)
            show(partition_summary(topics, moving), as_json=as_json)
            print_stderr([NO_LEADER] if quorum is NO_QUORUM else unheard_voters(quorum))
            if quorum is NO_QUORUM and pause_s is None:
                ctx.exit(exits.UNREACHABLE)

        repeat(pause_s, look)


def quorum_and_moves(
    client: Admin,
) -> tuple[Quorum, Mapping[TopicPartition, Reassignment] | None]:
    """Return the quorum and what is being moved; `NO_QUORUM` and None if the quorum has no leader
    within the time limit of a call."""
    try:
        return client.quorum(), client.reassignments()
    except ApiTimeout:
        return NO_QUORUM, None


def known_directories(client: Admin) -> Mapping[int, Sequence[LogDirectory]]:
    """Return the data directories of all brokers; of none, with a message, if a broker that counts
    as running does not answer."""
    try:
        return client.log_dirs()
    except ApiTimeout as error:
        print_stderr(f"odradek: bytes and cordons are not shown: {error}")
        return {}


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


def quorum_ages(quorum: Quorum) -> dict[int, tuple[int | None, int | None]]:
    """Return for each node of the quorum how many milliseconds ago it last fetched the metadata
    log, and last had all of it, by the leader's clock; None where the leader does not know.
    """

    def age(at_ms: int) -> int | None:
        return None if at_ms < 0 else max(0, quorum.now_ms - at_ms)

    return {
        each.node_id: (age(each.last_fetch_ms), age(each.last_caught_up_ms))
        for each in (*quorum.voters, *quorum.observers)
    }


def unheard_voters(quorum: Quorum) -> list[str]:
    """Return a sentence for each voter that has not fetched within the fetch timeout."""
    silent = quorum.silent_voters(QUORUM_FETCH_TIMEOUT_MS)
    voters, needed = len(quorum.voters), len(quorum.voters) // 2 + 1
    ages = quorum_ages(quorum)
    sentences = []
    for node_id in sorted(silent):
        fetched_ms_ago, _ = ages[node_id]
        since = (
            f"since leader {quorum.leader} was elected"
            if fetched_ms_ago is None
            else f"for {fetched_ms_ago / 1000:,.1f} s"
        )
        sentences.append(
            f"odradek: voter {node_id} does not answer: it has not fetched the metadata log "
            f"{since}. {voters - len(silent)} of {plural(voters, 'voter')} answer, {needed} must"
        )
    return sentences


def controllers_alone(quorum: Quorum, brokers: Collection[int]) -> dict[int, str]:
    """Return the nodes of the quorum that are none of the `brokers`, and where nodes reach them, or
    that they do not answer: of those that do not vote (yet) the address is not known.
    """
    observers = {each.node_id for each in quorum.observers}.difference(brokers)
    found = dict.fromkeys(observers, ADDRESS_UNKNOWN)
    for node_id, listeners in quorum.listeners.items():
        if listeners and node_id not in brokers:
            found[node_id] = next(iter(listeners.values()))
    silent = quorum.silent_voters(QUORUM_FETCH_TIMEOUT_MS)
    silent |= quorum.silent_observers(QUORUM_FETCH_TIMEOUT_MS)
    return found | dict.fromkeys(silent.difference(brokers), NOT_ANSWERING)


def sizes_of(found: Mapping[int, Sequence[LogDirectory]]) -> dict[int, int]:
    """Return the bytes of the replicas of each broker, from its data directories."""
    return {
        broker: sum(size for directory in directories for size in directory.replicas.values())
        for broker, directories in found.items()
    }


def partition_summary(
    topics: Iterable[Topic], moving: Mapping[TopicPartition, Reassignment] | None
) -> Listing:
    """Count the partitions, and those that need attention. `moving`: None if nobody knows."""
    partitions = [partition for topic in topics for partition in topic.partitions]
    columns = ("partitions", "without_leader", "under_replicated", "not_preferred", "moving")
    listing = Listing(columns)
    listing.add(
        len(partitions),
        sum(each.leader < 0 for each in partitions),
        sum(len(each.isr) < len(each.replicas) for each in partitions),
        sum(each.leader != each.replicas[0] for each in partitions),
        None if moving is None else len(moving),
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
        carry_out(
            client,
            plan,
            placements,
            lambda *_: True,  # Any copy to a broker that stopped is planned again.
            at_once,
            yes=yes,
            dry_run=dry_run,
            as_json=as_json,
        )


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
    """Cordon a broker and move all its replicas to the others, so that it can be removed."""
    with admin(cluster_settings(ctx)) as client:
        placements = present_placements(client)
        known = {node.id for node in client.cluster().nodes}
        if broker not in known and not any(broker in p.holders for p in placements.values()):
            exit_not_found(ctx, broker, known)
        before = cordon_of(client, broker)
        plan = planned_drain(client, placements, broker)

        def covers(_: TopicPartition, holders: Collection[int]) -> bool:
            return broker in holders

        if not is_confirmed(
            plan,
            placements,
            covers,
            yes=yes,
            dry_run=dry_run,
            as_json=as_json,
            cordons=broker if before.can_be_made else None,
        ):
            return
        is_agreed = yes or before.can_be_made or bool(plan)
        made = cordon(client, broker) if before.can_be_made else before
        if before.effect is Effect.IMPOSSIBLE:
            print_stderr(before.sentences(broker))
        moves = Moves(client, at_once, as_json, covers)
        moves.run_until_empty(
            plan,
            lambda: planned_drain(client, present_placements(client), broker, is_agreed=is_agreed),
        )
        moves.end()
        gets_none = made.effect is Effect.IN_FORCE
        is_set = made.effect is not Effect.IMPOSSIBLE
        report_done(
            f"odradek: broker {broker} has no replicas{' and gets none' if gets_none else ''}. "
            f"Next: stop it, then odradek cluster remove {broker}"
            + (f"; to keep it, odradek cluster uncordon {broker}" if is_set else ""),
            as_json=as_json,
            broker=broker,
            drained=True,
            cordoned=gets_none,
        )


def planned_drain(
    client: Admin,
    placements: Mapping[TopicPartition, Placement],
    broker: int,
    *,
    is_agreed: bool = True,
) -> Plan:
    """Return the moves that leave nothing on a broker. Raises `ClickException` if there are too few
    others, or if nobody has agreed to any moves (`is_agreed`)."""
    try:
        plan = planner(client, placements).drain(broker)
    except PlanError as error:
        raise click.ClickException(str(error)) from error
    if plan and not is_agreed:
        raise click.ClickException(
            f"broker {broker} has replicas of {plural(len(plan), 'partition')} now. What to do: "
            "run the command again, which asks for their moves"
        )
    return plan


@cluster.command("uncordon")
@click.argument("broker", metavar="BROKER", type=click.IntRange(0))
@json_flag()
@broker_options
@click.pass_context
def uncordon_broker(ctx: click.Context, broker: int, as_json: bool) -> None:
    """Let a drained or cordoned broker get new replicas again."""
    with admin(cluster_settings(ctx)) as client:
        if not is_running(client, broker):
            known = {node.id for node in client.cluster(include_fenced=True).nodes}
            if broker not in known:
                exit_not_found(ctx, broker, known)
        uncordon(client, broker)
        report_done(
            f"odradek: broker {broker} gets new replicas",
            as_json=as_json,
            broker=broker,
            cordoned=False,
        )


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
        holding = [p for p in present_placements(client).values() if broker in p.holders]
        if holding:
            leaving = sum(broker in each.removing for each in holding)
            text = f" ({leaving:,} being moved away)" if leaving else ""
            raise click.ClickException(
                f"broker {broker} has replicas of {plural(len(holding), 'partition')}{text}. What "
                f"to do: odradek cluster drain {broker}, which goes on until it has none"
            )
        quorum = client.quorum()
        voter = next((each for each in quorum.voters if each.node_id == broker), None)
        is_registered = any(n.id == broker for n in client.cluster(include_fenced=True).nodes)
        if is_registered or voter is None:
            runs = is_running(client, broker)
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
                f"odradek: broker {broker} is no voter any more",
                as_json=as_json,
                broker=broker,
                voter=False,
            )
        if runs:
            raise click.ClickException(
                f"broker {broker} runs, and would register again. What to do: stop it, then "
                f"odradek cluster remove {broker}"
            )
        if is_registered or voter is None:
            client.unregister_broker(broker)
        report_done(
            f"odradek: broker {broker} is removed", as_json=as_json, broker=broker, removed=True
        )


def exit_not_found(ctx: click.Context, broker: int, known: Iterable[int]) -> NoReturn:
    """Say that there is no such broker, and which there are."""
    print_stderr(f"odradek: there is no broker {broker}; there are {brokers_text(sorted(known))}")
    ctx.exit(exits.NOT_FOUND)
