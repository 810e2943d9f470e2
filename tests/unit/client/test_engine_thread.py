"""Waiting for an engine from other threads: results, timeouts, Ctrl-C, forks, closing."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from odradek.client.blocking.engine_thread import EngineThread
from odradek.client.engine import Engine
from odradek.client.errors import ClientClosed, KafkaTimeout
from odradek.client.waiter import Waiter, completed, failed, spawn
from odradek.config.client import ClientConfig
from odradek.testing import Broker
from unit.client.ringing_guard import RingingGuard

LONG_S = 60.0
"""For what will happen, on a machine however busy."""


@pytest.fixture
def thread() -> Iterator[EngineThread]:
    thread = EngineThread("tests")
    thread.start()
    yield thread
    thread.close(lambda: None)


def test_the_result_of_a_waiter_is_returned_and_its_error_raised(thread: EngineThread) -> None:
    assert thread.wait(lambda: completed(5)) == 5
    with pytest.raises(LookupError, match="no"):
        thread.wait(lambda: failed(LookupError("no")))


def test_an_exception_while_making_a_waiter_is_raised(thread: EngineThread) -> None:
    def make() -> Waiter[int]:
        raise LookupError("no")

    with pytest.raises(LookupError):
        thread.wait(make)


def test_wait_blocks_until_the_owner_thread_completes_the_waiter(thread: EngineThread) -> None:
    waiter: Waiter[str] = Waiter()
    threading.Timer(0, lambda: thread.post(lambda: waiter.complete("done"))).start()
    assert thread.wait(lambda: waiter, LONG_S) == "done"


def test_calls_run_on_the_owner_thread(thread: EngineThread) -> None:
    assert thread.call(threading.current_thread).name == "tests"


def test_a_timeout_fails_the_waiter(thread: EngineThread) -> None:
    waiter: Waiter[int] = Waiter()
    with pytest.raises(KafkaTimeout, match=r"0\.01 s"):
        thread.wait(lambda: waiter, 0.01)
    assert isinstance(thread.call(lambda: waiter.error), KafkaTimeout)


def test_a_timeout_of_zero_ends_at_once(thread: EngineThread) -> None:
    with pytest.raises(KafkaTimeout):
        thread.wait(Waiter[int], 0)


def test_ctrl_c_ends_a_wait_and_fails_the_waiter(thread: EngineThread) -> None:
    waiter: Waiter[int] = Waiter()

    def interrupt() -> Waiter[int]:
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, signal.SIGINT)
        return waiter

    with pytest.raises(KeyboardInterrupt):
        thread.wait(interrupt, LONG_S)
    assert isinstance(thread.call(lambda: waiter.error), KeyboardInterrupt)
    assert thread.wait(lambda: completed(1)) == 1, "the client works on"


def test_waiting_in_a_callback_raises_instead_of_a_deadlock(thread: EngineThread) -> None:
    with pytest.raises(RuntimeError, match="do not wait in a callback"):
        thread.call(lambda: thread.wait(lambda: completed(1)))


def test_closing_ends_all_waits_and_refuses_later_ones(thread: EngineThread) -> None:
    outcomes: list[BaseException] = []
    begun = threading.Event()

    def wait() -> None:
        waiter: Waiter[int] = Waiter()
        with pytest.raises(ClientClosed) as caught:
            thread.wait(lambda: (begun.set(), waiter)[1], LONG_S)
        outcomes.append(caught.value)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert begun.wait(LONG_S)
    ended: list[str] = []
    thread.close(lambda: ended.append("ended"))
    waiting.join(LONG_S)
    assert ended == ["ended"] and len(outcomes) == 1
    thread.close(lambda: ended.append("again"))
    assert ended == ["ended"] and not thread.running
    for use in (lambda: thread.wait(lambda: completed(1)), lambda: thread.post(lambda: None)):
        with pytest.raises(ClientClosed, match="closed"):
            use()


class TestSignalHandlers:
    """A handler that closes the client while the interrupted call is in a locked section."""

    @pytest.fixture(params=[False, True], ids=["at its begin", "at its end"])
    def ended(
        self, thread: EngineThread, request: pytest.FixtureRequest
    ) -> Iterator[list[tuple[str, bool]]]:
        """Install the handler; what happened when it called `close`."""
        ended: list[tuple[str, bool]] = []

        def close(*_: object) -> None:
            thread.close(lambda: ended.append(("ended", thread.running)))
            ended.append(("closed", thread._ended.is_set()))

        before = signal.signal(signal.SIGUSR1, close)
        guard: Any = RingingGuard(thread._guard, request.param)
        thread._guard = guard
        yield ended
        signal.signal(signal.SIGUSR1, before)

    def test_a_post_is_interrupted(
        self, thread: EngineThread, ended: list[tuple[str, bool]]
    ) -> None:
        with contextlib.suppress(ClientClosed):
            thread.post(lambda: None)
        assert ended == [("ended", False), ("closed", True)]
        thread._thread.join(LONG_S)
        assert not thread._thread.is_alive()

    def test_a_wait_is_interrupted(
        self, thread: EngineThread, ended: list[tuple[str, bool]]
    ) -> None:
        with pytest.raises(ClientClosed):
            thread.wait(Waiter[int], LONG_S)
        assert ended == [("ended", False), ("closed", True)]

    def test_a_close_is_interrupted(
        self, thread: EngineThread, ended: list[tuple[str, bool]]
    ) -> None:
        thread.close(lambda: ended.append(("first", thread.running)))
        assert ("first", False) in ended and ("ended", False) not in ended
        assert not thread._thread.is_alive()


def test_a_thread_that_never_started_can_be_closed() -> None:
    ended: list[str] = []
    EngineThread("tests").close(lambda: ended.append("ended"))
    assert ended == ["ended"]


def test_the_owner_thread_may_close_itself() -> None:
    thread = EngineThread("tests")
    thread.start()
    thread.post(lambda: thread.close(lambda: None))
    thread._thread.join(LONG_S)
    assert not thread._thread.is_alive() and not thread.running


def test_an_exception_of_a_callback_does_not_end_the_thread(
    thread: EngineThread, caplog: pytest.LogCaptureFixture
) -> None:
    thread.post(lambda: [].pop())
    assert thread.wait(lambda: completed(1)) == 1
    assert thread.environment.reactor.bugs == 1
    assert "IndexError" in caplog.text


def test_an_engine_on_the_thread_reaches_a_real_broker(thread: EngineThread) -> None:
    with Broker() as broker:
        config = ClientConfig.load({"bootstrap.servers": f"localhost:{broker.port}"})
        engine = thread.call(
            lambda: Engine(
                thread.environment.env,
                thread.environment.timer,
                config,
                allow_auto_topic_creation=True,
            )
        )
        thread.call(engine.start)
        topic = thread.wait(lambda: engine.wait_for_topic("orders"), LONG_S)
        assert topic.count == 1
        image = thread.wait(lambda: spawn(engine.fresh_image()), LONG_S)
        assert image.leader("orders", 0) == 1
        thread.close(engine.close)


FORKING = """
import os, sys
from odradek.client.blocking.engine_thread import EngineThread
from odradek.client.errors import ClientClosed
from odradek.client.waiter import completed

thread = EngineThread("tests")
thread.start()
thread.wait(lambda: completed(1))
child = os.fork()
if child == 0:
    try:
        thread.wait(lambda: completed(1))
    except ClientClosed as error:
        sys.stdout.write(str(error) + "\\n")
    thread.close(lambda: sys.stdout.write("ended in the child\\n"))
    own = EngineThread("own")
    own.start()
    sys.stdout.write("own: %d\\n" % own.wait(lambda: completed(2)))
    sys.stdout.flush()
    os._exit(0)
os.waitpid(child, 0)
print("parent:", thread.wait(lambda: completed(3)))
thread.close(lambda: None)
"""

LEAVING = """
from odradek.client.blocking.engine_thread import EngineThread, at_exit

class Api:
    def __init__(self, name):
        self.name = name
        self.thread = EngineThread(name)
        self.thread.start()
        self.take_back = at_exit(self.close)

    def close(self):
        self.thread.close(lambda: None)
        print("closed", self.name)

apis = [Api(name) for name in ("first", "second", "third")]
apis[1].take_back()
Api("forgotten").thread.close(lambda: None)

class Failing(Api):
    def close(self):
        raise LookupError("no")

failing = Failing("failing")
print("leaving")
"""


CLOSED_TWICE = """
from odradek.client.blocking.engine_thread import at_exit

class Api:
    def __init__(self, name):
        self.name = name
        self.take_back = at_exit(self.close)

    def close(self):
        print("closed", self.name)

older = Api("older")
older.take_back()
younger = Api("younger")
older.take_back()
print("leaving")
"""


def run(program: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True
    )
    return done.stdout.splitlines()


def test_a_forked_process_gets_an_error_with_advice_and_the_parent_goes_on() -> None:
    told, own, parent = run(FORKING)
    assert "make a client in each process" in told
    assert own == "own: 2"
    assert parent == "parent: 3"


def test_at_the_end_of_the_process_the_last_client_is_closed_first() -> None:
    assert run(LEAVING) == ["leaving", "closed third", "closed first"]


def test_cancelling_an_exit_hook_twice_cancels_no_other() -> None:
    assert run(CLOSED_TWICE) == ["leaving", "closed younger"]
