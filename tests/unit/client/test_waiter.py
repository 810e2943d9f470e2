"""Waiting as a value, and coroutines without a loop."""

from __future__ import annotations

import pytest

from odradek.client.waiter import Waiter, completed, failed, gather, spawn


def test_it_is_done_once() -> None:
    waiter: Waiter[int] = Waiter()
    assert not waiter.done
    assert waiter.complete(1)
    assert not waiter.complete(2)
    assert not waiter.fail(OSError())
    assert waiter.done and waiter.result() == 1 and waiter.error is None


def test_a_failure_is_raised_by_result() -> None:
    waiter = failed(OSError("no"))
    with pytest.raises(OSError, match="no"):
        waiter.result()
    assert isinstance(waiter.error, OSError)


def test_there_is_no_result_before_it_is_done() -> None:
    with pytest.raises(RuntimeError):
        Waiter[int]().result()


def test_callbacks_run_in_order_and_at_once_if_it_is_done() -> None:
    waiter: Waiter[int] = Waiter()
    seen: list[str] = []
    waiter.add_callback(lambda w: seen.append(f"a{w.result()}"))
    waiter.add_callback(lambda w: waiter.add_callback(lambda _: seen.append("nested")))
    waiter.add_callback(lambda w: seen.append(f"b{w.result()}"))
    waiter.complete(5)
    waiter.add_callback(lambda w: seen.append("late"))
    assert seen == ["a5", "nested", "b5", "late"]


def test_a_coroutine_goes_on_when_what_it_awaits_is_done() -> None:
    first: Waiter[int] = Waiter()
    second: Waiter[int] = Waiter()
    steps: list[str] = []

    async def add() -> int:
        steps.append("begun")
        one = await first
        steps.append("one")
        return one + await second

    result = spawn(add())
    assert steps == ["begun"] and not result.done
    first.complete(1)
    assert steps == ["begun", "one"]
    second.complete(2)
    assert result.result() == 3


def test_a_coroutine_whose_waiters_are_done_ends_at_once() -> None:
    async def add() -> int:
        return sum([await completed(number) for number in range(1000)])

    assert spawn(add()).result() == 499500


def test_what_a_coroutine_raises_is_its_failure_and_what_it_awaits_it_may_catch() -> None:
    async def careful() -> str:
        try:
            await failed(OSError("no"))
        except OSError:
            return "caught"
        return "not raised"

    async def careless() -> None:
        await failed(OSError("no"))

    assert spawn(careful()).result() == "caught"
    with pytest.raises(OSError, match="no"):
        spawn(careless()).result()


def test_a_coroutine_that_nobody_waits_for_is_closed_at_its_next_step() -> None:
    waiter: Waiter[int] = Waiter()
    ended: list[str] = []

    async def slow() -> None:
        try:
            await waiter
            ended.append("went on")
        finally:
            ended.append("closed")

    result = spawn(slow())
    result.fail(TimeoutError())
    assert ended == []
    waiter.complete(1)
    assert ended == ["closed"]


def test_all_of_several() -> None:
    waiters: list[Waiter[int]] = [Waiter(), Waiter()]
    together = gather(waiters)
    waiters[1].fail(OSError())
    assert not together.done
    waiters[0].complete(1)
    assert together.result() is waiters
    assert gather([]).done
