"""Options that several commands share: `--json`, `--watch`, `--yes`, `--dry-run`, aliases.

`-o json` does the same as `--json`, as in other tools. Commands whose `-o` is an offset only have
`--json`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from odradek.cli.output import Listing, lines, print_stderr, show, show_table
from odradek.cli.positions import InvalidValue, duration_ms

F = TypeVar("F", bound=Callable[..., Any])
OUTPUT = "output"
INTERVAL = "interval"
EVERY = "2s"
LONGEST = "365d"

YES = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")


def json_flag(help_text: str = "One JSON object a line.") -> Callable[[F], F]:
    """Add `--json`, as the parameter `as_json`."""

    def chosen(ctx: click.Context, _: click.Parameter, value: bool) -> bool:
        return value or ctx.ensure_object(dict).get(OUTPUT, "text") != "text"

    return click.option("--json", "as_json", is_flag=True, callback=chosen, help=help_text)


def json_option(command: F) -> F:
    """Add `--json`, and `-o json` with the same effect."""

    def remember(ctx: click.Context, _: click.Parameter, value: str) -> None:
        ctx.ensure_object(dict)[OUTPUT] = value

    output = click.option(
        "-o",
        "--output",
        type=click.Choice(["text", "json", "jsonl"]),
        default="text",
        callback=remember,
        expose_value=False,
        is_eager=True,  # Parsed before --json, which uses it.
        hidden=True,
    )
    return output(json_flag()(command))


def watch_option(command: F) -> F:
    """Add `-w` and `--interval`, as the parameter `pause_s`; None: run once.

    `-w` takes no value: it would take the name that follows it.
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
        is_eager=True,  # Parsed before --watch, which uses it.
        help=f"Time between refreshes; implies -w.  [default: {EVERY}]",
    )
    watch = click.option(
        "-w",
        "--watch",
        "pause_s",
        is_flag=True,
        callback=chosen,
        help="Refresh the output periodically.",
    )
    return watch(every(command))


def seconds_of(interval: str) -> float:
    """Return a duration in seconds. Raises `InvalidValue`."""
    pause_ms = duration_ms(interval)
    if pause_ms > duration_ms(LONGEST):
        raise InvalidValue(f"--interval {interval}: at most {LONGEST}")
    return pause_ms / 1000


def repeat(pause_s: float | None, look: Callable[[], None]) -> None:
    """Call `look` once, or every `pause_s` seconds until interrupted."""
    while True:
        if pause_s is not None and sys.stdout.isatty():
            click.clear()
        look()
        if pause_s is None:
            return
        sys.stdout.flush()
        time.sleep(pause_s)


def refuse_options(options: Mapping[str, object], reason: str) -> None:
    """Raise `UsageError` if any of `options` was given, that is, if its value is not None."""
    idle = [name for name, value in options.items() if value is not None]
    if idle:
        raise click.UsageError(f"{reason}: leave out {', '.join(idle)}")


class AliasedGroup(click.Group):
    """A command group whose commands have aliases, such as `list` for `ls`, hidden from help."""

    def __init__(self, *args: Any, aliases: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init__(*args, **more)
        self.aliases = dict(aliases or {})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, self.aliases.get(cmd_name, cmd_name))


def confirm(
    plan: Listing | Sequence[Listing],
    verb: str,
    *,
    yes: bool,
    dry_run: bool,
    as_json: bool = False,
) -> bool:
    """Show the plan and ask for confirmation on a terminal; otherwise require `--yes`.

    With `--dry-run` the plan is the output, on stdout; before a question it goes to stderr.
    """
    parts = [plan] if isinstance(plan, Listing) else plan
    if dry_run:
        for each in parts:
            show(each, as_json=as_json)
        print_stderr("Nothing was done (--dry-run).")
        return False
    if yes:
        return True
    if not sys.stdin.isatty():
        raise click.UsageError(
            f"{verb}: stdin is not a terminal: confirm with --yes, or try --dry-run"
        )
    for each in parts:
        if sys.stderr.isatty():
            show_table(each, on_stderr=True)
        else:
            print_stderr(lines(each))
    return click.confirm(f"{verb}?", err=True)
