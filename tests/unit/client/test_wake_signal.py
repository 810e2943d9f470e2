"""The signal that a thread waits for: none is lost or left over, no descriptor leaks."""

from __future__ import annotations

import errno
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from types import FrameType

import pytest

from odradek.client.blocking import wake_signal
from odradek.client.blocking.engine_thread import BlockedThread
from odradek.client.blocking.wake_signal import WakeSignal, borrow_signal, return_signal

LONG_S = 60.0
"""For what will happen, on a machine however busy."""


@pytest.fixture(params=["eventfd", "pipe"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Signals of this system, and those of a system without eventfd."""
    monkeypatch.setattr(wake_signal, "_spare", [])
    if request.param == "pipe":
        monkeypatch.delattr(os, "eventfd", raising=False)
    elif not hasattr(os, "eventfd"):
        pytest.skip("this system has no eventfd")
    return str(request.param)


@pytest.fixture
def no_garbage() -> Iterator[None]:
    """Nothing of another test is collected meanwhile, and closes its descriptors."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_set_wakes_a_waiting_thread(kind: str) -> None:
    bell, woken = WakeSignal(), WakeSignal()

    def wait() -> None:
        assert bell.wait(LONG_S)
        woken.set()

    threading.Thread(target=wait).start()
    bell.set()
    assert woken.wait(LONG_S)


def test_wait_returns_at_once_if_the_signal_is_set(kind: str) -> None:
    bell = WakeSignal()
    bell.set()
    assert bell.wait(None)


def test_a_signal_stays_set_until_it_is_cleared(kind: str) -> None:
    bell = WakeSignal()
    bell.set()
    assert bell.wait(0) and bell.wait(0)
    bell.clear()
    assert not bell.wait(0)


def test_a_signal_set_many_times_is_cleared_once(kind: str) -> None:
    bell = WakeSignal()
    for _ in range(100_000):
        bell.set()
    bell.clear()
    assert not bell.wait(0.01)


def test_a_write_after_clear_wakes_nobody(kind: str) -> None:
    bell = WakeSignal()
    os.write(bell._write_fd, wake_signal.RING)
    assert not bell.wait(0.01)
    bell.set()
    assert bell.wait(0)


def test_two_threads_may_wait_for_the_same_signal(kind: str) -> None:
    bell = WakeSignal()
    waits = [threading.Thread(target=bell.wait, args=(LONG_S,)) for _ in range(2)]
    for wait in waits:
        wait.start()
    bell.set()
    for wait in waits:
        wait.join(LONG_S)
        assert not wait.is_alive()


def test_no_signal_is_lost_between_two_threads(kind: str) -> None:
    rounds = 20_000
    ping, pong = WakeSignal(), WakeSignal()

    def answer() -> None:
        for _ in range(rounds):
            assert ping.wait(LONG_S)
            ping.clear()
            pong.set()

    other = threading.Thread(target=answer)
    other.start()
    for _ in range(rounds):
        ping.set()
        assert pong.wait(LONG_S)
        pong.clear()
    other.join(LONG_S)


@pytest.mark.usefixtures("no_garbage")
def test_a_collected_signal_closes_its_descriptors(kind: str) -> None:
    before = descriptors()
    bells = [WakeSignal() for _ in range(10)]
    assert descriptors() == before + 10 * (1 if kind == "eventfd" else 2)
    del bells
    assert descriptors() == before


def test_a_returned_signal_is_borrowed_again(kind: str) -> None:
    bell = borrow_signal()
    bell.set()
    return_signal(bell)
    assert borrow_signal() is bell
    assert not bell.wait(0)
    assert borrow_signal() is not bell


@pytest.mark.usefixtures("no_garbage")
def test_only_a_limited_number_of_signals_is_kept(kind: str) -> None:
    before = descriptors()
    for bell in [borrow_signal() for _ in range(100)]:
        return_signal(bell)
    del bell
    kept = descriptors() - before
    assert kept == wake_signal.SPARE_MAX * (1 if kind == "eventfd" else 2)


def test_wake_after_a_timeout_does_nothing(kind: str) -> None:
    late: BlockedThread[None] = BlockedThread()
    assert not late.block(0)
    other: BlockedThread[None] = BlockedThread()
    late.wake()
    assert not other.block(0.01)


@pytest.mark.usefixtures("no_garbage")
def test_a_thread_that_waits_repeatedly_holds_one_signal(kind: str) -> None:
    """The thread that wakes them keeps references to all of them."""
    before = descriptors()
    late: list[BlockedThread[None]] = []
    for _ in range(100):
        late.append(BlockedThread())
        assert not late[-1].block(0)
    assert descriptors() == before + (1 if kind == "eventfd" else 2)


def test_a_signal_handler_that_waits_does_not_disturb_the_wait_it_interrupts(kind: str) -> None:
    """A signal handler runs inside the wait, in the same thread."""
    outer: BlockedThread[None] = BlockedThread()
    inner: BlockedThread[None] = BlockedThread()

    def handle(number: int, frame: FrameType | None) -> None:
        outer.wake()
        inner.wake()
        assert inner.block(LONG_S)

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        assert outer.block(LONG_S)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_ctrl_c_ends_a_wait(kind: str) -> None:
    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    def interrupted_wait() -> None:  # On a busy machine the signal comes before the wait.
        threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        WakeSignal().wait(None)

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted_wait()
    finally:
        signal.signal(signal.SIGUSR1, before)


FORKED = """
import os
from odradek.client.blocking.wake_signal import borrow_signal, return_signal

bell = borrow_signal()
bell.set()
return_signal(bell)
child = os.fork()
if not child:
    own = borrow_signal()
    own.set()
    os._exit(own is bell)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "the child got its parent's"
assert borrow_signal() is bell and not bell.wait(0.1), "the child's was heard in the parent"
"""


def test_a_forked_process_has_its_own_signals() -> None:
    subprocess.run([sys.executable, "-c", FORKED], check=True, timeout=LONG_S)


def test_without_a_descriptor_left_a_signal_raises_and_calls_still_return(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, kind, none_left)
    with pytest.raises(OSError, match="Too many open files"):
        WakeSignal()
    waiting: BlockedThread[None] = BlockedThread()
    assert not BlockedThread[None]().block(0.01)
    threading.Timer(0.01, waiting.wake).start()
    assert waiting.block(LONG_S), "who only has to wait for an answer waits by a lock"
    assert not wake_signal._spare, "and that is lent to nobody else"


def test_the_main_thread_looks_for_signals_at_intervals(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeps: list[tuple[bool, float]] = []
    bell = WakeSignal()

    def sleep(self: WakeSignal, timeout_s: float) -> None:
        sleeps.append((threading.current_thread() is threading.main_thread(), timeout_s))
        bell.set()

    monkeypatch.setattr(WakeSignal, "_sleep", sleep)
    assert bell.wait(None)
    bell.clear()
    other = threading.Thread(target=bell.wait, args=(None,))
    other.start()
    other.join(LONG_S)
    assert sleeps == [(True, wake_signal.SIGNALS_S), (False, wake_signal.LONG_S)]
