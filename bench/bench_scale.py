"""Small clusters measured, and larger ones projected with `scale_model`: the page `docs/scale.md`.

    python -m bench scale -- [--quick] [--only NODES/FACTOR]
    python -m bench scale -- --project SINCE     with what was measured since 2026-11-23T05, say

Clusters of 1, 3 and 5 nodes: CPU and memory of all nodes that do nothing, without and with
partitions; then CPU of single records and of big batches, acks=all, `log.durability=os`, at the
same rate for each leader, far below what the machine's cores can do: nodes that wait for a core
find several requests at a time, and each costs less. The model is fitted to one node and to three
with three replicas, and held against all, also those that it was not fitted to. What is known of
single things is `KNOWN`, and the last line of `bench/results/controller.jsonl`. Every measurement
is appended to `bench/results/scale.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import cluster_load
from cluster_client import ClusterClient
from cluster_load import progress
from clusters import OdradekCluster
from odradek import leaves
from scale_model import (
    Bounds,
    Check,
    Costs,
    Load,
    Measurement,
    UnitPrices,
    check,
    fitted,
    limits,
    predict,
)

RESULTS = Path(__file__).parent / "results" / "scale.jsonl"
CONTROLLER = RESULTS.with_name("controller.jsonl")
MEASURED = ((1, 1), (3, 3), (3, 2), (5, 3))
"""Nodes and replication factor."""
ALONE, THREE = (1, 1), (3, 3)
TOLERANCE = 0.2
CONNECTIONS = 20
REQUESTS_PER_S, BIG_RECORDS_PER_S = 500, 10_000
"""The load of each leader."""
TRIES = 4
"""The least counts: what else a machine does makes CPU times longer, never shorter."""
KNOWN = {
    "read_gb_s": 0.57,
    "member_heartbeat_us": 63.0,
    "connection_kib": 4.8,
    "member_kib": 4.8,
}
"""From `docs/figures.md`; the heartbeat is that of 5,000 members at the rate of real ones."""
PROJECTED = tuple(
    Load(nodes=nodes, partitions=partitions, gb_per_s=rate, connections=100 * nodes)
    for nodes in (10, 100)
    for partitions in (10_000, 200_000)
    for rate in (1.0, 20.0)
)


def measure(work: Path, nodes: int, factor: int, quick: bool) -> Measurement:
    """Start a cluster, and return what it takes. The partitions are a tenth of those of a broker
    that is full, so that two cores can make them."""
    partitions, seconds, gigabytes = (300, 2.0, 0.05) if quick else (1000, 5.0, 0.25)
    idle_s = 10.0 if quick else 60.0
    settings = {
        "log.durability": "os",
        "default.replication.factor": str(factor),
        "offsets.topic.replication.factor": str(factor),
        "min.insync.replicas": str(min(2, factor)),
    }
    with OdradekCluster(work / f"{nodes}-{factor}", nodes, settings) as cluster:
        client = ClusterClient(cluster.ports)
        client.create(["first"], 1, factor)
        client.await_led(["first"])
        nothing = cluster_load.idle(cluster, idle_s)
        empty_s = cluster_load.restart_cpu_s(cluster, nodes)
        topics = cluster_load.topics_of(partitions)
        cluster_load.make(client, topics, factor)
        client.await_in_sync(topics, factor)
        idle = cluster_load.idle(cluster, idle_s)
        full_s = cluster_load.restart_cpu_s(cluster, nodes)
        client.await_in_sync(topics, factor)
        client.elect_preferred()
        for topic in topics:
            cluster_load.delete(client, topic)
        cluster_load.big(cluster, int(gigabytes * 500_000), work, factor)
        connections = CONNECTIONS * nodes
        cluster_load.small(cluster, connections, seconds / 2, factor)
        small = [
            cluster_load.small(cluster, connections, seconds, factor, REQUESTS_PER_S * nodes)
            for _ in range(TRIES)
        ]
        records, per_s = int(gigabytes * 1e9 / 1024), BIG_RECORDS_PER_S * nodes
        big = [cluster_load.big(cluster, records, work, factor, per_s) for _ in range(TRIES)]
        cpu_us = min(each.figures["cpu_us"] for each in small)
        cpu_s_per_gb = min(each.figures["cpu_s_per_gb"] for each in big)
        progress(f"CPU {cpu_us:.1f} us a request, {cpu_s_per_gb:.2f} s a GB")
    return Measurement(
        nodes=nodes,
        factor=factor,
        partitions=partitions,
        cpu_us=cpu_us,
        cpu_s_per_gb=cpu_s_per_gb,
        idle_cpu=(nothing["idle_cpu_percent"] / 100, idle["idle_cpu_percent"] / 100),
        pss_mib=(nothing["idle_pss_mib"], idle["idle_pss_mib"]),
        restart_cpu_s=(empty_s, full_s),
    )


def known(line: dict[str, Any]) -> UnitPrices:
    """Return the prices of single things; `line` is a result of `bench_controller`."""
    partitions = line["partitions"]
    look_us = line["nothing_ms"] * 1e3 / partitions
    decided_us = line["failover_ms"] * 1e3 - partitions * look_us
    return UnitPrices(
        **KNOWN,
        partition_image_bytes=line["image_bytes"] / partitions,
        partition_snapshot_bytes=line["snapshot_bytes"] / partitions,
        partition_load_us=line["load_ms"] * 1e3 / partitions,
        look_us=look_us,
        record_us=decided_us / line["failover_records"],
        record_bytes=line["failover_bytes"] / line["failover_records"],
        follow_record_us=line["followed_ms"] * 1e3 / line["failover_records"],
    )


def median_of(lines: Iterable[dict[str, Any]], nodes: int, factor: int) -> Measurement | None:
    """Return the medians of all measurements of a cluster; None without any."""
    found = [line for line in lines if (line["nodes"], line["factor"]) == (nodes, factor)]
    if not found:
        return None

    def middle(name: str, at: int | None = None) -> float:
        return statistics.median(line[name] if at is None else line[name][at] for line in found)

    return Measurement(
        nodes=nodes,
        factor=factor,
        partitions=found[0]["partitions"],
        cpu_us=middle("cpu_us"),
        cpu_s_per_gb=middle("cpu_s_per_gb"),
        idle_cpu=(middle("idle_cpu", 0), middle("idle_cpu", 1)),
        pss_mib=(middle("pss_mib", 0), middle("pss_mib", 1)),
        restart_cpu_s=(middle("restart_cpu_s", 0), middle("restart_cpu_s", 1)),
    )


def project(lines: list[dict[str, Any]]) -> None:
    """Show the prices, the model beside what was measured, and the projections."""
    measured = {each: median_of(lines, *each) for each in MEASURED}
    alone, three = measured[ALONE], measured[THREE]
    if alone is None or three is None:
        print("scale: one node and three with three replicas are to be measured first")
        return
    of_controller = [json.loads(text) for text in CONTROLLER.read_text().splitlines()]
    line = [each for each in of_controller if "snapshot_ms" in each and each["brokers"] == 100][-1]
    costs = fitted(known(line), alone, three)
    show_costs(costs)
    show_checks(costs, [each for each in measured.values() if each is not None])
    show_projections(costs)


def show(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table as the page has it."""
    print(f"\n{title}\n")
    for cells in (head, ["---"] * len(head), *rows):
        print(f"| {' | '.join(cells)} |")


def show_costs(costs: Costs) -> None:
    rows = [(name, f"{value:.3g}") for name, value in vars(costs).items()]
    show("Prices", ("price", "value"), rows)


def show_checks(costs: Costs, measured: Iterable[Measurement]) -> None:
    rows = []
    for each in measured:
        fitted_to = (each.nodes, each.factor) in (ALONE, THREE)
        cluster = f"{each.nodes} nodes, RF {each.factor}{', fitted' if fitted_to else ''}"
        rows += [
            (cluster, found.name, f"{found.measured:.3g}", f"{found.predicted:.3g}", off(found))
            for found in check(costs, each)
        ]
    show("The model and what was measured", ("cluster", "figure", "measured", "model", "off"), rows)


def off(found: Check) -> str:
    text = f"{found.error:+.0%}"
    return text if abs(found.error) <= TOLERANCE else f"**{text}**"


def show_projections(costs: Costs) -> None:
    head = (
        *("nodes", "partitions", "GB/s", "cores", "owner thread", "GiB a node", "GB/s in / out"),
        *("failover: records", "controller s", "start s", "bottleneck", "then"),
    )
    rows = []
    for load in PROJECTED:
        found = predict(costs, load)
        first, second = limits(found, Bounds())[:2]
        rows.append(
            (
                f"{load.nodes}",
                f"{load.partitions:,}",
                f"{load.gb_per_s:g}",
                f"{found.cores:.1f}",
                f"{found.node_cores:.0%}",
                f"{found.node_mib / 1024:.2g}",
                f"{found.node_in_gb_per_s:.2f} / {found.node_out_gb_per_s:.2f}",
                f"{found.failover_records:,.0f}",
                f"{found.controller_failover_s:.2g}",
                f"{found.start_s:.2g}",
                f"{first.name} {first.used:.0%}",
                f"{second.name} {second.used:.0%}",
            )
        )
    show("Projections", head, rows)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="some minutes, rough figures")
    parser.add_argument("--only", default="", help="one cluster, such as 3/3")
    parser.add_argument("--project", metavar="SINCE", help="measure nothing")
    arguments = parser.parse_args()
    run = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    if arguments.project is None:
        RESULTS.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="odradek-bench-") as work:
            for nodes, factor in MEASURED:
                if arguments.only not in ("", f"{nodes}/{factor}"):
                    continue
                print(f"  {nodes} nodes, RF {factor}", file=sys.stderr, flush=True)
                measured = measure(Path(work), nodes, factor, arguments.quick)
                keep({"run": run, "quick": arguments.quick, **vars(measured)})
    since = run if arguments.project is None else arguments.project
    lines = [json.loads(text) for text in RESULTS.read_text().splitlines()]
    project([line for line in lines if line["run"] >= since])
    return 0


def keep(line: dict[str, Any]) -> None:
    about = {
        "leaves": leaves.mode(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
    }
    with RESULTS.open("a") as out:
        out.write(json.dumps({**line, **about}) + "\n")


if __name__ == "__main__":
    sys.exit(main())
