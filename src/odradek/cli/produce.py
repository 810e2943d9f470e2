"""`odradek produce`: records from an argument, from lines, from a template or from JSON.

odradek produce orders hello                    one record
odradek produce orders < lines.txt              a record a line
odradek produce orders -K : < pairs.txt         key:value a line; without a colon, no key
odradek produce orders -f '%k %v\\n' < pairs.txt
odradek produce orders --json < records.jsonl   what `consume --json` writes
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import IO, TYPE_CHECKING, Any

import click

from odradek.cli.clients import broker_options, cluster_settings, producer
from odradek.cli.failures import SomeFailed
from odradek.cli.output import Progress, plural
from odradek.cli.raw_text import argument_bytes, check_utf8
from odradek.cli.record_format import LARGEST_PARTITION, CliRecord, show_help
from odradek.cli.record_input import InputOptions, NotReadable
from odradek.client.errors import KafkaError, RecordTooLarge

if TYPE_CHECKING:
    from odradek import Producer

SHOWN_FAILURES = 3
LAST_CHANCE_S = 30.0
READ_HELP = r"The input format, such as '%k %v\n'; `-f help` explains it."


@click.command()
@click.argument("words", metavar="TOPIC [VALUE]", nargs=-1)
@click.option("-t", "--topic", hidden=True, help="The topic, as in kcat.")
@click.option("-k", "--key", help="The key of records that have none.")
@click.option("-H", "--header", "headers", metavar="NAME=VALUE", multiple=True, help="A header.")
@click.option(
    "-p",
    "--partition",
    type=click.IntRange(-1, LARGEST_PARTITION),
    help="The partition of all records; -1: any.",
)
@click.option("-f", "--format", "template", metavar="TEMPLATE", callback=show_help, help=READ_HELP)
@click.option("-K", "--key-delimiter", metavar="TEXT", help="The text that ends the key in a line.")
@click.option(
    "-D", "--delimiter", metavar="TEXT", help=r"The text that ends a record.  [default: \n]"
)
@click.option("-F", "--file", "source", type=click.File("rb"), help="Read from a file, not stdin.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.option(
    "-z",
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    help="The compression type.  [default: none]",
)
@click.option(
    "--acks",
    type=click.Choice(["all", "-1", "0", "1"]),
    help="The acknowledgements to wait for.  [default: all]",
)
@click.option("-Z", "--tombstone", is_flag=True, help="Send an empty value as null.")
@click.option(
    "--keep-partitions",
    "keep",
    is_flag=True,
    help="Send each record to its own partition, as with %p in -f.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing on success.")
@broker_options
@click.pass_context
def produce(
    ctx: click.Context,
    words: tuple[str, ...],
    topic: str | None,
    key: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    template: str | None,
    key_delimiter: str | None,
    delimiter: str | None,
    source: IO[bytes] | None,
    as_json: bool,
    compression: str | None,
    acks: str | None,
    tombstone: bool,
    keep: bool,
    quiet: bool,
) -> None:
    """Write records to a topic: VALUE, or each line of stdin."""
    name, value = topic_and_value(words, topic)
    asked = InputOptions(value, as_json, template, key_delimiter, delimiter, source)
    records = asked.records()
    keep = keep or asked.names_partitions
    own_headers = [parse_header(text) for text in headers]
    given = {"compression.type": compression, "acks": acks}
    flags = {name: text for name, text in given.items() if text is not None}
    with (
        producer(cluster_settings(ctx), flags) as sender,
        Progress("produced", quiet=quiet) as progress,
        transaction_of(sender) as transaction,
    ):
        is_transaction = transaction is not None
        failures = Failures(is_transaction)

        def delivered(error: KafkaError | None, _: object) -> None:
            if error is None:
                progress.advance()
            else:
                failures.add(error)

        with failures.of_the_rest(sender, progress):
            if not is_transaction:
                records = with_count_on_error(records, sender, progress)
            for record in records:
                with failures.of_single_records():
                    sender.send(
                        name,
                        None if tombstone and not record.value else record.value,
                        key=record.key
                        if record.key is not None or key is None
                        else argument_bytes(key),
                        headers=[*record.headers, *own_headers],
                        partition=partition_for(partition, record.partition if keep else -1),
                        timestamp=record.timestamp_ms if record.timestamp_ms >= 0 else None,
                        on_delivery=delivered,
                    )
        sender.flush()
        failures.print_stderr(progress)


class Failures:
    """Counts the records that were not written, and keeps the first errors with different
    texts: those of one batch are equal."""

    def __init__(self, in_transaction: bool) -> None:
        self._in_transaction = in_transaction
        self.count = 0
        self.first: list[KafkaError] = []

    def add(self, error: KafkaError) -> None:
        self.count += 1
        known = any(str(error) == str(each) for each in self.first)
        if not known and len(self.first) < SHOWN_FAILURES:
            self.first.append(error)

    @contextmanager
    def of_single_records(self) -> Iterator[None]:
        """Catch the error of a single record, so that the others are sent."""
        try:
            yield
        except RecordTooLarge as error:
            self.add(error)

    @contextmanager
    def of_the_rest(self, sender: Producer[Any, Any], progress: Progress) -> Iterator[None]:
        """Stop reading when a record cannot be queued. The records sent before are given
        `LAST_CHANCE_S` to be acknowledged, so that their outcome is known.
        """
        try:
            yield
        except KafkaError as error:
            sender.close(LAST_CHANCE_S)
            if not self.count and not progress.count:
                raise
            outcome = f"{self.outcome(progress, and_this=1)}; the rest of the input was not read"
            raise SomeFailed([error, *self.first][:SHOWN_FAILURES], outcome) from error

    def print_stderr(self, progress: Progress) -> None:
        """Raise `SomeFailed` if any record failed."""
        if self.count:
            raise SomeFailed(self.first, self.outcome(progress))

    def outcome(self, progress: Progress, and_this: int = 0) -> str:
        """Return a sentence with the numbers of written and failed records."""
        failed = plural(self.count + and_this, "record")
        if self._in_transaction:
            return f"{failed} failed: the transaction was aborted, and nothing was written"
        return f"{failed} not written, {progress.count:,} written"


def transaction_of(sender: Producer[Any, Any]) -> AbstractContextManager[object | None]:
    """Return one transaction for the whole input, if the producer has a `transactional.id`."""
    if sender.config.transactional_id is None:
        return nullcontext()
    return sender.transaction()


def topic_and_value(words: tuple[str, ...], topic: str | None) -> tuple[str, str | None]:
    """Return the topic, and the value if one was given."""
    rest = words if topic is not None else words[1:]
    name = topic if topic is not None else next(iter(words), None)
    if name is None:
        raise click.UsageError("which topic? odradek produce TOPIC [VALUE]")
    check_utf8(name)
    if len(rest) > 1:
        raise click.UsageError(f"one VALUE: put quotes around {' '.join(rest)!r}")
    return name, rest[0] if rest else None


def partition_for(wanted: int | None, named: int) -> int | None:
    """Return the partition of a record: the one for all records, else its own; None: any."""
    partition = named if wanted is None else wanted
    return None if partition < 0 else partition


def parse_header(text: str) -> tuple[str, bytes]:
    """Parse a header: `k=v`, or `k:v` as in rpk."""
    for separator in "=:":
        name, found, value = text.partition(separator)
        if found and name:
            check_utf8(name)
            return name, argument_bytes(value)
    raise click.UsageError(f"-H {text!r}: write NAME=VALUE")


def with_count_on_error(
    records: Iterator[CliRecord], sender: Producer[Any, Any], progress: Progress
) -> Iterator[CliRecord]:
    """Return the records. If the input is invalid, add to the error how many were written, so that
    the user can repair the input and go on from there.
    """
    try:
        yield from records
    except NotReadable as error:
        sender.flush()
        count = progress.count
        written = f"{plural(count, 'record')} {'was' if count == 1 else 'were'}"
        before = f"{written if count else 'nothing was'} written before it"
        raise NotReadable(f"{error.message}\n{before}") from error
