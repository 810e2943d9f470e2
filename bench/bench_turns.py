"""The longest turns of the owner thread with many partitions: nobody else is served meanwhile.

    python -m bench turns [-- --partitions 10000]

Three nodes with three replicas of every partition; nothing but metadata moves. Each phase shows the
longest turn of any node that serves in it, as CPU time of the loop's thread (`turn_probe`), and as
wall time, in which other processes are too. Snapshots of metadata are made often, so that copies of
the image fall into the phases. There is no peer: a Kafka broker has many threads. Every phase is
appended to `bench/results/turns.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

import cluster_load as load
from block_groups import spread_below
from cluster_client import ClusterClient
from clusters import OdradekCluster
from odradek import leaves
from turn_probe import PROBE, turns

RESULTS = Path(__file__).parent / "results" / "turns.jsonl"
AIM_MS = 50.0
SNAPSHOT_BYTES = 256 * 1024
NOBODY = -1


class ProbedCluster(OdradekCluster):
    """Nodes whose turns are measured; each process of a node appends to the node's file."""

    def __init__(self, directory: Path) -> None:
        between = "metadata.log.max.record.bytes.between.snapshots"
        super().__init__(directory, settings={between: str(SNAPSHOT_BYTES), "log.durability": "os"})
        self._turns = directory

    def program(self, node_id: int) -> Sequence[str]:
        return (str(PROBE), str(self.turns_of(node_id)))

    def turns_of(self, node_id: int) -> Path:
        return self._turns / f"turns{node_id}"

    def turns(self, since: float, without: int) -> list[tuple[float, float]]:
        """CPU and wall time in ms of each turn that ended since then, on the other nodes."""
        found = []
        for node_id in self.ports:
            if node_id != without and self.turns_of(node_id).exists():
                found += turns(self.turns_of(node_id), since)
        return found


class Phases:
    """What was measured of each phase; shown as a table, appended to the results."""

    def __init__(self, cluster: ProbedCluster, partitions: int) -> None:
        self._cluster = cluster
        self._about = {
            "run": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "partitions": partitions,
            "leaves": leaves.mode(),
            "python": platform.python_version(),
            "cores": os.cpu_count(),
            "load": round(os.getloadavg()[0], 2),
        }
        self.table = Table("phase", "longest turn, CPU ms", "wall ms", "next, CPU ms", "seconds")

    @contextmanager
    def phase(self, name: str, without: int = NOBODY) -> Iterator[None]:
        """Measure what happens within; a node that serves nobody in it is left out."""
        began = time.monotonic()
        yield
        took = time.monotonic() - began
        found = sorted(self._cluster.turns(began, without), reverse=True) or [(0.0, 0.0)]
        longest, following = found[0][0], [cpu for cpu, _ in found[1:4]]
        wall = max(wall for _, wall in found)
        over = "[bold]" if longest > AIM_MS else ""
        self.table.add_row(
            name,
            f"{over}{longest:.1f}",
            f"{wall:.1f}",
            ", ".join(f"{cpu:.1f}" for cpu in following),
            f"{took:.1f}",
        )
        row = {"phase": name, "longest_cpu_ms": longest, "longest_wall_ms": wall, "took_s": took}
        with RESULTS.open("a") as out:
            out.write(json.dumps({**row, "next_cpu_ms": following, **self._about}) + "\n")
        load.progress(f"{name}: {longest:.1f} ms CPU, {wall:.1f} ms wall")


def measure(cluster: ProbedCluster, phases: Phases, partitions: int) -> None:
    client = ClusterClient(cluster.ports)
    topics = load.topics_of(partitions)
    with phases.phase("partitions made and led, followers caught up"):
        load.make(client, topics)
        client.await_in_sync(topics, load.FACTOR)
    victim = next(each for each in cluster.ports if each != client.controller())
    for what, node_id, leave, back in (
        ("kill -9 of a broker", victim, cluster.kill, "start after the kill"),
        ("clean stop of a broker", victim, cluster.stop, "start after the clean stop"),
        ("kill -9 of the controller", None, cluster.kill, "start of the former controller"),
    ):
        left = client.controller() if node_id is None else node_id
        with phases.phase(f"{what}, until others lead", without=left):
            client.down.add(left)
            leave(left)
            client.await_led(topics, without=left)
        with phases.phase(f"{back}, until all is in sync and led as before"):
            load.rejoin(cluster, client, left, topics)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        spread_below(Path(work))
        with ProbedCluster(Path(work) / "nodes") as cluster:
            phases = Phases(cluster, arguments.partitions)
            measure(cluster, phases, arguments.partitions)
    Console().print(phases.table)


if __name__ == "__main__":
    main()
