"""Options that several commands share: `--json`, `--watch`, `--yes`, `--dry-run`, aliases.

`-o json` does the same as `--json`, as in other tools. Commands whose `-o` is an offset only have
`--json`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from odradek.cli.output import Listing, lines, show, show_table, print_stderr
from odradek.cli.positions import InvalidValue, duration_ms

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
        return seconds_of(interval or EVERY) if watch or interval is not None else None

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


def seconds_of(interval: str) -> float:
    """Seconds."""
    pause_ms = duration_ms(interval)
    if pause_ms > duration_ms(LONGEST):
        raise InvalidValue(f"--interval {interval}: at most {LONGEST}")
    return pause_ms / 1000


def repeat(pause_s: float | None, look: Callable[[], None]) -> None:
    """Look once, or every so often until somebody has seen enough."""
    while True:
        if pause_s is not None and sys.stdout.isatty():
            click.clear()
        look()
        if pause_s is None:
            return
        sys.stdout.flush()
        time.sleep(pause_s)


def refuse_options(options: Mapping[str, object], reason: str) -> None:
    """Raises `UsageError` if any of `options` was given: its value is not None."""
    idle = [name for name, value in options.items() if value is not None]
    if idle:
        raise click.UsageError(f"{reason}: leave out {', '.join(idle)}")


class AliasedGroup(click.Group):
    """`aliases` name commands of the group by other words; they are not shown in its help."""

    def __init__(self, *args: Any, aliases: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init__(*args, **more)
        self.aliases = dict(aliases or {})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, self.aliases.get(cmd_name, cmd_name))


def confirm(plan: Listing, verb: str, *, yes: bool, dry_run: bool, as_json: bool = False) -> bool:
    """Show what will be done, and ask on a terminal; without one, `--yes` must have been said.

    A plan is data if it was asked for (`--dry-run`), and talk before a question.
    """
    if dry_run:
        show(plan, as_json=as_json)
        print_stderr("Nothing was done (--dry-run).")
        return False
    if yes:
        return True
    if not sys.stdin.isatty():
        raise click.UsageError(f"{verb}: say --yes where there is nobody to ask, or --dry-run")
    if sys.stderr.isatty():
        show_table(plan, on_stderr=True)
    else:
        print_stderr(lines(plan))
    return click.confirm(f"{verb}?", err=True)
