"""The active controller alone, with many simulated brokers and partitions: what one failover costs.

    python bench/bench_controller.py [--brokers 100] [--partitions 100000]

One broker is fenced, and the controller decides what becomes of its partitions: the records of each
turn are decided, encoded and replayed, as in service, without disk and network. Shown are the time
of this thread, the records and their bytes, and the longest turn; then a pass that finds nothing to
do, and a copy of the image, which a snapshot makes. Every run is appended to
`bench/results/controller.jsonl`. There is no peer: Kafka's controller cannot be run alone.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import random
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

from rich.console import Console
from rich.table import Table

from odradek.config.broker import BrokerConfig
from odradek.controller.brokers import bootstrap
from odradek.controller.cluster_control import ClusterControl
from odradek.controller.features import SUPPORTED_FEATURES
from odradek.controller.image import BrokerRegistration, Endpoint, MetadataImage
from odradek.controller.records import batch_of
from odradek.controller.registration import fenced_record
from odradek.controller.replica_placement import new_partition, place_replicas
from odradek.protocol.metadata_records import FeatureLevelRecord, TopicRecord

RESULTS = Path(__file__).parent / "results" / "controller.jsonl"
FACTOR = 3
PER_TOPIC = 100
MS = 1_000


def cluster(brokers: int, partitions: int, config: BrokerConfig) -> MetadataImage:
    """Return an image with eligible leader replicas and this many brokers and partitions."""
    image = MetadataImage("bench")
    records = [*bootstrap(image, config)]
    records += [
        FeatureLevelRecord(name=name, feature_level=high)
        for name, (_, high) in SUPPORTED_FEATURES.items()
    ]
    features = tuple((name, *levels) for name, levels in SUPPORTED_FEATURES.items())
    for number in range(1, brokers + 1):
        endpoints = (Endpoint("PLAINTEXT", "127.0.0.1", 9000 + number, 0),)
        registration = BrokerRegistration(
            id=number,
            epoch=number,
            incarnation_id=UUID(int=number),
            endpoints=endpoints,
            features=features,
            fenced=False,
            log_dirs=(UUID(int=1000 + number),),
        )
        records.append(registration.record())
    for record in records:
        image.replay(record)
    chance = random.Random(1)
    for number in range(partitions // PER_TOPIC):
        topic_id = UUID(int=100_000 + number)
        image.replay(TopicRecord(name=f"topic-{number}", topic_id=topic_id))
        placed = place_replicas(image.brokers.values(), PER_TOPIC, FACTOR, chance)
        for index, replicas in enumerate(placed):
            image.replay(new_partition(image, replicas).record(topic_id, index))
    return image


def turns(image: MetadataImage, control: ClusterControl) -> Iterator[tuple[int, int, float]]:
    """Take the controller's steps; yield the records, bytes and milliseconds of each."""
    while control.is_busy:
        begun = time.thread_time()
        records = control.step(0)
        size = len(batch_of(records, 0)) if records else 0
        for record in records:
            image.replay(record)
        yield len(records), size, (time.thread_time() - begun) * MS


def measure(brokers: int, partitions: int) -> dict[str, float]:
    config = BrokerConfig()
    image = cluster(brokers, partitions, config)
    control = ClusterControl(image, lambda: config, lambda: 0, 0)
    begun = time.thread_time()
    image.copy()
    measured = {"copy_ms": (time.thread_time() - begun) * MS}
    nothing = list(turns(image, control))
    image.replay(fenced_record(image.brokers[1]))
    control.look_again()
    failover = list(turns(image, control))
    for name, found in (("failover", failover), ("nothing", nothing)):
        measured[f"{name}_ms"] = sum(ms for _, _, ms in found)
        measured[f"{name}_longest_turn_ms"] = max(ms for _, _, ms in found)
        measured[f"{name}_turns"] = len(found)
    measured["failover_records"] = sum(count for count, _, _ in failover)
    measured["failover_bytes"] = sum(size for _, size, _ in failover)
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=100_000)
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    measured = measure(given.brokers, given.partitions)
    line = {
        "run": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "brokers": given.brokers,
        "partitions": given.partitions,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        **measured,
    }
    with RESULTS.open("a") as out:
        out.write(json.dumps(line) + "\n")
    table = Table("row", "value", title=f"{given.brokers} brokers, {given.partitions} partitions")
    for name, value in measured.items():
        table.add_row(name, f"{value:,.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
