"""An engine within asyncio: awaiting, timeouts, cancelling, closing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from odradek.client.aio.engine_loop import EngineLoop
from odradek.client.engine import Engine
from odradek.client.errors import ClientClosed, KafkaTimeout
from odradek.client.waiter import Waiter, completed, failed, spawn
from odradek.config.client import ClientConfig
from odradek.testing import Broker

LONG_S = 60.0
Run = Callable[[Coroutine[Any, Any, None]], None]


def run_asyncio(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


def run_uvloop(main: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)


@pytest.fixture(params=[run_asyncio, run_uvloop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    found: Run = request.param
    return found


def test_the_result_of_a_waiter_is_returned_and_its_error_raised(run: Run) -> None:
    async def main() -> None:
        engine = EngineLoop("tests")
        assert await engine.wait(lambda: completed(5)) == 5
        with pytest.raises(LookupError):
            await engine.wait(lambda: failed(LookupError()))
        await engine.close(lambda: None)

    run(main())


def test_timers_of_the_engine_run(run: Run) -> None:
    async def main() -> None:
        engine = EngineLoop("tests")
        ran: list[int] = []
        soon: Waiter[None] = Waiter()
        done: Waiter[None] = Waiter()

        def begin() -> None:
            """At one moment of the engine: however late the rest comes, these stay in order."""
            timer = engine.environment.timer
            timer.call_later(30, lambda: (ran.append(30), done.complete(None)))
            timer.call_later(10, lambda: ran.append(10))
            engine.environment.env.call_soon(lambda: soon.complete(None))  # type: ignore[arg-type]

        engine.run(begin)
        await engine.wait(lambda: done, LONG_S)
        assert ran == [10, 30]
        await engine.wait(lambda: soon, LONG_S)
        await engine.close(lambda: None)

    run(main())


def test_a_posted_action_runs_without_other_events(run: Run) -> None:
    async def main() -> None:
        engine = EngineLoop("tests")
        ran: Waiter[None] = Waiter()
        waiting = asyncio.ensure_future(engine.wait(lambda: ran, LONG_S))
        await asyncio.sleep(0)
        engine.post(lambda: ran.complete(None))  # type: ignore[arg-type]
        await waiting
        await engine.close(lambda: None)

    run(main())


def test_other_threads_wake_the_loop(run: Run) -> None:
    async def main() -> None:
        engine = EngineLoop("tests")
        waiter: Waiter[int] = Waiter()
        reactor = engine.environment.reactor
        other = threading.Thread(
            target=lambda: reactor.call_soon_threadsafe(lambda: waiter.complete(1) and None)  # type: ignore[arg-type]
        )
        other.start()
        assert await engine.wait(lambda: waiter, LONG_S) == 1
        other.join()
        await engine.close(lambda: None)

    run(main())


def test_a_timeout_fails_the_waiter(run: Run) -> None:
    async def main() -> None:
        engine = EngineLoop("tests")
        waiter: Waiter[int] = Waiter()
        with pytest.raises(KafkaTimeout, match=r"0\.01 s"):
            await engine.wait(lambda: waiter, 0.01)
        assert isinstance(waiter.error, KafkaTimeout)
        await engine.close(lambda: None)

    run(main())


def test_a_cancelled_wait_fails_the_waiter(run: Run) -> None:
    async def main() -> None:
        engine = EngineLoop("tests")
        waiter: Waiter[int] = Waiter()
        task = asyncio.ensure_future(engine.wait(lambda: waiter))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert isinstance(waiter.error, asyncio.CancelledError)
        await engine.close(lambda: None)

    run(main())


def test_closing_ends_all_waits_and_refuses_later_ones(run: Run) -> None:
    async def main() -> None:
        engine = EngineLoop("tests")
        task = asyncio.ensure_future(engine.wait(Waiter[int]))
        await asyncio.sleep(0)
        ended: list[str] = []
        await engine.close(lambda: ended.append("ended"))
        await engine.close(lambda: ended.append("again"))
        with pytest.raises(ClientClosed):
            await task
        with pytest.raises(ClientClosed):
            await engine.wait(lambda: completed(1))
        assert ended == ["ended"] and not engine.running

    run(main())


def test_a_cancelled_close_goes_on_and_can_be_awaited_again(run: Run) -> None:
    """`close` waits for a name resolution; its caller need not."""

    async def main() -> None:
        engine = EngineLoop("tests")
        resolved = threading.Event()
        engine.run(
            lambda: engine.environment.workers.submit(
                lambda: resolved.wait(LONG_S), lambda _: None, lambda _: None
            )
        )
        closing = asyncio.ensure_future(engine.close(lambda: None))
        await asyncio.sleep(0)
        assert not closing.done()
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        again = asyncio.ensure_future(engine.close(lambda: None))
        await asyncio.sleep(0)
        assert not again.done(), "it is not closed yet"
        resolved.set()
        await again
        with pytest.raises(ValueError, match="closed"):
            engine.environment.reactor.fileno()
        await engine.close(lambda: None)

    threads = threading.active_count()
    run(main())
    assert threading.active_count() <= threads


def test_a_call_from_another_loop_raises() -> None:
    made: list[EngineLoop] = []

    async def make() -> None:
        made.append(EngineLoop("tests"))

    async def use() -> None:
        with pytest.raises(RuntimeError, match="make a client in each loop"):
            await made[0].wait(lambda: completed(1))

    first = asyncio.new_event_loop()
    first.run_until_complete(make())
    asyncio.run(use())
    first.run_until_complete(made[0].close(lambda: None))
    first.close()


def test_an_idle_engine_does_not_wake_the_loop(run: Run) -> None:
    async def main() -> None:
        engine = EngineLoop("tests")
        before = engine.environment.reactor.wakeups
        for _ in range(50):
            await asyncio.sleep(0)
        assert engine.environment.reactor.wakeups == before
        await engine.close(lambda: None)

    run(main())


def test_an_engine_in_the_loop_reaches_a_real_broker(run: Run) -> None:
    async def main() -> None:
        loop = EngineLoop("tests")
        config = ClientConfig.load({"bootstrap.servers": f"localhost:{broker.port}"})
        environment = loop.environment
        engine = Engine(environment.env, environment.timer, config, allow_auto_topic_creation=True)
        loop.run(engine.start)
        topics = await asyncio.gather(
            *(loop.wait(lambda n=n: engine.wait_for_topic(f"t{n}"), LONG_S) for n in range(5))  # type: ignore[misc]
        )
        assert [topic.count for topic in topics] == [1] * 5
        image = await loop.wait(lambda: spawn(engine.fresh_image()), LONG_S)
        assert image.leader("t4", 0) == 1
        await loop.close(engine.close)

    threads = threading.active_count()
    with Broker() as broker:
        run(main())
    assert threading.active_count() <= threads
