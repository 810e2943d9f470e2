"""The output of a command: a table on a terminal, tab-separated lines in a pipe, or JSON.

A command makes one `Listing` (rows of plain values) and calls `show`; only this module decides how
it looks. With `--json` each row is one line with an object whose keys are the column names, so that
`jq` and a `for` loop can read it. In a pipe there is no header line: the columns are those of the
table on a terminal, in the same order.

`Progress` reports a long command on stderr: one line that is rewritten, after the first second, and
a last line at the end. If stderr is not a terminal it shows nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import click
import msgspec

WIDEST = 1000
"""The greatest width of a table, in columns of a terminal."""


@dataclass(slots=True)
class Listing:
    """A table. `columns` are the JSON keys; on a terminal they have blanks for underscores. Rows
    have one value per column: text, numbers, booleans, None, or lists of those.
    """

    columns: Sequence[str]
    rows: list[Sequence[Any]] = field(default_factory=list)
    title: str = ""
    empty: str = "nothing"
    """The message on a terminal if there are no rows."""

    def add(self, *values: Any) -> None:
        assert len(values) == len(self.columns), f"{values} for {self.columns}"
        self.rows.append(values)


def show(listing: Listing, *, as_json: bool) -> None:
    """Print the table on stdout."""
    if as_json:
        for row in listing.rows:
            show_json(dict(zip(listing.columns, row, strict=True)))
    elif not sys.stdout.isatty():
        for line in lines(listing):
            click.echo(line)
    elif listing.rows:
        show_table(listing)
    else:
        click.echo(listing.empty, err=True)


def report_done(sentence: str, *, as_json: bool, **row: Any) -> None:
    """Report a completed action on stderr, or with `--json` as an object on stdout."""
    if as_json:
        show_json(row)
    else:
        print_stderr(sentence)


def plural(number: int, noun: str) -> str:
    """`1 partition`, `1,200 partitions`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def show_json(value: Any) -> None:
    """Print a value as one line of JSON on stdout."""
    click.echo(msgspec.json.encode(value).decode())


def lines(listing: Listing) -> Iterator[str]:
    """Return the rows as tab-separated lines."""
    for row in listing.rows:
        yield "\t".join(plain(value) for value in row)


def show_table(listing: Listing, *, on_stderr: bool = False) -> None:
    """Print the table for a terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(title=listing.title or None, box=box.SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(listing.columns):
        numbers = all(isinstance(row[index], int) for row in listing.rows)
        table.add_column(
            column.replace("_", " "), justify="right" if numbers else "left", no_wrap=True
        )
    for row in listing.rows:
        table.add_row(*(cell(value) for value in row))
    console = Console(stderr=on_stderr)
    # The terminal wraps long lines: folded cells could not be read or copied.
    widest = console.measure(table, options=console.options.update(max_width=WIDEST)).maximum
    console.width = max(console.width, widest)
    console.print(table, soft_wrap=True)


def cell(value: Any) -> str:
    """Format a cell for a terminal: with thousands separators, and a dash for None."""
    from rich.markup import escape

    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return escape(plain(value)) or "-"


def plain(value: Any) -> str:
    """Format a value for a line: without tabs and line ends."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(plain(each) for each in value)
    return str(value).replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")


def print_stderr(lines: str | Iterable[str]) -> None:
    """Print messages on stderr, so that a pipe gets data only."""
    for line in [lines] if isinstance(lines, str) else lines:
        click.echo(line, err=True)


AFTER_S, EVERY_S = 1.0, 0.25


class Progress:
    """Counts records. `advance` may be called from any one thread."""

    def __init__(self, verb: str, *, quiet: bool = False) -> None:
        self.verb = verb
        self.quiet = quiet
        self.count = 0
        self._begun = time.monotonic()
        self._next = self._begun + AFTER_S
        self._live = not quiet and sys.stderr.isatty()
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def advance(self, count: int = 1) -> None:
        """Count further records, and update the line on a terminal."""
        self.count += count
        if self._live:
            now = time.monotonic()
            if now >= self._next:
                self._next = now + EVERY_S
                self._shown = True
                click.echo(f"\r\x1b[K{self.line(now)}", err=True, nl=False)

    def line(self, now: float) -> str:
        rate = self.count / max(now - self._begun, 1e-9)
        return f"{self.verb} {plural(self.count, 'record')}, {rate:,.0f} a second"

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._shown:
            click.echo("\r\x1b[K", err=True, nl=False)
        if self._live and kind is None:
            click.echo(self.line(time.monotonic()), err=True)
