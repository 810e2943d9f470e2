"""Run all tests but those of a Spark cluster and the interop ones: `python -m scripts.all_tests`.

There are lines of parts, which run at the same time, so that one computes while the others wait for
processes and timers:

    what computes, two lines that share their parts: the simulator, properties, units; the leaves'
    own tests once more interpreted, if they ran compiled
    real clients
    the command
    Spark on this machine

What computes gets the processors that the others leave: its tests have simulated time, and those
of the others do not wait longer than they must. The output of the first line appears as it comes,
and that of the others after it. The last lines name the parts that failed.

A part is one process. Workers of pytest-xdist would each collect all tests, and report each one.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import IO

from odradek import leaves

ROOT = Path(__file__).resolve().parent.parent
PYTEST = (sys.executable, "-m", "pytest", "-q")
WITHOUT_SPARK = "not interop and not spark and not cluster"
OF_OTHER_LINES = ("cli", "clients", "cluster", "interop", "spark")
"""The directories of tests that the computing lines leave out."""
SIM = ROOT / "tests" / "sim"
NICE = 5
NO_LEAVES = (
    "tests/property/test_http_bytes.py",
    "tests/property/test_messages.py",
    "tests/property/test_messages_against_kafka_python.py",
    "tests/property/test_raft_model.py",
    "tests/unit/broker/metrics/test_boards.py",
    "tests/unit/client/metrics/test_metric_tables.py",
    "tests/unit/client/test_wake_signal.py",
    "tests/unit/protocol/test_compression.py",
)
"""What these tests examine is no leaf."""
BROKEN_LEAVES = (
    "tests/sim/test_broken_clusters.py::test_a_cluster_with_a_broken_leaf_is_found",
    "tests/sim/test_broken_transactions.py::test_a_broken_part_of_transactions_is_found",
)
"""They patch leaves, which only the sources allow."""


def say(text: str) -> None:
    sys.stderr.write(f"test: {text}\n")  # In one piece: the lines are threads.
    sys.stderr.flush()


@dataclass(frozen=True)
class Part:
    """One run of pytest."""

    name: str
    arguments: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


def computing_parts() -> list[Part]:
    """Return the parts without processes and timers to wait for, the longest ones first, so that
    the lines that share them end at about the same time."""
    packages = leaves_packages()
    elsewhere = ("property", "sim", "unit", *OF_OTHER_LINES)
    crashes = simulated_crashes()
    parts = [
        computing("the simulator", *ignored(crashes), "tests/sim"),
        computing("the simulator, broken parts and crashes", *crashes),
        computing("properties", "tests/property"),
        computing("units of the leaves' packages", *packages),
        computing("other units", *ignored(packages), "tests/unit"),
        computing("other tests", *ignored(f"tests/{name}" for name in elsewhere), "tests"),
    ]
    if leaves.is_compiled_from_these_sources():
        arguments = (*packages, "tests/property", *BROKEN_LEAVES, *ignored(NO_LEAVES))
        # A fault of the sources shows in the compiled leaves too; what differs, in few examples.
        arguments += ("--hypothesis-profile=few",)
        interpreted = {"ODRADEK_INTERPRETED": "1"}
        parts.insert(1, Part("the leaves once more, interpreted", arguments, interpreted))
    return parts


def computing(name: str, *arguments: str) -> Part:
    return Part(name, ("-m", WITHOUT_SPARK, *arguments))


def ignored(paths: Iterable[str]) -> list[str]:
    """Return the options that leave out tests."""
    return [f"--ignore={path}" for path in paths]


WAITING_PARTS = (
    Part("real clients", ("tests/clients",)),
    Part("the command", ("tests/cli",)),
    Part("Spark", ("-m", "spark", "tests/spark")),
)


def leaves_packages() -> list[str]:
    """Return the directories of the unit tests of all packages with leaves."""
    return sorted({f"tests/unit/{leaf.split('.')[1]}" for leaf in leaves.LEAVES})


def simulated_crashes() -> list[str]:
    """Return the simulator's tests of broken parts and of crashes: about a third of its time."""
    found = ("test_broken_*", "test_canaries", "test_co*", "test_cr*", "test_engines")
    return sorted(f"tests/sim/{path.name}" for each in found for path in SIM.glob(f"{each}.py"))


class Line(Thread):
    """Takes a part after the other from `parts`, which other lines may share, and runs it.
    `output`, if given, gets what they print; `nice` is how far behind other processes they stand.
    """

    def __init__(self, parts: deque[Part], output: IO[bytes] | None, nice: int = 0) -> None:
        super().__init__()
        self.parts = parts
        self.output = output
        self.nice = nice
        self.failed: list[str] = []
        self.stopped = False
        self._process: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        while self.parts and not self.stopped:
            try:
                part = self.parts.popleft()
            except IndexError:  # Another line took the last one just now.
                return
            say(part.name)
            started = time.monotonic()
            code, cpu_s = self._run(part)
            passed = "passed" if code == 0 else "FAILED"
            took_s = time.monotonic() - started
            say(f"{part.name}: {passed} in {took_s:.0f} s, processor time {cpu_s:.0f} s")
            if code:
                self.failed.append(part.name)

    def _run(self, part: Part) -> tuple[int, float]:
        """Return the exit code of a part, and the processor time of it and its processes."""
        environment = {**os.environ, **part.environment}
        # Each process would compile all test modules again.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self._process = subprocess.Popen(
            [*PYTEST, *part.arguments],
            cwd=ROOT,
            env=environment,
            stdout=self.output,
            stderr=self.output,
            start_new_session=True,
        )
        if self.nice:
            os.setpriority(os.PRIO_PGRP, self._process.pid, self.nice)
        _, status, used = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        return self._process.returncode, used.ru_utime + used.ru_stime

    def stop(self) -> None:
        """Interrupt the part that runs, with its processes; there is no next one."""
        self.stopped = True
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):  # It ended just now.
                os.killpg(self._process.pid, signal.SIGINT)


def run_all(lines: Sequence[Line]) -> None:
    """Run the lines to their end. After Ctrl-C or SIGTERM they are stopped: `KeyboardInterrupt`."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for line in lines:
        line.start()
    try:
        for line in lines:
            line.join()
    except KeyboardInterrupt:
        for line in lines:
            line.stop()
        for line in lines:
            line.join()
        raise


def main() -> int:
    started = time.monotonic()
    with ExitStack() as stack:

        def output() -> IO[bytes]:
            return stack.enter_context(tempfile.TemporaryFile())

        parts = deque(computing_parts())
        lines = [Line(parts, None, NICE), Line(parts, output(), NICE)]
        lines += [Line(deque([part]), output()) for part in WAITING_PARTS]
        try:
            run_all(lines)
        except KeyboardInterrupt:
            say("interrupted")
            return 130
        for line in lines:
            if line.output is not None:
                line.output.seek(0)
                shutil.copyfileobj(line.output, sys.stdout.buffer)
    sys.stdout.flush()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    failed = [name for line in lines for name in line.failed]
    for name in failed:
        say(f"FAILED: {name}")
    minutes, seconds = divmod(round(time.monotonic() - started), 60)
    say(
        f"{'failed' if failed else 'passed'} in {minutes}:{seconds:02}, "
        f"with {(used.ru_utime + used.ru_stime) / 60:.1f} minutes of processor time"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
