"""A transactional producer of raw requests that follows `transaction.version` 2 as franz-go does.

    Produce 12, TxnOffsetCommit 5   add their partition to the transaction: nothing asks for that
    EndTxn 5                        returns the producer id and epoch of the next transaction

A request is sent again, over a new connection and to whoever leads or coordinates by then, until
its answer is final. So a record may arrive again, and an end that was carried out is asked for
again with the epoch before it.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from clients.libraries.transactional import PATIENCE_S, TransactionalProducer
from clients.wire import RawConnection
from odradek.model.errors import ErrorCode
from odradek.protocol.api.end_txn import EndTxnRequest, EndTxnResponse
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.api.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from odradek.protocol.api.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from odradek.protocol.record_batch_builder import RecordBatchBuilder

T = TypeVar("T")
GROUP, TRANSACTION = 0, 1
REQUEST_TIMEOUT_S = 5
PAUSE_S = 0.02


class Refused(Exception):
    """A broker's final error."""


class RawRequests(TransactionalProducer):
    """Transactions of version 2, one request at a time."""

    refused = (Refused, OSError)

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._bootstrap = bootstrap.split(",")
        self._id = transactional_id
        self._timeout_ms = timeout_ms
        self._producer = (-1, -1)
        self._sequences: dict[tuple[str, int], int] = defaultdict(int)
        """By partition, since the epoch began."""
        self._wires: dict[str, RawConnection] = {}
        self._places: dict[object, str] = {}
        """The addresses of leaders and coordinators, forgotten with each error."""

    def init(self) -> None:
        request = InitProducerIdRequest(
            transactional_id=self._id, transaction_timeout_ms=self._timeout_ms
        )
        answer = self._ask_until_answered(
            lambda: self._coordinator(TRANSACTION, self._id),
            request,
            5,
            InitProducerIdResponse,
            lambda answer: answer.error_code,
        )
        self._begin_epoch(answer)

    def begin(self) -> None:
        """Nothing is asked for: the first record begins it."""

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        producer_id, epoch = self._producer
        batch = RecordBatchBuilder(
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=self._sequences[topic, partition],
            transactional=True,
        )
        batch.append(None, value, timestamp=time.time_ns() // 1_000_000)
        data = PartitionProduceData(index=partition, records=batch.build())
        request = ProduceRequest(
            transactional_id=self._id,
            acks=-1,
            timeout_ms=REQUEST_TIMEOUT_S * 1000,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        self._ask_until_answered(
            lambda: self._leader(topic, partition),
            request,
            12,
            ProduceResponse,
            lambda answer: answer.responses[0].partition_responses[0].error_code,
        )
        self._sequences[topic, partition] += 1

    def commit_offsets(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        producer_id, epoch = self._producer
        request = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=group,
            producer_id=producer_id,
            producer_epoch=epoch,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_metadata="",
                        )
                    ],
                )
                for (topic, partition), offset in offsets.items()
            ],
        )
        self._ask_until_answered(
            lambda: self._coordinator(GROUP, group),
            request,
            5,
            TxnOffsetCommitResponse,
            lambda answer: max(
                each.error_code for topic in answer.topics for each in topic.partitions
            ),
        )

    def commit(self) -> None:
        self._end(committed=True)

    def abort(self) -> None:
        self._end(committed=False)

    def close(self) -> None:
        while self._wires:
            self._wires.popitem()[1].socket.close()

    def _end(self, *, committed: bool) -> None:
        producer_id, epoch = self._producer
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=committed,
        )
        answer = self._ask_until_answered(
            lambda: self._coordinator(TRANSACTION, self._id),
            request,
            5,
            EndTxnResponse,
            lambda answer: answer.error_code,
        )
        self._begin_epoch(answer)

    def _begin_epoch(self, answer: InitProducerIdResponse | EndTxnResponse) -> None:
        self._producer = answer.producer_id, answer.producer_epoch
        self._sequences.clear()

    def _ask_until_answered(
        self,
        place: Callable[[], str],
        request: object,
        version: int,
        expect: type[T],
        code_of: Callable[[T], int],
    ) -> T:
        """Ask until the answer is final; return it. Raises `Refused`, or `TimeoutError`."""
        deadline, last = time.monotonic() + PATIENCE_S, ""
        while time.monotonic() < deadline:
            try:
                answer = self._ask(place(), request, version, expect)
            except OSError as error:
                last = repr(error)
            else:
                code = ErrorCode(code_of(answer))
                if code is ErrorCode.NONE:
                    return answer
                last = code.name
                if not code.retriable:
                    raise Refused(f"{type(request).__name__}: {last}")
            self._places.clear()
            time.sleep(PAUSE_S)
        raise TimeoutError(f"{type(request).__name__} without an answer; the last error: {last}")

    def _ask(self, address: str, request: object, version: int, expect: type[T]) -> T:
        """Ask one broker. Raises `OSError` if the connection fails, which is not used again."""
        wire = self._wires.pop(address, None) or RawConnection(address, REQUEST_TIMEOUT_S)
        try:
            answer = wire.ask(request, version, expect)
        except BaseException:
            wire.socket.close()
            raise
        self._wires[address] = wire
        return answer

    def _ask_anyone(self, request: object, version: int, expect: type[T]) -> T:
        for address in self._bootstrap[:-1]:
            with suppress(OSError):
                return self._ask(address, request, version, expect)
        return self._ask(self._bootstrap[-1], request, version, expect)

    def _leader(self, topic: str, partition: int) -> str:
        """Return the address of a leader. Raises `OSError` if there is none."""
        if (topic, partition) not in self._places:
            wanted = MetadataRequest(
                topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
            )
            answer = self._ask_anyone(wanted, 9, MetadataResponse)
            brokers = {each.node_id: f"{each.host}:{each.port}" for each in answer.brokers}
            for each in answer.topics[0].partitions:
                if each.leader_id in brokers:
                    self._places[topic, each.partition_index] = brokers[each.leader_id]
        return self._place((topic, partition))

    def _coordinator(self, kind: int, key: str) -> str:
        """Return the address of a coordinator. Raises `OSError` if there is none."""
        if (kind, key) not in self._places:
            wanted = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
            found: Any = self._ask_anyone(wanted, 4, FindCoordinatorResponse).coordinators[0]
            if found.error_code == ErrorCode.NONE:
                self._places[kind, key] = f"{found.host}:{found.port}"
        return self._place((kind, key))

    def _place(self, what: object) -> str:
        if what not in self._places:
            raise ConnectionError(f"{what} has no broker")
        return self._places[what]
