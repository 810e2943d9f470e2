"""What a command shows: a table on a terminal, tab-separated lines in a pipe, JSON when asked.

A command makes one `Listing` (rows of plain values) and `show`s it; nothing else decides about its
looks. With `--json` a row is an object with the columns' names as keys, one line a row, so that
`jq` and a `for` loop can both read it. In a pipe there is no head line: the columns are those of
the terminal's table, in its order.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import click
import msgspec

WIDEST = 1000
"""Columns of a terminal that a table may ask for."""


@dataclass(slots=True)
class Listing:
    """`columns` are JSON's keys; on a terminal they are shown with blanks for underscores. Rows
    have one value per column: text, numbers, booleans, None, or lists of those.
    """

    columns: Sequence[str]
    rows: list[Sequence[Any]] = field(default_factory=list)
    title: str = ""
    empty: str = "nothing"
    """What to say on a terminal when there are no rows."""

    def add(self, *values: Any) -> None:
        assert len(values) == len(self.columns), f"{values} for {self.columns}"
        self.rows.append(values)


def show(listing: Listing, *, as_json: bool) -> None:
    """On stdout."""
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


def done(sentence: str, *, as_json: bool, **row: Any) -> None:
    """Something was done: say so on stderr, or with `--json` as an object on stdout."""
    if as_json:
        show_json(row)
    else:
        tell(sentence)


def counted(number: int, noun: str) -> str:
    """`1 partition`, `1,200 partitions`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def show_json(value: Any) -> None:
    """One line on stdout."""
    click.echo(msgspec.json.encode(value).decode())


def lines(listing: Listing) -> Iterator[str]:
    """For a pipe."""
    for row in listing.rows:
        yield "\t".join(plain(value) for value in row)


def show_table(listing: Listing, *, on_stderr: bool = False) -> None:
    """For people."""
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
    # A line that is too long is the terminal's to wrap: folded cells cannot be read or copied.
    widest = console.measure(table, options=console.options.update(max_width=WIDEST)).maximum
    console.width = max(console.width, widest)
    console.print(table, soft_wrap=True)


def cell(value: Any) -> str:
    """For people: thousands are set apart, what is missing is a dash."""
    from rich.markup import escape

    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return escape(plain(value)) or "-"


def plain(value: Any) -> str:
    """For lines: no tab and no line end may come out of a value."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(plain(each) for each in value)
    return str(value).replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")


def tell(lines: str | Iterable[str]) -> None:
    """Talk: on stderr, so that a pipe gets data only."""
    for line in [lines] if isinstance(lines, str) else lines:
        click.echo(line, err=True)
