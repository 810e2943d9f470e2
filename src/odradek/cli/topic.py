"""`odradek topic`: list, create, describe, change and delete topics of any Kafka cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import click

from odradek.cli import exits
from odradek.cli.clients import admin, broker_options, cluster_settings
from odradek.cli.failures import HINTS, SomeFailed, for_each
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
from odradek.cli.positions import (
    Origin,
    log_offsets,
    now_ms,
    offsets_at,
    position,
    select_partitions,
)
from odradek.cli.replica_moves import AT_ONCE_OPTION, carry_out, planner, present_placements
from odradek.cli.replica_plan import PlanError
from odradek.client.admin.results import ConfigEntry, Topic
from odradek.client.errors import UnknownTopicOrPartition
from odradek.model.topics import TopicPartition, uuid_text

BY_BROKER = -1
MOST_PARTITIONS, MOST_REPLICAS = 2**31 - 1, 2**15 - 1
"""The greatest numbers that a request can have."""


@click.group(
    cls=AliasedGroup,
    aliases={"list": "ls", "info": "describe", "delete": "rm", "delete-records": "trim"},
)
def topic() -> None:
    """Topics: ls, create, describe, config, add-partitions, alter, elect, trim, rm."""


@topic.command("create")
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@click.option(
    "-p", "--partitions", type=click.IntRange(1, MOST_PARTITIONS), help="The number of partitions."
)
@click.option(
    "-r", "--replicas", type=click.IntRange(1, MOST_REPLICAS), help="The replication factor."
)
@click.option("-c", "--config", "configs", metavar="NAME=VALUE", multiple=True, help="A setting.")
@click.option("--if-not-exists", is_flag=True, help="No error if it exists already.")
@click.option("-d", "--dry-run", is_flag=True, help="Let the cluster only check it.")
@json_option
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
    as_json: bool,
) -> None:
    """Create topics. Without -p and -r the broker's defaults apply."""
    settings = pairs("-c", configs)
    with admin(cluster_settings(ctx)) as cluster:

        def make(name: str) -> None:
            created = cluster.create_topic(
                name,
                partitions=partitions or BY_BROKER,
                replication=replicas or BY_BROKER,
                config=settings,
                exist_ok=if_not_exists,
                validate_only=dry_run,
            )
            message = "could be created" if dry_run else "created"
            report_done(
                f"{name}: {message}" if created else f"{name}: is there already",
                as_json=as_json,
                topic=name,
                created=created and not dry_run,
            )

        for_each(names, make)


@topic.command("config")
@click.argument("name", metavar="TOPIC")
@click.argument("changes", metavar="[NAME=VALUE | NAME-]...", nargs=-1)
@click.option(
    "-a", "--all", "everything", is_flag=True, help="Show settings with default values too."
)
@DRY_RUN
@json_option
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
    """Show settings, or change them: `retention.ms=60000` sets, `retention.ms-` resets."""
    wanted: dict[str, str | None] = {}
    for change in changes:
        if "=" in change:
            wanted.update(pairs("", (change,)))
        elif change.endswith("-"):
            wanted[change[:-1]] = None
        else:
            raise click.UsageError(f"{change!r}: write NAME=VALUE, or NAME- for the default")
    with admin(cluster_settings(ctx)) as cluster:
        if wanted:
            cluster.set_config(wanted, topic=name, validate_only=dry_run)
            message = f"{name}: {'could be changed' if dry_run else 'changed'}"
            report_done(message, as_json=as_json, topic=name, changed=not dry_run)
        else:
            show(
                config_table(name, cluster.describe_config(topic=name), everything), as_json=as_json
            )


@topic.command("add-partitions")
@click.argument("name", metavar="TOPIC")
@click.option(
    "-n",
    "--num",
    type=click.IntRange(1, MOST_PARTITIONS),
    required=True,
    help="The number of partitions to add.",
)
@DRY_RUN
@json_option
@broker_options
@click.pass_context
def add_partitions(ctx: click.Context, name: str, num: int, dry_run: bool, as_json: bool) -> None:
    """Add partitions. Keys may then go to other partitions than before."""
    with admin(cluster_settings(ctx)) as cluster:
        before = len(cluster.topic(name).partitions)
        if before + num > MOST_PARTITIONS:
            more = f"at most {MOST_PARTITIONS - before} more"
            raise click.UsageError(f"{name} has {plural(before, 'partition')}: {more}")
        cluster.create_partitions(name, before + num, validate_only=dry_run)
        verb = "would have" if dry_run else "has"
        report_done(
            f"{name}: {verb} {plural(before + num, 'partition')}, not {before}",
            as_json=as_json,
            topic=name,
            partitions=before + num,
            added=0 if dry_run else num,
        )


@topic.command("alter")
@click.argument("name", metavar="TOPIC")
@click.option(
    "-r",
    "--replicas",
    type=click.IntRange(1, MOST_REPLICAS),
    required=True,
    help="The new number of replicas of each partition.",
)
@AT_ONCE_OPTION
@YES
@DRY_RUN
@json_flag()
@broker_options
@click.pass_context
def alter(
    ctx: click.Context,
    name: str,
    replicas: int,
    at_once: int,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Give a topic more or fewer replicas. The records are copied meanwhile."""
    with admin(cluster_settings(ctx)) as cluster:
        wanted = cluster.partitions_of([name])
        placements = present_placements(cluster)
        try:
            plan = planner(cluster, placements).resize(wanted, replicas)
        except PlanError as error:
            raise click.ClickException(str(error)) from error
        carry_out(
            cluster,
            plan,
            placements,
            lambda key, _: key.topic == name,
            at_once,
            yes=yes,
            dry_run=dry_run,
            as_json=as_json,
        )


@topic.command("elect")
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@click.option("-p", "--partitions", metavar="0,1,...", help="The partitions.  [default: all]")
@click.option(
    "--unclean",
    is_flag=True,
    help="Give partitions without a leader any replica that runs. Records that it lacks are lost.",
)
@YES
@DRY_RUN
@json_flag()
@broker_options
@click.pass_context
def elect(
    ctx: click.Context,
    names: tuple[str, ...],
    partitions: str | None,
    unclean: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Let the first replicas lead, if they are in sync; or, as the last way out, any replica."""
    with admin(cluster_settings(ctx)) as cluster:
        plan = Listing(("topic", "partition", "leader", "replicas", "in_sync", "offline"))
        chosen = []
        for name in dict.fromkeys(names):
            found = cluster.topic(name)
            wanted = [TopicPartition(name, each.partition) for each in found.partitions]
            if partitions is not None:
                wanted = select_partitions(wanted, partitions)
            for each in found.partitions:
                led = each.leader >= 0 if unclean else each.leader == each.replicas[0]
                if TopicPartition(name, each.partition) in wanted and not led:
                    chosen.append(TopicPartition(name, each.partition))
                    ids = list(each.replicas), list(each.isr), list(each.offline)
                    plan.add(name, each.partition, None if each.leader < 0 else each.leader, *ids)
        if not chosen:
            what = "has a leader" if unclean else "is led by its first replica"
            print_stderr(f"odradek: every partition {what}")
            return
        verb = "Elect leaders that may lack records" if unclean else "Elect the first replicas"
        if confirm(plan, verb, yes=yes or not unclean, dry_run=dry_run, as_json=as_json):
            outcomes = cluster.elect_leaders(chosen, unclean=unclean)
            for key, error in outcomes.items():
                if error is None:
                    report_done(
                        f"{key}: elected",
                        as_json=as_json,
                        topic=key.topic,
                        partition=key.partition,
                        elected=True,
                    )
            failed = [error for error in outcomes.values() if error is not None]
            if failed:
                raise SomeFailed(failed)


@topic.command("trim")
@click.argument("name", metavar="TOPIC")
@click.option(
    "-o",
    "--offset",
    "before",
    required=True,
    metavar="POSITION",
    help="The new start: an offset, end, -N, @TIME …",
)
@click.option("-p", "--partitions", metavar="0,1,...", help="The partitions.  [default: all]")
@YES
@DRY_RUN
@json_flag()
@broker_options
@click.pass_context
def trim(
    ctx: click.Context,
    name: str,
    before: str,
    partitions: str | None,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Delete the records before a position, in all partitions or some."""
    with admin(cluster_settings(ctx)) as cluster:
        wanted = cluster.partitions_of([name])
        if partitions is not None:
            wanted = select_partitions(wanted, partitions)
        starts = cluster.beginning_offsets(wanted)
        where = position(before, now_ms())
        targets = offsets_at(cluster, wanted, where)
        for each in wanted:
            if where.origin is Origin.ZERO and where.value > targets[each]:
                raise click.UsageError(
                    f"{each} ends at {targets[each]}, before {where.value}: write end to delete all"
                )
        plan = Listing(("topic", "partition", "start", "new_start"))
        for each in wanted:
            plan.add(name, each.partition, starts[each], targets[each])
        if confirm(plan, "Delete records", yes=yes, dry_run=dry_run, as_json=as_json):
            for each, start in cluster.delete_records(targets).items():
                report_done(
                    f"{each}: starts at {start}",
                    as_json=as_json,
                    topic=each.topic,
                    partition=each.partition,
                    start=start,
                )


@topic.command("rm")
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
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
    """Delete topics with all their records."""
    with admin(cluster_settings(ctx)) as cluster:
        known = {each.name: each for each in cluster.topics(internal=True)}
        missing = [name for name in names if name not in known]
        if missing and not if_exists:
            print_stderr(f"odradek: no such topic: {', '.join(missing)}")
            print_stderr(HINTS[UnknownTopicOrPartition])
            ctx.exit(exits.NOT_FOUND)
        found = [known[name] for name in dict.fromkeys(names) if name in known]
        plan = Listing(("topic", "partitions", "records"))
        for each in found:
            starts, ends = log_offsets(cluster, each)
            plan.add(each.name, len(each.partitions), sum(ends.values()) - sum(starts.values()))
        if found and confirm(plan, "Delete", yes=yes, dry_run=dry_run, as_json=as_json):
            for each in found:
                cluster.delete_topic(each.name, missing_ok=if_exists)
                report_done(f"{each.name}: deleted", as_json=as_json, topic=each.name, deleted=True)


def pairs(option: str, given: tuple[str, ...]) -> dict[str, str]:
    """`("a=1",)` -> `{"a": "1"}`."""
    settings = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"{option} {pair!r}: write NAME=VALUE, as in retention.ms=60000")
        settings[name.strip()] = value.strip()
    return settings


@topic.command("ls")
@click.option("-i", "--internal", is_flag=True, help="The cluster's own topics too.")
@watch_option
@json_option
@broker_options
@click.pass_context
def ls(ctx: click.Context, internal: bool, pause_s: float | None, as_json: bool) -> None:
    """List topics."""
    with admin(cluster_settings(ctx)) as cluster:

        def look() -> None:
            listing = Listing(("topic", "partitions", "replication"), empty="There are no topics.")
            for each in cluster.topics(internal=internal):
                listing.add(each.name, len(each.partitions), each.replication)
            show(listing, as_json=as_json)

        repeat(pause_s, look)


@topic.command("describe")
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@click.option("-s", "--summary", is_flag=True, help="One row for each topic.")
@click.option("-p", "--partitions", is_flag=True, help="The partitions.  [default]")
@click.option("-c", "--configs", is_flag=True, help="The settings that are not defaults.")
@click.option(
    "-a", "--all", "everything", is_flag=True, help="All sections, with default settings."
)
@watch_option
@json_option
@broker_options
@click.pass_context
def describe(
    ctx: click.Context,
    names: tuple[str, ...],
    summary: bool,
    partitions: bool,
    configs: bool,
    everything: bool,
    pause_s: float | None,
    as_json: bool,
) -> None:
    """Partitions with their leaders, replicas and offsets; settings; or a summary."""
    chosen = Sections(summary or everything, partitions or everything, configs or everything)
    if not any(chosen):
        chosen = chosen._replace(partitions=True)
    with admin(cluster_settings(ctx)) as cluster:

        def look(name: str) -> None:
            found = cluster.topic(name)
            starts, ends = log_offsets(cluster, found)
            if chosen.summary:
                show(summary_table(found, starts, ends), as_json=as_json)
            if chosen.partitions:
                show(topic_table(found, starts, ends), as_json=as_json)
            if chosen.configs:
                settings = cluster.describe_config(topic=name)
                show(config_table(name, settings, everything), as_json=as_json)

        repeat(pause_s, lambda: for_each(names, look))


class Sections(NamedTuple):
    """The sections of a description."""

    summary: bool
    partitions: bool
    configs: bool


def topic_table(
    topic: Topic, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> Listing:
    """Return one row for each partition, without offsets if it has no leader."""
    columns = ("topic", "partition", "leader", "epoch", "replicas", "in_sync", "start", "end")
    listing = Listing(columns, title=f"{topic.name}  (id {uuid_text(topic.topic_id)})")
    for each in topic.partitions:
        at = TopicPartition(topic.name, each.partition)
        listing.add(
            topic.name,
            each.partition,
            None if each.leader < 0 else each.leader,
            each.leader_epoch,
            list(each.replicas),
            list(each.isr),
            starts.get(at),
            ends.get(at),
        )
    return listing


def summary_table(
    topic: Topic, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> Listing:
    """Return the topic in one row."""
    columns = ("topic", "id", "internal", "partitions", "replication", "records")
    listing = Listing(columns)
    listing.add(
        topic.name,
        uuid_text(topic.topic_id),
        topic.internal,
        len(topic.partitions),
        topic.replication,
        sum(ends.values()) - sum(starts.values()),
    )
    return listing


def config_table(topic: str, found: Mapping[str, ConfigEntry], everything: bool) -> Listing:
    """Return the settings that differ from their defaults, or all."""
    columns = ("topic", "setting", "value", "source")
    listing = Listing(columns, empty=f"{topic}: every setting has its default.")
    for entry in found.values():
        if everything or not entry.is_default:
            source = entry.source.name.lower().replace("_", " ")
            listing.add(topic, entry.name, entry.value, source)
    return listing
