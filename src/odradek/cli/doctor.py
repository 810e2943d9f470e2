"""`odradek doctor`: looks for what keeps a broker, or Spark, from working well on this machine.

It changes nothing: the temporary file with which it measures the disk is removed. Each finding is
`ok`, `warn` or `fail`, and says what to do about it. The exit code is 1 if one is `fail`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from odradek.cli import exits
from odradek.cli.finding import CheckStatus, Finding
from odradek.cli.machine_checks import check_clock, check_descriptors, check_disk, check_port
from odradek.cli.options import json_option
from odradek.cli.output import Listing, plural, print_stderr, show
from odradek.cli.package_checks import check_java, check_packages
from odradek.cli.up import DEFAULT_DIRECTORY
from odradek.config.http import DEFAULT_PORT, LOOPBACK


@click.command()
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    default=DEFAULT_DIRECTORY,
    show_default=True,
    help="The directory of the logs.",
)
@click.option(
    "--host", default=LOOPBACK, show_default=True, help="The address that a broker would use."
)
@click.option(
    "--port", type=click.IntRange(1, 65535), default=9092, show_default=True, help="Its port."
)
@json_option
def doctor(data_dir: Path, host: str, port: int, as_json: bool) -> None:
    """Check disk, clock, descriptors, ports, versions and Java of this machine.

    Each line says what was found, and what to do about it. The exit code is 1 if something fails.
    """
    found = list(findings(data_dir, host, port))
    if as_json or not sys.stdout.isatty():
        listing = Listing(("check", "state", "found", "what_to_do"))
        for each in found:
            listing.add(each.check, each.state.value, each.found, each.what_to_do or None)
        show(listing, as_json=as_json)
    else:
        show_on_terminal(found)
    failed = sum(each.state is CheckStatus.FAIL for each in found)
    warned = sum(each.state is CheckStatus.WARN for each in found)
    print_stderr(f"{plural(failed, 'failure')}, {plural(warned, 'warning')}")
    if failed:
        sys.exit(exits.FAILED)


def show_on_terminal(found: list[Finding]) -> None:
    """A table, and below it what to do: in a column of its own that would not fit."""
    listing = Listing(("check", "state", "found"))
    for each in found:
        listing.add(each.check, each.state.value, each.found)
    show(listing, as_json=False)
    for each in found:
        if each.what_to_do:
            click.echo(f"{each.check}: {each.what_to_do}")


def findings(data_dir: Path, host: str, port: int) -> Iterator[Finding]:
    """Run every check."""
    yield from check_packages()
    yield from check_disk(data_dir)
    yield from check_clock()
    yield check_descriptors()
    yield check_port(host, port, "--port")
    yield check_port(LOOPBACK, DEFAULT_PORT, "--http", next_is_taken=True)
    yield check_java()
