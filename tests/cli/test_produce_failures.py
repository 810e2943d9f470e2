"""`produce` that fails in the middle of its input reports how many records were written."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace, TracebackType
from typing import Any, Self

import pytest
from click.testing import CliRunner, Result

import odradek
from cli.piping import Run, read
from odradek.cli.main import main
from odradek.client.errors import DeliveryTimeout, KafkaError, MaxBlockTimeout

Report = Callable[[KafkaError | None, object], None]
NO_ROOM = MaxBlockTimeout("there was no room within max.block.ms=1000")
TOO_LATE = DeliveryTimeout("not acknowledged within delivery.timeout.ms=2000")


class FailingProducer:
    """A fake producer whose broker fails after some records, with a buffer for some more."""

    def __init__(self, taken: int, room: int) -> None:
        self.taken = taken
        self.room = room
        self.waiting: list[Report] = []
        self.config = SimpleNamespace(transactional_id=None)

    def send(self, topic: str, value: bytes, *, on_delivery: Report, **_: Any) -> None:
        if self.taken:
            self.taken -= 1
            on_delivery(None, None)
        elif len(self.waiting) < self.room:
            self.waiting.append(on_delivery)
        else:
            raise NO_ROOM

    def flush(self) -> None:
        self.close()

    def close(self, timeout: float | None = None) -> None:
        while self.waiting:
            self.waiting.pop(0)(TOO_LATE, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def produced(monkeypatch: pytest.MonkeyPatch, producer: FailingProducer, lines: int) -> Result:
    monkeypatch.setattr(odradek, "Producer", lambda settings: producer)
    return CliRunner().invoke(main, ["produce", "t", "-b", "gone:9092"], input="line\n" * lines)


def test_the_outcome_of_all_read_records_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    done = produced(monkeypatch, FailingProducer(taken=3, room=4), lines=100)
    assert done.exit_code == 3
    assert done.stderr.splitlines() == [
        f"odradek: {NO_ROOM}",
        f"odradek: {TOO_LATE}",
        "5 records not written, 3 written; the rest of the input was not read",
        "Is there a broker at gone:9092? `odradek up` starts one. Give another address with -b or "
        "ODRADEK_BROKERS.",
    ]


def test_a_failure_of_the_first_record_is_reported_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    done = produced(monkeypatch, FailingProducer(taken=0, room=0), lines=1)
    assert done.exit_code == 3
    assert [line.partition("?")[0] for line in done.stderr.splitlines()] == [
        f"odradek: {NO_ROOM}",
        "Is there a broker at gone:9092",
    ]


def test_records_that_fail_after_the_end_of_input_are_reported_with_a_hint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = produced(monkeypatch, FailingProducer(taken=1, room=2), lines=3)
    assert done.exit_code == 3
    assert [line.partition("?")[0] for line in done.stderr.splitlines()] == [
        f"odradek: {TOO_LATE}",
        "2 records not written, 1 written",
        "Is there a broker at gone:9092",
    ]


def test_records_sent_before_a_failure_are_written_and_counted(run: Run) -> None:
    """They were in flight when a later record had no valid partition."""
    good, bad = b'{"value":"v","partition":0}\n', b'{"value":"v","partition":7}\n'
    options = ["--json", "--keep-partitions", "-X", "max.block.ms=3000"]
    error = run("produce", "t", *options, stdin=good * 2 + bad + good, code=4).stderr.splitlines()
    assert "partition 7" in error[0]
    assert error[1] == "1 record not written, 2 written; the rest of the input was not read"
    assert read(run, "t") == b"v\nv\n"
