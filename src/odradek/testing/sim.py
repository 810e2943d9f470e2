"""`python -m odradek.testing.sim --seed 7`: runs one or more seeds of the simulator.

Each seed is three runs: a broker with its clients and a cluster of up to five brokers with theirs
(`testing.world`), and a quorum of up to five voters without brokers (`testing.quorum`). Prints one
line per run: a summary in virtual time, and the digest, which is the same for all runs of a seed. A
run that fails is shrunk first: parts of its plan are left out as long as it fails in the same way.
Then its violations are printed, the last events of the tape and the command that reproduces it; the
exit code is then 1.

At the end there is a table of the sites that the seeds reached (see `testing.sites`), and what all
runs add up to. `--hours 60` goes on from seed to seed until that is 60 hours of virtual time, with
`--jobs` processes beside each other; the seeds are run in their order and each is the same run.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Generic, Protocol, TypeVar

from odradek.testing.history import History
from odradek.testing.quorum.quorum_world import DEFAULT_STEPS as QUORUM_STEPS
from odradek.testing.quorum.quorum_world import QuorumWorld
from odradek.testing.scheduler import SECOND, Scheduler, SimulationError
from odradek.testing.shrink import failure_kind, shrink
from odradek.testing.sites import BROKER_SITES, CLUSTER_SITES, QUORUM_SITES
from odradek.testing.totals import RunResult, Totals
from odradek.testing.world import BOTH, DRAWN, NO_ENGINES, ONLY_ENGINES, World
from odradek.testing.world import DEFAULT_STEPS as BROKER_STEPS

TAPE_LINES = 40
VIOLATION_LINES = 12
SHRINK_RUNS = 60
BROKER, CLUSTER, QUORUM, ALL = "broker", "cluster", "quorum", "all"
SITES = {BROKER: BROKER_SITES, CLUSTER: CLUSTER_SITES, QUORUM: QUORUM_SITES}


class Verdict(Protocol):
    """The result of a run."""

    @property
    def violations(self) -> Sequence[str]: ...

    @property
    def sent(self) -> int: ...

    @property
    def acked(self) -> int: ...

    @property
    def lost(self) -> int: ...

    def summary(self) -> str:
        """Return one line without the seed."""


class Simulated(Protocol):
    """One run of a seed."""

    @property
    def seed(self) -> int: ...

    @property
    def scheduler(self) -> Scheduler: ...

    @property
    def history(self) -> History: ...

    def run(self) -> Verdict: ...

    def describe(self) -> list[str]:
        """Return the plan as lines."""

    def reproduction(self) -> str:
        """Return the command that runs this again, or why there is none."""

    def parts(self) -> list[str]:
        """Return the names of the optional parts of the plan."""

    def keeping(self, parts: Sequence[str]) -> Simulated:
        """Return a run of the same seed with these parts only."""


W = TypeVar("W", bound=Simulated)
W_co = TypeVar("W_co", bound=Simulated, covariant=True)


@dataclass(frozen=True, slots=True)
class RunOutcome(Generic[W_co]):
    """The result of a run: a report, or the exception that ended it."""

    world: W_co
    report: Verdict | None
    error: SimulationError | None
    seconds: float

    @property
    def kept(self) -> bool:
        """True if the run has no violation."""
        return self.report is not None and not self.report.violations

    @property
    def failure(self) -> str:
        """The first violation or the exception, without numbers."""
        if self.report is not None:
            return failure_kind(next(iter(self.report.violations), ""))
        cause = self.error.__cause__ if self.error else None
        return failure_kind(repr(cause or self.error))


def run_seed(world: W) -> RunOutcome[W]:
    """Run one world."""
    started = time.perf_counter()
    try:
        report = world.run()
    except SimulationError as error:
        return RunOutcome(world, None, error, time.perf_counter() - started)
    return RunOutcome(world, report, None, time.perf_counter() - started)


def summary(outcome: RunOutcome[W]) -> str:
    """Return one line, which is the same for the same seed wherever it runs."""
    report = outcome.report
    if report is None:
        return f"seed {outcome.world.seed}: {outcome.error}"
    verdict = "ok" if outcome.kept else "FAILED"
    return f"seed {outcome.world.seed}: {verdict}  {report.summary()}"


def shrunk(outcome: RunOutcome[Simulated], most_runs: int = SHRINK_RUNS) -> RunOutcome[Simulated]:
    """Return the smallest run that fails like this one."""
    world, failure = outcome.world, outcome.failure

    def run(parts: Sequence[str]) -> RunOutcome[Simulated]:
        return run_seed(world.keeping(parts))

    def fails(smaller: RunOutcome[Simulated]) -> bool:
        return not smaller.kept and smaller.failure == failure

    return shrink(world.parts(), run, fails, most_runs)[1] or outcome


def explain(outcome: RunOutcome[W]) -> list[str]:
    """Return the lines that explain a failed seed, with the command that reproduces it."""
    violations = outcome.report.violations if outcome.report else []
    lines = [f"  violation: {line}" for line in violations[:VIOLATION_LINES]]
    if len(violations) > VIOLATION_LINES:
        lines.append(f"  and {len(violations) - VIOLATION_LINES} more")
    error = outcome.error
    if error is not None and error.__cause__ is not None:
        lines += traceback_lines(error.__cause__)
    world = outcome.world
    lines += ["  plan:", *(f"    {line}" for line in world.describe())]
    lines += [
        f"    {at.at_ns / SECOND:12.6f} {at.where} {at.kind}".rstrip()
        for at in world.history.faults
    ]
    lines += ["  the last events:"]
    lines += [f"    {line}" for line in world.scheduler.tape()[-TAPE_LINES:]]
    lines.append(f"  reproduce: {world.reproduction()}")
    return lines


def traceback_lines(error: BaseException) -> list[str]:
    import traceback

    text = "".join(traceback.format_exception(error))
    return [f"  {line}" for line in text.rstrip().splitlines()]


def kind_of(world: Simulated) -> str:
    """Return the name that the command has for this kind of world."""
    if not isinstance(world, World):
        return QUORUM
    return BROKER if world.brokers == 1 else CLUSTER


def broker_world(options: argparse.Namespace, seed: int, brokers: int) -> World:
    return World(
        seed,
        steps=options.steps or BROKER_STEPS,
        faults=split(options.faults),
        extras=not options.plain,
        engines=options.engines,
        brokers=brokers,
        kept=None if options.keep is None else split(options.keep),
        brief=options.brief and brokers != 1,
        transactions=options.transactions,
    )


def quorum_world(options: argparse.Namespace, seed: int) -> QuorumWorld:
    return QuorumWorld(
        seed,
        steps=options.steps or QUORUM_STEPS,
        voters=options.voters,
        faults=split(options.faults),
        kept=None if options.keep is None else split(options.keep),
    )


def split(names: str) -> list[str]:
    return [name for name in names.split(",") if name]


def worlds(options: argparse.Namespace) -> Iterator[Callable[[], Simulated]]:
    """Yield what makes each run of the command."""
    last = options.seed + options.count
    for seed in range(options.seed, last) if options.hours is None else count(options.seed):
        if options.world in (BROKER, ALL):
            yield partial(broker_world, options, seed, 1)
        if options.world in (CLUSTER, ALL):
            yield partial(broker_world, options, seed, options.brokers)
        if options.world in (QUORUM, ALL):
            yield partial(quorum_world, options, seed)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m odradek.testing.sim", description=__doc__)
    made.add_argument("--seed", type=int, default=1, help="the (first) seed")
    made.add_argument("--count", type=int, default=1, help="how many seeds, from the first on")
    made.add_argument(
        "--hours", type=float, help="as many seeds as take these hours of virtual time"
    )
    made.add_argument("--jobs", type=int, default=1, help="how many processes run seeds")
    made.add_argument(
        "--world",
        choices=(BROKER, CLUSTER, QUORUM, ALL),
        default=ALL,
        help="a broker with its clients, a cluster with its clients, a quorum, or all of them",
    )
    made.add_argument("--steps", type=int, default=0, help="batches or records to produce")
    made.add_argument(
        "--brokers", type=int, default=DRAWN, help="of a cluster; 0: as the seed decides"
    )
    made.add_argument("--voters", type=int, default=0, help="of a quorum; 0: as the seed decides")
    made.add_argument("--faults", default="", help="only these, separated by commas")
    made.add_argument(
        "--brief", action="store_true", help="of a cluster: its faults within a few seconds"
    )
    made.add_argument("--transactions", action="store_true", help="run transactional clients too")
    made.add_argument("--plain", action="store_true", help="only producing and reading")
    made.add_argument(
        "--engines",
        choices=(NO_ENGINES, ONLY_ENGINES, BOTH),
        default=BOTH,
        help="applications of our own clients, besides the scripted ones or instead of them",
    )
    made.add_argument("--keep", help="only these parts of the plan, as a shrunk run prints them")
    made.add_argument("--no-shrink", action="store_true", help="explain a failed run as it was")
    made.add_argument("--log", action="store_true", help="let the broker log to stderr")
    made.add_argument("--tape", action="store_true", help="explain seeds without violations too")
    return made


def result_of(make: Callable[[], Simulated], *, shrinks: bool, explains: bool) -> RunResult:
    """Run one world, and return what is kept of it. `explains`: also if it has no violation."""
    outcome = run_seed(make())
    world, report, first = outcome.world, outcome.report, outcome
    lines = [summary(outcome)]
    if not outcome.kept and shrinks:
        outcome = shrunk(outcome)
        lines.append(
            f"  shrunk to: {', '.join(outcome.world.parts()) or 'nothing but its clients'}"
        )
    if not outcome.kept or explains:
        lines += explain(outcome)
    violations = [first.failure] if report is None else map(failure_kind, report.violations)
    return RunResult(
        kind_of(world),
        lines,
        first.kept,
        world.scheduler.now_ns,
        world.scheduler.events,
        world.scheduler.sites,
        report.sent if report else 0,
        report.acked if report else 0,
        report.lost if report else 0,
        list(violations),
    )


def results(options: argparse.Namespace) -> Generator[RunResult, None, None]:
    """Yield the result of each run of the command, in the order of the seeds."""
    run = partial(result_of, shrinks=not options.no_shrink, explains=options.tape)
    makers = worlds(options)
    if options.jobs <= 1:
        yield from map(run, makers)
        return
    with ProcessPoolExecutor(options.jobs, initializer=be_quiet, initargs=(options.log,)) as pool:
        yield from in_order(pool, run, makers, 2 * options.jobs)


def in_order(
    pool: ProcessPoolExecutor,
    run: Callable[[Callable[[], Simulated]], RunResult],
    makers: Iterable[Callable[[], Simulated]],
    ahead: int,
) -> Iterator[RunResult]:
    """Yield the results of a pool in order, with so many runs begun ahead."""
    begun: deque[Future[RunResult]] = deque()
    try:
        for make in makers:
            begun.append(pool.submit(run, make))
            if len(begun) >= ahead:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    finally:
        for each in begun:
            each.cancel()


def be_quiet(log: bool) -> None:
    """Let brokers log to stderr only if that is asked for."""
    if not log:
        logging.disable(logging.CRITICAL)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    options = parser().parse_args(arguments)
    be_quiet(options.log)
    totals, started = Totals(), time.perf_counter()
    runs = results(options)
    for run in runs:
        totals.add(run)
        progress = f"{totals.hours:6.2f} h  " if options.hours is not None else ""
        print(progress + "\n".join(run.lines), flush=True)
        if options.hours is not None and totals.hours >= options.hours:
            break
    runs.close()
    print("\n".join([*totals.site_table(SITES), *totals.summary()]), flush=True)
    print(totals.speed(time.perf_counter() - started), file=sys.stderr)
    return 1 if totals.failed else 0


if __name__ == "__main__":
    sys.exit(main())
