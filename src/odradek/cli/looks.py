"""Options that many commands have: how the answer looks, whether it is asked for again, what is
asked before something is destroyed.

`-o json` is what fingers know from other tools; commands where `-o` is an offset do without.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

import click

from odradek.cli.moments import duration_ms

F = TypeVar("F", bound=Callable[..., Any])
OUTPUT = "output"
EVERY = "2s"

YES = click.option("-y", "--yes", is_flag=True, help="Do not ask.")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
WATCH = click.option(
    "-w",
    "--watch",
    is_flag=False,
    flag_value=EVERY,
    metavar="DURATION",
    help=f"Again and again, so far apart.  [{EVERY} if not said]",
)


def json_flag(help_text: str = "One JSON object a line.") -> Callable[[F], F]:
    """Adds `--json`, as `as_json`."""

    def chosen(ctx: click.Context, _: click.Parameter, value: bool) -> bool:
        return value or ctx.ensure_object(dict).get(OUTPUT, "text") != "text"

    return click.option("--json", "as_json", is_flag=True, callback=chosen, help=help_text)


def json_option(command: F) -> F:
    """Adds `--json`, and `-o json` for the same."""

    def remember(ctx: click.Context, _: click.Parameter, value: str) -> None:
        ctx.ensure_object(dict)[OUTPUT] = value

    output = click.option(
        "-o",
        "--output",
        type=click.Choice(["text", "json", "jsonl"]),
        default="text",
        callback=remember,
        expose_value=False,
        is_eager=True,  # Before --json, which looks at it.
        hidden=True,
    )
    return output(json_flag()(command))


def watched(watch: str | None, look: Callable[[], None]) -> None:
    """Look once, or every so often until somebody has seen enough."""
    pause_s = None if watch is None else duration_ms(watch) / 1000
    while True:
        if pause_s is not None and sys.stdout.isatty():
            click.clear()
        look()
        if pause_s is None:
            return
        sys.stdout.flush()
        time.sleep(pause_s)
