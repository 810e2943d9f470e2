"""What becomes of many records that were sent together.

One object for all of them: it knows which batches they are in, and which records of those are its
own. So a million records cost a few hundred small objects, and their outcome is the batches'.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, NamedTuple, final

from mypy_extensions import i64

from odradek.client.errors import KafkaError
from odradek.client.producer.delivery import FutureRecordMetadata, ProduceRequestResult


class DeliveredRange(NamedTuple):
    """Records of one partition that were written one after the other; `last_offset` included.

    Offsets are -1 where brokers do not tell them (acks=0)."""

    topic: str
    partition: int
    records: int
    first_offset: int
    last_offset: int


@final
class Run:
    """Records that stand together in one batch."""

    def __init__(self, result: ProduceRequestResult, first: i64) -> None:
        self.result = result
        self.first = first
        self.count: i64 = 1


@final
class Deliveries:
    """The outcome of many records, in the order of their batches."""

    def __init__(self) -> None:
        self.count: i64 = 0
        """Records taken in so far."""
        self._runs: list[Run] = []
        self._last: dict[ProduceRequestResult, Run] = {}
        self._current: Run | None = None

    def add(self, result: ProduceRequestResult, index: i64) -> None:
        """One more record was taken in."""
        self.count += 1
        run = self._current
        if run is None or run.result is not result:
            run = self._last.get(result)
        if run is not None and run.first + run.count == index:
            run.count += 1
        else:
            run = Run(result, index)
            self._runs.append(run)
            self._last[result] = run
        self._current = run

    def add_future(self, future: FutureRecordMetadata) -> None:
        """`add`, for a record that had to wait."""
        self.add(future.request, future.index)

    def __len__(self) -> int:
        return self.count

    def done(self) -> bool:
        """Whether the outcome of all records is known."""
        return all(result.done for result in self._last)

    def wait(self, timeout: float | None = None) -> None:
        """Block until it is. Raises `TimeoutError` if a batch takes longer than `timeout` seconds
        from now on."""
        for result in self._last:
            if not result.done and not result.face.wait(result, timeout):
                raise TimeoutError(
                    f"the outcome of {self.count} records is not known after {timeout} s; they may "
                    "still be written: wait longer"
                )

    def result(self, timeout: float | None = None) -> list[DeliveredRange]:
        """Where the records were written, waiting for it as `wait` does.

        Raises the first `KafkaError` if some were not; `errors` has them all.
        """
        self.wait(timeout)
        for error, _ in self.errors():
            raise error.with_traceback(None)
        return [range_of(run) for run in self._runs]

    def errors(self) -> list[tuple[KafkaError, int]]:
        """What records have failed with so far, and how many."""
        found: dict[KafkaError, int] = {}
        for run in self._runs:
            if run.result.done and not run.result.succeeded:
                for error in errors_of(run):
                    found[error] = found.get(error, 0) + 1
        return list(found.items())

    def __await__(self) -> Generator[Any, None, list[DeliveredRange]]:
        for result in list(self._last):
            if not result.done:
                yield from result.face.until_done(result)
        return self.result(0)

    def __repr__(self) -> str:
        open_runs = sum(not run.result.done for run in self._runs)
        return f"<Deliveries of {self.count} records, {open_runs} of {len(self._runs)} runs open>"


def errors_of(run: Run) -> Iterator[KafkaError]:
    """Those of its records, one by one."""
    for index in range(run.first, run.first + run.count):
        error = run.result.error_of(index)
        if error is not None:
            yield error


def range_of(run: Run) -> DeliveredRange:
    first = run.result.delivery(run.first, -1)
    last = run.result.delivery(run.first + run.count - 1, -1)
    return DeliveredRange(first.topic, first.partition, run.count, first.offset, last.offset)
