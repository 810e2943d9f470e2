"""The commit protocol of a write: the reports of tasks, and when their records count.

    task     setup_task ─► a producer ─► rows ─┬─► commit_task ─► TaskReport ─┐
                                               └─► abort_task                  │
    driver   commit, with the reports of all tasks  ◄──────────────────────────┤
             abort, with the reports of the tasks that ended well  ◄───────────┘

The writer makes one protocol on the driver, and it travels to the tasks. A protocol that needs more
than a task's report adds it in a subclass of `TaskReport`.
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
from odradek.spark.producers import CachedProducer, return_producer, take_producer

QUERY_ID_PROPERTY = "sql.streaming.queryId"
BATCH_ID_PROPERTY = "streaming.sql.batchId"


@dataclass(frozen=True, slots=True)
class Task:
    """An attempt of a Spark task that writes.

    `query_id` is that of the streaming query, the same after a restart from its checkpoint. A batch
    write has the id of its job instead, and no `batch_id`.
    """

    query_id: str
    batch_id: int | None
    partition_id: int
    attempt: int

    @classmethod
    def of_stream(cls) -> Task:
        """Return the task that this process runs, of a streaming query."""
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
        """Return the task that this process runs, of a batch write."""
        # Spark's batch id is not used: a function given to foreachBatch may save several times in
        # one micro-batch, and each save has other rows.
        context = task_context()
        return cls(job_id, None, context.partitionId(), context.attemptNumber())

    def __str__(self) -> str:
        return f"task {self.partition_id} (attempt {self.attempt})"


def task_context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("rows can only be written in a Spark task")
    return context


@dataclass(frozen=True)
class TaskReport(WriterCommitMessage):
    """A task's report of the records that it wrote, all of them acknowledged.

    `value_bytes` counts keys and values, without the headers. `ranges` has the first and the last
    offset in each topic partition; between them may be records of other producers.
    """

    task: Task
    records: int
    value_bytes: int
    ranges: tuple[DeliveredRange, ...]


def merge_ranges(ranges: Iterable[DeliveredRange]) -> tuple[DeliveredRange, ...]:
    """Merge ranges to one for each topic partition, sorted."""
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
    """Decides when records count. Picklable; tasks pass state to the driver in `TaskReport`."""

    @abstractmethod
    def setup_task(self, task: Task) -> CachedProducer | None:
        """Return a producer for this attempt only, which has rows; None if they are to be read and
        not written."""

    @abstractmethod
    def commit_task(self, producer: CachedProducer | None, written: TaskReport) -> TaskReport:
        """Finish a task whose rows are all acknowledged; return its report for the driver. None:
        the task had no rows."""

    @abstractmethod
    def drained_task(self, task: Task) -> TaskReport:
        """Return the report of a task that has read its rows and written none."""

    @abstractmethod
    def abort_task(self, producer: CachedProducer) -> None:
        """Handle a failed attempt; the outcome of the producer's open records is unknown."""

    @abstractmethod
    def commit(self, batch_id: int | None, written: Sequence[TaskReport]) -> None:
        """Commit on the driver, after all tasks ended well. `batch_id` is that of a micro-batch.
        May be called again for the same one, which Spark replays if the query ends before it has
        logged the commit."""

    @abstractmethod
    def abort(self, what: str, batch_id: int | None, written: Sequence[TaskReport]) -> None:
        """Abort on the driver: `what` failed after these tasks ended well."""


@dataclass(frozen=True, slots=True)
class AtLeastOnce(CommitProtocol):
    """Records count as soon as they are acknowledged; a task that is run again writes its records
    again. A process keeps its producer from task to task."""

    options: WriteOptions

    def setup_task(self, task: Task) -> CachedProducer:
        return take_producer(self.options)

    def commit_task(self, producer: CachedProducer | None, written: TaskReport) -> TaskReport:
        if producer is not None:
            return_producer(producer)
        return written

    def drained_task(self, task: Task) -> TaskReport:
        raise AssertionError("rows are always written")

    def abort_task(self, producer: CachedProducer) -> None:
        producer.topics.forget()  # The topic may be gone, or another one.
        producer.producer.close(0)

    def commit(self, batch_id: int | None, written: Sequence[TaskReport]) -> None:
        """Do nothing: all records were acknowledged when their task ended."""

    def abort(self, what: str, batch_id: int | None, written: Sequence[TaskReport]) -> None:
        """Warn of the records that stay: they cannot be removed."""
        staying = [f"{each.records} of {each.task}" for each in written if each.records]
        log.warning(
            "%s failed. These records stay in the topics: %s; so may some of tasks that failed",
            what,
            ", ".join(staying) or "none of tasks that ended well",
        )


def commit_protocol(options: WriteOptions) -> CommitProtocol:
    """Return the commit protocol for the options. On the driver."""
    if not options.exactly_once:
        return AtLeastOnce(options)
    # Imported here: it imports this module.
    from odradek.spark.exactly_once.protocol import ExactlyOnce

    return ExactlyOnce.on_driver(options)
