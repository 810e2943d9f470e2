"""Mutation tests of the simulator: every broken variant of `ToyBroker` fails within a few seeds.

If one of these tests fails, the simulator misses violations: check workload, nemesis and checker
first.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from odradek.model.env import Disk, Env, File
from odradek.model.errors import ErrorCode
from odradek.protocol.record_batch import RecordBatchHeader
from odradek.testing.machine import Wiring
from odradek.testing.sim import explain, run_seed
from odradek.testing.workload.schedule import Schedule
from odradek.testing.world import World
from sim.toy_broker import Partition, ToyBroker

STEPS = 40
SEEDS = 300


class AcksBeforeFsync(ToyBroker):
    """`acks=all` is answered before the fsync."""

    def acked_end(self, partition: Partition) -> int:
        return partition.end


class ServesUnsynced(ToyBroker):
    """Fetches return records that a power failure can lose."""

    def visible_end(self, partition: Partition) -> int:
        return partition.end


class ChecksNoCrc(ToyBroker):
    """Recovery accepts any batch with a valid header."""

    def is_intact(self, data: bytes, header: RecordBatchHeader) -> bool:
        return True


class NoDeduplication(ToyBroker):
    """No batch is treated as a duplicate."""

    def sequence_error(self, partition: Partition, h: RecordBatchHeader) -> tuple[ErrorCode, int]:
        return ErrorCode.NONE, -1


class AcceptsGaps(ToyBroker):
    """A batch with a gap in its sequence is accepted."""

    def sequence_error(self, partition: Partition, h: RecordBatchHeader) -> tuple[ErrorCode, int]:
        error, base = super().sequence_error(partition, h)
        return (ErrorCode.NONE, -1) if error else (error, base)


class WrongOffsetForDuplicates(ToyBroker):
    """A duplicate is answered with the end offset, not with that of the original."""

    def sequence_error(self, partition: Partition, h: RecordBatchHeader) -> tuple[ErrorCode, int]:
        error, base = super().sequence_error(partition, h)
        return error, (partition.end if base >= 0 else base)


class TrustsPageCache(ToyBroker):
    """Recovery counts what it reads as durable, without an fsync."""

    def sync_recovered(self, partition: Partition, data: bytes) -> None:
        partition.durable = partition.end


class RetriesFailedFsync(ToyBroker):
    """After a failed fsync, a later successful one counts."""

    def flush(self, partition: Partition) -> None:
        self.fenced = False
        super().flush(partition)

    def wake(self, partition: Partition, error: ErrorCode) -> None:
        if error:
            partition.flushing = False
            self.fenced = False
            super().flush(partition)
        else:
            super().wake(partition, error)


class NoDirectorySync:
    """A disk that forgets to sync directories."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk

    def __getattr__(self, name: str) -> Any:
        return getattr(self.disk, name)

    def sync_directory(self, path: str) -> None:
        pass


class NeverSyncsDirectories(ToyBroker):
    """Files are synced, but their directory entries are not."""

    def __init__(self, env: Env, process: Any, durability: str) -> None:
        super().__init__(replace(env, disk=NoDirectorySync(env.disk)), process, durability)


class KeepsTornTail(ToyBroker):
    """Recovery does not truncate a torn tail, and appends follow it."""

    def truncate(self, file: File, size: int) -> None:
        pass


class ReadsWrongBatch(ToyBroker):
    """Some fetches return the batch after the requested one."""

    def read(self, partition: Partition, requested: Any) -> Any:
        if requested.fetch_offset % 7 == 3:
            requested.fetch_offset += 1
        return super().read(partition, requested)


class LowersHighWatermark(ToyBroker):
    """At the end of the log, some fetches return a high watermark that is too low."""

    def read(self, partition: Partition, requested: Any) -> Any:
        answer = super().read(partition, requested)
        if not answer.records and partition.end % 3 == 2:
            answer.high_watermark -= 1
        return answer


class WrongOffsetInAcks(ToyBroker):
    """One batch is acknowledged with the offset after its own."""

    def append(self, partition: Partition, data: bytes) -> tuple[ErrorCode, int, int]:
        error, base, end = super().append(partition, data)
        return error, (base + 1 if base == 11 else base), end


class EndsAtReadErrors(ToyBroker):
    """A read error is answered as an offset out of range."""

    def read(self, partition: Partition, requested: Any) -> Any:
        answer = super().read(partition, requested)
        if answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
            answer.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        return answer


class StopsAnswering(ToyBroker):
    """Does not answer produce requests after 30 records of a partition."""

    def do_Produce(self, version: int, request: Any, respond: Any) -> None:
        topic = request.topic_data[0]
        partition = self.find(topic)[1][topic.partition_data[0].index]
        if partition.end < 30:
            super().do_Produce(version, request, respond)


POWER = ("power loss", "power loss at a crash point", "power loss after an ack")

# The mutant, the faults that expose it, and the first seed: some mutants need a rare sequence of
# events, and starting near a seed that has it keeps the test short.
MUTANTS: tuple[tuple[type[ToyBroker], tuple[str, ...], int], ...] = (
    (AcksBeforeFsync, POWER, 0),
    (ServesUnsynced, POWER, 0),
    (ChecksNoCrc, POWER[1:2], 70),
    (KeepsTornTail, ("crash point", "power loss at a crash point"), 20),
    (NeverSyncsDirectories, POWER, 0),
    (TrustsPageCache, ("kill", "power loss"), 160),
    (RetriesFailedFsync, ("fsync error", "power loss"), 0),
    (NoDeduplication, ("cut", "half open"), 0),
    (WrongOffsetForDuplicates, ("cut", "half open"), 0),
    (AcceptsGaps, ("write error",), 0),
    (EndsAtReadErrors, ("read error",), 0),
    (ReadsWrongBatch, (), 0),
    (WrongOffsetInAcks, (), 0),
    (StopsAnswering, (), 0),
)


def wiring_of(broker: type[ToyBroker]) -> Callable[[Schedule], Wiring]:
    return lambda plan: Wiring(lambda env, process: broker(env, process, plan.durability))


@pytest.mark.parametrize(("mutant", "faults", "first"), MUTANTS)
def test_a_broken_broker_is_found(
    mutant: type[ToyBroker], faults: tuple[str, ...], first: int
) -> None:
    worlds = (
        World(seed, STEPS, wiring_of(mutant), faults, white_box=False, extras=False)
        for seed in range(first, first + SEEDS)
    )
    assert not all(run_seed(world).kept for world in worlds)


def test_a_falling_high_watermark_between_power_failures_is_found() -> None:
    """Also where a power failure may lose records: between two of them the watermark only rises."""

    def in_page_cache(plan: Schedule) -> Schedule:
        return replace(plan, durability="os")

    def violations(seed: int) -> Sequence[str]:
        broken = wiring_of(LowersHighWatermark)
        world = World(seed, STEPS, broken, POWER[:1], extras=False, adjust=in_page_cache)
        report = run_seed(world).report
        return report.violations if report and world.history.losses else ()

    found = (violation for seed in range(20) for violation in violations(seed))
    assert any("high watermark went from" in violation for violation in found)


@pytest.mark.parametrize("seed", range(20))
def test_a_correct_toy_broker_has_no_violation(seed: int) -> None:
    outcome = run_seed(World(seed, STEPS, wiring_of(ToyBroker), extras=False))
    assert outcome.kept, "\n".join(explain(outcome))
