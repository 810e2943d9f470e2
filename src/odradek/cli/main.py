"""The command tree. It has the names and one-line helps, so that `--help` imports no command."""

from __future__ import annotations

import gc
import importlib
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import click

import odradek
from odradek.cli.exits import exit_codes, flushed_output
from odradek.cli.raw_text import check_utf8


@dataclass(frozen=True)
class Verb:
    """A command: the module and attribute of its `click.Command`, and its one-line help."""

    module: str
    attribute: str
    help: str


VERBS = {
    "up": Verb("odradek.cli.up", "up", "Start a broker."),
    "demo": Verb(
        "odradek.cli.demo",
        "demo",
        "Run the demo: real flights through the broker and Spark.",
    ),
    "produce": Verb("odradek.cli.produce", "produce", "Write records to a topic."),
    "consume": Verb("odradek.cli.consume", "consume", "Read records from topics."),
    "topic": Verb("odradek.cli.topic", "topic", "List, create, describe, change, delete topics."),
    "group": Verb("odradek.cli.group", "group", "List, describe, move, delete consumer groups."),
    "txn": Verb("odradek.cli.txn", "txn", "List, describe, find hanging, abort transactions."),
    "cluster": Verb(
        "odradek.cli.cluster",
        "cluster",
        "Show a cluster, spread replicas, drain and remove brokers.",
    ),
    "top": Verb("odradek.cli.top", "top", "Show what a cluster does: rates, lags, what waits."),
    "spark": Verb("odradek.cli.spark", "spark", "Spark clusters: pack an environment, check it."),
    "doctor": Verb(
        "odradek.cli.doctor", "doctor", "Check this machine: disk, clock, ports, versions, Java."
    ),
    "dump-log": Verb("odradek.cli.dump_log", "dump_log", "Print the batches of log segment files."),
}
TAKE_BYTES = ("produce", "consume")
"""Commands that check their arguments themselves: keys and values need not be UTF-8."""
ALIASES = {"topics": "topic", "groups": "group", "g": "group", "transactions": "txn"}


class LazyGroup(click.Group):
    """Imports a command's module when the command is called, and sets its exit code."""

    def main(self, *args: Any, **more: Any) -> Any:
        with flushed_output():
            return super().main(*args, **more)

    def invoke(self, ctx: click.Context) -> Any:
        with exit_codes():
            return super().invoke(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            from difflib import get_close_matches  # Imported here: it is slow and rarely needed.

            near = get_close_matches(args[0], (*VERBS, *ALIASES), n=1)
            ctx.fail(f"No such command {args[0]!r}{f'; did you mean {near[0]}?' if near else '.'}")
        name, command, rest = super().resolve_command(ctx, args)
        if name not in TAKE_BYTES:
            check_utf8(*rest)
        return name, command, rest

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        verb = VERBS.get(ALIASES.get(cmd_name, cmd_name))
        if verb is None:
            return None
        command: click.Command = getattr(imported(verb.module), verb.attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.help) for name, verb in VERBS.items()])


def imported(module: str) -> ModuleType:
    """Import a module with the garbage collector off: it would look again and again at objects
    that all stay, for a fifteenth of the time that `odradek up` needs to be ready.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return importlib.import_module(module)
    finally:
        if was_enabled:
            gc.enable()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(
    message=f"odradek {odradek.__version__}, leaves {odradek.leaves.mode()}",
)
def main() -> None:
    """Odradek: event streaming that a Python team installs with pip.

    Start with `odradek up`, then point any Kafka client at the address it prints.
    """
