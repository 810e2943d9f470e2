"""Mutation tests of the simulator: the real broker with one broken part is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from odradek.log import recovery, scan
from odradek.log.flush import LogFlush
from odradek.log.producer_state import ProducerState, ProducerStateEntry
from odradek.model.env import File, Offload
from odradek.testing.machine import Wiring, real_broker
from odradek.testing.sim import RunOutcome, run_seed
from odradek.testing.workload.schedule import Schedule
from odradek.testing.world import World

T = TypeVar("T")

STEPS = 60
SEEDS = 60
POWER = ("power loss", "power loss at a crash point", "power loss after an ack")


class EagerOffload:
    """Reports an fsync as done before it has begun."""

    def __init__(self, offload: Offload) -> None:
        self._offload = offload

    def submit(
        self,
        work: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        flush = getattr(work, "__self__", None)
        if isinstance(flush, LogFlush):
            flush.succeeded = True
            self._offload.submit(lambda: None, done, failed)  # type: ignore[misc]
            self._offload.submit(work, lambda _: None, failed)
        else:
            self._offload.submit(work, done, failed)


class NoProducerEntries(ProducerState):
    """Returns no entry for any producer."""

    def entry(self, producer_id: int) -> ProducerStateEntry | None:
        return None


def acks_before_fsync(plan: Schedule) -> Wiring:
    return Wiring(real_broker(plan).start, offload=EagerOffload)


def first_failure(
    wire: Callable[[Schedule], Wiring],
    faults: tuple[str, ...],
    *,
    steps: int = STEPS,
    white_box: bool = False,
) -> RunOutcome[World]:
    for seed in range(SEEDS):
        outcome = run_seed(World(seed, steps, wire, faults, white_box=white_box, extras=False))
        if not outcome.kept:
            return outcome
    raise AssertionError(f"no violation in {SEEDS} seeds")


def test_acks_before_fsync_lose_records() -> None:
    outcome = first_failure(acks_before_fsync, POWER)
    # Either records are lost, or the broker notices the loss: if its metadata file is shorter than
    # what was durable, it does not start.
    if outcome.report is None:
        assert "These bytes were durable" in str(outcome.error)
    else:
        assert outcome.report.lost > 0 or "stuck" in outcome.report.violations[0]


def test_acks_before_fsync_are_found_on_the_platter_without_any_fault() -> None:
    outcome = first_failure(acks_before_fsync, ("clock jump",), white_box=True)
    assert outcome.report is not None
    assert "not on disk" in outcome.report.violations[0]


def test_a_recovery_without_checksums_serves_torn_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    def stored_crc(file: File, position: int, chunk: bytes, at: int, size: int) -> int:
        return int.from_bytes(chunk[at + 17 : at + 21], "big")

    monkeypatch.setattr(scan, "_crc", stored_crc)
    outcome = first_failure(real_broker, POWER[1:2], steps=100)
    assert outcome.report is not None
    # A reader is told of the batch, or cannot go past it, or misses what was in it.
    assert outcome.report.violations[0].startswith(("corrupt", "stuck")) or outcome.report.lost > 0


def test_a_log_that_forgets_its_producers_duplicates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "ProducerState", NoProducerEntries)
    outcome = first_failure(real_broker, ("cut", "half open"))
    assert outcome.report is not None
    assert "is there 2 times" in outcome.report.violations[0]
