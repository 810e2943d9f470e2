"""`odradek demo`: sends real flights through the broker and Spark and verifies the result.

The exit code is 0 only if all checks hold. What the command does is in `odradek.demo`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from odradek.cli import exits


@click.command()
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo-output"),
    show_default=True,
    help="The directory of broker data, Parquet and the page; the next run replaces it.",
)
@click.option("--follow", is_flag=True, help="Live: replay the flights on a faster clock.")
@click.option(
    "--speed",
    type=click.FloatRange(min=0.1),
    default=24.0,
    show_default=True,
    metavar="HOURS",
    help="With --follow: hours of 2013 per second.",
)
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="Only the first N flights of the year."
)
def demo(output: Path, follow: bool, speed: float, limit: int | None) -> None:
    """Send 336,776 real flights through a broker and a Spark pipeline, and verify the result.

    Starts a broker, produces every departure from New York in 2013 as JSON, checks, aggregates and
    writes them with Structured Streaming, reads everything back and compares it with what plain
    pandas computes from the same file.
    """
    with exits.extra_needed("demo", "the demo"):
        from odradek.demo.run import DemoSettings, OutputInUse, run
    try:
        code = run(DemoSettings(output, follow=follow, hours_per_second=speed, limit=limit))
    except OutputInUse as refusal:
        raise click.ClickException(str(refusal)) from refusal
    except KeyboardInterrupt:
        click.echo("odradek: stopped", err=True)
        code = 130
    sys.exit(code)
