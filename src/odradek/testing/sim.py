"""`python -m odradek.testing.sim --seed 7`: runs one or more seeds of the simulator.

Prints one line per seed: a summary in virtual time, and the digest, which is the same for all runs
of a seed. For a seed that fails it also prints the violations, the last events of the tape and the
command that reproduces it; the exit code is then 1.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from odradek.testing.scheduler import SECOND, SimulationError
from odradek.testing.workload.schedule import Schedule
from odradek.testing.world import BOTH, NO_ENGINES, ONLY_ENGINES, Report, World

DEFAULT_STEPS = 100
TAPE_LINES = 40
VIOLATION_LINES = 12


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run: a report, or the exception that ended it."""

    world: World
    report: Report | None
    error: SimulationError | None
    seconds: float

    @property
    def kept(self) -> bool:
        """True if the run has no violation."""
        return self.report is not None and not self.report.violations


def run_seed(world: World) -> Outcome:
    """Run one world."""
    started = time.perf_counter()
    try:
        report = world.run()
    except SimulationError as error:
        return Outcome(world, None, error, time.perf_counter() - started)
    return Outcome(world, report, None, time.perf_counter() - started)


def summary(outcome: Outcome) -> str:
    """Return one line, which is the same for the same seed wherever it runs."""
    report = outcome.report
    if report is None:
        return f"seed {outcome.world.seed}: {outcome.error}"
    return (
        f"seed {report.seed}: {'ok' if outcome.kept else 'FAILED'}"
        f"  virtual {report.virtual_ns / SECOND:.1f} s  events {report.events}"
        f"  durability {outcome.world.plan.durability}"
        f"  crashes {report.crashes} (power {report.power_losses})"
        f"  sent {report.sent}  acked {report.acked}  lost={report.lost}"
        f"  read {report.read}  digest {report.digest}"
    )


def explain(outcome: Outcome) -> list[str]:
    """Return the lines that explain a failed seed, with the command that reproduces it."""
    violations = outcome.report.violations if outcome.report else []
    lines = [f"  violation: {line}" for line in violations[:VIOLATION_LINES]]
    if len(violations) > VIOLATION_LINES:
        lines.append(f"  and {len(violations) - VIOLATION_LINES} more")
    error = outcome.error
    if error is not None and error.__cause__ is not None:
        lines += traceback_lines(error.__cause__)
    lines += ["  plan:", *(f"    {line}" for line in describe(outcome.world.plan))]
    lines += [f"    {at.at_ns / SECOND:12.6f} {at.kind}" for at in outcome.world.history.faults]
    lines += ["  the last events:"]
    lines += [f"    {line}" for line in outcome.world.scheduler.tape()[-TAPE_LINES:]]
    world = outcome.world
    command = f"python -m odradek.testing.sim --seed {world.seed} --steps {world.steps}"
    command += f" --faults '{','.join(world.faults)}'" if world.faults else ""
    command += "" if world.extras else " --plain"
    command += f" --engines {world.engines}" if world.engines != BOTH else ""
    lines.append(f"  reproduce: {command}")
    return lines


def traceback_lines(error: BaseException) -> list[str]:
    import traceback

    text = "".join(traceback.format_exception(error))
    return [f"  {line}" for line in text.rstrip().splitlines()]


def describe(plan: Schedule) -> list[str]:
    """Return the schedule as lines."""
    return [
        f"topics {', '.join(f'{t.name}x{t.partitions} {dict(t.settings)}' for t in plan.topics)}",
        *(str(producer) for producer in plan.producers),
        *(str(reader) for reader in plan.readers),
        *(str(trimmer) for trimmer in plan.trimmers),
        *(str(topic) for topic in plan.recreated),
        f"{plan.link}",
        f"{plan.pace}",
        "faults:",
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m odradek.testing.sim", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the (first) seed")
    parser.add_argument("--count", type=int, default=1, help="how many seeds, from the first on")
    parser.add_argument("--steps", type=int, default=DEFAULT_STEPS, help="batches to produce")
    parser.add_argument("--faults", default="", help="only these, separated by commas")
    parser.add_argument("--plain", action="store_true", help="only producing and reading")
    parser.add_argument(
        "--engines",
        choices=(NO_ENGINES, ONLY_ENGINES, BOTH),
        default=BOTH,
        help="applications of our own clients, besides the scripted ones or instead of them",
    )
    parser.add_argument("--log", action="store_true", help="let the broker log to stderr")
    parser.add_argument("--tape", action="store_true", help="explain seeds without violations too")
    options = parser.parse_args(arguments)
    if not options.log:
        logging.disable(logging.CRITICAL)
    kinds = [kind for kind in options.faults.split(",") if kind]
    failed = 0
    started, virtual_ns, events = time.perf_counter(), 0, 0
    for seed in range(options.seed, options.seed + options.count):
        world = World(
            seed,
            options.steps,
            faults=kinds,
            extras=not options.plain,
            engines=options.engines,
        )
        outcome = run_seed(world)
        print(summary(outcome), flush=True)
        if not outcome.kept or options.tape:
            print("\n".join(explain(outcome)), flush=True)
        failed += not outcome.kept
        virtual_ns += outcome.world.scheduler.now_ns
        events += outcome.world.scheduler.events
    seconds = time.perf_counter() - started
    print(
        f"{options.count - failed} of {options.count} ok; {virtual_ns / SECOND:.0f} virtual seconds"
        f" in {seconds:.1f} s ({virtual_ns / SECOND / seconds:.0f}x),"
        f" {events / seconds:.0f} events per second",
        file=sys.stderr,
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
