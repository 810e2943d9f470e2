"""Waiters, and coroutines without an event loop."""

from __future__ import annotations

import pytest

from odradek.client.waiter import Waiter, completed, failed, gather, spawn


def test_a_waiter_is_done_once() -> None:
    waiter: Waiter[int] = Waiter()
    assert not waiter.done
    assert waiter.complete(1)
    assert not waiter.complete(2)
    assert not waiter.fail(OSError())
    assert waiter.done and waiter.result() == 1 and waiter.error is None


def test_result_raises_the_error() -> None:
    waiter = failed(OSError("no"))
    with pytest.raises(OSError, match="no"):
        waiter.result()
    assert isinstance(waiter.error, OSError)


def test_result_raises_before_the_waiter_is_done() -> None:
    with pytest.raises(RuntimeError):
        Waiter[int]().result()


def test_callbacks_run_in_order_and_at_once_on_a_done_waiter() -> None:
    waiter: Waiter[int] = Waiter()
    seen: list[str] = []
    waiter.add_callback(lambda w: seen.append(f"a{w.result()}"))
    waiter.add_callback(lambda w: waiter.add_callback(lambda _: seen.append("nested")))
    waiter.add_callback(lambda w: seen.append(f"b{w.result()}"))
    waiter.complete(5)
    waiter.add_callback(lambda w: seen.append("late"))
    assert seen == ["a5", "nested", "b5", "late"]


def test_a_coroutine_continues_when_its_waiter_is_done() -> None:
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


def test_a_coroutine_fails_with_its_exception_and_may_catch_errors_of_waiters() -> None:
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


def test_a_coroutine_whose_waiter_was_failed_is_closed_at_its_next_step() -> None:
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


def test_gather_completes_when_all_waiters_are_done() -> None:
    waiters: list[Waiter[int]] = [Waiter(), Waiter()]
    together = gather(waiters)
    waiters[1].fail(OSError())
    assert not together.done
    waiters[0].complete(1)
    assert together.result() is waiters
    assert gather([]).done
