"""`odradek spark`: prepares local sessions, packs environments for executors, checks workers."""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path

import click

from odradek.cli import exits
from odradek.cli.options import json_flag, seconds_of
from odradek.cli.output import Listing, print_stderr, show

DEFAULT_ARCHIVE = Path("environment.tar.gz")
NEXT_STEPS = """\
Next, with spark-submit:
  mkdir -p environment && tar -xzf {archive} -C environment   # for the driver, in client mode
  PYSPARK_PYTHON=./environment/bin/python spark-submit --master {master} \\
    --archives {archive}#environment JOB.py
or in Python:
  from odradek.spark import cluster_session
  spark = cluster_session("{master}", archive="{archive}")
Workers need Python {python} at {interpreter} (--python names another place)."""


@click.group()
def spark() -> None:
    """Spark: faster local sessions; environments for the executors of a cluster."""


@spark.command("prepare")
@json_flag("One JSON object.")
def prepare_command(as_json: bool) -> None:
    """Make local Spark sessions start in half the time.

    Runs a few small queries and writes an archive of the classes they load, some 200 MB, to the
    cache directory (ODRADEK_CACHE_DIR, else the user's cache). It takes up to a minute, once for
    each Java and PySpark.
    """
    from odradek.spark import class_archive
    from odradek.spark.java import JavaNotFound

    try:
        with exits.extra_needed("spark", "preparing"):
            there = class_archive.archive_path().exists()
            if not there:
                print_stderr("odradek: running a few queries to archive the classes that they load")
            path = class_archive.make_archive()
    except (class_archive.ArchiveFailed, JavaNotFound) as failed:
        raise click.ClickException(str(failed)) from None
    listing = Listing(("archive", "state"), [(str(path), "was there" if there else "made")])
    show(listing, as_json=as_json)


@spark.command("pack")
@click.argument("requirements", metavar="[REQUIREMENT]...", nargs=-1)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=DEFAULT_ARCHIVE,
    show_default=True,
    help="The path of the archive.",
)
@click.option(
    "--python",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The path of this minor version of Python on the workers.  [default: its path here]",
)
@click.option("-f", "--force", is_flag=True, help="Replace an existing archive.")
@json_flag("One JSON object.")
def pack_command(
    requirements: tuple[str, ...], output: Path, python: Path | None, force: bool, as_json: bool
) -> None:
    """Pack an environment for executors that have no Odradek.

    The archive is a tar.gz of a virtual environment with Odradek, Arrow, pandas and each
    REQUIREMENT, in the versions that are installed here. Spark unpacks it on each executor
    (spark.archives); PySpark and Java come from the Spark distribution there.
    """
    import os

    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    from odradek.spark import environment_archive

    console = Console(stderr=True, soft_wrap=True)
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(32)
    shown: list[str] = []
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bars:
        bar = bars.add_task("", total=None)

        def report(what: str, report_done: int, total: int) -> None:
            bars.update(bar, description=what, completed=report_done, total=total or None)
            if what not in shown:
                shown.append(what)
                console.print(f"odradek: {what}", markup=False, highlight=False)

        try:
            with exits.extra_needed("spark", "packing"):
                size = environment_archive.pack(
                    output, requirements=requirements, python=python, replace=force, report=report
                )
        except environment_archive.PackFailed as failed:
            raise click.ClickException(str(failed)) from failed
    interpreter = str(python or Path(os.path.realpath(sys.executable)))
    version = environment_archive.minor_version()
    if as_json:
        listing = Listing(("archive", "bytes", "python", "interpreter"))
        listing.add(str(output.absolute()), size, version, interpreter)
        show(listing, as_json=True)
        return
    click.echo(f"{output}: {size / 1_000_000:,.0f} MB")
    print_stderr(
        NEXT_STEPS.format(
            archive=output, master="spark://HOST:7077", python=version, interpreter=interpreter
        )
    )


@spark.command("check")
@click.option(
    "--master",
    metavar="URL",
    required=True,
    help="spark://HOST:PORT, yarn, k8s://..., or sc://HOST:PORT for Spark Connect.",
)
@click.option("--archive", metavar="FILE", help="The archive from `odradek spark pack`.")
@click.option(
    "-b", "--brokers", metavar="HOST:PORT,...", help="Brokers that the workers must reach."
)
@click.option("-c", "--conf", "conf", metavar="NAME=VALUE", multiple=True, help="A Spark setting.")
@click.option(
    "--within",
    metavar="DURATION",
    default="2m",
    show_default=True,
    help="The timeout.",
)
@json_flag("One JSON object a line.")
def check_command(
    master: str,
    archive: str | None,
    brokers: str | None,
    conf: tuple[str, ...],
    within: str,
    as_json: bool,
) -> None:
    """Check the Python workers of a cluster.

    Runs a small job and shows, for each host, its Python, Odradek, PySpark and Arrow, and whether
    it reaches the brokers. The exit code is 6 if a query would fail there.
    """
    with exits.extra_needed("spark", "this"):
        from odradek.spark.workers import CheckFailed, check_cluster
    try:
        workers = check_cluster(
            master=master,
            archive=archive,
            brokers=brokers,
            config=settings_of(conf),
            within_s=seconds_of(within),
        )
    except CheckFailed as refusal:
        print_stderr(f"odradek: {refusal}")
        sys.exit(exits.CHECK_FAILED)
    columns = [field.name for field in fields(workers[0])]
    listing = Listing((*columns, "problems"), title="Python workers")
    for worker in workers:
        listing.add(*(getattr(worker, name) for name in columns), worker.problems)
    show(listing, as_json=as_json)
    if any(worker.problems for worker in workers):
        print_stderr(
            "Queries would fail there. `odradek spark pack` makes an environment for executors."
        )
        sys.exit(exits.CHECK_FAILED)


def settings_of(given: tuple[str, ...]) -> dict[str, str]:
    """`("spark.cores.max=2",)` -> `{"spark.cores.max": "2"}`."""
    settings = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not name.startswith("spark."):
            raise click.UsageError(f"--conf {pair!r}: write NAME=VALUE, as in spark.cores.max=2")
        settings[name] = value
    return settings
