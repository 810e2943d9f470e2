"""Mutation tests of the simulator: broken retention, deletion, shutdown and recovery are found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from odradek.broker import shutdown
from odradek.broker.housekeeping import Housekeeping
from odradek.broker.partitions import Partitions
from odradek.log import recovery, retention, scan
from odradek.log.durable_ends import DurableEnd
from odradek.log.flush import ShutdownFlush
from odradek.log.log import Log
from odradek.log.log_directory import LogDirectory
from odradek.log.segment import Segment
from odradek.model.env import File
from odradek.model.topics import TopicPartition
from odradek.replication.log_start_sync import LogStartSyncer
from odradek.replication.partition import Partition
from odradek.testing.checker import RetentionRule
from odradek.testing.scheduler import MS, SECOND
from odradek.testing.sim import explain, run_seed, summary
from odradek.testing.workload.producer import ProducerPlan
from odradek.testing.workload.schedule import FaultPlan, Schedule
from odradek.testing.world import World

STEPS = 60
POWER = ("power loss", "power loss at a crash point", "power loss after an ack")
Patch = Callable[[pytest.MonkeyPatch], None]


def retention_never_runs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Housekeeping, "retention", lambda self: None)


def retention_deletes_young_records(patch: pytest.MonkeyPatch) -> None:
    def expired(log: Log, segment: Segment, now_ms: int) -> bool:
        return log.config.retention_ms >= 0 and segment.largest_timestamp() >= 0

    patch.setattr(retention, "_expired", expired)


def retention_by_size_deletes_all_closed(patch: pytest.MonkeyPatch) -> None:
    deletable = retention._deletable

    def all_closed(log: Log, now_ms: int) -> int:
        by_size = log.config.retention_bytes >= 0
        return len(log.segments) - 1 if by_size else deletable(log, now_ms)

    patch.setattr(retention, "_deletable", all_closed)


def log_start_is_not_written(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DurableEnd, "write_log_start", lambda self, log_start: None)


def deletions_are_answered_before_sync(patch: pytest.MonkeyPatch) -> None:
    def request(self: LogStartSyncer, partition: Partition) -> None:
        partition.log.durable_log_start = partition.log.log_start_offset

    patch.setattr(LogStartSyncer, "request", request)
    patch.setattr(LogDirectory, "checkpoint", lambda self: lambda: None)


def deleted_topics_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partitions, "topic_deleted", lambda self, topic: None)


def unflushed_stop_is_marked_clean(patch: pytest.MonkeyPatch) -> None:
    class NoFlush(ShutdownFlush):
        def start(self) -> None:
            self._waiting = iter(())
            super().start()

    patch.setattr(shutdown, "ShutdownFlush", NoFlush)
    close = LogDirectory.close

    def without_flush(self: LogDirectory, *, flush: bool = True) -> None:
        close(self, flush=False)

    patch.setattr(LogDirectory, "close", without_flush)
    patch.setattr(LogDirectory, "_can_mark_clean", lambda self: True)


def recovery_skips_checksums(patch: pytest.MonkeyPatch) -> None:
    def stored_crc(file: File, position: int, chunk: bytes, at: int, size: int) -> int:
        return int.from_bytes(chunk[at + 17 : at + 21], "big")

    patch.setattr(scan, "_crc", stored_crc)


def damage_is_taken_for_a_torn_tail(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recovery.LogVerifier, "_accept_torn_tail", lambda self, *_: None)


def unchanged(plan: Schedule) -> Schedule:
    return plan


def short_retention_ms(plan: Schedule) -> Schedule:
    """One topic with a short `retention.ms`, producers that pause for longer, and kills."""
    settings = {"internal.segment.bytes": "4096", "retention.ms": "400"}
    topic = replace(
        plan.topics[0],
        partitions=1,
        settings=tuple(settings.items()),
        retention=RetentionRule(400, segment_bytes=4096),
        trimmed=False,
    )
    partitions = [TopicPartition(topic.name, 0)]
    producers = [
        ProducerPlan(
            f"producer{number}",
            partitions,
            batches=12,
            idempotent=True,
            value_bytes=(1, 40),
            pause_ms=(400, 1200),
            burst_rate=0,
        )
        for number in range(2)
    ]
    faults = [FaultPlan(second * SECOND, "kill", 50 * MS, second) for second in range(1, 8)]
    return replace(
        plan,
        topics=[topic],
        producers=producers,
        readers=[],
        trimmers=[],
        recreated=[],
        faults=faults,
        heal_ns=max(plan.heal_ns, 8 * SECOND),
    )


def small_retention_bytes(plan: Schedule) -> Schedule:
    """One topic with a small `retention.bytes`, which keeps some segments."""
    settings = {
        "internal.segment.bytes": "4096",
        "retention.bytes": "8192",
        "retention.ms": "-1",
    }
    topic = replace(
        plan.topics[0],
        settings=tuple(settings.items()),
        retention=RetentionRule(bytes=8192, segment_bytes=4096),
        trimmed=False,
    )
    names = [TopicPartition(topic.name, number) for number in range(topic.partitions)]
    producers = [replace(each, partitions=names, value_bytes=(1, 300)) for each in plan.producers]
    return replace(plan, topics=[topic], producers=producers, readers=[], trimmers=[], recreated=[])


BROKEN: Sequence[tuple[Patch, tuple[str, ...], Callable[[Schedule], Schedule]]] = (
    (retention_never_runs, (), unchanged),
    (retention_deletes_young_records, (), unchanged),
    (retention_by_size_deletes_all_closed, ("cut",), small_retention_bytes),
    (log_start_is_not_written, ("kill",), unchanged),
    (deletions_are_answered_before_sync, POWER, unchanged),
    (deleted_topics_stay, (), unchanged),
    (unflushed_stop_is_marked_clean, ("stop and unplug",), unchanged),
    (recovery_skips_checksums, ("bit flip",), unchanged),
    (damage_is_taken_for_a_torn_tail, ("bit flip",), unchanged),
)
"""The break, the faults that expose it, and the change of the schedule."""


@pytest.mark.parametrize(("broken", "faults", "adjust"), BROKEN)
def test_a_broken_removal_is_found(
    broken: Patch,
    faults: tuple[str, ...],
    adjust: Callable[[Schedule], Schedule],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken(monkeypatch)
    worlds = (World(seed, STEPS, faults=faults, adjust=adjust) for seed in range(60))
    assert not all(run_seed(world).kept for world in worlds)


@pytest.mark.parametrize("adjust", [short_retention_ms, small_retention_bytes])
@pytest.mark.parametrize("seed", range(5))
def test_a_correct_broker_has_no_violation(
    seed: int, adjust: Callable[[Schedule], Schedule]
) -> None:
    outcome = run_seed(World(seed, STEPS, adjust=adjust))
    assert outcome.kept, "\n".join([summary(outcome), *explain(outcome)])
