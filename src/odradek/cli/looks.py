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

from odradek.cli.moments import NotUnderstood, duration_ms

F = TypeVar("F", bound=Callable[..., Any])
OUTPUT = "output"
INTERVAL = "interval"
EVERY = "2s"
LONGEST = "365d"

YES = click.option("-y", "--yes", is_flag=True, help="Do not ask.")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")


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


def watch_option(command: F) -> F:
    """Adds `-w` and `--interval`; it takes them as `pause_s`, None to look once.

    `-w` takes no value itself: it would swallow the name behind it.
    """

    def remember(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
        ctx.ensure_object(dict)[INTERVAL] = value

    def chosen(ctx: click.Context, _: click.Parameter, watch: bool) -> float | None:
        interval: str | None = ctx.ensure_object(dict).get(INTERVAL)
        return pause_of(interval or EVERY) if watch or interval is not None else None

    every = click.option(
        "--interval",
        metavar="DURATION",
        callback=remember,
        expose_value=False,
        is_eager=True,  # Before --watch, which looks at it.
        help=f"So far apart; -w goes without saying.  [default: {EVERY}]",
    )
    watch = click.option(
        "-w", "--watch", "pause_s", is_flag=True, callback=chosen, help="Show it again and again."
    )
    return watch(every(command))


def pause_of(interval: str) -> float:
    """Seconds."""
    pause_ms = duration_ms(interval)
    if pause_ms > duration_ms(LONGEST):
        raise NotUnderstood(f"--interval {interval}: at most {LONGEST}")
    return pause_ms / 1000


def watched(pause_s: float | None, look: Callable[[], None]) -> None:
    """Look once, or every so often until somebody has seen enough."""
    while True:
        if pause_s is not None and sys.stdout.isatty():
            click.clear()
        look()
        if pause_s is None:
            return
        sys.stdout.flush()
        time.sleep(pause_s)
