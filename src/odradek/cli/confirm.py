"""Asking before something is destroyed."""

from __future__ import annotations

import sys

import click

from odradek.cli.output import Listing, show_table, tell


def confirmed(plan: Listing, verb: str, *, yes: bool, dry_run: bool) -> bool:
    """Show what will be done, and ask on a terminal. Without one, `--yes` must have been said."""
    if dry_run:
        show_plan(plan)
        tell("Nothing was done (--dry-run).")
        return False
    if yes:
        return True
    if not sys.stdin.isatty():
        raise click.UsageError(f"{verb}: say --yes where there is nobody to ask, or --dry-run")
    show_plan(plan)
    return click.confirm(f"{verb}?", err=True)


def show_plan(plan: Listing) -> None:
    if sys.stdout.isatty():
        show_table(plan)
    else:
        from odradek.cli.output import show

        show(plan, as_json=False)
