"""`ExactlyOnce`: the commit protocol whose tasks leave transactions open for the driver.

    option                 of a stream                     of a batch write, also in foreachBatch
    transactionalIdPrefix  by default from the query id    required
    batchId                the micro-batch                 required

A task with rows has a transaction; one without has none. A process keeps its producer from task to
task, which takes the transactional id of each.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass

from odradek.client.errors import KafkaError
from odradek.spark.commit_protocol import CommitProtocol, Task, TaskReport
from odradek.spark.exactly_once.driver import LedgerReader, driver_of
from odradek.spark.exactly_once.ledger import TaskTransaction
from odradek.spark.exactly_once.ledger_topic import LedgerTopic, ledger_topic
from odradek.spark.exactly_once.reading import log_admin_of
from odradek.spark.exactly_once.steps import (
    BatchState,
    SinkBatch,
    abort_steps,
    batch_state,
    commit_steps,
)
from odradek.spark.options import WriteOptions
from odradek.spark.producers import CachedProducer, return_producer, take_producer, topics_of

log = logging.getLogger(__name__)

DEFAULT_PREFIX = "odradek-spark-"
ABORT_S = 5.0


@dataclass(frozen=True)
class TransactionReport(TaskReport):
    """A task's report of the transaction that it left open; None if it had no rows, or `drained`:
    the batch was decided, and its rows were read and not written."""

    batch: SinkBatch
    transaction: TaskTransaction | None
    topic_ids: dict[str, str]
    drained: bool = False


@dataclass(frozen=True, slots=True)
class ExactlyOnce(CommitProtocol):
    """Records count when the driver has decided on all transactions of the batch."""

    options: WriteOptions
    ledger: LedgerTopic

    @classmethod
    def on_driver(cls, options: WriteOptions) -> ExactlyOnce:
        """Return the protocol, with what the driver learns of the cluster."""
        return cls(options, ledger_topic(options))

    def batch(self, task: Task) -> SinkBatch:
        """Return the batch that a task writes."""
        options = self.options
        batch_id = task.batch_id if options.batch_id is None else options.batch_id
        assert batch_id is not None
        query = "" if task.batch_id is None else task.query_id
        return SinkBatch(self.prefix(task), batch_id, options.ledger_starts_at, query)

    def prefix(self, task: Task) -> str:
        return self.options.transactional_id_prefix or DEFAULT_PREFIX + task.query_id

    # Tasks.

    def setup_task(self, task: Task) -> CachedProducer | None:
        """Begin a transaction; None if the batch is decided already."""
        batch = self.batch(task)
        reader = reader_of(self.options, self.ledger, batch.prefix)
        if batch_state(batch, reader.read_for_task(batch)) is not BatchState.UNDECIDED:
            log.info("%s of %s: it is decided, its rows are not written again", task, batch)
            return None
        transactional_id = f"{batch.prefix}.{task.partition_id}.{task.attempt}"
        # The decision has the topics' ids: that of a topic which was made again would be wrong.
        topics_of(self.options.client).forget()
        producer = take_producer(self.options, transactional_id, self.ledger.transaction_timeout_ms)
        try:
            producer.producer.init_transactions(transactional_id=transactional_id)
            producer.producer.begin_transaction()
        except BaseException:
            producer.producer.close(0)
            raise
        return producer

    def commit_task(self, producer: CachedProducer | None, written: TaskReport) -> TaskReport:
        batch = self.batch(written.task)
        transaction = None
        topic_ids: dict[str, str] = {}
        if producer is not None:
            timeout_s = self.options.delivery_timeout_ms / 1000
            found = producer.producer.detach_transaction(timeout_s)
            if found is not None:
                transaction = TaskTransaction(
                    written.task.partition_id,
                    written.task.attempt,
                    found.producer_id,
                    found.epoch,
                    found.transaction_version,
                    written.ranges,
                )
                topics = {each.topic for each in written.ranges}
                topic_ids = {topic: producer.topics.topic_id(topic) for topic in topics}
            return_producer(producer)
        return TransactionReport(
            written.task,
            written.records,
            written.value_bytes,
            written.ranges,
            batch,
            transaction,
            topic_ids,
        )

    def drained_task(self, task: Task) -> TaskReport:
        return TransactionReport(task, 0, 0, (), self.batch(task), None, {}, drained=True)

    def abort_task(self, producer: CachedProducer) -> None:
        """Abort the transaction; if that fails, a driver finds and fences it."""
        try:
            producer.producer.abort_transaction(ABORT_S)
        except KafkaError as error:
            log.warning("a transaction stays open until a driver fences it: %s", error)
            producer.producer.close(0)
        else:
            return_producer(producer)

    # Driver.

    def commit(self, batch_id: int | None, written: Sequence[TaskReport]) -> None:
        batch, reports = self._reported(batch_id, written)
        if batch is None:
            return
        topic_ids: dict[str, str] = {}
        for each in reports:
            topic_ids.update(each.topic_ids)
        drained = [each.task.partition_id for each in reports if each.drained]
        running = commit_steps(batch, transactions_of(reports), topic_ids, drained)
        driver_of(self.options, self.ledger, batch.prefix).run(batch, running)

    def abort(self, what: str, batch_id: int | None, written: Sequence[TaskReport]) -> None:
        batch, reports = self._reported(batch_id, written)
        if batch is None:
            log.warning(
                "%s failed before a task ended: its undecided transactions are aborted with the "
                "next batch, or by the brokers after %d ms",
                what,
                self.ledger.transaction_timeout_ms,
            )
            return
        running = abort_steps(batch, transactions_of(reports))
        driver_of(self.options, self.ledger, batch.prefix).run(batch, running)
        log.warning("%s failed, and what is undecided of it is aborted", what)

    def _reported(
        self, batch_id: int | None, written: Sequence[TaskReport]
    ) -> tuple[SinkBatch | None, list[TransactionReport]]:
        """Return the batch, as its tasks or the options name it, and the reports."""
        reports = [each for each in written if isinstance(each, TransactionReport)]
        if reports:
            return reports[0].batch, reports
        prefix = self.options.transactional_id_prefix
        known = batch_id if self.options.batch_id is None else self.options.batch_id
        if prefix is None or known is None:
            return None, []
        return SinkBatch(prefix, known, self.options.ledger_starts_at), []


def transactions_of(reports: Sequence[TransactionReport]) -> list[TaskTransaction]:
    return [each.transaction for each in reports if each.transaction is not None]


_readers: dict[tuple[int, WriteOptions, LedgerTopic, str], LedgerReader] = {}
MAX_READERS = 64


def reader_of(options: WriteOptions, ledger: LedgerTopic, prefix: str) -> LedgerReader:
    """Return this process's reader of a prefix's entry."""
    key = (os.getpid(), options.of_clients(), ledger, prefix)
    reader = _readers.pop(key, None)
    if reader is None:
        reader = LedgerReader(log_admin_of(options.client), ledger, prefix)
    _readers[key] = reader
    while len(_readers) > MAX_READERS:
        del _readers[next(iter(_readers))]
    return reader
