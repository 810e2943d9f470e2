"""Workers: blocking work completes exactly once, on the owner thread."""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from odradek.network.workers import Workers, WorkersOverloadedError


class Owner:
    """The owner thread's side: runs the callbacks of workers on the test's thread."""

    def __init__(self) -> None:
        self.posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.told: list[object] = []

    def post(self, callback: Callable[[], None]) -> None:
        self.posted.put(callback)

    def run(self, count: int = 1) -> None:
        for _ in range(count):
            self.posted.get(timeout=30)()


@pytest.fixture
def owner() -> Owner:
    return Owner()


@pytest.fixture
def workers(owner: Owner) -> Iterator[Workers]:
    workers = Workers(owner.post, threads=2)
    yield workers
    workers.close()


def test_a_result_is_delivered_on_the_owner_thread(owner: Owner, workers: Workers) -> None:
    where: list[threading.Thread] = []

    def work() -> int:
        where.append(threading.current_thread())
        return 42

    workers.submit(work, lambda r: owner.told.append((r, threading.current_thread())), pytest.fail)  # type: ignore[arg-type]
    assert owner.told == []
    owner.run()
    assert owner.told == [(42, threading.current_thread())]
    assert where != [threading.current_thread()]
    assert workers.in_progress == 0


@pytest.mark.parametrize("error", [OSError("broken disk"), SystemExit(1)])
def test_any_exception_is_delivered_on_the_owner_thread(
    owner: Owner, workers: Workers, error: BaseException
) -> None:
    def work() -> None:
        raise error

    workers.submit(work, pytest.fail, owner.told.append)  # type: ignore[misc]
    owner.run()
    assert owner.told == [error]
    workers.submit(lambda: "still there", owner.told.append, pytest.fail)  # type: ignore[arg-type]
    owner.run()
    assert owner.told[1] == "still there"


def test_work_runs_in_parallel_up_to_the_number_of_threads(owner: Owner, workers: Workers) -> None:
    both_here = threading.Barrier(2, timeout=30)
    for _ in range(2):
        workers.submit(both_here.wait, lambda _: owner.told.append("met"), pytest.fail)  # type: ignore[arg-type]
    owner.run(2)
    assert owner.told == ["met", "met"]


def test_no_thread_starts_before_there_is_work() -> None:
    before = threading.active_count()
    workers = Workers(lambda _: None, threads=4)
    assert threading.active_count() <= before  # One of another test may have ended.
    workers.close()


def at_work(workers: Workers, owner: Owner, count: int) -> threading.Event:
    """Submit work that ends when the returned event is set; return when `count` has begun."""
    begun, go_on = threading.Semaphore(0), threading.Event()

    def work() -> bool:
        begun.release()
        return go_on.wait(30)

    for _ in range(count):
        workers.submit(work, owner.told.append, pytest.fail)  # type: ignore[arg-type]
    for _ in range(count):
        assert begun.acquire(timeout=30), "too few threads"
    return go_on


def test_a_raised_limit_lets_more_work_run_at_once(owner: Owner, workers: Workers) -> None:
    workers.limit(4)
    at_work(workers, owner, 4).set()
    owner.run(4)
    assert owner.told == [True] * 4


def test_a_lowered_limit_ends_threads_and_loses_no_work(owner: Owner) -> None:
    workers = Workers(owner.post, threads=4, name="limited")
    at_work(workers, owner, 4).set()
    owner.run(4)
    workers.limit(1)
    for number in range(20):
        workers.submit(lambda number=number: number, owner.told.append, pytest.fail)  # type: ignore[arg-type, misc]
    owner.run(20)
    assert Counter(owner.told[4:]) == Counter(range(20))
    workers.limit(2)
    at_work(workers, owner, 2).set()
    owner.run(2)
    workers.close()
    assert not [each for each in threading.enumerate() if each.name.startswith("limited")]


def test_work_beyond_the_queue_size_fails(owner: Owner) -> None:
    workers = Workers(owner.post, threads=1, queue_size=2)
    go_on = threading.Event()
    for _ in range(2):
        workers.submit(lambda: go_on.wait(30), owner.told.append, pytest.fail)  # type: ignore[arg-type]
    workers.submit(lambda: pytest.fail("it never runs"), pytest.fail, owner.told.append)
    owner.run()
    assert isinstance(owner.told.pop(), WorkersOverloadedError)
    go_on.set()
    owner.run(2)
    assert owner.told == [True, True]
    workers.close()


def test_close_finishes_submitted_work_and_refuses_new_work(owner: Owner) -> None:
    workers = Workers(owner.post, threads=1)
    for number in range(10):
        workers.submit(lambda number=number: number, owner.told.append, pytest.fail)  # type: ignore[arg-type, misc]
    workers.close()
    owner.run(10)
    assert owner.told == list(range(10))
    with pytest.raises(RuntimeError, match="stopped"):
        workers.submit(lambda: 1, owner.told.append, owner.told.append)
