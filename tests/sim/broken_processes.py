"""Processings with one broken part each, and the seed of the simulator that finds it.

    PYTHONPATH=tests python -m sim.broken_processes [--seeds 50] [NAME ...]

searches from seed 0 on, and prints the seeds that were needed and the rule that found the part. The
test begins with the seeds of `BREAKS` and goes on with the next ones, for a change of the code may
change what happens in a seed. What is replaced is not compiled.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from odradek.client.consumer.arguments import ConsumerArguments, consumer_arguments
from odradek.client.consumer.assignor.partition_assignor import ConsumerGroupMetadata
from odradek.client.errors import KafkaError
from odradek.client.process_loop import Offsets, ProcessLoop
from odradek.client.producer.transaction_block import TransactionBlock
from odradek.client.producer.transaction_steps import Transactions
from odradek.client.waiter import spawn
from odradek.testing.engines.consumer_application import ConsumerPlan
from odradek.testing.engines.process_application import ProcessApplication
from odradek.testing.sim import RunOutcome, run_seed
from odradek.testing.workload.schedule import Schedule
from odradek.testing.workload.transaction_levels import NEWEST_LEVEL
from odradek.testing.world import ONLY_ENGINES, World

STEPS = 24
MOST_SEEDS = 50
COMMIT_S = 5.0
Patch = Callable[[pytest.MonkeyPatch], None]


def offsets_outside(patch: pytest.MonkeyPatch) -> None:
    """The offsets are committed by the consumer, before the transaction."""

    async def commit_offsets(self: ProcessLoop, block: TransactionBlock, offsets: Offsets) -> None:
        calls = self._calls
        await self._reader.driver.wait(lambda: spawn(calls.commit(offsets, COMMIT_S, False)))

    patch.setattr(ProcessLoop, "commit_offsets", commit_offsets)


def no_rewind(patch: pytest.MonkeyPatch) -> None:
    """After an abort the next records are read."""
    failed = ProcessLoop._failed

    async def rewind(*_: object) -> None:
        pass

    async def go_on(self: ProcessLoop, error: KafkaError, partitions: int) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(self._reader, "rewind", rewind)
            await failed(self, error, partitions)

    patch.setattr(ProcessLoop, "_failed", go_on)


def goes_on_without_partitions(patch: pytest.MonkeyPatch) -> None:
    """Offsets are committed for the group, not for the member that the consumer is."""

    async def commit_offsets(self: ProcessLoop, block: TransactionBlock, offsets: Offsets) -> None:
        calls = self._calls
        found, group = await self._reader.driver.wait(lambda: spawn(calls.for_transaction(offsets)))
        await block.commit_offsets(found, ConsumerGroupMetadata(group.group_id, -1, "", None))

    patch.setattr(ProcessLoop, "commit_offsets", commit_offsets)


def reads_uncommitted(patch: pytest.MonkeyPatch) -> None:
    """The inputs are all records, aborted and open ones too."""

    def arguments(self: ProcessApplication, plan: ConsumerPlan) -> ConsumerArguments:
        settings: dict[str, Any] = {
            **self._settings.consumer,
            "isolation_level": "read_uncommitted",
        }
        return consumer_arguments((), None, None, settings)

    patch.setattr(ProcessApplication, "arguments", arguments)


def commits_at_once(patch: pytest.MonkeyPatch) -> None:
    """A commit does not wait for the records that are on their way."""

    async def complete(_: Transactions) -> None:
        pass

    patch.setattr(Transactions, "_complete_transaction", complete)


class Break(NamedTuple):
    """A broken part: what puts it in, and a seed that finds it, of so many brokers."""

    patch: Patch
    seed: int
    brokers: int = 1


BREAKS = {
    "offsets_outside": Break(offsets_outside, 8),
    "no_rewind": Break(no_rewind, 18),
    "goes_on_without_partitions": Break(goes_on_without_partitions, 38),
    "reads_uncommitted": Break(reads_uncommitted, 0),
    "commits_at_once": Break(commits_at_once, 0),
}


def as_drawn(plan: Schedule) -> Schedule:
    return plan


def of_newest_level(plan: Schedule) -> Schedule:
    """Keep the cluster at the newest `transaction.version`."""
    transactions = replace(plan.transactions, levels=NEWEST_LEVEL, watches_offsets=False)
    return replace(plan, transactions=transactions)


def run(
    seed: int,
    brokers: int,
    engines: str = ONLY_ENGINES,
    adjust: Callable[[Schedule], Schedule] = as_drawn,
) -> RunOutcome[World]:
    """Run a world with our own clients, by default alone."""
    brief = brokers != 1
    return run_seed(
        World(
            seed,
            STEPS,
            brokers=brokers,
            brief=brief,
            transactions=True,
            engines=engines,
            white_box=False,
            adjust=adjust,
        )
    )


def run_broken(name: str, seed: int) -> RunOutcome[World]:
    """Run a world that gives a broken part an opportunity."""
    return run(seed, BREAKS[name].brokers, adjust=of_newest_level)


class Detection(NamedTuple):
    """The first world with a violation: its seed, and what was found."""

    seed: int
    violation: str


def find(name: str, first: int = 0, most_seeds: int = MOST_SEEDS) -> Detection | None:
    """Run worlds with this broken part until one has a violation; None if none has."""
    with pytest.MonkeyPatch.context() as patch:
        BREAKS[name].patch(patch)
        for seed in range(first, first + most_seeds):
            outcome = run_broken(name, seed)
            if outcome.report is None:
                return Detection(seed, str(outcome.error))
            if outcome.report.violations:
                return Detection(seed, outcome.report.violations[0])
    return None


def main() -> None:
    """Search for each part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(BREAKS))
    parser.add_argument("--seeds", type=int, default=MOST_SEEDS)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    for name in options.names:
        found = find(name, 0, options.seeds)
        if found is None:
            print(f"{name}: not found in {options.seeds} seeds", flush=True)
        else:
            print(f"{name}: seed {found.seed}: {found.violation}", flush=True)


if __name__ == "__main__":
    main()
