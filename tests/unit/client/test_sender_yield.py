"""`SenderYield`: the application's thread yields to the sender, the sender to its responses."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, cast

import pytest

from odradek.client.blocking import producer
from odradek.client.blocking.engine_thread import EngineThread
from odradek.client.blocking.producer import YIELD_TIMEOUT_S, SenderYield
from odradek.client.blocking.wake_signal import WakeSignal, borrow_signal, return_signal
from odradek.client.errors import ClientClosed

EVERY = 3


class OwnerThread:
    """The sender's thread, whose actions the test runs."""

    running = True
    is_current = False

    def __init__(self) -> None:
        self.actions: list[Callable[[], object]] = []

    def post(self, action: Callable[[], object]) -> None:
        self.actions.append(action)

    def run_actions(self) -> None:
        """Run what was posted before this call, as one pass of the reactor does."""
        actions, self.actions = self.actions, []
        for action in actions:
            action()


class Application:
    """Stands in for `BlockedThread`: it does not block. `go_on` is what the application's thread
    does as soon as the sender wakes it."""

    go_on: Callable[[], None]
    blocked: ClassVar[list[Application]]
    woken = False

    def block(self, timeout_s: float) -> bool:
        assert timeout_s in (0, YIELD_TIMEOUT_S)
        if timeout_s and not self.woken:
            self.blocked.append(self)
        return True

    def wake(self) -> None:
        self.woken = True
        if self in self.blocked:
            self.blocked.remove(self)
            self.go_on()


@pytest.fixture
def application(monkeypatch: pytest.MonkeyPatch) -> type[Application]:
    class Mine(Application):
        go_on = staticmethod(lambda: None)
        blocked: ClassVar[list[Application]] = []

    monkeypatch.setattr(producer, "BlockedThread", Mine)
    return Mine


def sender_yield_of(thread: OwnerThread, runs: list[int], every: int = EVERY) -> SenderYield:
    made = SenderYield(cast("EngineThread", thread), every)
    made.run = lambda: runs.append(len(runs))
    return made


def test_several_batches_wake_the_sender_once_and_then_wait_for_it(
    application: type[Application],
) -> None:
    thread, runs = OwnerThread(), list[int]()
    sender_yield = sender_yield_of(thread, runs)
    for _ in range(EVERY - 1):
        sender_yield.wake()
    assert len(thread.actions) == 1
    assert not application.blocked
    sender_yield.wake()
    assert len(thread.actions) == 1
    assert len(application.blocked) == 1
    thread.run_actions()
    assert not application.blocked
    assert len(runs) == 1


def test_an_application_that_goes_on_sending_does_not_keep_the_sender_from_its_responses(
    application: type[Application],
) -> None:
    thread, runs = OwnerThread(), list[int]()
    sender_yield = sender_yield_of(thread, runs)
    woken = 0

    def send_more() -> None:
        nonlocal woken
        woken += 1
        assert woken < 10, "the sender wakes an application without a run in between"
        for _ in range(EVERY):
            sender_yield.wake()

    application.go_on = staticmethod(send_more)
    for _ in range(EVERY):
        sender_yield.wake()
    for passes in range(1, 5):
        thread.run_actions()  # It ends: what the reactor has read is handled after each.
        assert woken == len(runs) == passes
        assert len(application.blocked) == 1


def test_a_run_that_begins_while_a_thread_asks_for_one_wakes_that_thread(
    application: type[Application], monkeypatch: pytest.MonkeyPatch
) -> None:
    thread, runs = OwnerThread(), list[int]()
    sender_yield = sender_yield_of(thread, runs, every=1)
    sender_yield.wake()
    assert len(application.blocked) == 1

    def running(asked: OwnerThread) -> bool:
        asked.run_actions()
        return True

    monkeypatch.setattr(OwnerThread, "running", property(running))
    sender_yield.wake()
    assert len(runs) == 1
    assert not application.blocked


def test_a_closed_producer_takes_no_signal_from_a_thread_that_would_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def post(action: Callable[[], object]) -> None:
        raise ClientClosed("the client is closed")

    thread = OwnerThread()
    monkeypatch.setattr(thread, "post", post)
    thread.running = False
    sender_yield = sender_yield_of(thread, [], every=1)
    own = borrow_signal()
    assert isinstance(own, WakeSignal)
    monkeypatch.setattr("odradek.client.blocking.wake_signal._spare", [own])
    for _ in range(3):
        with pytest.raises(ClientClosed):
            sender_yield.wake()
        assert borrow_signal() is own
        return_signal(own)
