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

from chaos.cluster import ChaosFailure
from chaos.faults import FAULTS
from chaos.run import JAVA, Outage, Result, chaos_run
from interop.apache_kafka import POM, STREAMS_POM, KafkaMissing, class_path

SHORT_NAMES = {
    "odradek": "odradek",
    "confluent-kafka": "confluent",
    "confluent-kafka-plain": "(plain)",
    "kafka-python": "kafka-py",
    JAVA: "Java",
}
KINDS = sorted({kind for faults in FAULTS.values() for kind in faults})
FILE_WIDTH = 140
"""The width of the table where it is not shown on a terminal, which has its own."""
NOT_RUN = {
    "power loss": "only a virtual machine can lose its power; `make sim` does",
    "packets lost or reordered": "that needs the rights of an administrator; the proxies carry "
    "bytes one way only, or reset connections",
    "disks that lie about fsync": "the disk of this machine does not; `make sim` has some",
    "clocks that differ or jump": "processes share the clock of this machine; `make sim` does",
}
"""What this cannot do, and why. It is not counted."""


@click.command()
@click.option("--brokers", type=click.Choice(["1", "3", "both"]), default="both", show_default=True)
@click.option("--runs", default=1, show_default=True, help="How many of each, with a new seed.")
@click.option("--seconds", default=60.0, show_default=True, help="The least time of each.")
@click.option("--seed", default=1, show_default=True, help="The seed of the first run.")
@click.option("--rate", default=100, show_default=True, help="Records a second of each writer.")
@click.option(
    "--fault", "kinds", multiple=True, type=click.Choice(KINDS), help="Only these faults."
)
def chaos(
    brokers: str, runs: int, seconds: float, seed: int, rate: int, kinds: tuple[str, ...]
) -> None:
    """Put one broker, and three, under faults while public clients write and read."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=FILE_WIDTH)
    jars = find_jars(console, "Kafka's own clients", "apache-kafka", POM)
    streams_jars = find_jars(console, "Kafka Streams", "kafka-streams", STREAMS_POM)
    failed = False
    for number_of in (1, 3) if brokers == "both" else (int(brokers),):
        faults = [kind for kind in FAULTS[number_of] if not kinds or kind in kinds]
        if not faults:
            continue
        results = []
        for number in range(seed, seed + runs):
            command = f"--brokers {number_of} --seed {number}"
            directory = Path(tempfile.mkdtemp(prefix="odradek-chaos-"))
            console.print(f"{command}, in {directory}")
            try:
                result = chaos_run(
                    directory,
                    brokers=number_of,
                    seed=number,
                    seconds=seconds,
                    rate=rate,
                    kinds=faults,
                    jars=jars,
                    streams_jars=streams_jars,
                    told=lambda outage: tell_outage(console, outage),
                )
            except ChaosFailure as failure:
                console.print(f"[red]failed:[/] {failure}; the directory is kept")
                sys.exit(1)
            results.append(result)
            show_result(console, result)
            if result.violations:
                failed = True
                console.print(f"the directory is kept; again: make chaos ARGS='{command}'")
            else:
                shutil.rmtree(directory)
        outages = [outage for result in results for outage in result.outages]
        console.print(outage_table(number_of, outages))
    for what, why in NOT_RUN.items():
        console.print(f"not run: {what}: {why}")
    sys.exit(1 if failed else 0)


def tell_outage(console: Console, outage: Outage) -> None:
    victims = ", ".join(map(str, outage.victims))
    whole_s = (outage.whole_ns - outage.began_ns) / 1e9
    console.print(f"  {outage.kind} of {victims}: whole again after {whole_s:.1f} s")


def find_jars(console: Console, what: str, name: str, pom: Path) -> str | None:
    """Return the class path of a `pom.xml`; None, and say why, if it is not to be had."""
    cache = Path(".pytest_cache/d") / name
    cache.mkdir(parents=True, exist_ok=True)
    try:
        return class_path(cache, pom)
    except KafkaMissing as missing:
        console.print(f"not run: {what}: {missing}")
        return None


def show_result(console: Console, result: Result) -> None:
    failed = sum(result.failed.values())
    console.print(
        f"  {result.sent:,} sent, {result.acked:,} acknowledged, {failed:,} failed; the group read "
        f"{result.read:,} and {result.read_again:,} of them again; "
        f"{result.committed:,} offsets committed and compared, older ones told before them "
        f"{result.stale} times; "
        f"{result.transactions:,} transactions, {result.hung} of their producers hung; "
        f"{result.copied:,} of their records copied in {result.copiers} starts, of which "
        f"{result.copiers_failed} failed, and counted by Kafka Streams: {result.counted:,} in "
        f"{result.counting} starts, of which {result.counting_failed} failed; "
        f"{result.starts} starts; "
        f"{len(result.outages)} faults; violations: {len(result.violations)}"
    )
    for violation in result.violations[:20]:
        console.print(f"  [red]{violation}[/]")


def outage_table(brokers: int, outages: list[Outage]) -> Table:
    """How long there was no acknowledgement around each fault, beside how long it lasted."""
    table = Table(title=f"{brokers} broker(s): longest wait for an acknowledgement, p50/max in s")
    names = [name for name in SHORT_NAMES if name in outages[0].gaps_s]
    columns = (
        "fault",
        "times",
        "lasted",
        "whole after",
        "of any",
        *(SHORT_NAMES[name] for name in names),
    )
    for name in columns:
        table.add_column(name, justify="left" if name == "fault" else "right")
    for kind in FAULTS[brokers]:
        found = [outage for outage in outages if outage.kind == kind]
        if not found:
            continue
        lasted = [(outage.healed_ns - outage.began_ns) / 1e9 for outage in found]
        whole = [(outage.whole_ns - outage.began_ns) / 1e9 for outage in found]
        of_any = [outage.partitions_s for outage in found]
        cells = [two_figures([outage.gaps_s[name] for outage in found]) for name in names]
        figures = [two_figures(values) for values in (lasted, whole, of_any)]
        table.add_row(kind, str(len(found)), *figures, *cells)
    return table


def two_figures(values: list[float]) -> str:
    return f"{statistics.median(values):.1f}/{max(values):.1f}"


if __name__ == "__main__":
    chaos()
