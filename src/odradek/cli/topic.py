"""`odradek topic`: list, create, describe, change and delete topics of any Kafka cluster."""

from __future__ import annotations

import time

import click

from odradek.cli import exits
from odradek.cli.brokers import broker_options, brokers
from odradek.cli.confirm import confirmed
from odradek.cli.connected import admin
from odradek.cli.groups import AliasedGroup
from odradek.cli.moments import position
from odradek.cli.output import Listing, show, tell
from odradek.cli.positions import offsets_at, partition_numbers
from odradek.cli.topic_tables import config_table, topic_table
from odradek.model.ids import TopicPartition

JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
YES = click.option("-y", "--yes", is_flag=True, help="Do not ask.")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")

BY_BROKER = -1


@click.group(
    cls=AliasedGroup,
    aliases={"list": "ls", "info": "describe", "delete": "rm", "delete-records": "trim"},
)
def topic() -> None:
    """Topics: ls, create, describe, config, add-partitions, trim, rm."""


@topic.command("ls")
@click.option("-i", "--internal", is_flag=True, help="The cluster's own topics too.")
@JSON
@broker_options
@click.pass_context
def ls(ctx: click.Context, internal: bool, as_json: bool) -> None:
    """List topics."""
    listing = Listing(("topic", "partitions", "replication"), empty="There are no topics.")
    with admin(brokers(ctx)) as cluster:
        for each in cluster.topics(internal=internal):
            listing.add(each.name, len(each.partitions), each.replication)
    show(listing, as_json=as_json)


@topic.command("create")
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@click.option("-p", "--partitions", type=click.IntRange(min=1), help="How many.")
@click.option("-r", "--replicas", type=click.IntRange(min=1), help="How many of each.")
@click.option("-c", "--config", "configs", metavar="NAME=VALUE", multiple=True, help="A setting.")
@click.option("--if-not-exists", is_flag=True, help="No error if there is one already.")
@click.option("-d", "--dry-run", is_flag=True, help="Only have the cluster check it.")
@broker_options
@click.pass_context
def create(
    ctx: click.Context,
    names: tuple[str, ...],
    partitions: int | None,
    replicas: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    dry_run: bool,
) -> None:
    """Create topics. Numbers that are not given are the broker's own."""
    settings = pairs("-c", configs)
    with admin(brokers(ctx)) as cluster:
        for name in names:
            created = cluster.create_topic(
                name,
                partitions=partitions or BY_BROKER,
                replication=replicas or BY_BROKER,
                config=settings,
                exist_ok=if_not_exists,
                validate_only=dry_run,
            )
            done = "could be created" if dry_run else "created"
            tell(f"{name}: {done}" if created else f"{name}: is there already")


@topic.command("describe")
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@click.option("-c", "--configs", "settings", is_flag=True, help="Its settings, not its partitions.")
@click.option("-a", "--all", "everything", is_flag=True, help="With -c: those with defaults too.")
@JSON
@broker_options
@click.pass_context
def describe(
    ctx: click.Context, names: tuple[str, ...], settings: bool, everything: bool, as_json: bool
) -> None:
    """Partitions with their leaders, replicas and offsets; or settings."""
    with admin(brokers(ctx)) as cluster:
        for name, found in cluster.describe_topics(names).items():
            if settings:
                show(config_table(name, cluster.topic_config(name), everything), as_json=as_json)
                continue
            partitions = [TopicPartition(name, each.partition) for each in found.partitions]
            led = [p for p, each in zip(partitions, found.partitions) if each.leader >= 0]
            starts, ends = cluster.beginning_offsets(led), cluster.end_offsets(led)
            show(topic_table(found, starts, ends), as_json=as_json)


@topic.command("config")
@click.argument("name", metavar="TOPIC")
@click.argument("changes", metavar="[NAME=VALUE | NAME-]...", nargs=-1)
@click.option("-a", "--all", "everything", is_flag=True, help="Show those with defaults too.")
@DRY_RUN
@JSON
@broker_options
@click.pass_context
def config(
    ctx: click.Context,
    name: str,
    changes: tuple[str, ...],
    everything: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Show settings, or change them: `retention.ms=60000` sets, `retention.ms-` takes back."""
    wanted: dict[str, str | None] = {}
    for change in changes:
        if "=" in change:
            wanted.update(pairs("", (change,)))
        elif change.endswith("-"):
            wanted[change[:-1]] = None
        else:
            raise click.UsageError(f"{change!r}: write NAME=VALUE, or NAME- for the default")
    with admin(brokers(ctx)) as cluster:
        if wanted:
            cluster.set_topic_config(name, wanted, validate_only=dry_run)
            tell(f"{name}: {'could be changed' if dry_run else 'changed'}")
        else:
            show(config_table(name, cluster.topic_config(name), everything), as_json=as_json)


@topic.command("add-partitions")
@click.argument("name", metavar="TOPIC")
@click.option(
    "-n", "--num", type=click.IntRange(min=1), required=True, help="How many to add to those."
)
@DRY_RUN
@broker_options
@click.pass_context
def add_partitions(ctx: click.Context, name: str, num: int, dry_run: bool) -> None:
    """Add partitions. Keys may go to other partitions from then on."""
    with admin(brokers(ctx)) as cluster:
        before = len(cluster.describe_topic(name).partitions)
        cluster.create_partitions(name, before + num, validate_only=dry_run)
        verb = "would have" if dry_run else "has"
        tell(f"{name}: {verb} {before + num} partitions, not {before}")


@topic.command("trim")
@click.argument("name", metavar="TOPIC")
@click.option(
    "-o",
    "--offset",
    "before",
    required=True,
    metavar="POSITION",
    help="Up to where: an offset, end, -N, @TIME …",
)
@click.option("-p", "--partitions", metavar="0,1,...", help="Which.  [default: all]")
@YES
@DRY_RUN
@broker_options
@click.pass_context
def trim(
    ctx: click.Context, name: str, before: str, partitions: str | None, yes: bool, dry_run: bool
) -> None:
    """Delete the records before a position, in all partitions or some."""
    with admin(brokers(ctx)) as cluster:
        wanted = cluster.partitions_of([name])
        if partitions is not None:
            wanted = [TopicPartition(name, number) for number in partition_numbers(partitions)]
        starts = cluster.beginning_offsets(wanted)
        targets = offsets_at(cluster, wanted, position(before, now_ms()))
        plan = Listing(("topic", "partition", "start", "new_start"))
        for each in wanted:
            plan.add(name, each.partition, starts[each], targets[each])
        if confirmed(plan, "Delete records", yes=yes, dry_run=dry_run):
            for each, start in cluster.delete_records(targets).items():
                tell(f"{each}: starts at {start}")


@topic.command("rm")
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@click.option("--if-exists", is_flag=True, help="No error if there is none.")
@YES
@DRY_RUN
@broker_options
@click.pass_context
def rm(
    ctx: click.Context, names: tuple[str, ...], if_exists: bool, yes: bool, dry_run: bool
) -> None:
    """Delete topics with all their records."""
    with admin(brokers(ctx)) as cluster:
        known = {each.name: each for each in cluster.topics(internal=True)}
        missing = [name for name in names if name not in known]
        if missing and not if_exists:
            tell(f"odradek: no such topic: {', '.join(missing)}")
            ctx.exit(exits.NOT_FOUND)
        found = [known[name] for name in names if name in known]
        plan = Listing(("topic", "partitions", "records"))
        for each in found:
            partitions = [TopicPartition(each.name, p.partition) for p in each.partitions]
            ends, starts = cluster.end_offsets(partitions), cluster.beginning_offsets(partitions)
            plan.add(each.name, len(partitions), sum(ends.values()) - sum(starts.values()))
        if found and confirmed(plan, "Delete", yes=yes, dry_run=dry_run):
            for each in found:
                cluster.delete_topic(each.name, missing_ok=if_exists)
                tell(f"{each.name}: deleted")


def pairs(option: str, given: tuple[str, ...]) -> dict[str, str]:
    """`("a=1",)` -> `{"a": "1"}`."""
    settings = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"{option} {pair!r}: write NAME=VALUE, as in retention.ms=60000")
        settings[name.strip()] = value.strip()
    return settings


def now_ms() -> int:
    """Now, for moments that are told from it."""
    return time.time_ns() // 1_000_000
