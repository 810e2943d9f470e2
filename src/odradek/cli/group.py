"""`odradek group`: list, describe, move and delete consumer groups of any Kafka cluster.

A member without partitions has a row without a partition. DescribeGroups does not know the groups
of the protocol of KIP-848: for these the members are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NoReturn

import click
from click.exceptions import Exit

from odradek import Admin
from odradek.cli import exits
from odradek.cli.clients import admin, broker_options, cluster_settings
from odradek.cli.failures import SomeFailed, collect_errors, for_each
from odradek.cli.options import (
    DRY_RUN,
    YES,
    AliasedGroup,
    confirm,
    json_option,
    repeat,
    watch_option,
)
from odradek.cli.output import Listing, plural, print_stderr, report_done, show
from odradek.cli.positions import (
    ClampedOffset,
    clamped_offsets_at,
    now_ms,
    position,
    select_partitions,
)
from odradek.client.admin.groups import WITHOUT_MEMBERS
from odradek.client.admin.results import Group, GroupDescription, Member
from odradek.client.errors import GroupNotFound, error_for
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition

STATES = (
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Assigning",
    "Reconciling",
    "NotReady",
)
"""The states of groups of all protocols: other clusters have groups that this broker has not."""


@click.group(
    cls=AliasedGroup,
    aliases={"list": "ls", "info": "describe", "delete": "rm", "reset-offsets": "seek"},
)
def group() -> None:
    """Groups: ls, describe, lag, seek, rm."""


@group.command("ls")
@click.option(
    "-s",
    "--state",
    "states",
    multiple=True,
    type=click.Choice(STATES, case_sensitive=False),
    help="Only groups in this state.",
)
@watch_option
@json_option
@broker_options
@click.pass_context
def ls(ctx: click.Context, states: tuple[str, ...], pause_s: float | None, as_json: bool) -> None:
    """List groups with their states."""
    with admin(cluster_settings(ctx)) as cluster:

        def look() -> None:
            listing = Listing(("group", "state", "type", "protocol"), empty="There are no groups.")
            for each in cluster.groups(states=states):
                listing.add(each.group_id, each.state, each.type, each.protocol_type)
            show(listing, as_json=as_json)

        repeat(pause_s, look)


@group.command("describe")
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@click.option("-l", "--lag-only", is_flag=True, help="Only partitions with a lag.")
@watch_option
@json_option
@broker_options
@click.pass_context
def describe(
    ctx: click.Context, names: tuple[str, ...], lag_only: bool, pause_s: float | None, as_json: bool
) -> None:
    """Show members, their partitions, and their lag.

    Columns: group, topic, partition, committed, end, lag, member, client, host, state, assignor.
    """
    with admin(cluster_settings(ctx)) as cluster:

        def look(name: str) -> None:
            found = found_group(cluster, name)
            if not as_json:
                print_stderr(summary(found))
            show(description_table(cluster, found, lag_only=lag_only), as_json=as_json)

        repeat(pause_s, lambda: for_each(names, look))


@group.command("lag")
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@click.option("-l", "--lag-only", is_flag=True, help="Only partitions with a lag.")
@watch_option
@json_option
@broker_options
@click.pass_context
def lag(
    ctx: click.Context, names: tuple[str, ...], lag_only: bool, pause_s: float | None, as_json: bool
) -> None:
    """Show the lag of groups.

    Columns: group, topic, partition, committed, end, lag.
    """
    with admin(cluster_settings(ctx)) as cluster:

        def look(name: str) -> None:
            show(lag_table(cluster, name, lag_only=lag_only), as_json=as_json)

        repeat(pause_s, lambda: for_each(names, look))


@group.command("seek")
@click.argument("name", metavar="GROUP")
@click.option(
    "--to",
    "where",
    metavar="POSITION",
    help="start, end, an offset, +N from the start, -N from the end, or @TIME.",
)
@click.option(
    "--to-group", "model", metavar="GROUP", help="To the committed offsets of this group."
)
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    help="A topic, with all partitions.  [default: where it has committed]",
)
@click.option("-p", "--partitions", metavar="0,1,...", help="Only these partitions of the topics.")
@YES
@DRY_RUN
@json_option
@broker_options
@click.pass_context
def seek(
    ctx: click.Context,
    name: str,
    where: str | None,
    model: str | None,
    topics: tuple[str, ...],
    partitions: str | None,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Move a group without members to other offsets of its topics.

    Columns of the plan: topic, partition, committed, new, instead_of.
    """
    if (where is None) == (model is None):
        raise click.UsageError("where to? --to POSITION, or --to-group GROUP")
    with admin(cluster_settings(ctx)) as cluster:
        cluster.seek_group(name, {})  # Fails if the group has members, with --dry-run too.
        committed = cluster.group_offsets(name)
        if model is not None:
            found = offsets_of_group(cluster, model, topics)
            wanted = list(found)
        else:
            wanted = cluster.partitions_of(topics) if topics else list(committed)
            if not wanted:
                found_group(cluster, name)
                exit_failed(f"{name} has committed nothing; say which topics, with -t")
        if partitions is not None:
            there = cluster.partitions_of({each.topic for each in wanted})
            chosen = set(select_partitions(there, partitions))
            wanted = [each for each in wanted if each in chosen]
            if not wanted:
                exit_failed(f"{model or name} has committed nothing in partition {partitions}")
        if where is not None:
            found = clamped_offsets_at(cluster, wanted, position(where, now_ms()))
        plan = Listing(("topic", "partition", "committed", "new", "instead_of"))
        for each in wanted:
            before = committed[each].offset if each in committed else None
            requested = found[each].requested if found[each].clamped else None
            plan.add(each.topic, each.partition, before, found[each].offset, requested)
        if confirm(plan, "Move", yes=yes, dry_run=dry_run, as_json=as_json):
            cluster.seek_group(name, {each: found[each].offset for each in wanted})
            moved = f"{name}: moved in {plural(len(wanted), 'partition')}"
            clamped = report_clamped({each: found[each] for each in wanted})
            report_done(moved, as_json=as_json, group=name, partitions=len(wanted), **clamped)


def offsets_of_group(
    cluster: Admin, model: str, topics: Collection[str]
) -> dict[TopicPartition, ClampedOffset]:
    """Return the offsets of another group, in these topics or in all."""
    offsets = {each: at.offset for each, at in cluster.group_offsets(model).items()}
    if not offsets:
        found_group(cluster, model)
        exit_failed(f"{model} has committed nothing")
    without = sorted(set(topics) - {each.topic for each in offsets})
    if without:
        cluster.describe_topics(without)
        exit_failed(f"{model} has committed nothing in {', '.join(without)}")
    return {
        each: ClampedOffset(offset, offset)
        for each, offset in offsets.items()
        if not topics or each.topic in topics
    }


def exit_failed(why: str) -> NoReturn:
    """Print why nothing can be moved, and exit with 1."""
    print_stderr(f"odradek: {why}")
    raise Exit(exits.FAILED)


def report_clamped(places: Mapping[TopicPartition, ClampedOffset]) -> dict[str, object]:
    """Report offsets that were clamped to their logs; return them for JSON."""
    found = []
    for each, place in places.items():
        if place.clamped:
            where = "starts" if place.offset > place.requested else "ends"
            print_stderr(f"{each} {where} at {place.offset}: moved there, not to {place.requested}")
            found.append(
                {
                    "topic": each.topic,
                    "partition": each.partition,
                    "offset": place.offset,
                    "instead_of": place.requested,
                }
            )
    return {"clamped": found} if found else {}


@group.command("rm")
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@click.option("--if-exists", is_flag=True, help="No error if it does not exist.")
@YES
@DRY_RUN
@json_option
@broker_options
@click.pass_context
def rm(
    ctx: click.Context,
    names: tuple[str, ...],
    if_exists: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Delete groups without members, with their committed offsets."""
    with admin(cluster_settings(ctx)) as cluster:
        plan = Listing(("group", "partitions"))

        def look(name: str) -> None:
            try:
                check_no_members(found_group(cluster, name))
            except GroupNotFound:
                if not if_exists:
                    raise
                if not dry_run:
                    report(name, existed=False)
            else:
                plan.add(name, len(cluster.group_offsets(name)))

        def delete(name: str) -> None:
            report(name, existed=cluster.delete_group(name, missing_ok=if_exists))

        def report(name: str, *, existed: bool) -> None:
            message = f"{name}: {'deleted' if existed else 'there was none'}"
            report_done(message, as_json=as_json, group=name, deleted=existed)

        failed = collect_errors(names, look)
        if plan.rows and confirm(plan, "Delete", yes=yes, dry_run=dry_run, as_json=as_json):
            failed += collect_errors([name for name, _ in plan.rows], delete)
        if failed:
            raise SomeFailed(failed)


def check_no_members(found: GroupDescription | Group) -> None:
    """Raise an error if the group has members, so that a plan does not show what will be
    refused."""
    if found.state not in WITHOUT_MEMBERS:
        raise error_for(ErrorCode.NON_EMPTY_GROUP, f"deleting group {found.group_id}")


LAG_COLUMNS = ("group", "topic", "partition", "committed", "end", "lag")
MEMBER_COLUMNS = ("member", "client", "host", "state", "assignor")


def found_group(cluster: Admin, name: str) -> GroupDescription | Group:
    """Return the group; as it is listed if it cannot be described. Raises `GroupNotFound`."""
    try:
        return cluster.group(name)
    except GroupNotFound:
        listed = next((each for each in cluster.groups() if each.group_id == name), None)
        if listed is None:
            raise
        return listed


def summary(found: GroupDescription | Group) -> str:
    """Return the group in one line."""
    if isinstance(found, Group):
        kind = f", of type {found.type}" if found.type else ""
        return f"{found.group_id}: {found.state}{kind}: its members cannot be listed"
    members = plural(len(found.members), "member")
    line = f"{found.group_id}: {found.state}, {members}, {found.assignor or '-'}"
    for member in found.members:
        if member.assignment_error is not None:
            line += f"; assignment of {member.member_id} not readable: {member.assignment_error}"
    return line


def lag_table(cluster: Admin, name: str, *, lag_only: bool) -> Listing:
    """Return a table with one row for each partition."""
    listing = listing_of(name, LAG_COLUMNS)
    for row in lag_rows(cluster, name, lag_only=lag_only).values():
        listing.add(*row)
    return listing


def description_table(
    cluster: Admin, found: GroupDescription | Group, *, lag_only: bool
) -> Listing:
    """Return one row for each partition with its reader, and one for each idle member; for a group
    that has neither, one row with its state."""
    name = found.group_id
    listing = listing_of(name, (*LAG_COLUMNS, *MEMBER_COLUMNS))
    members = () if isinstance(found, Group) else found.members
    readers = {each: member for member in members for each in member.assignment}
    group = (found.state, None if isinstance(found, Group) else found.assignor or None)
    for each, row in lag_rows(cluster, name, lag_only=lag_only).items():
        listing.add(*row, *member_cells(readers.get(each)), *group)
    for member in members:
        if not member.assignment and not lag_only:
            listing.add(name, None, None, None, None, None, *member_cells(member), *group)
    if not listing.rows and not lag_only:
        listing.add(name, None, None, None, None, None, *member_cells(None), *group)
    return listing


def lag_rows(
    cluster: Admin, name: str, *, lag_only: bool
) -> dict[TopicPartition, tuple[object, ...]]:
    """Return the row of each partition: the columns `LAG_COLUMNS`."""
    return {
        each: (name, each.topic, each.partition, lag.committed, lag.end, lag.lag)
        for each, lag in cluster.lag(name).items()
        if lag.lag or not lag_only
    }


def member_cells(member: Member | None) -> tuple[object, ...]:
    """Return the cells for member, client and host."""
    if member is None:
        return (None, None, None)
    return (member.instance_id or member.member_id, member.client_id, member.host)


def listing_of(name: str, columns: tuple[str, ...]) -> Listing:
    return Listing(columns, empty=f"{name}: nothing committed, nothing read.")
