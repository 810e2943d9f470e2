"""The command: `python -m chaos`, or `make chaos`."""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from chaos.faults import FAULTS
from chaos.run import JAVA, ChaosFailure, Outage, Result, chaos_run
from interop.apache_kafka import KafkaMissing, class_path

SHORT_NAMES = {
    "odradek": "odradek",
    "confluent-kafka": "confluent",
    "confluent-kafka-plain": "(plain)",
    "kafka-python": "kafka-py",
    JAVA: "Java",
}
NOT_RUN = {
    "kill of a leader, a controller, a coordinator of several": "one broker is all of them",
    "a network that fails between brokers": "there is one broker",
    "power loss": "only a virtual machine can lose its power; `make sim` does",
}
"""What this cannot do, and why."""


@click.command()
@click.option("--runs", default=1, show_default=True, help="How many runs, each with a new seed.")
@click.option("--seconds", default=60.0, show_default=True, help="The least time of each.")
@click.option("--seed", default=1, show_default=True, help="The seed of the first run.")
@click.option("--rate", default=100, show_default=True, help="Records a second of each writer.")
@click.option(
    "--fault", "kinds", multiple=True, type=click.Choice(list(FAULTS)), help="Only these faults."
)
def chaos(runs: int, seconds: float, seed: int, rate: int, kinds: tuple[str, ...]) -> None:
    """Put one broker process under faults while public clients write and read."""
    console = Console()
    jars = find_jars(console)
    results: list[Result] = []
    for number in range(seed, seed + runs):
        directory = Path(tempfile.mkdtemp(prefix="odradek-chaos-"))
        console.print(f"run with seed {number}, in {directory}")
        try:
            result = chaos_run(
                directory,
                seed=number,
                seconds=seconds,
                rate=rate,
                kinds=kinds or tuple(FAULTS),
                jars=jars,
                told=lambda outage: console.print(f"  {outage.kind}"),
            )
        except ChaosFailure as failure:
            console.print(f"[red]failed:[/] {failure}; the directory is kept")
            sys.exit(1)
        results.append(result)
        show_result(console, result)
        if result.violations:
            console.print(f"the directory is kept; again: make chaos ARGS='--seed {number}'")
        else:
            shutil.rmtree(directory)
    console.print(outage_table([outage for result in results for outage in result.outages]))
    for what, why in NOT_RUN.items():
        console.print(f"not run: {what}: {why}")
    sys.exit(1 if any(result.violations for result in results) else 0)


def find_jars(console: Console) -> str | None:
    """Return the class path of Kafka's clients; None, and say why, if it is not to be had."""
    cache = Path(".pytest_cache/d/apache-kafka")
    cache.mkdir(parents=True, exist_ok=True)
    try:
        return class_path(cache)
    except KafkaMissing as missing:
        console.print(f"not run: Kafka's own clients: {missing}")
        return None


def show_result(console: Console, result: Result) -> None:
    failed = sum(result.failed.values())
    console.print(
        f"  {result.sent:,} sent, {result.acked:,} acknowledged, {failed:,} failed; the group read "
        f"{result.read:,} and {result.read_again:,} of them again; {result.starts} starts; "
        f"{len(result.outages)} faults; violations: {len(result.violations)}"
    )
    for violation in result.violations[:20]:
        console.print(f"  [red]{violation}[/]")


def outage_table(outages: list[Outage]) -> Table:
    """The longest wait for an acknowledgement around each fault, beside how long it lasted."""
    table = Table(title="longest wait between two acknowledgements, p50/max in s")
    names = [name for name in SHORT_NAMES if name in outages[0].gaps_s]
    for name in ("fault", "times", "lasted", *[SHORT_NAMES[name] for name in names]):
        table.add_column(name, justify="left" if name == "fault" else "right")
    for kind in FAULTS:
        found = [outage for outage in outages if outage.kind == kind]
        if not found:
            continue
        lasted = [(outage.ended_ns - outage.began_ns) / 1e9 for outage in found]
        cells = [two_figures([outage.gaps_s[name] for outage in found]) for name in names]
        table.add_row(kind, str(len(found)), two_figures(lasted), *cells)
    return table


def two_figures(values: list[float]) -> str:
    return f"{statistics.median(values):.1f}/{max(values):.1f}"


if __name__ == "__main__":
    chaos()
