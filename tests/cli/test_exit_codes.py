"""Exit codes without a traceback: closed output pipe, full disk, Ctrl-C."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import termios
import time
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.processes import ODRADEK
from odradek import Admin, Producer
from odradek.testing.broker import Broker

FULL = Path("/dev/full")
MORE_THAN_A_PIPE_HOLDS = 30_000
NEARLY_A_PIPE_BYTES = 40_000
TIMEOUT_S = 120


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A broker with a topic `t`."""
    with Broker() as broker:
        with Admin(brokers=broker.bootstrap) as admin:
            admin.create_topic("t")
        with Producer(brokers=broker.bootstrap) as producer:
            for number in range(MORE_THAN_A_PIPE_HOLDS):
                producer.send("t", f"record {number}".encode())
        yield broker.bootstrap


COMMANDS = [
    ("topic", "ls"),
    ("topic", "describe", "t", "--json"),
    ("topic", "--help"),
    ("--help",),
    ("consume", "t", "-e"),
    ("consume", "t", "-e", "--json", "-u"),
    ("consume", "t", "-g", "full", "-n", "10"),
]


def environment(bootstrap: str) -> dict[str, str]:
    """The environment of a shell, where output to a pipe is buffered."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return {**inherited, "ODRADEK_BROKERS": bootstrap}


def sleeps(pid: int) -> bool:
    """Return whether the process sleeps. Python misses a signal just before a wait."""
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "S"


@pytest.mark.skipif(not FULL.exists(), reason="a device of Linux")
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_output_that_cannot_be_written_is_reported(
    bootstrap: str, arguments: tuple[str, ...]
) -> None:
    with FULL.open("w") as full:
        done = subprocess.run(
            [*ODRADEK, *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(bootstrap),
            timeout=TIMEOUT_S,
            check=False,
        )
    said = "odradek: the output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, said)


@pytest.mark.skipif(not FULL.exists(), reason="a device of Linux")
def test_records_that_could_not_be_written_are_not_committed(bootstrap: str) -> None:
    with FULL.open("w") as full:
        command = [*ODRADEK, "consume", "t", "-g", "unwritten", "-n", "10", "-b", bootstrap]
        assert subprocess.run(command, stdout=full, timeout=TIMEOUT_S, check=False).returncode == 1
    with Admin(brokers=bootstrap) as admin:
        assert admin.group_offsets("unwritten") == {}


@pytest.mark.parametrize("arguments", [("consume", "t"), ("consume", "t", "--json", "-e")])
def test_a_closed_pipe_ends_the_command_with_0(bootstrap: str, arguments: tuple[str, ...]) -> None:
    with subprocess.Popen(
        [*ODRADEK, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(bootstrap),
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert b"record 0" in process.stdout.readline()
        process.stdout.close()
        assert (process.wait(TIMEOUT_S), process.stderr.read()) == (0, b"")


@pytest.mark.parametrize("arguments", [("consume", "t"), ("consume", "t", "-g", "interrupted")])
def test_ctrl_c_exits_with_130(bootstrap: str, arguments: tuple[str, ...]) -> None:
    with subprocess.Popen(
        [*ODRADEK, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(bootstrap),
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        for _ in range(MORE_THAN_A_PIPE_HOLDS):
            assert process.stdout.readline()
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 130
        assert process.stderr.read() == b"odradek: interrupted\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_full_pipe_does_not_delay_the_end(bootstrap: str, number: int, code: int) -> None:
    with subprocess.Popen(
        [*ODRADEK, "consume", "t"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(bootstrap),
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        waiting, before, same = array("i", [0]), 0, 0
        while same < 30:  # Until the pipe is full, and the command sleeps in its write.
            time.sleep(0.01)
            fcntl.ioctl(process.stdout, termios.FIONREAD, waiting)
            full = waiting[0] == before > NEARLY_A_PIPE_BYTES
            same = same + 1 if full and sleeps(process.pid) else 0
            before = waiting[0]
        os.kill(process.pid, number)
        assert process.wait(TIMEOUT_S) == code
        process.stdout.read()
        assert b"Traceback" not in process.stderr.read()


def test_a_terminated_member_leaves_its_group(bootstrap: str) -> None:
    """Its partitions are free at once, not after the session timeout."""
    with subprocess.Popen(
        [*ODRADEK, "consume", "t", "-g", "terminated", "-b", bootstrap],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        for _ in range(MORE_THAN_A_PIPE_HOLDS):
            assert process.stdout.readline()
        process.terminate()
        assert (process.wait(TIMEOUT_S), process.stderr.read()) == (143, b"")
    with Admin(brokers=bootstrap) as admin:
        assert admin.group("terminated").members == ()


@pytest.mark.parametrize("group", [(), ("-g", "deleted")])
def test_a_topic_that_is_deleted_meanwhile_is_not_created_again(
    bootstrap: str, group: tuple[str, ...]
) -> None:
    with Admin(brokers=bootstrap) as admin:
        admin.create_topic("short-lived")
        with Producer(brokers=bootstrap) as producer:
            producer.send("short-lived", b"v").result(TIMEOUT_S)
        with subprocess.Popen(
            [*ODRADEK, "consume", "short-lived", *group, "-X", "default.api.timeout.ms=5000"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(bootstrap),
        ) as process:
            assert process.stdout is not None and process.stderr is not None
            assert process.stdout.readline() == b"v\n"
            while group and not admin.group_offsets("deleted"):
                """It is about to commit."""
            admin.delete_topic("short-lived")
            assert process.wait(TIMEOUT_S) == 4
            assert b"short-lived" in process.stderr.read()
        assert "short-lived" not in [topic.name for topic in admin.topics()]


def test_without_a_stdout_there_is_nothing_to_write_to(bootstrap: str) -> None:
    done = subprocess.run(
        ["sh", "-c", '"$0" -m odradek topic ls >&-', ODRADEK[0]],
        stderr=subprocess.PIPE,
        text=True,
        env=environment(bootstrap),
        timeout=TIMEOUT_S,
        check=False,
    )
    said = "odradek: the output cannot be written: Bad file descriptor\n"
    assert (done.returncode, done.stderr) == (1, said)
