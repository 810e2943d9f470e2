"""`odradek topic ls` and `describe`: what topics there are, and all that is known of them."""

from __future__ import annotations

from typing import NamedTuple

import click

from odradek.cli.brokers import broker_options, brokers
from odradek.cli.connected import admin
from odradek.cli.failures import each_of
from odradek.cli.looks import json_option, watch_option, watched
from odradek.cli.output import Listing, show
from odradek.cli.positions import ends_of
from odradek.cli.topic import topic
from odradek.cli.topic_tables import config_table, summary_table, topic_table


@topic.command("ls")
@click.option("-i", "--internal", is_flag=True, help="The cluster's own topics too.")
@watch_option
@json_option
@broker_options
@click.pass_context
def ls(ctx: click.Context, internal: bool, pause_s: float | None, as_json: bool) -> None:
    """List topics."""
    with admin(brokers(ctx)) as cluster:

        def look() -> None:
            listing = Listing(("topic", "partitions", "replication"), empty="There are no topics.")
            for each in cluster.topics(internal=internal):
                listing.add(each.name, len(each.partitions), each.replication)
            show(listing, as_json=as_json)

        watched(pause_s, look)


@topic.command("describe")
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@click.option("-s", "--summary", is_flag=True, help="A row for each topic.")
@click.option("-p", "--partitions", is_flag=True, help="Its partitions.  [default]")
@click.option("-c", "--configs", is_flag=True, help="Its settings that are not defaults.")
@click.option("-a", "--all", "everything", is_flag=True, help="All of it, and defaults too.")
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
    with admin(brokers(ctx)) as cluster:

        def look(name: str) -> None:
            found = cluster.topic(name)
            starts, ends = ends_of(cluster, found)
            if chosen.summary:
                show(summary_table(found, starts, ends), as_json=as_json)
            if chosen.partitions:
                show(topic_table(found, starts, ends), as_json=as_json)
            if chosen.configs:
                settings = cluster.describe_config(topic=name)
                show(config_table(name, settings, everything), as_json=as_json)

        watched(pause_s, lambda: each_of(names, look))


class Sections(NamedTuple):
    """What of a topic is described."""

    summary: bool
    partitions: bool
    configs: bool
