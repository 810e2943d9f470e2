"""Bad requests about transactions are refused, and change nothing: a transaction goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from odradek.model.errors import ErrorCode
from odradek.protocol.api.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.protocol.api.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from unit.broker.transactional_broker import TransactionalBroker
from unit.broker.transactional_requests import (
    TV1_PRODUCE,
    TV2_PRODUCE,
    Producer,
    batch,
    commit_offset,
    committed,
    produce,
)


class BusyBroker(TransactionalBroker):
    """`producer` has a transaction open in partition 0 of `t` and in the offsets of group `g`. It
    is the third of its id: `before` was the last one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.find_group_coordinator()
        self.started()
        self.before = self.started()
        self.producer = self.started()
        assert self.before[0] == self.producer[0]
        assert produce(self, {0: batch(self.producer, 0)}) == {0: "NONE"}
        assert commit_offset(self, self.producer) == "NONE"

    @property
    def stranger(self) -> Producer:
        return self.producer[0] + 77, self.producer[1]

    @property
    def ahead(self) -> Producer:
        return self.producer[0], self.producer[1] + 1

    def as_id(self, transactional_id: str, ask: Callable[[], ErrorCode]) -> ErrorCode:
        """Ask with another transactional id."""
        kept, self.id = self.id, transactional_id
        try:
            return ask()
        finally:
            self.id = kept

    def produced(
        self, producer: Producer, version: int = TV2_PRODUCE, transactional_id: str | None = "id"
    ) -> str:
        """The error of the next batch in a partition that is not part of the transaction."""
        return produce(self, {1: batch(producer, 0)}, version, transactional_id)[1]

    def marked(self, commit: bool, producer: Producer, partition: int, epoch: int = 0) -> ErrorCode:
        """WriteTxnMarkers of a client, at a coordinator's epoch."""
        topic = WritableTxnMarkerTopic(name="t", partition_indexes=[partition])
        marker = WritableTxnMarker(
            producer_id=producer[0],
            producer_epoch=producer[1],
            transaction_result=commit,
            topics=[topic],
            coordinator_epoch=epoch,
        )
        answer = self.call(WriteTxnMarkersRequest(markers=[marker]), 1, WriteTxnMarkersResponse)
        return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)

    def added_as_broker(self, version: int) -> ErrorCode:
        """AddPartitionsToTxn as brokers send it to each other."""
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=self.id,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            topics=[AddPartitionsToTxnTopic(name="t", partitions=[1])],
        )
        request = AddPartitionsToTxnRequest(transactions=[transaction])
        return ErrorCode(self.call(request, version, AddPartitionsToTxnResponse).error_code)

    def everything(self) -> object:
        """What a request may change: the coordinator's state, the logs and the offsets."""
        ends = {
            key: partition.log.log_end_offset
            for key, partition in sorted(self.node.replicas.by_name.items())
        }
        return self.described(), ends, committed(self)


Ask = Callable[[BusyBroker], ErrorCode | str]
MAPPING = "INVALID_PRODUCER_ID_MAPPING"
FENCED = "PRODUCER_FENCED"
EPOCH = "INVALID_PRODUCER_EPOCH"
STATE_ERROR = "INVALID_TXN_STATE"
FORBIDDEN = "CLUSTER_AUTHORIZATION_FAILED"
BAD: dict[str, tuple[Ask, str]] = {
    # InitProducerId
    "init without a timeout": (lambda b: b.init(timeout_ms=0)[0], "INVALID_TRANSACTION_TIMEOUT"),
    "init, negative timeout": (lambda b: b.init(timeout_ms=-1)[0], "INVALID_TRANSACTION_TIMEOUT"),
    "init, timeout above the maximum": (
        lambda b: b.init(timeout_ms=900_001)[0],
        "INVALID_TRANSACTION_TIMEOUT",
    ),
    "init, no transactional id": (lambda b: b.as_id("", lambda: b.init()[0]), "INVALID_REQUEST"),
    "init, id without epoch": (lambda b: b.init((b.producer[0], -1))[0], "INVALID_REQUEST"),
    "init, epoch without id": (lambda b: b.init((-1, b.producer[1]))[0], "INVALID_REQUEST"),
    "init, unknown producer": (lambda b: b.init(b.stranger)[0], FENCED),
    "init, negative producer": (lambda b: b.init((-7, 0))[0], FENCED),
    "init, epoch before": (lambda b: b.init(b.before)[0], FENCED),
    "init, epoch ahead": (lambda b: b.init(b.ahead)[0], FENCED),
    "init, epoch before, version 3": (lambda b: b.init(b.before, 3)[0], EPOCH),
    # AddPartitionsToTxn, AddOffsetsToTxn
    "add, no transactional id": (
        lambda b: b.as_id("", lambda: b.add(b.producer, 1)),
        "INVALID_REQUEST",
    ),
    "add, unknown transactional id": (
        lambda b: b.as_id("x", lambda: b.add(b.producer, 1)),
        MAPPING,
    ),
    "add, unknown producer": (lambda b: b.add(b.stranger, 1), MAPPING),
    "add, negative producer": (lambda b: b.add((-1, 0), 1), MAPPING),
    "add, epoch before": (lambda b: b.add(b.before, 1), FENCED),
    "add, epoch ahead": (lambda b: b.add(b.ahead, 1), FENCED),
    "add, epoch before, version 1": (lambda b: b.add(b.before, 1, version=1), EPOCH),
    "add, missing partition": (lambda b: b.add(b.producer, 3), "UNKNOWN_TOPIC_OR_PARTITION"),
    "add, negative partition": (lambda b: b.add(b.producer, -1), "UNKNOWN_TOPIC_OR_PARTITION"),
    "add as brokers do, 4": (lambda b: b.added_as_broker(4), FORBIDDEN),
    "add as brokers do, 5": (lambda b: b.added_as_broker(5), FORBIDDEN),
    "add offsets, unknown producer": (lambda b: b.add_group(b.stranger, "h"), MAPPING),
    "add offsets, epoch before": (lambda b: b.add_group(b.before, "h"), FENCED),
    "add offsets, no transactional id": (
        lambda b: b.as_id("", lambda: b.add_group(b.producer, "h")),
        "INVALID_REQUEST",
    ),
    # EndTxn
    "end, no transactional id": (
        lambda b: b.as_id("", lambda: b.end(b.producer)[0]),
        "INVALID_REQUEST",
    ),
    "end, unknown transactional id": (
        lambda b: b.as_id("x", lambda: b.end(b.producer)[0]),
        MAPPING,
    ),
    "end, unknown producer": (lambda b: b.end(b.stranger)[0], MAPPING),
    "end, negative producer": (lambda b: b.end((-1, -1))[0], MAPPING),
    "end, epoch before": (lambda b: b.end(b.before)[0], FENCED),
    "end, epoch ahead": (lambda b: b.end(b.ahead)[0], FENCED),
    "end, epoch before, version 4": (lambda b: b.end(b.before, version=4)[0], FENCED),
    "end, epoch before, version 1": (lambda b: b.end(b.before, version=1)[0], EPOCH),
    # Produce
    "produce, unknown producer": (lambda b: b.produced(b.stranger), MAPPING),
    "produce, unknown producer, 10": (lambda b: b.produced(b.stranger, TV1_PRODUCE), MAPPING),
    "produce, negative producer": (lambda b: b.produced((-7, 0)), MAPPING),
    "produce, epoch before": (lambda b: b.produced(b.before), EPOCH),
    "produce, epoch ahead": (lambda b: b.produced(b.ahead), EPOCH),
    "produce, not added": (lambda b: b.produced(b.producer, TV1_PRODUCE), STATE_ERROR),
    "produce, unknown transactional id": (
        lambda b: b.produced(b.producer, transactional_id="x"),
        MAPPING,
    ),
    "produce, no transactional id": (
        lambda b: b.produced(b.producer, transactional_id=None),
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    ),
    "produce, two producers": (
        lambda b: produce(b, {0: batch(b.producer, 1), 1: batch(b.stranger, 0)})[0],
        MAPPING,
    ),
    "produce, two epochs": (
        lambda b: produce(b, {0: batch(b.producer, 1), 1: batch(b.ahead, 0)})[0],
        MAPPING,
    ),
    "produce, out of order": (
        lambda b: produce(b, {0: batch(b.producer, 7)})[0],
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
    ),
    "produce, not transactional": (
        lambda b: produce(b, {0: batch(b.producer, 1, transactional=False)})[0],
        STATE_ERROR,
    ),
    # TxnOffsetCommit
    "offsets, unknown producer": (lambda b: commit_offset(b, b.stranger, group="h"), MAPPING),
    "offsets, negative producer": (lambda b: commit_offset(b, (-1, -1)), MAPPING),
    "offsets, epoch before": (lambda b: commit_offset(b, b.before), EPOCH),
    "offsets, epoch ahead": (lambda b: commit_offset(b, b.ahead), EPOCH),
    "offsets of no group": (
        lambda b: commit_offset(b, b.producer, group=""),
        "INVALID_GROUP_ID",
    ),
    "offsets of a missing topic": (
        lambda b: commit_offset(b, b.producer, topic="none"),
        "UNKNOWN_TOPIC_OR_PARTITION",
    ),
    "offsets of a member of no generation": (
        lambda b: commit_offset(b, b.producer, member_id="x", generation_id=3),
        "UNKNOWN_MEMBER_ID",
    ),
    # WriteTxnMarkers of a client
    "commit marker": (lambda b: b.marked(True, b.producer, 0), FORBIDDEN),
    "abort, unknown producer": (lambda b: b.marked(False, b.stranger, 0), STATE_ERROR),
    "abort, nothing open there": (lambda b: b.marked(False, b.producer, 1), STATE_ERROR),
    "abort, epoch before": (lambda b: b.marked(False, b.before, 0), EPOCH),
    "abort, epoch ahead": (lambda b: b.marked(False, b.ahead, 0), EPOCH),
    "abort that would fence the coordinator": (
        lambda b: b.marked(False, b.producer, 0, epoch=9),
        FORBIDDEN,
    ),
    "abort, missing partition": (
        lambda b: b.marked(False, b.producer, 3),
        "UNKNOWN_TOPIC_OR_PARTITION",
    ),
}
"""What is asked, and the error."""


@pytest.mark.parametrize("name", BAD)
def test_bad_request_is_refused_and_changes_nothing(name: str) -> None:
    broker = BusyBroker()
    before = broker.everything()
    ask, expected = BAD[name]
    found = ask(broker)
    assert (found if isinstance(found, str) else found.name) == expected
    broker.run_until_idle()
    assert broker.everything() == before
    assert broker.end(broker.producer)[0] is ErrorCode.NONE
    broker.run_until_idle()
    assert committed(broker) == 7
