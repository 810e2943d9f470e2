"""Asking before something is destroyed."""

from __future__ import annotations

import sys

import click

from odradek.cli.output import Listing, lines, show, show_table, tell


def confirmed(plan: Listing, verb: str, *, yes: bool, dry_run: bool, as_json: bool = False) -> bool:
    """Show what will be done, and ask on a terminal; without one, `--yes` must have been said.

    A plan is data if it was asked for (`--dry-run`), and talk before a question.
    """
    if dry_run:
        show(plan, as_json=as_json)
        tell("Nothing was done (--dry-run).")
        return False
    if yes:
        return True
    if not sys.stdin.isatty():
        raise click.UsageError(f"{verb}: say --yes where there is nobody to ask, or --dry-run")
    if sys.stderr.isatty():
        show_table(plan, on_stderr=True)
    else:
        tell(lines(plan))
    return click.confirm(f"{verb}?", err=True)
