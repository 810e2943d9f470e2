"""Transactions, as ratios to Apache Kafka on the same machine in the same run.

    python -m bench transactions -- [--quick] [--only WORD]
    KAFKA_CLASSPATH=...     Kafka's jars, if they are not to be asked of Maven

The client follows `transaction.version` 2 and is the same for both (`transaction_load`). Rows are
with `os`, Kafka's own promise; those with `fsync` have no counterpart there. Every measurement is
appended to `bench/results/transactions.jsonl`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import transaction_load as load
from bench_broker import FSYNC, OS, Bench, Shown, compare
from broker_load import Figures
from peers import Node, Odradek, PeerKafka, started

RESULTS = Path(__file__).parent / "results" / "transactions.jsonl"
ONE_NODE = {
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
FEW_MS = 100.0
ABORTED_ROUNDS = 10


class TransactionBench(Bench):
    """The same, with transactions."""

    results = RESULTS
    subject = "transactions"

    @contextmanager
    def brokers(self) -> Iterator[list[Node]]:
        """Ours and Kafka's, both warmed up."""
        nodes: list[Node] = [
            Odradek(self.directory(), OS),
            PeerKafka(self.directory(), self.jars, ONE_NODE),
        ]
        try:
            for node in nodes:
                started(node)
                load.commits(node, 500 if self.quick else 5_000)
                load.pipelines(node, 200 if self.quick else 2_000)
            yield nodes
        finally:
            for node in nodes:
                node.kill()

    @contextmanager
    def ours(self, settings: Mapping[str, str]) -> Iterator[Node]:
        """One of ours alone, warmed up."""
        node = started(Odradek(self.directory(), settings))
        try:
            load.commits(node, 200)
            yield node
        finally:
            node.kill()


def commit_rows(bench: TransactionBench, nodes: list[Node], promise: str) -> None:
    count = 500 if bench.quick else 3_000
    bench.pairs_of(
        f"one record and its commit, {promise}",
        [
            Shown("cpu_us", "CPU us/transaction", ratio=0.7),
            Shown("p50_us", "begin -> committed p50 us", ratio=0.6),
            Shown("p99_us", "begin -> committed p99 us", ratio=0.6),
        ],
        partial(load.commits, count=count),
        nodes,
    )
    bench.pairs_of(
        f"begin -> read committed, {promise}",
        [Shown("p50_us", "p50 us", ratio=0.6), Shown("p99_us", "p99 us")],
        partial(load.reads, count=count // 5),
        nodes,
    )
    bench.pairs_of(
        f"100 records, 6 partitions, offsets, {promise}",
        [Shown("cpu_us", "CPU us/transaction", ratio=0.7), Shown("per_s", "transactions/s")],
        partial(load.pipelines, count=count // 2),
        nodes,
    )


def aborted_rows(bench: TransactionBench) -> None:
    """A fetch after many aborted transactions costs as much as one after few."""
    row = "fetch after aborted transactions, os"
    if not bench.wanted(row):
        return
    few, many = 100, 10_000 if bench.quick else 100_000
    taken: dict[int, list[Figures]] = {few: [], many: []}
    with bench.ours(OS) as node:
        topics = {count: load.AbortedTopic(node, count) for count in taken}
        for topic in topics.values():
            topic.fetch_cost(1_000)
        for _ in range(ABORTED_ROUNDS):
            for count, topic in topics.items():
                figures = topic.fetch_cost(500)
                taken[count].append(bench.record(f"{row}: {count:,}", node.name, figures))
    shown = [Shown("p50_us", "p50 us", ratio=1.1), Shown("cpu_us", "CPU us/fetch", ratio=1.1)]
    bench.show(f"{row}: {many:,} / {few:,} in place of Kafka", shown, taken[many], taken[few])


def id_rows(bench: TransactionBench) -> None:
    row = "loading of transactional ids, os"
    if not bench.wanted(row):
        return
    count = 10_000 if bench.quick else 100_000
    taken: dict[str, list[Figures]] = {"odradek": [], "kafka": []}
    memory: dict[str, list[Figures]] = {"odradek": [], "kafka": []}
    for node in (
        Odradek(bench.directory(), OS),
        PeerKafka(bench.directory(), bench.jars, ONE_NODE),
    ):
        started(node)
        try:
            memory[node.name].append(
                bench.record(f"transactional ids: {count:,}", node.name, load.many_ids(node, count))
            )
            taken[node.name].append(bench.record(row, node.name, load.loading(node, 100)))
        finally:
            node.kill()
    shown = [Shown("kib_each", "KiB each", value=1.0), Shown("ids_per_s", "ids/s")]
    bench.show(f"transactional ids: {count:,}", shown, memory["odradek"], memory["kafka"])
    bench.show(row, [Shown("ms", "ms", ratio=0.4)], taken["odradek"], taken["kafka"])


def all_rows(bench: TransactionBench) -> None:
    with bench.brokers() as nodes:
        commit_rows(bench, nodes, "os")
    with bench.ours(FSYNC) as node:
        commit_rows(bench, [node], "fsync")
    with bench.ours(OS) as node:
        bench.pairs_of(
            "timeout -> aborted, os",
            [Shown("late_ms", "ms", value=FEW_MS)],
            partial(load.timeouts, count=3),
            [node],
        )
    aborted_rows(bench)
    id_rows(bench)


if __name__ == "__main__":
    sys.exit(compare(TransactionBench, __doc__, all_rows))
