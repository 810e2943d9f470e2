"""`odradek consume`: records of topics as text, until told to stop.

    odradek consume orders                        all there is, then what comes
    odradek consume orders -o end                 only what comes
    odradek consume orders -o -10 -e              the last ten of each partition
    odradek consume orders --since 10m -e --json
    odradek consume orders -g billing             as a member of a group, which remembers
    odradek consume orders -f '%p %o %k %v\\n'

Without a group nothing is committed, and all partitions are read at once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from odradek import Admin, Consumer
from odradek.cli.cluster import admin, broker_options, cluster_settings, consumer
from odradek.cli.consume_group import AT_ONCE, WAIT_S, read_as_member
from odradek.cli.output import Progress
from odradek.cli.positions import (
    START,
    Origin,
    Position,
    select_partitions,
    now_ms,
    offset_range,
    offsets_at,
    position,
)
from odradek.cli.raw_text import check_utf8
from odradek.cli.record_format import show_help
from odradek.cli.record_output import RecordOptions, RecordWriter
from odradek.client.errors import UnknownTopicOrPartition
from odradek.model.topics import TopicPartition

TO = "e@"
"""kcat's way to say where to stop: `-o s@TIME -o e@TIME`."""
WRITE_HELP = r"As '%p %o %k %v\n', or json, table, raw; `-f help` tells more."
RESETS = {Origin.START: "earliest", Origin.END: "latest", Origin.STORED: "earliest"}


@click.command()
@click.argument("topics", metavar="TOPIC...", nargs=-1)
@click.option("-t", "--topic", "more_topics", multiple=True, hidden=True)
@click.option("-r", "--regex", is_flag=True, help="Topics are patterns that match whole names.")
@click.option(
    "-o",
    "--offset",
    "where",
    multiple=True,
    metavar="POSITION[:POSITION]",
    help="start, end, an offset, +N, -N, @TIME; or from:to.  [default: start; with -g, stored]",
)
@click.option("--since", metavar="DURATION|TIME", help="From so long ago, or a time.")
@click.option("--until", metavar="DURATION|TIME", help="Up to so long ago, or a time.")
@click.option("--tail", type=click.IntRange(min=0), help="Only the last N of each partition.")
@click.option("-n", "-c", "--num", type=click.IntRange(min=1), help="Stop after so many records.")
@click.option("-e", "--exit", "at_end", is_flag=True, help="Stop at what is the end now.")
@click.option("-p", "--partitions", metavar="0,1,...", help="Which.  [default: all]")
@click.option("-g", "--group", metavar="GROUP", help="Read as a member of this group.")
@click.option("-f", "--format", "template", metavar="TEMPLATE", callback=show_help, help=WRITE_HELP)
@click.option("-Z", "null_shown", is_flag=True, help="NULL for keys and values that are null.")
@click.option("--null", metavar="TEXT", help="The same with another text.")
@click.option("-K", "--key-delimiter", metavar="TEXT", help="Keys too, followed by this.")
@click.option("-D", "--delimiter", metavar="TEXT", help=r"What ends a record.  [default: \n]")
@click.option("-J", "--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.option("--meta-only", is_flag=True, help="No keys and values, only their sizes.")
@click.option("--read-committed", is_flag=True, help="Leave out what transactions took back.")
@click.option("-u", "--unbuffered", is_flag=True, help="Write each record out at once.")
@click.option("-q", "--quiet", is_flag=True, help="No talk.")
@broker_options
@click.pass_context
def consume(
    ctx: click.Context,
    topics: tuple[str, ...],
    more_topics: tuple[str, ...],
    regex: bool,
    where: tuple[str, ...],
    since: str | None,
    until: str | None,
    tail: int | None,
    num: int | None,
    at_end: bool,
    partitions: str | None,
    group: str | None,
    template: str | None,
    null_shown: bool,
    null: str | None,
    key_delimiter: str | None,
    delimiter: str | None,
    as_json: bool,
    meta_only: bool,
    read_committed: bool,
    unbuffered: bool,
    quiet: bool,
) -> None:
    """Read records out of topics."""
    names: Sequence[str] = (*topics, *more_topics)
    if not names:
        raise click.UsageError("which topic? odradek consume TOPIC")
    check_utf8(*names, group or "")
    pattern = compile_patterns(names) if regex else None
    start, stop = start_and_stop(where, since, until, tail)
    if at_end and stop is None:
        stop = Position(Origin.END)
    looks = RecordOptions(template, key_delimiter, delimiter, null, null_shown, as_json, meta_only)
    writer = RecordWriter(looks, unbuffered)
    to = cluster_settings(ctx)
    flags = {"isolation.level": "read_committed"} if read_committed else {}
    defaults = {
        "enable.auto.commit": "false",
        "allow.auto.create.topics": "false",
        "auto.offset.reset": RESETS.get((start or START).origin, "none"),
    }
    if group is not None:
        if partitions is not None or stop is not None or not is_reset_position(start):
            raise click.UsageError(
                "a group goes on where it was, to no end: leave out -p, -e, --since, --until, "
                "--tail and -o (or say -o start or -o end, for where it begins if it has committed "
                "nothing)"
            )
        if pattern is None:
            with admin(to, beside_consumer=True) as cluster:
                cluster.partitions_of(names)  # A misspelt name is to be told at once.
        flags["group.id"] = group
        if start is not None and start.origin is not Origin.STORED:
            flags["auto.offset.reset"] = RESETS[start.origin]
        with (
            consumer(to, defaults, flags) as member,
            Progress("read", quiet=quiet) as progress,
        ):
            read_as_member(member, pattern or names, writer, num, progress)
        return
    with admin(to, beside_consumer=True) as cluster:
        if pattern is not None:
            names = topics_matching(cluster, pattern)
        wanted = cluster.partitions_of(names)
        if partitions is not None:
            wanted = select_partitions(wanted, partitions)
        starts = offsets_at(cluster, wanted, start or START)
        stops = stop_offsets(cluster, wanted, stop)
    with consumer(to, defaults, flags) as reader, Progress("read", quiet=quiet) as progress:
        read_partitions(reader, starts, stops, writer, num, progress)


def is_reset_position(start: Position | None) -> bool:
    """Whether a group can begin there: it knows the ends of a log, and no place beside them."""
    return start is None or (start.origin in RESETS and start.value == 0)


def compile_patterns(patterns: Sequence[str]) -> re.Pattern[str]:
    """One pattern that matches what any of these does."""
    try:
        return re.compile("|".join(f"(?:{each})" for each in patterns))
    except re.error as error:
        raise click.UsageError(f"{' '.join(patterns)!r} is not a pattern: {error}") from None


def topics_matching(cluster: Admin, pattern: re.Pattern[str]) -> list[str]:
    """The topics of that name. Raises `UnknownTopicOrPartition` if there is none."""
    found = [each.name for each in cluster.topics() if pattern.fullmatch(each.name)]
    if not found:
        raise UnknownTopicOrPartition(f"no topic matches {pattern.pattern!r}.")
    return found


def start_and_stop(
    where: Sequence[str], since: str | None, until: str | None, tail: int | None
) -> tuple[Position | None, Position | None]:
    """From where, to where; the ways to say it are one."""
    now = now_ms()
    starts = [each for each in where if not each.startswith(TO)]
    start, stop = offset_range(starts[0], now) if starts else (None, None)
    stops = [each for each in where if each.startswith(TO)]
    if (stop is not None) + len(stops) + (until is not None) > 1:
        raise click.UsageError("say where to stop once: -o FROM:TO, -o e@TIME or --until")
    if stops:
        stop = position(stops[0], now)
    if since is not None:
        start = position(f"@{ago(since)}", now)
    if until is not None:
        stop = position(f"@{ago(until)}", now)
    if tail is not None:
        start = Position(Origin.END, -tail)
    if len(starts) + (since is not None) + (tail is not None) > 1:
        raise click.UsageError("say where to begin once: -o, --since or --tail")
    return start, stop


def ago(text: str) -> str:
    """`10m` is ten minutes ago; other moments are what they are."""
    return f"-{text}" if text[:1].isdecimal() and text[-1:].isalpha() and "T" not in text else text


def stop_offsets(
    cluster: Admin, wanted: list[TopicPartition], stop: Position | None
) -> dict[TopicPartition, int] | None:
    return None if stop is None else offsets_at(cluster, wanted, stop)


def read_partitions(
    reader: Consumer[bytes, bytes],
    starts: dict[TopicPartition, int],
    stops: dict[TopicPartition, int] | None,
    writer: RecordWriter,
    num: int | None,
    progress: Progress,
) -> None:
    """Up to `stops`, or for ever; no more than `num`."""
    if stops is None:
        reader.assign(starts)
    else:
        spans = {p: (starts[p], stops[p]) for p in starts if starts[p] < stops[p]}
        if not spans:
            return
        reader.assign(spans)
    for batch in reader.batches(AT_ONCE if num is None else min(AT_ONCE, num), WAIT_S):
        for record in batch:
            writer.write(record)
            progress.advance()
            if progress.count == num:
                return
        writer.flush()
