"""`odradek top`: once, as JSON, and the live screen on a terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.live_screen import LiveScreen
from cli.processes import ODRADEK, Up, data_dir
from odradek import Admin, Consumer, Producer
from odradek.testing import Broker
from odradek.testing.ports import reserve_ports

FAST = ("--interval", "300ms")


@pytest.fixture(scope="module")
def busy() -> Iterator[Broker]:
    """A broker with two topics, records in one of them, and a group that has read one."""
    with Broker() as broker, Admin(brokers=broker.bootstrap) as admin:
        admin.create_topic("flights", partitions=2)
        admin.create_topic("weather")
        with Producer(brokers=broker.bootstrap) as producer:
            for number in range(10):
                producer.send("flights", b"value", partition=number % 2).result()
        with Consumer(
            "flights", brokers=broker.bootstrap, group="readers", auto_offset_reset="earliest"
        ) as consumer:
            assert consumer.poll(20) is not None
        yield broker


def run(bootstrap: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "ODRADEK_BROKERS": bootstrap}
    return subprocess.run(
        [*ODRADEK, "top", *arguments], capture_output=True, text=True, env=environment, timeout=100
    )


# -- without a screen ------------------------------------------------------------------------------


def test_once_as_json_prints_an_object_for_each_row(busy: Broker) -> None:
    done = run(busy.bootstrap, "--once", "--json", *FAST)
    assert (done.returncode, done.stderr) == (0, "")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    flights = next(row for row in rows if row.get("topic") == "flights")
    assert {**flights, "size": 0} == {
        "view": "topics",
        "topic": "flights",
        "messages_s": 0.0,
        "bytes_s": 0.0,
        "end": 10,
        "size": 0,
        "partitions": 2,
        "no_end": 0,
    }
    readers = next(row for row in rows if row.get("group") == "readers")
    assert readers["view"] == "groups" and readers["lag"] + 1 <= 10 and readers["members"] == 0
    assert {row["view"] for row in rows} >= {"cluster", "topics", "groups", "timers"}


def test_without_a_terminal_it_prints_lines_once(busy: Broker) -> None:
    done = run(busy.bootstrap, *FAST)
    assert done.returncode == 0
    assert any(line.startswith("topics\tflights\t") for line in done.stdout.splitlines())


def test_a_reader_that_closes_the_pipe_ends_it_without_an_error(busy: Broker) -> None:
    environment = {**os.environ, "ODRADEK_BROKERS": busy.bootstrap}
    command = [*ODRADEK, "top", *FAST]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.wait(100) == 0
        assert process.stderr.read() == b""


def test_no_broker_is_an_error_with_a_hint() -> None:
    done = run("127.0.0.1:1", "-X", "default.api.timeout.ms=500", "--once")
    assert done.returncode == 3 and "Is there a broker at 127.0.0.1:1?" in done.stderr


# -- the live screen -------------------------------------------------------------------------------


def first_words(lines: list[str]) -> list[str]:
    return [line.split()[0] for line in lines if line]


def test_the_screen_is_sorted_filtered_switched_and_left(busy: Broker) -> None:
    with LiveScreen(busy.bootstrap, "top", *FAST) as screen:
        screen.until(lambda lines: any("messages/s  " in line or "0.0" in line for line in lines))
        screen.type("n")
        screen.until(lambda lines: any(line.startswith("▲topic") for line in lines))
        # The rows may come with a later screen than their head.
        screen.until(lambda lines: first_words(lines[4:6]) == ["flights", "weather"])
        screen.type("/wea")
        screen.until(lambda lines: lines[4].startswith("weather") and lines[5] == "")
        screen.type("\r")
        screen.until(lambda lines: "/wea (Esc drops it)" in lines[-1])
        screen.type("\x1b")
        screen.until(lambda lines: lines[5].startswith("weather"))
        screen.type("2")
        screen.until(lambda lines: any(line.startswith("readers ") for line in lines))
        screen.type("4")
        screen.until(lambda lines: any(line.startswith("level 1") for line in lines))
        screen.type(" ")
        screen.until(lambda lines: lines[0].endswith("PAUSED"))
        screen.type("q")
        assert screen.end() == (0, "")
        assert screen.is_restored()


def test_the_screen_follows_the_size_of_the_terminal(busy: Broker) -> None:
    with LiveScreen(busy.bootstrap, "top", *FAST, columns=80, lines=24) as screen:
        screen.until(lambda lines: len(lines) == 24 and "q quit" in lines[-1])
        screen.resize(60, 12)
        lines = screen.until(lambda lines: len(lines) == 12 and "q quit" in lines[-1])
        assert max(len(line) for line in lines) <= 60
        screen.type("q")
        assert screen.end() == (0, "")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_and_restores_the_terminal(
    busy: Broker, number: signal.Signals, code: int
) -> None:
    with LiveScreen(busy.bootstrap, "top", *FAST) as screen:
        screen.until(lambda lines: any(line.startswith("flights") for line in lines))
        screen.process.send_signal(number)
        assert screen.end() == (code, "")
        assert screen.is_restored()


def test_a_broker_that_goes_away_is_said_and_comes_back(tmp_path: Path) -> None:
    kept = ("--port", str(reserve_ports(1)[0]), "--data-dir", data_dir(tmp_path))
    impatient = ("-X", "default.api.timeout.ms=1000", "-X", "reconnect.backoff.max.ms=100")
    with Up(*kept) as first:
        with Admin(brokers=first.bootstrap) as admin:
            admin.create_topic("kept")
        with LiveScreen(first.bootstrap, "top", *FAST, *impatient) as screen:
            screen.until(lambda lines: any(line.startswith("kept") for line in lines))
            first.stop()
            away = screen.until(lambda lines: lines[2].startswith("no answer for"))
            assert any(line.startswith("kept") for line in away)
            with Up(*kept):
                screen.until(lambda lines: "messages/s" in lines[2])
                screen.type("q")
                assert screen.end() == (0, "")
