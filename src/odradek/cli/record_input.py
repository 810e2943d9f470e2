"""The records that `produce` reads: a VALUE, lines, text by a template, or JSON.

A call reads one of these. An option that has no effect with the chosen one is refused.

The template `%k %v\\n` reads the key up to the first blank, then the value up to the end of the
line. The verbs are those of `record_format`. Two verbs need a text between them, which ends the
first. The input is read as it arrives: a record in a pipe does not wait for the next one, and at
most one record is held in memory.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

import click

from odradek.cli import record_json
from odradek.cli.options import refuse_options
from odradek.cli.output import print_stderr
from odradek.cli.raw_text import argument_bytes
from odradek.cli.record_format import (
    LARGEST_PARTITION,
    LARGEST_TIMESTAMP,
    BadTemplate,
    CliRecord,
    check_range,
    literal,
    pieces,
    unescape,
)

LINE = r"%v\n"


class NotReadable(click.ClickException):
    """The input cannot be parsed as a record; the message says where."""


@dataclass(frozen=True, slots=True)
class InputOptions:
    """The arguments and options of one call that describe its records; None: not given."""

    value: str | None
    as_json: bool
    template: str | None
    key_delimiter: str | None
    delimiter: str | None
    source: IO[bytes] | None

    def records(self) -> Iterator[CliRecord]:
        """Return the records as they are read. Raises `UsageError` at once for contradicting
        options, and `NotReadable` while reading for invalid input.
        """
        self.check()
        if self.value is not None:
            return iter([CliRecord(value=argument_bytes(self.value))])
        source = sys.stdin.buffer if self.source is None else self.source
        if self.as_json:
            return json_records(source)
        return text_records(source, self.template, self.key_delimiter, self.delimiter)

    @property
    def names_partitions(self) -> bool:
        """True if the template reads the partition of each record."""
        return self.template is not None and has_verb("p", self.template)

    def check(self) -> None:
        """Raise `UsageError` for an option that would have no effect."""
        delimiters = {"-K": self.key_delimiter, "-D": self.delimiter}
        read_by = {"-f": self.template, **delimiters}
        if self.value is not None:
            read = {"--json": self.as_json or None, **read_by, "-F": self.source}
            refuse_options(read, "VALUE is all that is written")
        if self.as_json:
            refuse_options(read_by, "--json says how records are read")
        if self.template is not None:
            refuse_options(delimiters, "-f says what ends keys and records")
        if self.key_delimiter == "":
            raise click.UsageError("-K is the text that ends the key: it cannot be empty")


def text_records(
    source: IO[bytes], template: str | None, key_delimiter: str | None, delimiter: str | None
) -> Iterator[CliRecord]:
    """Read records from lines, or by a template."""
    if template is None:
        template = LINE if delimiter is None else f"%v{literal(delimiter)}"
    mark = None if key_delimiter is None else unescape(key_delimiter)
    announce_terminal_input(source)
    try:
        for record in read_records(template, source):
            if mark is not None and record.value is not None:
                key, found, value = record.value.partition(mark)
                if found:
                    record.key, record.value = key, value
            yield record
    except ValueError as error:
        raise NotReadable(str(error)) from error


def json_records(source: IO[bytes]) -> Iterator[CliRecord]:
    """Read records from JSON, one a line."""
    announce_terminal_input(source)
    for number, line in enumerate(source, 1):
        if not line.isspace():
            try:
                yield record_json.decode(line)
            except ValueError as error:
                raise NotReadable(f"line {number}: {error}") from error


def announce_terminal_input(source: IO[bytes]) -> None:
    """Tell the user at a terminal that the command waits for input."""
    if source.isatty() and sys.stderr.isatty():
        print_stderr("Reading from the terminal, one record a line; Ctrl-D ends.")


MAX_RECORD_BYTES = 64 * 1024 * 1024
READABLE = {"k", "v", "s", "p", "h", "T", "d"}


def parse_template(template: str) -> tuple[list[tuple[str, bytes]], bytes]:
    """Parse an input template: its verbs, each with the bytes that end it, and the bytes before
    the first verb.
    """
    before = b""
    steps: list[tuple[str, bytes]] = []
    for piece in pieces(template):
        if not isinstance(piece, bytes):
            if piece["verb"] not in READABLE or piece["how"] is not None:
                raise BadTemplate(f"{piece[0]} cannot be read; %k %v %p %h %T can")
            if steps and not steps[-1][1]:
                raise BadTemplate(
                    f"{template!r}: no text ends %{steps[-1][0]}: put one between the verbs"
                )
            steps.append((piece["verb"], b""))
        elif steps:
            steps[-1] = (steps[-1][0], steps[-1][1] + piece)
        else:
            before += piece
    if not steps:
        raise BadTemplate(f"{template!r} has no verb: write at least %v")
    return steps, before


def has_verb(verb: str, template: str) -> bool:
    """True if an input template has that verb."""
    return any(each == verb for each, _ in parse_template(template)[0])


def read_records(template: str, stream: IO[bytes]) -> Iterator[CliRecord]:
    """Read records by a template. Raises `ValueError` for invalid or incomplete text."""
    steps, before = parse_template(template)
    source = TextSource(stream)
    while not source.at_end():
        source.skip(before)
        record = CliRecord()
        for index, (verb, end) in enumerate(steps):
            data = source.until(end)
            if source.cut_short and index + 1 < len(steps):
                raise ValueError(f"the text ends within a record, in %{verb}")
            set_field(record, verb, data)
        yield record


def set_field(record: CliRecord, verb: str, data: bytes) -> None:
    if verb == "k":
        record.key = data
    elif verb in "vs":
        record.value = data
    elif verb == "h":
        pairs = (pair.partition(b"=") for pair in data.split(b",") if pair)
        record.headers = [(key.decode(), value) for key, _, value in pairs]
    else:
        try:
            number = int(data)
        except ValueError:
            raise ValueError(f"%{verb}: {data[:40]!r} is not a number") from None
        if verb == "p":
            record.partition = check_range("%p", number, LARGEST_PARTITION)
        else:
            record.timestamp_ms = check_range(f"%{verb}", number, LARGEST_TIMESTAMP)


class TextSource:
    """A stream that is read up to delimiters; it holds at most one record."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream
        self.held = bytearray()
        self.ended = False
        self.cut_short = False
        """True if the stream ended before a delimiter."""

    def more(self) -> bool:
        """Read what has arrived, without waiting for more; False at the end of the stream."""
        read1 = getattr(self.stream, "read1", self.stream.read)
        data = read1(65536)
        self.held += data
        self.ended = not data
        return not self.ended

    def at_end(self) -> bool:
        return not self.held and (self.ended or not self.more())

    def skip(self, mark: bytes) -> None:
        if mark and self.until(mark):
            raise ValueError(f"a record does not begin with {mark!r}")

    def until(self, end: bytes) -> bytes:
        """Read up to `end`, which is skipped, or up to the end of the stream."""
        searched = 0
        while (at := self.held.find(end, searched) if end else -1) < 0:
            searched = max(0, len(self.held) - len(end) + 1)
            if len(self.held) > MAX_RECORD_BYTES:
                raise ValueError(f"no {end!r} within {MAX_RECORD_BYTES:,} bytes")
            if self.ended or not self.more():
                data = bytes(self.held)
                self.held.clear()
                self.cut_short = True
                return data
        data = bytes(self.held[:at])
        del self.held[: at + len(end)]
        return data
