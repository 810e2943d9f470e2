"""`odradek txn`: transactions of any Kafka cluster: list, describe, find what hangs, abort.

A transaction *hangs* in a partition if its coordinator will not end it there: readers of committed
records wait for it for ever.
"""

from __future__ import annotations

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
from odradek.cli.output import Listing, print_stderr, report_done, show
from odradek.cli.positions import duration_ms, now_ms, select_partitions
from odradek.cli.record_format import rfc3339
from odradek.client.admin.results import OpenProducer, TransactionDescription
from odradek.model.topics import TopicPartition

STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
HANGING = "15m"
"""The default of `transaction.max.timeout.ms`."""


@click.group(
    cls=AliasedGroup,
    aliases={"list": "ls", "info": "describe", "describe-producers": "producers"},
)
def txn() -> None:
    """Transactions: ls, describe, producers, hanging, abort."""


@txn.command("ls")
@click.option(
    "-s",
    "--state",
    "states",
    multiple=True,
    type=click.Choice(STATES, case_sensitive=False),
    help="Only transactional ids in this state.",
)
@click.option("--match", metavar="REGEX", help="Only ids that match as a whole (Kafka 4.1).")
@click.option("--open-for", metavar="DURATION", help="Only with a transaction open for longer.")
@watch_option
@json_option
@broker_options
@click.pass_context
def ls(
    ctx: click.Context,
    states: tuple[str, ...],
    match: str | None,
    open_for: str | None,
    pause_s: float | None,
    as_json: bool,
) -> None:
    """List transactional ids with the state of their last transaction.

    Columns: transactional_id, state, producer_id, coordinator.
    """
    longer_ms = -1 if open_for is None else duration_ms(open_for)
    with admin(cluster_settings(ctx)) as cluster:

        def look() -> None:
            listing = Listing(
                ("transactional_id", "state", "producer_id", "coordinator"),
                empty="There are no transactional ids.",
            )
            found = cluster.list_transactions(states=states, pattern=match, open_for_ms=longer_ms)
            for each in found:
                listing.add(each.transactional_id, each.state, each.producer_id, each.coordinator)
            show(listing, as_json=as_json)

        repeat(pause_s, look)


@txn.command("describe")
@click.argument("names", metavar="ID...", nargs=-1, required=True)
@watch_option
@json_option
@broker_options
@click.pass_context
def describe(
    ctx: click.Context, names: tuple[str, ...], pause_s: float | None, as_json: bool
) -> None:
    """Show the transaction of a transactional id, with its partitions.

    Columns: transactional_id, state, producer_id, epoch, timeout_ms, began, open_ms, coordinator,
    partitions.
    """
    with admin(cluster_settings(ctx)) as cluster:

        def look(name: str) -> None:
            show(description_table(described(cluster, name)), as_json=as_json)

        repeat(pause_s, lambda: for_each(names, look))


def described(cluster: Admin, name: str) -> TransactionDescription:
    """Return what the coordinator of an id knows. Raises `TransactionalIdNotFound`."""
    return cluster.describe_transactions([name])[name]


def description_table(*found: TransactionDescription) -> Listing:
    """Return one row for each transactional id."""
    listing = Listing(
        (
            "transactional_id",
            "state",
            "producer_id",
            "epoch",
            "timeout_ms",
            "began",
            "open_ms",
            "coordinator",
            "partitions",
        )
    )
    for each in found:
        is_open = each.start_ms is not None
        listing.add(
            each.transactional_id,
            each.state,
            each.producer_id,
            each.epoch,
            each.timeout_ms,
            rfc3339(each.start_ms or 0) if is_open else None,
            max(0, now_ms() - (each.start_ms or 0)) if is_open else None,
            each.coordinator,
            [str(partition) for partition in each.partitions],
        )
    return listing


@txn.command("producers")
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@click.option("-p", "--partitions", metavar="0,1,...", help="Only these partitions.")
@click.option("--broker", type=int, metavar="ID", help="As this broker knows them, not the leader.")
@watch_option
@json_option
@broker_options
@click.pass_context
def producers(
    ctx: click.Context,
    topics: tuple[str, ...],
    partitions: str | None,
    broker: int | None,
    pause_s: float | None,
    as_json: bool,
) -> None:
    """Show the producers that partitions remember, and their open transactions.

    Columns: topic, partition, producer_id, epoch, last_sequence, last_time, coordinator_epoch,
    open_from (the first offset of the open transaction).
    """
    with admin(cluster_settings(ctx)) as cluster:

        def look() -> None:
            wanted = cluster.partitions_of(topics)
            if partitions is not None:
                wanted = select_partitions(wanted, partitions)
            listing = Listing(
                (
                    "topic",
                    "partition",
                    "producer_id",
                    "epoch",
                    "last_sequence",
                    "last_time",
                    "coordinator_epoch",
                    "open_from",
                ),
                empty="There are no idempotent or transactional producers.",
            )
            for where, found in cluster.describe_producers(wanted, broker=broker).items():
                for each in found:
                    listing.add(
                        where.topic,
                        where.partition,
                        each.producer_id,
                        each.epoch,
                        each.last_sequence,
                        rfc3339(each.last_timestamp) or None,
                        each.coordinator_epoch,
                        each.transaction_start_offset,
                    )
            show(listing, as_json=as_json)

        repeat(pause_s, look)


@txn.command("hanging")
@click.option("-t", "--topic", "topics", multiple=True, help="A topic.  [default: all]")
@click.option("-p", "--partitions", metavar="0,1,...", help="Only these partitions of the topics.")
@click.option("--broker", type=int, metavar="ID", help="As this broker knows them, not the leader.")
@click.option(
    "--open-for",
    metavar="DURATION",
    default=HANGING,
    show_default=True,
    help="Only if nothing was written for longer.",
)
@json_option
@broker_options
@click.pass_context
def hanging(
    ctx: click.Context,
    topics: tuple[str, ...],
    partitions: str | None,
    broker: int | None,
    open_for: str,
    as_json: bool,
) -> None:
    """Find transactions that partitions have open and no coordinator will end.

    `odradek txn abort TOPIC:PARTITION --producer-id ID` ends one. Columns: topic, partition,
    producer_id, epoch, coordinator_epoch, open_from, last_time.
    """
    if partitions is not None and not topics:
        raise click.UsageError("-p: of which topic? Give -t")
    longer_ms = duration_ms(open_for)
    with admin(cluster_settings(ctx)) as cluster:
        names = topics or [each.name for each in cluster.topics(internal=True)]
        wanted = cluster.partitions_of(names)
        if partitions is not None:
            wanted = select_partitions(wanted, partitions)
        found = cluster.hanging_transactions(wanted, open_for_ms=longer_ms, broker=broker)
        show(open_table(found), as_json=as_json)


def open_table(found: list[OpenProducer]) -> Listing:
    """Return one row for each open transaction of a partition."""
    listing = Listing(
        (
            "topic",
            "partition",
            "producer_id",
            "epoch",
            "coordinator_epoch",
            "open_from",
            "last_time",
        ),
        empty="There are no hanging transactions.",
    )
    for where, each in ((each.partition, each.producer) for each in found):
        listing.add(
            where.topic,
            where.partition,
            each.producer_id,
            each.epoch,
            each.coordinator_epoch,
            each.transaction_start_offset,
            rfc3339(each.last_timestamp) or None,
        )
    return listing


@txn.command("abort")
@click.argument("names", metavar="ID|TOPIC:PARTITION...", nargs=-1, required=True)
@click.option(
    "--producer-id",
    type=int,
    metavar="ID",
    help="Abort what this producer has open in the partitions TOPIC:PARTITION.",
)
@YES
@DRY_RUN
@json_option
@broker_options
@click.pass_context
def abort(
    ctx: click.Context,
    names: tuple[str, ...],
    producer_id: int | None,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Abort transactions, by transactional id, or in one partition if they hang there.

    By id, the producer that has it now is shut out, and its coordinator aborts the transaction in
    all of its partitions. In a partition (with --producer-id) a marker is written there alone,
    whatever the coordinator says: for a transaction that `odradek txn hanging` lists.
    """
    with admin(cluster_settings(ctx)) as cluster:
        if producer_id is None:
            abort_by_id(cluster, names, yes=yes, dry_run=dry_run, as_json=as_json)
        else:
            abort_in_partitions(
                cluster, names, producer_id, yes=yes, dry_run=dry_run, as_json=as_json
            )


def abort_by_id(
    cluster: Admin, names: tuple[str, ...], *, yes: bool, dry_run: bool, as_json: bool
) -> None:
    """Shut out the producers of these transactional ids, which must be known."""
    found: list[TransactionDescription] = []
    failed = collect_errors(names, lambda name: found.append(described(cluster, name)))
    plan = description_table(*found)

    def fence(name: str) -> None:
        cluster.fence_producers([name])
        report_done(f"{name}: aborted", as_json=as_json, transactional_id=name, aborted=True)

    if plan.rows and confirm(plan, "Abort", yes=yes, dry_run=dry_run, as_json=as_json):
        failed += collect_errors([each.transactional_id for each in found], fence)
    if failed:
        raise SomeFailed(failed)


def abort_in_partitions(
    cluster: Admin,
    names: tuple[str, ...],
    producer_id: int,
    *,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Write an ABORT marker where this producer has a transaction open."""
    wanted = list(dict.fromkeys(partition_of(name) for name in names))
    found = [
        OpenProducer(where, each)
        for where, known in cluster.describe_producers(wanted).items()
        for each in known
        if each.producer_id == producer_id and each.transaction_start_offset is not None
    ]
    missing = sorted(set(wanted) - {each.partition for each in found})
    if missing:
        there = ", ".join(map(str, missing))
        print_stderr(f"odradek: producer {producer_id} has no open transaction in {there}")
        print_stderr("`odradek txn producers` shows what is open.")
        raise Exit(exits.NOT_FOUND)
    if not confirm(open_table(found), "Abort", yes=yes, dry_run=dry_run, as_json=as_json):
        return
    by_name = {str(each.partition): each for each in found}

    def write_marker(name: str) -> None:
        where, producer = by_name[name].partition, by_name[name].producer
        cluster.abort_transaction(
            where, producer.producer_id, producer.epoch, producer.coordinator_epoch
        )
        report_done(
            f"{where}: aborted from offset {producer.transaction_start_offset} on",
            as_json=as_json,
            topic=where.topic,
            partition=where.partition,
            aborted=True,
        )

    for_each(by_name, write_marker)


def partition_of(text: str) -> TopicPartition:
    """Return `TOPIC:PARTITION`. Raises `UsageError`."""
    topic, colon, number = text.rpartition(":")
    if not colon or not number.isdecimal():
        raise click.UsageError(f"{text!r} is not TOPIC:PARTITION, as with --producer-id")
    return TopicPartition(topic, int(number))
