"""`odradek consume`: prints records of topics until it is stopped.

    odradek consume orders                        all records, then new ones
    odradek consume orders -o end                 only new records
    odradek consume orders -o -10 -e              the last ten of each partition
    odradek consume orders --since 10m -e --json
    odradek consume orders -g billing             as a member of a group, with commits
    odradek consume orders -f '%p %o %k %v\\n'

Without a group it commits nothing and reads all partitions at once. `-X group.id=billing`, or
group.id in a file of settings, does the same as `-g billing`, as in Kafka's console consumer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from odradek import Admin, Consumer
from odradek.cli.clients import admin, broker_options, cluster_settings, consumer
from odradek.cli.consume_group import AT_ONCE, WAIT_S, read_as_member
from odradek.cli.output import Progress
from odradek.cli.positions import (
    START,
    Origin,
    Position,
    now_ms,
    offset_range,
    offsets_at,
    position,
    select_partitions,
)
from odradek.cli.raw_text import check_utf8
from odradek.cli.record_format import show_help
from odradek.cli.record_output import RecordOptions, RecordWriter
from odradek.client.errors import UnknownTopicOrPartition
from odradek.model.topics import TopicPartition

TO = "e@"
"""kcat's prefix for the end: `-o s@TIME -o e@TIME`."""
WRITE_HELP = r"The format, such as '%p %o %k %v\n', json, table, raw; see `-f help`."
RESETS = {Origin.START: "earliest", Origin.END: "latest", Origin.STORED: "earliest"}


@click.command()
@click.argument("topics", metavar="TOPIC...", nargs=-1)
@click.option("-t", "--topic", "more_topics", multiple=True, hidden=True)
@click.option("-r", "--regex", is_flag=True, help="Topics are regular expressions for whole names.")
@click.option(
    "-o",
    "--offset",
    "where",
    multiple=True,
    metavar="POSITION[:POSITION]",
    help="start, end, an offset, +N, -N, @TIME; or from:to.  [default: start; with -g, stored]",
)
@click.option("--since", metavar="DURATION|TIME", help="Start so long ago, or at a time.")
@click.option("--until", metavar="DURATION|TIME", help="Stop so long ago, or at a time.")
@click.option("--tail", type=click.IntRange(min=0), help="Only the last N of each partition.")
@click.option("-n", "-c", "--num", type=click.IntRange(min=1), help="Stop after N records.")
@click.option("-e", "--exit", "at_end", is_flag=True, help="Stop at the current end.")
@click.option(
    "-p", "--partitions", metavar="0,1,...", help="The partitions to read.  [default: all]"
)
@click.option("-g", "--group", metavar="GROUP", help="Read as a member of this group.")
@click.option("-f", "--format", "template", metavar="TEMPLATE", callback=show_help, help=WRITE_HELP)
@click.option("-Z", "null_shown", is_flag=True, help="Print NULL for null keys and values.")
@click.option("--null", metavar="TEXT", help="The text for null keys and values.")
@click.option(
    "-K", "--key-delimiter", metavar="TEXT", help="Print keys too, followed by this text."
)
@click.option(
    "-D", "--delimiter", metavar="TEXT", help=r"The text that ends a record.  [default: \n]"
)
@click.option("-J", "--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.option("--meta-only", is_flag=True, help="Print the sizes of keys and values instead.")
@click.option(
    "--read-committed/--read-uncommitted",
    default=None,
    help="Skip records of open and aborted transactions (the default), or read them too.",
)
@click.option("-u", "--unbuffered", is_flag=True, help="Flush after each record.")
@click.option("-q", "--quiet", is_flag=True, help="Print no messages on stderr.")
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
    read_committed: bool | None,
    unbuffered: bool,
    quiet: bool,
) -> None:
    """Read records from topics."""
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
    flags: dict[str, str] = {}
    if read_committed is not None:
        flags["isolation.level"] = "read_committed" if read_committed else "read_uncommitted"
    defaults = {
        "enable.auto.commit": "false",
        "allow.auto.create.topics": "false",
        "auto.offset.reset": RESETS.get((start or START).origin, "none"),
    }
    given_by = "-g"
    if group is None:
        group, given_by = to.value_of("group.id"), "group.id"
    if group is not None:
        if partitions is not None or stop is not None or not is_reset_position(start):
            raise click.UsageError(
                f"{given_by} {group}: a group continues from its committed offsets and has no end: "
                "leave out the group, or -p, -e, --since, --until, --tail and -o (only -o start "
                "and -o end are possible: they set where a group without committed offsets begins)"
            )
        if pattern is None:
            with admin(to, beside_consumer=True) as cluster:
                cluster.partitions_of(names)  # Reports a misspelt name at once.
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
    """True if a group can begin there: only at the start or the end of the logs."""
    return start is None or (start.origin in RESETS and start.value == 0)


def compile_patterns(patterns: Sequence[str]) -> re.Pattern[str]:
    """Return one pattern that matches if any of these does."""
    try:
        return re.compile("|".join(f"(?:{each})" for each in patterns))
    except re.error as error:
        raise click.UsageError(f"{' '.join(patterns)!r} is not a pattern: {error}") from None


def topics_matching(cluster: Admin, pattern: re.Pattern[str]) -> list[str]:
    """Return the topics that match. Raises `UnknownTopicOrPartition` if none does."""
    found = [each.name for each in cluster.topics() if pattern.fullmatch(each.name)]
    if not found:
        raise UnknownTopicOrPartition(f"no topic matches {pattern.pattern!r}.")
    return found


def start_and_stop(
    where: Sequence[str], since: str | None, until: str | None, tail: int | None
) -> tuple[Position | None, Position | None]:
    """Return the start and the end that `-o`, `--since`, `--until` and `--tail` give."""
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
    """Turn a duration such as `10m` into a time (`-10m`); other times stay as they are."""
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
    """Read up to `stops`, or for ever; at most `num` records."""
    if stops is None:
        reader.assign(starts)
    else:
        ends = reader.end_offsets(list(stops))  # Before the first open transaction.
        spans = {p: (starts[p], min(stops[p], ends[p])) for p in starts}
        spans = {p: (start, stop) for p, (start, stop) in spans.items() if start < stop}
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
