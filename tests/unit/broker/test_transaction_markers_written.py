"""WriteTxnMarkers: what a client may write, and how a request of other nodes is answered."""

from __future__ import annotations

from odradek.broker.transaction_markers import MARKERS_AT_ONCE, MarkerWriter
from odradek.model.errors import ErrorCode
from odradek.protocol.api.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from unit.broker.transactional_broker import BrokerWithOpenTransaction


class MarkedBroker(BrokerWithOpenTransaction):
    """Gets WriteTxnMarkers."""

    @staticmethod
    def request(
        committed: bool = False, producer_id: int = 7, epoch: int = 3, *partitions: int
    ) -> WriteTxnMarkersRequest:
        topic = WritableTxnMarkerTopic(name="t", partition_indexes=list(partitions or (0,)))
        return WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    transaction_result=committed,
                    topics=[topic],
                    coordinator_epoch=0,
                )
            ]
        )

    def of_client(self, *of: int, committed: bool = False) -> ErrorCode:
        """Send a marker as a client; return the error."""
        request = self.request(committed, *of)
        answer = self.call(request, 1, WriteTxnMarkersResponse)
        return errors_of(answer)[0]

    def of_node(self, request: WriteTxnMarkersRequest) -> list[ErrorCode]:
        """Send markers as another node does; return the errors."""
        answers: list[WriteTxnMarkersResponse] = []
        MarkerWriter(self.node.broker, request, False, 1_000, answers.append).run()
        self.run_until_idle()
        (answer,) = answers
        return errors_of(answer)


def errors_of(answer: WriteTxnMarkersResponse) -> list[ErrorCode]:
    return [
        ErrorCode(each.error_code)
        for marker in answer.markers
        for topic in marker.topics
        for each in topic.partitions
    ]


def test_a_client_may_not_commit() -> None:
    broker = MarkedBroker()
    assert broker.of_client(committed=True) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert broker.is_open


def test_a_client_may_only_abort_what_is_open() -> None:
    broker = MarkedBroker()
    assert broker.of_client(8) is ErrorCode.INVALID_TXN_STATE
    assert broker.of_client(7, 4) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert broker.of_client(7, 3, 1) is ErrorCode.INVALID_TXN_STATE
    assert broker.of_client(7, 3, 3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert broker.is_open
    assert broker.of_client() is ErrorCode.NONE
    assert not broker.is_open
    assert broker.of_client() is ErrorCode.INVALID_TXN_STATE


def test_markers_of_other_nodes_are_answered_when_they_are_on_disk() -> None:
    broker = MarkedBroker()
    request = broker.request(True, 7, 3, 0, 1, 3)
    assert broker.of_node(request) == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert not broker.is_open
    partition = broker.node.replicas.by_name["t", 0]
    assert partition.high_watermark == partition.log.log_end_offset == 2


def test_many_markers_are_written_in_several_turns() -> None:
    broker = MarkedBroker()
    log = broker.node.replicas.by_name["t", 0].log
    before = log.log_end_offset
    markers = [broker.request(True, number, 0).markers[0] for number in range(100, 260)]
    answers: list[WriteTxnMarkersResponse] = []
    request = WriteTxnMarkersRequest(markers=markers)
    MarkerWriter(broker.node.broker, request, False, 1_000, answers.append).run()
    assert log.log_end_offset == before + MARKERS_AT_ONCE
    assert not answers
    broker.run_until_idle()
    assert log.log_end_offset == before + 160
    (answer,) = answers
    assert errors_of(answer) == [ErrorCode.NONE] * 160


def test_a_request_without_markers_is_answered() -> None:
    assert MarkedBroker().of_node(WriteTxnMarkersRequest(markers=[])) == []
