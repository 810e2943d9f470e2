"""What the swarm may have besides producing and reading.

Each of these occurs in some seeds and not in others, drawn apart from the rest of the schedule:
topics that are deleted and made again, retention by age or by size, deletion of records,
incremental fetch sessions, and the faults that ask for more than ending the broker: clean stops
(and pulling the plug after one), crashes of clients, bits that flip on the disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from odradek.model.topics import TopicPartition
from odradek.testing.prng import SplitMix64, stream
from odradek.testing.retention_rule import RetentionRule
from odradek.testing.scheduler import MS
from odradek.testing.workload.lanes import ProducerPlan
from odradek.testing.workload.reader import ReaderPlan
from odradek.testing.workload.schedule import CODECS, Schedule, draw_faults, draw_topic
from odradek.testing.workload.topics import TopicPlan
from odradek.testing.workload.trimmer import TrimmerPlan

STOPS = ("stop", "stop and unplug")
FLIPS = ("bit flip", "index bit flip")
EXTRA_FAULTS = (*STOPS, *STOPS, "client crash", *FLIPS, "bit flip", "bit flip")
"""Not every bit flip finds a byte to damage: there must be one that recovery reads."""
SEGMENTS = (1 << 12, 1 << 14, 1 << 16)
RETENTION_CHECK_MS = 300
LIFE_FETCH_VERSIONS = (13, 17)
"""Topics by id, so that a request cannot mean another life."""


def with_extras(seed: int, base: Schedule, only: Sequence[str] = ()) -> Schedule:
    """The schedule with what else this seed has. `only`: of the faults, these kinds."""
    chance = stream(seed, "schedule/extras")
    horizon_ns = base.heal_ns
    topics = list(base.topics)
    if chance.chance(400):
        topics[0] = with_retention(chance, topics[0])
    if chance.chance(400):
        topics[-1] = replace(topics[-1], trimmed=True)
    faults = list(base.faults)
    if chance.chance(600):
        faults += draw_faults(chance, horizon_ns, only or EXTRA_FAULTS)[:4]
    forgetful = sorted(replace(base, topics=topics).forgetful())
    readers = [
        replace(reader, forgetful=bool(forgetful), sessions=chance.chance(500))
        for reader in base.readers
    ]
    ends = [fault.at_ns + fault.length_ns for fault in faults]
    return replace(
        base,
        settings=base.settings | {"log.retention.check.interval.ms": str(RETENTION_CHECK_MS)},
        topics=topics,
        producers=[replace(producer, forgetful=forgetful) for producer in base.producers],
        readers=readers,
        trimmers=[
            TrimmerPlan(f"trimmer-{topic.name}", partitions_of(topic))
            for topic in topics
            if topic.trimmed
        ],
        mortal=[draw_mortal(chance, horizon_ns // MS)] if chance.chance(400) else [],
        faults=sorted(faults, key=lambda plan: (plan.at_ns, plan.number)),
        sessions=chance.chance(500),
        heal_ns=max([base.heal_ns, *ends]) + 100 * MS,
    )


def partitions_of(topic: TopicPlan) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for number in range(topic.partitions)]


def with_retention(chance: SplitMix64, topic: TopicPlan) -> TopicPlan:
    """The topic with small segments, old ones of which go."""
    segment_bytes = chance.pick(SEGMENTS)
    settings = dict(topic.settings) | {
        "internal.segment.bytes": str(max(segment_bytes, int(dict(topic.settings)[SEGMENT_BYTES]))),
        "file.delete.delay.ms": str(chance.pick((0, 50, 2000))),
    }
    rule = RetentionRule(segment_bytes=int(settings[SEGMENT_BYTES]))
    if chance.chance(600):
        rule = replace(rule, ms=chance.pick((500, 1500, 4000)))
        settings["retention.ms"] = str(rule.ms)
    else:
        rule = replace(rule, bytes=chance.pick((0, 1, 3)) * rule.segment_bytes)
        settings["retention.bytes"] = str(rule.bytes)
        settings["retention.ms"] = "-1"
    return replace(topic, settings=tuple(settings.items()), retention=rule)


SEGMENT_BYTES = "internal.segment.bytes"


def draw_mortal(chance: SplitMix64, horizon_ms: int) -> TopicPlan:
    topic = draw_topic(chance, "mortal", SEGMENTS)
    count = chance.between(1, 3)
    spans = tuple(chance.between(50, horizon_ms // count) for _ in range(count))
    return replace(topic, spans_ms=spans)


def draw_life(
    chance: SplitMix64, label: str, partitions: Sequence[TopicPartition]
) -> tuple[ProducerPlan, ReaderPlan]:
    """Who works on one life of a topic."""
    idempotent = chance.chance(600)
    producer = ProducerPlan(
        name=f"producer-{label}",
        partitions=partitions,
        batches=chance.between(5, 30),
        acks=-1 if idempotent else chance.pick((-1, 1)),
        idempotent=idempotent,
        max_in_flight=chance.between(1, 5) if idempotent else 1,
        codec=chance.pick(CODECS),
        version=13,
    )
    reader = ReaderPlan(
        name=f"reader-{label}",
        partitions=partitions,
        version=chance.pick(LIFE_FETCH_VERSIONS),
        sessions=chance.chance(500),
    )
    return producer, reader
