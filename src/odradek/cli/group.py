"""`odradek group`: consumer groups of any Kafka cluster, how far they are, and moving them."""

from __future__ import annotations

import time

import click

from odradek import Admin
from odradek.cli.brokers import broker_options, brokers
from odradek.cli.confirm import confirmed
from odradek.cli.connected import admin
from odradek.cli.groups import AliasedGroup
from odradek.cli.moments import duration_ms, position
from odradek.cli.output import Listing, show, tell
from odradek.cli.positions import chosen_partitions, offsets_at
from odradek.cli.topic import DRY_RUN, JSON, YES, now_ms
from odradek.client.admin.results import GroupDescription


@click.group(
    cls=AliasedGroup,
    aliases={"list": "ls", "info": "describe", "delete": "rm", "reset-offsets": "seek"},
)
def group() -> None:
    """Groups: ls, describe, lag, seek, rm."""


@group.command("ls")
@click.option("-s", "--state", "states", multiple=True, help="Only those in this state.")
@JSON
@broker_options
@click.pass_context
def ls(ctx: click.Context, states: tuple[str, ...], as_json: bool) -> None:
    """List groups with their states."""
    listing = Listing(("group", "state", "type", "protocol"), empty="There are no groups.")
    with admin(brokers(ctx)) as cluster:
        for each in cluster.groups(states=states):
            listing.add(each.group_id, each.state, each.type, each.protocol_type)
    show(listing, as_json=as_json)


@group.command("describe")
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@JSON
@broker_options
@click.pass_context
def describe(ctx: click.Context, names: tuple[str, ...], as_json: bool) -> None:
    """Members, what they read, and how far they are."""
    with admin(brokers(ctx)) as cluster:
        for name, found in cluster.describe_groups(names).items():
            if not as_json:
                tell(
                    f"{name}: {found.state}, {len(found.members)} members, {found.assignor or '-'}"
                )
            show(lag_table(cluster, name, found), as_json=as_json)


def lag_table(cluster: Admin, name: str, found: GroupDescription | None) -> Listing:
    """One row a partition; with members, where `found` describes them."""
    columns = ["group", "topic", "partition", "committed", "end", "lag"]
    readers = {}
    if found is not None:
        columns += ["member", "client", "host"]
        readers = {each: member for member in found.members for each in member.assignment}
    listing = Listing(tuple(columns), empty=f"{name}: nothing committed, nothing read.")
    for each, lag in cluster.group_lag(name).items():
        row: list[object] = [name, each.topic, each.partition, lag.committed, lag.end, lag.lag]
        if found is not None:
            reader = readers.get(each)
            member = None if reader is None else reader.instance_id or reader.member_id
            row += [member, reader and reader.client_id, reader and reader.host]
        listing.add(*row)
    return listing


@group.command("lag")
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@click.option("-w", "--watch", metavar="DURATION", help="Again and again, so far apart.")
@JSON
@broker_options
@click.pass_context
def lag(ctx: click.Context, names: tuple[str, ...], watch: str | None, as_json: bool) -> None:
    """How far behind groups are."""
    with admin(brokers(ctx)) as cluster:
        pause_s = None if watch is None else duration_ms(watch) / 1000
        while True:
            for name in names:
                show(lag_table(cluster, name, None), as_json=as_json)
            if pause_s is None:
                return
            time.sleep(pause_s)


@group.command("seek")
@click.argument("name", metavar="GROUP")
@click.option(
    "--to",
    "where",
    required=True,
    metavar="POSITION",
    help="start, end, an offset, +N or -N from where each partition begins or ends, @TIME.",
)
@click.option("-t", "--topic", "topics", multiple=True, help="Which.  [default: all it reads]")
@click.option("-p", "--partitions", metavar="0,1,...", help="Of those topics, only these.")
@YES
@DRY_RUN
@broker_options
@click.pass_context
def seek(
    ctx: click.Context,
    name: str,
    where: str,
    topics: tuple[str, ...],
    partitions: str | None,
    yes: bool,
    dry_run: bool,
) -> None:
    """Move a group that has no members to another place in its topics."""
    with admin(brokers(ctx)) as cluster:
        committed = cluster.group_offsets(name)
        wanted = cluster.partitions_of(topics) if topics else list(committed)
        if partitions is not None:
            wanted = chosen_partitions(wanted, partitions)
        targets = offsets_at(cluster, wanted, position(where, now_ms()))
        plan = Listing(("topic", "partition", "committed", "new"))
        for each in wanted:
            before = committed[each].offset if each in committed else None
            plan.add(each.topic, each.partition, before, targets[each])
        if not wanted:
            tell(f"odradek: {name} has committed nothing; say which topics, with -t")
            ctx.exit(1)
        if confirmed(plan, "Move", yes=yes, dry_run=dry_run):
            cluster.seek_group(name, targets)
            tell(f"{name}: moved in {len(targets)} partitions")


@group.command("rm")
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@click.option("--if-exists", is_flag=True, help="No error if there is none.")
@YES
@DRY_RUN
@broker_options
@click.pass_context
def rm(
    ctx: click.Context, names: tuple[str, ...], if_exists: bool, yes: bool, dry_run: bool
) -> None:
    """Delete groups without members, with what they have committed."""
    with admin(brokers(ctx)) as cluster:
        plan = Listing(("group", "partitions"))
        for name in names:
            plan.add(name, len(cluster.group_offsets(name)))
        if confirmed(plan, "Delete", yes=yes, dry_run=dry_run):
            for name in names:
                existed = cluster.delete_group(name, missing_ok=if_exists)
                tell(f"{name}: {'deleted' if existed else 'there was none'}")
