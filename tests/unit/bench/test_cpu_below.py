"""CPU time of descendants: what ended stays counted, whoever its parent was."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[3] / "bench" / "cpu_below.py"

# A parent like PySpark's daemon: it ignores the end of its child, which waits. Both use more CPU
# than the 10 ms in which the system counts.
CHILD = "import os; sum(range(3_000_000)); print(os.getpid(), flush=True); input()"
PARENT = f"""
import signal, subprocess, sys
sum(range(3_000_000))
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
subprocess.run([sys.executable, "-c", {CHILD!r}])
print("ended", flush=True)
input()
"""


@pytest.fixture
def cpu_below():
    spec = importlib.util.spec_from_file_location("cpu_below", SOURCE)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    sys.modules["cpu_below"] = module
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    yield module
    del sys.modules["cpu_below"]


@pytest.fixture
def parent():
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process
        process.kill()


def go_on(process):
    process.stdin.write(b"\n")
    process.stdin.flush()


def seen(cpu):
    """The processes below this one, of which there may be others than the test's."""
    cpu.seconds()
    return {process.pid for process, ticks in cpu._ticks.items() if ticks}


def test_the_cpu_time_of_a_process_that_ended_unseen_by_its_parent_stays_counted(cpu_below, parent):
    child = int(parent.stdout.readline())
    cpu = cpu_below.CpuBelow()
    used = cpu.seconds()
    assert {child, parent.pid} <= seen(cpu)
    go_on(parent)
    assert parent.stdout.readline() == b"ended\n"
    assert child not in seen(cpu_below.CpuBelow())
    assert child in seen(cpu)
    assert cpu.seconds() >= used
    go_on(parent)
    parent.wait()
    assert {child, parent.pid} <= seen(cpu)
    assert cpu.seconds() >= used


def test_it_looks_by_itself_while_it_is_entered(cpu_below, parent, monkeypatch):
    monkeypatch.setattr(cpu_below, "INTERVAL_S", 0.001)
    with cpu_below.CpuBelow() as cpu:
        while not cpu._ticks:
            os.sched_yield()
    assert not cpu._thread.is_alive()


def test_a_process_that_is_left_out_does_not_count_nor_do_those_below_it(cpu_below, parent):
    child = int(parent.stdout.readline())
    assert not {child, parent.pid} & seen(cpu_below.CpuBelow(without=parent.pid))
