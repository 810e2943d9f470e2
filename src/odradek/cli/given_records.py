"""The records that `produce` is given: a VALUE, lines, text by a template, or JSON.

There is one of these at a time. Options that speak of another than the one that was chosen are
refused: whoever gave them expects them to be heeded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

import click

from odradek.cli import record_json
from odradek.cli.contradictions import refuse
from odradek.cli.output import tell
from odradek.cli.raw_text import raw
from odradek.cli.record_format import Shown, literal, unescaped
from odradek.cli.record_input import read_records, reads

LINE = r"%v\n"


class NotReadable(click.ClickException):
    """The input is no record from here on."""


@dataclass(frozen=True, slots=True)
class Given:
    """What the arguments and options of one call say about its records; None: nothing."""

    value: str | None
    as_json: bool
    template: str | None
    key_delimiter: str | None
    delimiter: str | None
    source: IO[bytes] | None

    def records(self) -> Iterator[Shown]:
        """One by one, as they are read. Raises `UsageError` at once for options that contradict
        each other, and `NotReadable` on the way for what is no record.
        """
        self.check()
        if self.value is not None:
            return iter([Shown(value=raw(self.value))])
        source = sys.stdin.buffer if self.source is None else self.source
        if self.as_json:
            return json_records(source)
        return text_records(source, self.template, self.key_delimiter, self.delimiter)

    @property
    def names_partitions(self) -> bool:
        """Whether who wrote the template has each record say where it belongs."""
        return self.template is not None and reads("p", self.template)

    def check(self) -> None:
        """Raises `UsageError` if somebody would wait in vain for an option to take effect."""
        delimiters = {"-K": self.key_delimiter, "-D": self.delimiter}
        read_by = {"-f": self.template, **delimiters}
        if self.value is not None:
            read = {"--json": self.as_json or None, **read_by, "-F": self.source}
            refuse(read, "VALUE is all that is written")
        if self.as_json:
            refuse(read_by, "--json says how records are read")
        if self.template is not None:
            refuse(delimiters, "-f says what ends keys and records")
        if self.key_delimiter == "":
            raise click.UsageError("-K says what ends the key, so it cannot be nothing")


def text_records(
    source: IO[bytes], template: str | None, key_delimiter: str | None, delimiter: str | None
) -> Iterator[Shown]:
    """Records of lines, or of a template."""
    if template is None:
        template = LINE if delimiter is None else f"%v{literal(delimiter)}"
    mark = None if key_delimiter is None else unescaped(key_delimiter)
    warn_of_waiting(source)
    try:
        for record in read_records(template, source):
            if mark is not None and record.value is not None:
                key, found, value = record.value.partition(mark)
                if found:
                    record.key, record.value = key, value
            yield record
    except ValueError as error:
        raise NotReadable(str(error)) from error


def json_records(source: IO[bytes]) -> Iterator[Shown]:
    """Records of JSON, one a line."""
    warn_of_waiting(source)
    for number, line in enumerate(source, 1):
        if not line.isspace():
            try:
                yield record_json.read(line)
            except ValueError as error:
                raise NotReadable(f"line {number}: {error}") from error


def warn_of_waiting(source: IO[bytes]) -> None:
    """People who are waited for should know."""
    if source.isatty() and sys.stderr.isatty():
        tell("A record a line; Ctrl-D ends.")
