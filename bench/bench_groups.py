"""Groups, as ratios to Apache Kafka on the same machine in the same run.

    python -m bench groups -- [--quick] [--only WORD]
    KAFKA_CLASSPATH=...     Kafka's jars, if they are not to be asked of Maven

A rebalance is measured from the join of the last member to the assignment of the last one: all
others have joined again before. Heartbeats come from all members in turn, each on a connection of
its own: as fast as a broker answers, and at the rate at which 5,000 consumers send them (one every
3 s). Every measurement is appended to `bench/results/groups.jsonl`.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import group_load as load
from bench_broker import FSYNC, OS, Bench, Shown, compare
from peers import Node, Odradek, PeerKafka, started

RESULTS = Path(__file__).parent / "results" / "groups.jsonl"
SETTINGS = {"group.initial.rebalance.delay.ms": "3000"}
WINDOW = 32
"""Heartbeats on their way: fewer than the fewest members, so that it is as many for all."""
USUAL_PER_S = 5_000 / 3.0
names = (f"group-{number}" for number in itertools.count())


class GroupBench(Bench):
    """The same, with groups."""

    results = RESULTS
    subject = "groups"

    @contextmanager
    def brokers(self) -> Iterator[list[Node]]:
        """Ours and Kafka's, both warmed up."""
        nodes: list[Node] = [
            Odradek(self.directory(), {**OS, **SETTINGS}),
            PeerKafka(self.directory(), self.jars, SETTINGS),
        ]
        try:
            for node in nodes:
                started(node)
                members = load.Members(node, 50, next(names))
                members.heartbeats(5_000 if self.quick else 50_000, WINDOW)
                load.rebalances(members, 5 if self.quick else 50)
                members.close()
            yield nodes
        finally:
            for node in nodes:
                node.kill()


def rebalance_row(bench: Bench, nodes: list[Node], count: int, name: str) -> None:
    row = f"rebalance, {count} members, {name}"
    if not bench.wanted(row):
        return
    times = 5 if bench.quick else 20
    groups = {node.name: load.Members(node, count, next(names)) for node in nodes}
    bench.pairs_of(
        row,
        [
            Shown("p50_ms", "ms, last join to all stable", ratio=1.0),
            Shown("cpu_ms", "CPU ms, joins and syncs"),
        ],
        lambda node: load.rebalances(groups[node.name], times),
        nodes,
    )
    for members in groups.values():
        members.close()


def heartbeat_rows(bench: Bench, nodes: list[Node], count: int) -> None:
    row = f"heartbeats, {count} members, os"
    usual = f"heartbeats, {count} members, {USUAL_PER_S:.0f} a second, os"
    if not bench.wanted(row) and not bench.wanted(usual):
        return
    beats = 20_000 if bench.quick else 100_000
    groups = {node.name: load.Members(node, count, next(names)) for node in nodes}
    for members in groups.values():
        members.heartbeats(2 * count, WINDOW)
    bench.pairs_of(
        row,
        [Shown("cpu_us", "CPU us/heartbeat"), Shown("per_s", "heartbeats/s")],
        lambda node: groups[node.name].heartbeats(beats, WINDOW),
        nodes,
    )
    bench.pairs_of(
        usual,
        [Shown("cpu_us", "CPU us/heartbeat"), Shown("cpu_percent", "% of a core")],
        lambda node: groups[node.name].heartbeats(beats // 5, WINDOW, USUAL_PER_S),
        nodes,
    )
    for members in groups.values():
        members.close()


def all_rows(bench: GroupBench) -> None:
    with bench.brokers() as nodes:
        for count in (10, 200):
            rebalance_row(bench, nodes, count, "os")
        for count in (50, 5_000):
            heartbeat_rows(bench, nodes, count)
    fsync: list[Node] = [started(Odradek(bench.directory(), {**FSYNC, **SETTINGS}))]
    try:
        for count in (10, 200):
            rebalance_row(bench, fsync, count, "fsync")
    finally:
        fsync[0].kill()


if __name__ == "__main__":
    sys.exit(compare(GroupBench, __doc__, all_rows))
