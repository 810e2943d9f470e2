"""One attempt of a Spark task that writes, and what it says it wrote."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from odradek.client.producer.futures import DeliveredRange

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
