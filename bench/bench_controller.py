"""The active controller alone, with many simulated brokers and partitions: what one failover costs.

    python bench/bench_controller.py [--brokers 100] [--partitions 100000]

One broker is fenced, and the controller decides what becomes of its partitions: the records of each
turn are decided, encoded and replayed, as in service, without disk and network. Shown are the time
of this thread, the records and their bytes, and the longest turn; then a pass that finds nothing to
do, as a controller that takes over makes one. Requests that change every partition are timed by
their turns, too: reassignments and elections, and what lists them. Every other broker reads the
same bytes: decoding, replaying and the delta are timed too. So are a heartbeat, and what an image
takes: memory, a snapshot of it, and reading that at a start. The results are appended to
`bench/results/controller.jsonl`, with which `scale_model` is fed. There is no peer: Kafka has no
controller that runs alone.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import platform
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from rich.console import Console
from rich.table import Table

from odradek.broker.long_requests import REQUEST_ELEMENTS, parts_of
from odradek.config.broker import BrokerConfig
from odradek.controller.brokers import bootstrap
from odradek.controller.cluster_control import ClusterControl
from odradek.controller.decision import Parts
from odradek.controller.delta import MetadataDelta
from odradek.controller.features import SUPPORTED_FEATURES
from odradek.controller.image import BrokerRegistration, Endpoint, MetadataImage
from odradek.controller.leader_election import elect_everywhere
from odradek.controller.partition_pass import leads
from odradek.controller.reassignments import (
    alter_partition_reassignments,
    list_partition_reassignments,
)
from odradek.controller.records import batch_of, records_in
from odradek.controller.registration import fenced_record
from odradek.controller.replica_placement import new_partition, place_replicas
from odradek.controller.snapshots import decode, encode
from odradek.protocol.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.api.broker_heartbeat import BrokerHeartbeatRequest
from odradek.protocol.api.elect_leaders import ElectLeadersRequest
from odradek.protocol.api.list_partition_reassignments import ListPartitionReassignmentsRequest
from odradek.protocol.metadata_records import FeatureLevelRecord, TopicRecord
from odradek.protocol.record_batch import batches
from peers import pss_mib

RESULTS = Path(__file__).parent / "results" / "controller.jsonl"
FACTOR = 3
PER_TOPIC = 100
HEARTBEATS = 10_000
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


class Step(NamedTuple):
    """One step of the controller: the batch of its records, and what it took."""

    batch: bytes
    records: int
    ms: float


def steps(image: MetadataImage, control: ClusterControl) -> Iterator[Step]:
    """Take the controller's steps, as its loop does between which it serves others."""
    while control.is_busy:
        begun = time.thread_time()
        records = control.step(0)
        batch = batch_of(records, 0) if records else b""
        for record in records:
            image.replay(record)
        yield Step(batch, len(records), (time.thread_time() - begun) * MS)


def follow(image: MetadataImage, taken: list[Step]) -> list[float]:
    """Replay the controller's batches as another broker does; return the milliseconds of each."""
    found = []
    for turn in taken:
        begun = time.thread_time()
        delta = MetadataDelta()
        for header in batches(turn.batch):
            for record in records_in(turn.batch, header):
                delta.add(image, record)
                image.replay(record)
        found.append((time.thread_time() - begun) * MS)
    return found


def of_parts(image: MetadataImage, parts: Parts[object]) -> list[float]:
    """Run a decision in parts; return the milliseconds of each turn."""
    found = []
    while True:
        begun = time.thread_time()
        records = next(parts, None)
        if records:
            batch_of(records, 0)
            for record in records:
                image.replay(record)
        found.append((time.thread_time() - begun) * MS)
        if records is None:
            return found


def moves(image: MetadataImage, config: BrokerConfig) -> list[float]:
    """Reverse the replicas of every partition, so that others are preferred, in a request as long
    as that; return the milliseconds of each of the parts in which it is handled.
    """
    request = AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name=topic.name,
                partitions=[
                    ReassignablePartition(partition_index=number, replicas=[*each.replicas[::-1]])
                    for number, each in topic.partitions.items()
                ],
            )
            for topic in image.topics.values()
        ]
    )
    found = []
    for part in parts_of(request, REQUEST_ELEMENTS[45][0]):
        begun = time.thread_time()
        decision = alter_partition_reassignments(image, part, config)
        batch_of(decision.records, 0)
        for record in decision.records:
            image.replay(record)
        found.append((time.thread_time() - begun) * MS)
    return found


def requests_of_all(image: MetadataImage, config: BrokerConfig) -> dict[str, float]:
    """Return the figures of requests that change or list every partition."""
    measured = {}
    elections = ElectLeadersRequest(election_type=0, topic_partitions=None)
    for name, found in (
        ("reassign", moves(image, config)),
        ("elect", of_parts(image, elect_everywhere(image, elections, lambda: config))),
    ):
        measured[f"{name}_ms"] = sum(found)
        measured[f"{name}_longest_turn_ms"] = max(found)
    begun = time.thread_time()
    list_partition_reassignments(image, ListPartitionReassignmentsRequest())
    measured["list_reassignments_ms"] = (time.thread_time() - begun) * MS
    begun = time.thread_time()
    leads(image, -1)
    measured["leads_ms"] = (time.thread_time() - begun) * MS
    begun = time.thread_time()
    MetadataDelta.between(MetadataImage("bench"), image)
    measured["delta_of_snapshot_ms"] = (time.thread_time() - begun) * MS
    return measured


def heartbeat_us(image: MetadataImage, control: ClusterControl) -> float:
    """Return the time of a broker's heartbeat that changes nothing."""
    requests = [
        BrokerHeartbeatRequest(
            broker_id=broker.id,
            broker_epoch=broker.epoch,
            current_metadata_offset=1 << 40,
            want_fence=False,
            want_shut_down=False,
        )
        for broker in image.brokers.values()
    ]
    begun = time.thread_time()
    for number in range(HEARTBEATS):
        control.heartbeat(requests[number % len(requests)], number)
    return (time.thread_time() - begun) / HEARTBEATS * 1e6


def measure(brokers: int, partitions: int) -> dict[str, float]:
    """Return all figures. Images are made in this process, so the first one's memory counts."""
    config = BrokerConfig()
    gc.collect()
    before = pss_mib(os.getpid())
    image = cluster(brokers, partitions, config)
    gc.collect()
    measured = {"image_bytes": (pss_mib(os.getpid()) - before) * 2**20}
    gc.freeze()  # As a broker does after its start.
    begun = time.thread_time()
    committed = image.copy()
    measured["copy_ms"] = (time.thread_time() - begun) * MS
    control = ClusterControl(image, lambda: config, lambda: 0, 0)
    measured["heartbeat_us"] = heartbeat_us(image, control)
    nothing = list(steps(image, control))
    fence = fenced_record(image.brokers[1])
    for each in (image, committed):
        each.replay(fence)
    control.look_again()
    failover = list(steps(image, control))
    followed = follow(committed, failover)
    if committed != image:
        raise RuntimeError("the controller's records do not make its image elsewhere")
    for name, found in (("failover", failover), ("nothing", nothing)):
        measured[f"{name}_ms"] = sum(turn.ms for turn in found)
        measured[f"{name}_longest_turn_ms"] = max(turn.ms for turn in found)
        measured[f"{name}_turns"] = len(found)
    measured["failover_records"] = sum(turn.records for turn in failover)
    measured["failover_bytes"] = sum(len(turn.batch) for turn in failover)
    measured["followed_ms"] = sum(followed)
    measured["followed_longest_turn_ms"] = max(followed)
    begun = time.thread_time()
    snapshot = encode(image, 0)
    measured["snapshot_ms"] = (time.thread_time() - begun) * MS
    measured["snapshot_bytes"] = len(snapshot)
    begun = time.thread_time()
    decode(snapshot, "bench")
    measured["load_ms"] = (time.thread_time() - begun) * MS
    measured.update(requests_of_all(image, config))
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
