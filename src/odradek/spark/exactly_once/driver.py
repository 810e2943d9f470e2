"""The driver's side: carries out the steps of `steps` with clients of this process.

A process keeps, for each prefix, a producer whose transactional id is the prefix, and the ledger's
entry as far as it was read: so most micro-batches cost one transaction for the decision and an
EndTxn for each task, without InitProducerId. Spark may run the next commit in another process; the
first producer is then shut out, finds that in its next decision, and begins anew.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from typing import Any, Protocol

from odradek.client.errors import (
    ApiTimeout,
    KafkaError,
    OffsetOutOfRange,
    ProducerFenced,
    UnknownTopicOrPartition,
)
from odradek.client.producer.futures import DeliveredRange
from odradek.client.transaction import VERSION_2
from odradek.model.errors import ErrorCode
from odradek.spark.exactly_once.errors import ExactlyOnceError, LedgerGone, ReplacedDriver
from odradek.spark.exactly_once.ledger import Decision, LedgerEntry, TaskTransaction, newest
from odradek.spark.exactly_once.ledger_topic import LedgerTopic
from odradek.spark.exactly_once.reading import FencedIds, LogAdmin, log_admin_of
from odradek.spark.exactly_once.steps import (
    NEW_PREFIX,
    CopyRecords,
    DescribePrefix,
    EndTransactions,
    FenceLosers,
    FindDeletedTopics,
    LoggedOutcome,
    ReadLedger,
    ReadOutcomes,
    ShutOutOlderDrivers,
    SinkBatch,
    Steps,
    WriteDecision,
    is_told_soon,
)
from odradek.spark.options import WriteOptions
from odradek.spark.producers import SparkProducer, new_producer

log = logging.getLogger(__name__)

MAX_DRIVERS = 8
"""How many prefixes a process keeps producers for."""
MARKER_POLL_S = 0.01


class RecordsGone(Exception):
    """Records that are to be copied are not in the log any more."""


class ThreadClock(Protocol):
    """The clock by which a thread sleeps: the module `time`, or that of a simulation."""

    def monotonic(self) -> float: ...

    def sleep(self, seconds: float, /) -> None: ...


class LedgerReader:
    """The entry of one prefix in the ledger, read on from where it was read before."""

    def __init__(
        self, admin: LogAdmin, ledger: LedgerTopic, prefix: str, clock: ThreadClock = time
    ) -> None:
        self._admin = admin
        self._ledger = ledger
        self._clock = clock
        self._entry = LedgerEntry(prefix)

    def read(self) -> Decision | None:
        """Return the last decision up to the end of the ledger. Raises `LedgerGone`."""
        ledger, entry = self._ledger, self._entry
        try:
            self._admin.read_ledger(entry, ledger.partition(entry.prefix), ledger.topic_id)
        except (UnknownTopicOrPartition, OffsetOutOfRange) as error:
            raise LedgerGone(
                f"the ledger topic {ledger.name} was deleted, or records of it: {error}. What is "
                "in: what was decided before; nothing of this batch was decided now. What to do: "
                "restore the topic; else see in the topics which batch is the last, and set the "
                f"option ledgerStartsAt to the one after it, with {NEW_PREFIX}"
            ) from error
        return entry.decision

    def read_for_task(self, batch: SinkBatch) -> Decision | None:
        """Return the last decision, for a task: see `is_told_soon`."""
        deadline_s = self._clock.monotonic() + self._admin.config.default_api_timeout_ms / 1000
        decision = self.read()
        while is_told_soon(batch, decision, self._entry.has_open):
            if self._clock.monotonic() >= deadline_s:
                break
            self._clock.sleep(MARKER_POLL_S)
            decision = self.read()
        return decision


class DriverClients:
    """The clients of a driver: those of this process."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def admin(self) -> LogAdmin:
        """Return the client that all drivers of the process share."""
        return log_admin_of(self._options.client)

    def new_admin(self) -> LogAdmin:
        """Return another one, with connections of its own."""
        return LogAdmin(self._options.client)

    def new_producer(self, transactional_id: str, transaction_timeout_ms: int) -> SparkProducer:
        return new_producer(
            self._options,
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
            linger_ms=0,
        )


class BatchDriver:
    """The driver of one prefix in this process."""

    def __init__(
        self,
        options: WriteOptions,
        ledger: LedgerTopic,
        prefix: str,
        clients: DriverClients | None = None,
    ) -> None:
        self.options = options
        self.ledger = ledger
        self.prefix = prefix
        self._clients = clients or DriverClients(options)
        self._admin = self._clients.admin()
        self._ending: LogAdmin | None = None
        """Ends transactions, if the connection of `_admin` is too old for that: see `_end`."""
        self._reader = LedgerReader(self._admin, ledger, prefix)
        self._producer: SparkProducer | None = None
        """Has shut out all others, as far as is known."""
        self._written: Decision | None = None
        """The last decision that this producer wrote."""
        self._replaced = False
        self._fenced: FencedIds = {}
        """What was fenced at the end of the last batch, and is not used since."""

    def run(self, batch: SinkBatch, running: Steps) -> None:
        """Carry out steps to their end. Raises what they raise, and errors of the clients."""
        result: Any = None
        while True:
            try:
                effect = running.send(result)
            except StopIteration:
                return
            log.debug("%s: %s", batch, type(effect).__name__)
            match effect:
                case DescribePrefix():
                    result = self._admin.has_committed(self.prefix)
                case ShutOutOlderDrivers():
                    result = None
                    self._shut_out(effect)
                case ReadLedger():
                    result = newest(self._reader.read(), self._written)
                case WriteDecision(decision):
                    result = self._write(decision, list(decision.records(self.prefix)))
                case EndTransactions(transactions, commit):
                    result = self._end(transactions, commit)
                case FenceLosers():
                    result = None
                    self._fenced = self._admin.fence_losers(self.prefix, self._fenced)
                case FindDeletedTopics(decision):
                    result = self._admin.deleted_topics(decision.topic_ids)
                case ReadOutcomes(transactions, decision):
                    result = self._outcomes(batch, transactions, decision)
                case CopyRecords(transaction, marked):
                    result = self._copy(transaction, marked)

    def close(self) -> None:
        """Close the producer; what it has begun is aborted or left to the next one."""
        producer, self._producer = self._producer, None
        ending, self._ending = self._ending, None
        self._written = None
        if producer is not None:
            producer.close(0)
        if ending is not None:
            ending.close()

    def _shut_out(self, effect: ShutOutOlderDrivers) -> None:
        if effect.to_abort and self._replaced:
            return
        if self._producer is not None and not effect.again:
            return
        self.close()
        producer = self._clients.new_producer(self.prefix, self.ledger.transaction_timeout_ms)
        try:
            producer.init_transactions()
        except BaseException:
            producer.close(0)
            raise
        self._producer = producer
        self._replaced = False

    def _write(self, decision: Decision, records: list[tuple[bytes, bytes]]) -> bool:
        """Write records of a decision in a transaction; False if shut out."""
        try:
            with self._own_producer.transaction(self._commit_timeout_s):
                self._send(records)
            self._written = decision
            return True
        except BaseException as error:
            # The ledger tells if it was written, after the next producer has begun.
            self.close()
            if not is_shut_out(error):
                raise
            log.warning("%s: a decision was not written: %s", self.prefix, error)
            self._replaced = True
            return False

    @property
    def _commit_timeout_s(self) -> float:
        return self.options.client.api_timeout_ms / 1000

    def _send(self, records: list[tuple[bytes, bytes]]) -> None:
        """Send records of a decision to the ledger."""
        producer, place = self._own_producer, self.ledger.partition(self.prefix)
        for key, value in records:
            producer.send(place.topic, value, key=key, partition=place.partition)

    @property
    def _own_producer(self) -> SparkProducer:
        assert self._producer is not None, "older drivers are not shut out"
        return self._producer

    def _end(self, transactions: Sequence[TaskTransaction], commit: bool) -> list[bool]:
        """End transactions.

        Before transaction version 2 Odradek's coordinators answer an EndTxn that comes over an
        older connection than the writer's with COORDINATOR_LOAD_IN_PROGRESS: it might be a late
        one. This one is not, so it is sent again at once over a new connection, which is kept for
        the next batches of the same writers: over the old one each batch would wait for a back-off.
        """
        admin = self._ending or self._admin
        ended = admin.end_many(self.prefix, transactions, commit, tries_again=False)
        refused = [
            each
            for each, certain in zip(transactions, ended, strict=True)
            if not certain and each.transaction_version < VERSION_2
        ]
        if not refused:
            return ended
        if self._ending is not None:
            self._ending.close()
        self._ending = self._clients.new_admin()
        again = iter(self._ending.end_many(self.prefix, refused, commit))
        return [
            next(again) if each in refused else certain
            for each, certain in zip(transactions, ended, strict=True)
        ]

    def _outcomes(
        self, batch: SinkBatch, transactions: tuple[TaskTransaction, ...], decision: Decision
    ) -> list[LoggedOutcome]:
        try:
            return self._admin.outcomes(transactions, decision.topic_ids)
        except ApiTimeout as error:
            raise ExactlyOnceError(
                f"{batch} is decided, and the outcome of some of its transactions cannot be seen "
                "yet, because transactions of other producers are open in front of them "
                f"({error}). What is in: nothing is lost; {len(transactions)} of "
                f"{len(decision.transactions)} transactions may have to be copied. What to do: "
                "start the query again, it goes on with them; odradek txn hanging shows what is "
                "open for long"
            ) from error

    def _copy(self, transaction: TaskTransaction, marked: Decision) -> bool:
        """Copy the records of a transaction that was aborted; False if some are gone."""
        try:
            with self._own_producer.transaction(self._commit_timeout_s):
                for written in transaction.ranges:
                    topic_id = marked.topic_ids.get(written.topic, "")
                    if not self._copy_range(transaction, written, topic_id):
                        raise RecordsGone
                self._send(list(marked.records(self.prefix, only=transaction)))
            self._written = marked
        except RecordsGone:
            return False
        except BaseException as error:
            self.close()
            if not is_shut_out(error):
                raise
            self._replaced = True
            raise ReplacedDriver(
                f"the transaction in which this driver wrote aborted records of {self.prefix} "
                f"again was aborted, by another driver or by its timeout: {error}. What is in: "
                "whole transactions only; another driver, or the next start, goes on with them. "
                "What to do: let one query at a time use a checkpoint"
            ) from error
        log.warning(
            "%s: %s was aborted after it was decided, and is written again",
            self.prefix,
            transaction,
        )
        return True

    def _copy_range(
        self, transaction: TaskTransaction, written: DeliveredRange, topic_id: str
    ) -> bool:
        producer, copied, offset = self._own_producer, 0, written.first_offset
        while offset <= written.last_offset:
            try:
                records, offset = self._admin.records_of_transaction(
                    transaction, written, topic_id, offset
                )
            except (OffsetOutOfRange, UnknownTopicOrPartition):
                return False
            for record in records:
                producer.send(
                    written.topic,
                    record.value,
                    key=record.key,
                    headers=record.headers,
                    partition=written.partition,
                    timestamp=record.timestamp,
                )
            copied += len(records)
        return copied == written.records


SHUT_OUT = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_TXN_STATE,
)


def is_shut_out(error: BaseException) -> bool:
    """True if a transaction of a driver failed because the coordinator has aborted it: another
    driver has the prefix now, or it was open for too long. With transaction version 2 the commit of
    such a transaction may look like one that is sent again after an abort."""
    return isinstance(error, ProducerFenced) or (
        isinstance(error, KafkaError) and error.code in SHUT_OUT
    )


_drivers: dict[tuple[int, WriteOptions, LedgerTopic, str], BatchDriver] = {}


def driver_of(options: WriteOptions, ledger: LedgerTopic, prefix: str) -> BatchDriver:
    """Return this process's driver of a prefix."""
    key = (os.getpid(), options.of_clients(), ledger, prefix)
    driver = _drivers.pop(key, None) or BatchDriver(options, ledger, prefix)
    _drivers[key] = driver
    while len(_drivers) > MAX_DRIVERS:
        _drivers.pop(next(iter(_drivers))).close()
    return driver
