"""The commit protocol of a write: what tasks report, and when their records count.

    task     setup_task ─► a producer ─► rows ─┬─► commit_task ─► TaskWritten ─┐
                                               └─► abort_task                  │
    driver   commit, with the reports of all tasks  ◄──────────────────────────┤
             abort, with the reports of the tasks that ended well  ◄───────────┘

The writer makes one protocol on the driver, and it travels to the tasks. A protocol that needs more
than a task's report adds it in a subclass of `TaskWritten`.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from odradek.client.producer.futures import DeliveredRange
from odradek.spark.options import WriteOptions
from odradek.spark.producers import KeptProducer, keep, take_producer

QUERY_ID_PROPERTY = "sql.streaming.queryId"
BATCH_ID_PROPERTY = "streaming.sql.batchId"


@dataclass(frozen=True, slots=True)
class Task:
    """Which attempt of which task.

    `query_id` is that of the streaming query, the same after a restart from its checkpoint; of a
    batch write, which has none, the id of the job. `batch_id` is None there.
    """

    query_id: str
    batch_id: int | None
    partition_id: int
    attempt: int

    @classmethod
    def of_stream(cls) -> Task:
        """The one of this process, of a streaming query."""
        context = task_context()
        query_id = context.getLocalProperty(QUERY_ID_PROPERTY)
        batch_id = context.getLocalProperty(BATCH_ID_PROPERTY)
        if query_id is None or batch_id is None:
            raise RuntimeError(
                f"Spark does not tell which micro-batch is written: {QUERY_ID_PROPERTY} is "
                f"{query_id}, {BATCH_ID_PROPERTY} is {batch_id}"
            )
        return cls(query_id, int(batch_id), context.partitionId(), context.attemptNumber())

    @classmethod
    def of_job(cls, job_id: str) -> Task:
        """The one of this process, of a batch write."""
        # What Spark says of a micro-batch is not for us here: a function given to foreachBatch may
        # save several times in one, and the rows of one are not those of another.
        context = task_context()
        return cls(job_id, None, context.partitionId(), context.attemptNumber())

    def __str__(self) -> str:
        return f"task {self.partition_id} (attempt {self.attempt})"


def task_context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("rows are written by Spark's tasks, and this is none")
    return context


@dataclass(frozen=True)
class TaskWritten(WriterCommitMessage):
    """What a task wrote, all of it acknowledged.

    `value_bytes` counts keys and values, without the headers. `ranges` has the first and the last
    offset in each topic partition; in between may be records of others.
    """

    task: Task
    records: int
    value_bytes: int
    ranges: tuple[DeliveredRange, ...]


def merged(ranges: Iterable[DeliveredRange]) -> tuple[DeliveredRange, ...]:
    """One for each topic partition, in their order."""
    found: dict[tuple[str, int], DeliveredRange] = {}
    for each in ranges:
        place = (each.topic, each.partition)
        known = found.get(place, each)
        records = each.records if known is each else known.records + each.records
        found[place] = DeliveredRange(
            each.topic,
            each.partition,
            records,
            min(known.first_offset, each.first_offset),
            max(known.last_offset, each.last_offset),
        )
    return tuple(found[place] for place in sorted(found))


log = logging.getLogger(__name__)


class CommitProtocol(ABC):
    """Picklable: what it is to remember between task and driver is in `TaskWritten`."""

    @abstractmethod
    def setup_task(self, task: Task) -> KeptProducer:
        """A producer for this attempt and nobody else."""

    @abstractmethod
    def commit_task(self, producer: KeptProducer, written: TaskWritten) -> TaskWritten:
        """All rows are acknowledged: what the driver is told."""

    @abstractmethod
    def abort_task(self, producer: KeptProducer) -> None:
        """The attempt failed; what the producer had under way is not known."""

    @abstractmethod
    def commit(self, written: Sequence[TaskWritten]) -> None:
        """On the driver: every task came to its end. May be called again for the same micro-batch,
        which is replayed when the query ends before Spark has noted it."""

    @abstractmethod
    def abort(self, what: str, written: Sequence[TaskWritten]) -> None:
        """On the driver: `what` failed, after these tasks came to their end."""


@dataclass(frozen=True, slots=True)
class AtLeastOnce(CommitProtocol):
    """Records count as soon as they are acknowledged; a task that is run again writes its records
    again. A process keeps its producer from task to task."""

    options: WriteOptions

    def setup_task(self, task: Task) -> KeptProducer:
        return take_producer(self.options)

    def commit_task(self, producer: KeptProducer, written: TaskWritten) -> TaskWritten:
        keep(producer)
        return written

    def abort_task(self, producer: KeptProducer) -> None:
        producer.producer.close(0)

    def commit(self, written: Sequence[TaskWritten]) -> None:
        """Nothing is left to do: all records were acknowledged when their task ended."""

    def abort(self, what: str, written: Sequence[TaskWritten]) -> None:
        """Nothing can be undone."""
        staying = [f"{each.records} of {each.task}" for each in written if each.records]
        log.warning(
            "%s failed. These records stay in the topics: %s; so may some of tasks that failed",
            what,
            ", ".join(staying) or "none of tasks that came to their end",
        )


def commit_protocol(options: WriteOptions) -> CommitProtocol:
    """The one that the options ask for."""
    return AtLeastOnce(options)
