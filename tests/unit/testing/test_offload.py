"""Simulated offloaded work: a delay before its effects, and another before its callback."""

from odradek.testing.process import SimOffload, SimProcess
from odradek.testing.scheduler import SECOND, Scheduler, SimClock


def workers(seed: int = 1) -> tuple[Scheduler, SimProcess, SimOffload]:
    scheduler = Scheduler(seed)
    process = SimProcess(scheduler, "p", SimClock(scheduler))
    return scheduler, process, SimOffload(process, scheduler.stream("offload"))


def test_submitted_work_runs_later_and_done_is_called_after_it() -> None:
    scheduler, _, offload = workers()
    seen: list[tuple[str, int]] = []
    offload.submit(
        lambda: seen.append(("work", scheduler.now_ns)) or 7,
        lambda result: seen.append((f"done {result}", scheduler.now_ns)),
        lambda error: seen.append(("failed", 0)),
    )
    assert seen == []
    scheduler.run(SECOND)
    (work, at), (done, later) = seen
    assert (work, done) == ("work", "done 7")
    assert 0 < at < later
    assert offload.pending == 0


def test_an_error_of_the_work_is_reported_and_does_not_end_the_run() -> None:
    scheduler, _, offload = workers()
    seen: list[BaseException] = []

    def work() -> None:
        raise OSError(5, "broken")

    offload.submit(work, lambda _: seen.append(AssertionError()), seen.append)
    scheduler.run(SECOND)
    assert [str(error) for error in seen] == ["[Errno 5] broken"]


def test_pieces_of_work_overtake_each_other() -> None:
    orders = []
    for seed in range(10):
        scheduler, _, offload = workers(seed)
        order: list[int] = []
        for number in range(3):
            offload.submit(lambda: None, lambda _, o=order, n=number: o.append(n), lambda _: None)  # type: ignore[misc]
        scheduler.run(SECOND)
        orders.append(tuple(order))
    assert len(dict.fromkeys(orders)) > 2


def test_a_crash_between_the_work_and_its_callback_drops_the_callback() -> None:
    scheduler, process, offload = workers()
    seen: list[str] = []

    def work() -> None:
        seen.append("work")
        process.kill()

    offload.submit(work, lambda _: seen.append("done"), lambda _: seen.append("failed"))
    scheduler.run(SECOND)
    assert seen == ["work"]
