"""Requests about transactions of tasks: end many, find losers, read what logs have of them.

A consumer returns records; the ledger and the outcome of a transaction need the batches of a log as
they are, with those of open and aborted transactions, producer ids and markers. So these are calls
of an admin client, one fetch each, without a session.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from odradek import Admin
from odradek.client.admin.admin import AdminCalls
from odradek.client.admin.calls import raise_for_code
from odradek.client.admin.results import Transaction
from odradek.client.api_methods import BlockingMethod
from odradek.client.engine import Engine
from odradek.client.errors import (
    KafkaError,
    OffsetOutOfRange,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from odradek.client.list_offsets import EARLIEST as START
from odradek.client.list_offsets import LATEST as END
from odradek.client.list_offsets import OffsetLookup, offsets_in, send_list_offsets
from odradek.client.producer.futures import DeliveredRange
from odradek.client.transaction import VERSION_2, OpenTransaction
from odradek.client.waiter import gather, spawn
from odradek.config.client import AdminConfig
from odradek.model.errors import ErrorCode
from odradek.model.topics import ZERO_UUID, TopicPartition, uuid_text
from odradek.network_client.api_versions import RequestBuilder
from odradek.protocol.api.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from odradek.protocol.api.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from odradek.protocol.api.metadata import MetadataResponseTopic
from odradek.protocol.record_batch import batches, records_of
from odradek.protocol.records import Record
from odradek.spark.exactly_once.ledger import LedgerEntry, TaskTransaction
from odradek.spark.exactly_once.outcome import (
    Fetched,
    UndecidedFetch,
    is_of,
    joined_outcome,
    outcome_in,
)
from odradek.spark.exactly_once.steps import LoggedOutcome
from odradek.spark.options import ClientOptions, settings_for

T = TypeVar("T")

FIRST_VERSION_BY_ID = 13
LEDGER_FETCH_BYTES = 1024 * 1024
OUTCOME_FETCH_BYTES = 64 * 1024
"""Enough to see one batch of the transaction: a first batch that is larger comes whole."""
COPY_FETCH_BYTES = 4 * 1024 * 1024
OPEN_BACKOFF_MS = 20
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
DELETED_AFTER_MS = 5_000
"""How long a topic is looked for: a broker may be that far behind the one that a task asked."""

FencedIds = Mapping[str, tuple[int, int]]
"""Transactional ids that were fenced, with the producer id and epoch which that gave them."""


class LogCalls(AdminCalls):
    """The calls that read logs."""

    def __init__(
        self, engine: Engine, api_timeout_ms: int, topics: dict[str, MetadataResponseTopic]
    ) -> None:
        """`topics`: those of the client, as last seen; forgotten with each error."""
        super().__init__(engine, api_timeout_ms)
        self._topics = topics

    async def fetch(
        self,
        partition: TopicPartition,
        topic_id: str,
        offset: int,
        *,
        read_committed: bool = False,
        max_bytes: int = LEDGER_FETCH_BYTES,
    ) -> Fetched:
        """Return what is at an offset, at once. `topic_id` as text; "" for a topic by its name.
        Raises `UnknownTopicOrPartition` if there is no such topic, `OffsetOutOfRange`."""
        what = f"reading {partition} from offset {offset}"
        wanted = FetchPartition(
            partition=partition.partition, fetch_offset=offset, partition_max_bytes=max_bytes
        )

        async def ask(topic: MetadataResponseTopic, leader: int) -> Fetched:
            def build(version: int) -> FetchRequest:
                by_id = version >= FIRST_VERSION_BY_ID
                named = FetchTopic(
                    topic="" if by_id else partition.topic,
                    topic_id=topic.topic_id if by_id else ZERO_UUID,
                    partitions=[wanted],
                )
                return FetchRequest(
                    max_wait_ms=0,
                    min_bytes=0,
                    max_bytes=max_bytes,
                    isolation_level=int(read_committed),
                    topics=[named],
                )

            newest = FIRST_VERSION_BY_ID - 1 if topic.topic_id == ZERO_UUID else 32767
            request = RequestBuilder(FetchRequest, build, max_version=newest)
            while True:
                response = await self.engine.call(leader, request, FetchResponse)
                raise_for_code(response.error_code, what)
                answer = response.responses[0].partitions[0]
                raise_for_code(answer.error_code, what)
                if answer.records or not response.throttle_time_ms:
                    break
                # Over its quota, a client is answered without records.
                await self.engine.sleep(response.throttle_time_ms)
            return Fetched(
                answer.high_watermark,
                answer.last_stable_offset,
                answer.log_start_offset,
                tuple((a.producer_id, a.first_offset) for a in answer.aborted_transactions or ()),
                bytes(answer.records or b""),
            )

        return await self._ask_leader(partition, topic_id, what, ask)

    async def offset_at(self, partition: TopicPartition, topic_id: str, timestamp: int) -> int:
        """Return the start or the end of a partition's log. Raises `UnknownTopicOrPartition` if
        there is no such topic."""
        what = f"looking up offsets of {partition}"

        async def ask(topic: MetadataResponseTopic, leader: int) -> int:
            wanted = {partition: OffsetLookup(timestamp)}
            response = await send_list_offsets(self.engine, leader, wanted, read_committed=False)
            ((_, code, found),) = offsets_in(response)
            raise_for_code(code, what)
            return found.offset

        return await self._ask_leader(partition, topic_id, what, ask)

    async def _ask_leader(
        self,
        partition: TopicPartition,
        topic_id: str,
        what: str,
        ask: Callable[[MetadataResponseTopic, int], Awaitable[T]],
    ) -> T:
        """Ask the leader of a partition. Errors that may pass are retried; a topic that is missing,
        by name or id, is not."""

        async def attempt() -> T:
            is_cached = partition.topic in self._topics
            try:
                topic, leader = await self._leader(partition, topic_id, what)
                return await ask(topic, leader)
            except KafkaError:
                self._topics.pop(partition.topic, None)
                if not is_cached:
                    raise
            topic, leader = await self._leader(partition, topic_id, what)
            return await ask(topic, leader)

        return await self.retry(attempt)

    async def _leader(
        self, partition: TopicPartition, topic_id: str, what: str
    ) -> tuple[MetadataResponseTopic, int]:
        """Return a topic, perhaps as it was a while ago, and the leader of its partition."""
        topic = self._topics.get(partition.topic)
        if topic is None:
            topic = (await self.existing_topics({partition.topic}))[partition.topic]
            self._topics[partition.topic] = topic
        if topic_id and topic.topic_id != ZERO_UUID and uuid_text(topic.topic_id) != topic_id:
            raise UnknownTopicOrPartition(
                f"{what}: the topic was deleted and created again",
                ErrorCode.UNKNOWN_TOPIC_ID,
            )
        found = [p for p in topic.partitions if p.partition_index == partition.partition]
        if not found:
            raise_for_code(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, what)
        if found[0].leader_id < 0:
            raise_for_code(ErrorCode.LEADER_NOT_AVAILABLE, what)
        return topic, found[0].leader_id

    async def read_ledger(
        self, entry: LedgerEntry, partition: TopicPartition, topic_id: str
    ) -> None:
        """Bring an entry up to the end of the ledger's partition."""
        # A new leader may not know the high watermark yet: a fetch would end too early, and
        # ListOffsets is answered when it does (KIP-207).
        end = await self.offset_at(partition, topic_id, END)
        while entry.position < end:
            fetched = await self.fetch(partition, topic_id, entry.position)
            before = entry.position
            entry.replay(fetched.data)
            if entry.position == before and fetched.high_watermark >= end:
                # Compaction has removed these records.
                entry.skip_to(end)
            elif entry.position == before:
                await self.engine.sleep(OPEN_BACKOFF_MS)

    async def outcome(
        self, transaction: TaskTransaction, topic_ids: Mapping[str, str]
    ) -> LoggedOutcome:
        """Return what the topics have of a transaction, once nothing of it is open."""
        return joined_outcome(
            [
                await self._outcome_of_range(transaction, each, topic_ids)
                for each in transaction.ranges
            ]
        )

    async def _outcome_of_range(
        self,
        transaction: TaskTransaction,
        written: DeliveredRange,
        topic_ids: Mapping[str, str],
    ) -> LoggedOutcome:
        partition = TopicPartition(written.topic, written.partition)
        offset = written.first_offset
        while True:
            try:
                fetched = await self.fetch(
                    partition,
                    topic_ids.get(written.topic, ""),
                    offset,
                    read_committed=True,
                    max_bytes=OUTCOME_FETCH_BYTES,
                )
            except OffsetOutOfRange:
                start = await self.offset_at(partition, "", START)
                if not offset < start <= written.last_offset:
                    return LoggedOutcome.GONE
                offset = start
                continue
            except UnknownTopicOrPartition:
                return LoggedOutcome.GONE
            found = outcome_in(transaction, written, fetched)
            if isinstance(found, LoggedOutcome):
                return found
            if found is UndecidedFetch.STILL_OPEN:
                await self.engine.sleep(OPEN_BACKOFF_MS)
            else:
                offset = end_of(fetched.data) or written.last_offset + 1

    async def records_of_transaction(
        self,
        transaction: TaskTransaction,
        written: DeliveredRange,
        topic_id: str,
        offset: int,
    ) -> tuple[list[Record], int]:
        """Return some of the records that a transaction wrote into one range, from an offset on,
        whatever became of it, and the offset after them. Raises `OffsetOutOfRange`,
        `UnknownTopicOrPartition`."""
        partition = TopicPartition(written.topic, written.partition)
        fetched = await self.fetch(partition, topic_id, offset, max_bytes=COPY_FETCH_BYTES)
        found = [
            record
            for header in batches(fetched.data)
            if is_of(transaction, header)
            for record in records_of(fetched.data, header)
            if offset <= record.offset <= written.last_offset
        ]
        end = end_of(fetched.data)
        return found, written.last_offset + 1 if end is None else end

    async def end_many(
        self,
        prefix: str,
        transactions: Sequence[TaskTransaction],
        committed: bool,
        tries_again: bool = True,
    ) -> list[bool]:
        """End transactions, all at once. Returns for each whether this, or the same before, ended
        it; False for answers that do not tell its outcome. Not `tries_again`: one of those is
        COORDINATOR_LOAD_IN_PROGRESS for transactions before version 2."""
        waiters = [
            spawn(
                self._end_one(
                    OpenTransaction(
                        each.transactional_id(prefix),
                        each.producer_id,
                        each.producer_epoch,
                        each.transaction_version,
                    ),
                    committed,
                    tries_again or each.transaction_version >= VERSION_2,
                )
            )
            for each in transactions
        ]
        return [waiter.result() for waiter in await gather(waiters)]

    async def _end_one(
        self, transaction: OpenTransaction, committed: bool, tries_again: bool
    ) -> bool:
        async def attempt() -> bool:
            try:
                await self._attempt_end(transaction, committed)
            except KafkaError as error:
                if error.code in AMBIGUOUS or (error.code == LOADING and not tries_again):
                    return False
                raise
            return True

        return await self.retry(attempt)

    async def has_committed(self, transactional_id: str) -> bool:
        """Return whether the last transaction of an id was committed, once its markers are written;
        False if another producer has the id since, or nobody has had it."""
        while True:
            try:
                description = await self._describe(transactional_id)
            except KafkaError as error:
                if error.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                    raise
                return False
            if description.state != "PrepareCommit":
                return description.state == "CompleteCommit"
            await self.engine.sleep(OPEN_BACKOFF_MS)

    async def fence_losers(self, prefix: str, fenced: FencedIds) -> FencedIds:
        """Abort the open transactions of the prefix's tasks, whatever became of them, and shut out
        the tasks that are about to begin one: what they send first would be left open.

        In the state `Empty` an id is that of such a task, or it is fenced: those `fenced` before
        are looked at together, and fenced again if another task has got them since. Returns what
        to give the next time. In other states nobody has an id that could still be written with.
        """
        task_id = rf"{re.escape(prefix)}\.[0-9]+\.[0-9]+"
        states = ["Ongoing", "Empty"]
        try:
            listed = await self.list_transactions(states=states, pattern=task_id)
        except UnsupportedVersion:  # Before Kafka 4.1 brokers list all.
            listed = await self.list_transactions(states=states)
        found = [each for each in listed if re.fullmatch(task_id, each.transactional_id)]
        known = [e for e in found if e.state == "Empty" and e.transactional_id in fenced]
        now = await self._producers_of(known)
        still = {name: has for name, has in now.items() if has == fenced[name]}
        losers = [each.transactional_id for each in found if each.transactional_id not in still]
        waiters = await gather([spawn(self._fence(each)) for each in losers])
        return still | {name: waiter.result() for name, waiter in zip(losers, waiters, strict=True)}

    async def _producers_of(self, listed: Sequence[Transaction]) -> dict[str, tuple[int, int]]:
        """Return producer id and epoch of ids, asked for with one request to each coordinator;
        without those that have moved or expired since they were listed."""
        by_broker: dict[int, list[str]] = {}
        for each in listed:
            by_broker.setdefault(each.coordinator, []).append(each.transactional_id)
        requests = {
            node_id: DescribeTransactionsRequest(transactional_ids=names)
            for node_id, names in by_broker.items()
        }
        answers = await self.retry(lambda: self.ask_each(requests, DescribeTransactionsResponse))
        return {
            each.transactional_id: (each.producer_id, each.producer_epoch)
            for _, answer in answers
            for each in answer.transaction_states
            if each.error_code == ErrorCode.NONE
        }

    async def deleted_topics(self, topic_ids: Mapping[str, str]) -> frozenset[str]:
        """Return the topics, by name, that do not exist any more, or have another id than this one
        (as text; "" if it is not known)."""
        deadline_ms = self.engine.now_ms + DELETED_AFTER_MS
        while True:
            found = await self.retry(lambda: self.find_topics(topic_ids))
            missing = frozenset(
                name
                for name, topic_id in topic_ids.items()
                if name not in found or topic_id not in ("", uuid_text(found[name].topic_id))
            )
            if not missing or self.engine.now_ms >= deadline_ms:
                return missing
            await self.engine.sleep(OPEN_BACKOFF_MS)

    async def outcomes(
        self, transactions: Sequence[TaskTransaction], topic_ids: Mapping[str, str]
    ) -> list[LoggedOutcome]:
        """Return what the topics have of each transaction, once nothing of it is open."""
        waiters = [spawn(self.outcome(each, topic_ids)) for each in transactions]
        return [waiter.result() for waiter in await gather(waiters)]


def end_of(data: bytes) -> int | None:
    """Return the offset after the last batch; None without one."""
    end = None
    for header in batches(data):
        end = header.next_offset
    return end


AMBIGUOUS = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    }
)
"""The answers to EndTxn that do not tell the outcome: somebody else ended the transaction, its id
went on, or it expired."""


class LogAdmin(Admin):
    """An admin client that reads logs, too."""

    def __init__(self, options: ClientOptions) -> None:
        super().__init__(
            settings_for(options.settings, AdminConfig),
            brokers=options.bootstrap_servers,
            client_id=options.client_id,
            request_timeout_ms=options.request_timeout_ms,
            default_api_timeout_ms=options.api_timeout_ms,
        )
        self._topics: dict[str, MetadataResponseTopic] = {}

    def _new_calls(self) -> LogCalls:
        return LogCalls(self._engine, self.config.default_api_timeout_ms, self._topics)

    read_ledger = BlockingMethod(LogCalls.read_ledger)
    end_many = BlockingMethod(LogCalls.end_many)
    has_committed = BlockingMethod(LogCalls.has_committed)
    fence_losers = BlockingMethod(LogCalls.fence_losers)
    deleted_topics = BlockingMethod(LogCalls.deleted_topics)
    outcomes = BlockingMethod(LogCalls.outcomes)
    records_of_transaction = BlockingMethod(LogCalls.records_of_transaction)


_admins: dict[tuple[int, ClientOptions], LogAdmin] = {}


def log_admin_of(options: ClientOptions) -> LogAdmin:
    """Return this process's client for these options."""
    key = (os.getpid(), options)
    if key not in _admins:
        _admins[key] = LogAdmin(options)
    return _admins[key]
