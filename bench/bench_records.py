"""Nanoseconds per record: encoding, checking and decoding batches, beside aiokafka's and
kafka-python's codecs.

    python bench/bench_records.py [--rounds 7]

Two batches of 100-byte values without keys: one record, and 145 of them (16 KiB, what a producer
sends by default). Every row runs in this process for the form in which the leaves are installed
and in a child for the interpreted one. Rounds of ours and the peers' are interleaved; the best of
the rounds is shown (these are loops of pure computation: what disturbs them only adds), every
round is appended to `bench/results/records.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from odradek import leaves
from odradek.model.byte_ranges import ByteRange
from odradek.protocol import record_batch, records
from odradek.protocol.record_batch import RecordBatchHeader
from odradek.protocol.record_batch_builder import build
from odradek.protocol.record_columns import RecordColumns
from odradek.protocol.validate import BatchRules, ValidBatch, validate

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.record.default_records as kafka_python
    from aiokafka.record import default_records as aiokafka
    from kafka.record import MemoryRecords as KafkaPythonRecords

RESULTS = Path(__file__).parent / "results" / "records.jsonl"
T0 = 1_366_000_000_000
COUNT = 145
VALUE = b"v" * 100
ROUND_S = 0.05

Work = Callable[[], object]


def rows_of(count: int) -> list[tuple[None, bytes, tuple[()], int]]:
    return [(None, VALUE, (), T0 + i) for i in range(count)]


def ours(one: bytes, many: bytes) -> dict[str, tuple[Work, int]]:
    """Name -> (work, records in it)."""
    rules, rows = BatchRules(), rows_of(COUNT)
    spans = ByteRange(one, 0, len(one)), ByteRange(many, 0, len(many))
    assert all(isinstance(validate(span, rules, T0), ValidBatch) for span in spans)
    header = RecordBatchHeader(many, 0)

    def columns() -> object:
        found = RecordColumns()
        found.append_batch(many, header, 0, 1 << 60)
        return found.offsets, found.timestamps, found.key.finish(), found.value.finish()

    return {
        "encode": (lambda: build(rows), COUNT),
        "walk": (lambda: records.check_records(many, 61, len(many), COUNT, T0), COUNT),
        "decode to records": (lambda: list(record_batch.records_of(many, header)), COUNT),
        "decode to columns": (columns, COUNT),
        "validate 145 records": (lambda: validate(spans[1], rules, T0), 1),
        "validate 1 record": (lambda: validate(spans[0], rules, T0), 1),
        "stamp": (lambda: record_batch.stamp(many, 0, 12345, 3), 1),
    }


def peers(many: bytes) -> dict[str, tuple[Work, int]]:
    rows = rows_of(COUNT)

    def encoder(module: Any) -> Work:
        def encode() -> object:
            builder = module.DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
            for offset, (key, value, _, at) in enumerate(rows):
                builder.append(offset, at, key, value, [])
            return builder.build()

        return encode

    return {
        "aiokafka encode": (encoder(aiokafka), COUNT),
        "aiokafka decode to records": (lambda: list(aiokafka.DefaultRecordBatch(many)), COUNT),
        "kafka-python encode": (encoder(kafka_python), COUNT),
        "kafka-python decode to records": (
            lambda: [record for batch in KafkaPythonRecords(many) for record in batch],
            COUNT,
        ),
    }


def measure(tasks: dict[str, tuple[Work, int]], rounds: int) -> dict[str, list[float]]:
    """Nanoseconds per record (or per call) of every round."""
    found: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(rounds):
        for name, (work, count) in tasks.items():
            calls, begin = 0, time.perf_counter()
            while (elapsed := time.perf_counter() - begin) < ROUND_S:
                for _ in range(10):
                    work()
                calls += 10
            found[name].append(elapsed / calls / count * 1e9)
    return found


def run(rounds: int, with_peers: bool) -> dict[str, list[float]]:
    one, many = build(rows_of(1)), build(rows_of(COUNT))
    tasks = ours(one, many) | (peers(many) if with_peers else {})
    return measure(tasks, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(run(args.rounds, with_peers=False)))
        return
    forms = {leaves.mode().split()[0]: run(args.rounds, with_peers=True)}
    if "compiled" in forms:
        child = subprocess.run(
            [sys.executable, __file__, "--child", "--rounds", str(args.rounds)],
            env={**os.environ, "ODRADEK_INTERPRETED": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        forms["interpreted"] = json.loads(child.stdout)
    stamp = {"time": time.time(), "python": platform.python_version(), "cpu": os.cpu_count()}
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a") as results:
        for form, found in forms.items():
            for name, rounds in found.items():
                row = {**stamp, "form": form, "work": name, "ns": [round(ns, 1) for ns in rounds]}
                results.write(json.dumps(row) + "\n")
                unit = "ns per call" if name.startswith(("validate", "stamp")) else "ns per record"
                print(f"{form:12s} {name:32s} {min(rounds):10.1f} {unit}")


if __name__ == "__main__":
    main()
