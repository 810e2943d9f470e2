"""A short run of `make chaos`, and that its checks find what they must."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from chaos.faults import FAULTS
from chaos.run import (
    TOPIC,
    UNBOUNDED,
    Outage,
    Result,
    Writer,
    await_group,
    chaos_run,
    history_of,
    measure_gaps,
    schedule,
)
from odradek.model.topics import TopicPartition
from odradek.testing.checker import FSYNC, Checker
from odradek.testing.history import Content, Read

FIRST = TopicPartition(TOPIC, 0)


class NotedWriter(Writer):
    """A writer that has ended, with these notes."""

    def __init__(self, library: str, path: Path, *events: list[object]) -> None:
        self.library = library
        self.path = path
        path.write_text("".join(json.dumps(event) + "\n" for event in events))


def content(library: str, number: int) -> Content:
    return Content(None, f"{library}:{number}".encode(), (), 1_000 + number)


@pytest.mark.timeout(300)
def test_a_broker_under_faults_loses_nothing(tmp_path: Path) -> None:
    result = chaos_run(
        tmp_path,
        seed=1,
        seconds=0,
        kinds=("kill", "cut", "disk full"),
        writers=("odradek", "confluent-kafka-plain"),
        readers=("odradek", "confluent-kafka"),
    )
    assert result.violations == []
    assert result.failed == {}
    assert result.sent == result.acked == result.read
    assert sorted(outage.kind for outage in result.outages) == ["cut", "disk full", "kill"]
    assert result.starts == 2


def test_every_kind_of_fault_comes_in_each_round() -> None:
    kinds = list(schedule(random.Random(1), tuple(FAULTS), 0))
    assert sorted(kinds) == sorted(FAULTS)


@pytest.mark.parametrize("library", ["confluent-kafka", "kafka-python"])
def test_a_record_that_is_missing_moved_or_there_twice_is_found(
    tmp_path: Path, library: str
) -> None:
    sent = [["s", number, 0, 1_000 + number, 10 * number] for number in range(3)]
    acked = [["a", number, number, 10 * number + 5] for number in range(2)]
    writer = NotedWriter(library, tmp_path / "notes", *sent, *acked, ["f", 2, "timed out", 99])

    def violations(*numbers: int) -> list[str]:
        result = Result(1, [])
        history = history_of([writer], result)
        assert (result.sent, result.acked, result.failed) == (3, 2, {library: 1})
        records = [(offset, content(library, number)) for offset, number in enumerate(numbers)]
        history.reads.append(Read("final", FIRST, 100, 0, records, UNBOUNDED, final=True))
        return Checker(history, FSYNC).check()

    assert violations(0, 1) == violations(0, 1, 2) == []
    assert "lost" in violations(0)[0]
    assert "lost" in violations(1, 0)[0]
    twice = violations(0, 1, 2, 2)
    assert bool(twice) == (library == "confluent-kafka"), "only idempotent producers promise it"


def test_records_that_a_group_skips_or_invents_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.run.PATIENCE_S", 0)
    result = Result(1, [])
    await_group(lambda: ["a", "a", "x"], {"a", "b"}, result)
    assert (result.read, result.read_again) == (2, 1)
    assert [violation.split(":")[0] for violation in result.violations] == [
        "the group skipped 1 records",
        "the group read 1 records that are not in the log",
    ]


def test_the_wait_around_a_fault_is_the_longest_between_two_acknowledgements(
    tmp_path: Path,
) -> None:
    seconds = [1, 2, 6, 7, 20]
    events = [["a", number, number, second * 10**9] for number, second in enumerate(seconds)]
    writer = NotedWriter("odradek", tmp_path / "notes", *events)
    outage = Outage("kill", began_ns=3 * 10**9, ended_ns=5 * 10**9)
    measure_gaps([writer], [outage])
    assert outage.gaps_s == {"odradek": 4.0}
