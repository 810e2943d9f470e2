"""Work on workers: counted, and in sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from odradek.broker.background import SerialOffload


class Workers:
    """An `Offload` whose work runs when the test says so."""

    def __init__(self) -> None:
        self.under_way: list[Callable[[], None]] = []

    def submit(
        self,
        work: Callable[[], Any],
        done: Callable[[Any], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        def run() -> None:
            try:
                result = work()
            except Exception as error:
                failed(error)
            else:
                done(result)

        self.under_way.append(run)

    def run_one(self) -> None:
        self.under_way.pop(0)()


def unexpected(error: BaseException) -> None:
    raise AssertionError(error)


def test_the_next_piece_of_work_starts_when_the_one_before_has_ended() -> None:
    workers = Workers()
    serial = SerialOffload(workers)
    results: list[str] = []
    serial.submit(lambda: "first", results.append, unexpected)
    serial.submit(lambda: "second", results.append, unexpected)
    assert len(workers.under_way) == 1
    workers.run_one()
    assert results == ["first"]
    workers.run_one()
    assert results == ["first", "second"]
    assert workers.under_way == []


def test_work_that_fails_does_not_stop_the_next() -> None:
    workers = Workers()
    serial = SerialOffload(workers)
    failures: list[str] = []
    results: list[int] = []
    serial.submit(lambda: 1 // 0, results.append, lambda error: failures.append(str(error)))
    serial.submit(lambda: 2, results.append, unexpected)
    workers.run_one()
    workers.run_one()
    assert (len(failures), results) == (1, [2])


def test_a_callback_that_raises_does_not_stop_the_next() -> None:
    workers = Workers()
    serial = SerialOffload(workers)
    results: list[int] = []
    serial.submit(lambda: 1 // 0, results.append, unexpected)
    serial.submit(lambda: 2, results.append, unexpected)
    with pytest.raises(AssertionError):
        workers.run_one()
    workers.run_one()
    assert results == [2]


def test_work_submitted_in_a_callback_runs_after_the_queued_work() -> None:
    workers = Workers()
    serial = SerialOffload(workers)
    results: list[str] = []

    def submit_third(result: str) -> None:
        results.append(result)
        serial.submit(lambda: "third", results.append, unexpected)

    serial.submit(lambda: "first", submit_third, unexpected)
    serial.submit(lambda: "second", results.append, unexpected)
    workers.run_one()
    assert len(workers.under_way) == 1
    workers.run_one()
    workers.run_one()
    assert results == ["first", "second", "third"]
