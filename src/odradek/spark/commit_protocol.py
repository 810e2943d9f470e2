"""How the records of tasks come to count: what tasks do with their producers, and the driver with
what tasks say.

    task     setup_task ─► a producer ─► rows ─┬─► commit_task ─► TaskWritten ─┐
                                               └─► abort_task                  │
    driver   commit, with what every task says  ◄──────────────────────────────┤
             abort, with what those say that came to their end  ◄──────────────┘

One protocol is made by the writer on the driver, and travels to the tasks. One that needs more than
a task's report for the driver to go on gives it in a subclass of `TaskWritten`.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from odradek.spark.options import WriteOptions
from odradek.spark.producers import KeptProducer, keep, take_producer
from odradek.spark.task import Task, TaskWritten

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
