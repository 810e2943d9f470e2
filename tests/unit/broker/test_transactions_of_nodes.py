"""Transactions between three simulated nodes: markers over CLUSTER, coordinators that move."""

from __future__ import annotations

from odradek.model.errors import ErrorCode
from odradek.network_client.api_versions import RequestBuilder
from odradek.protocol.api.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from odradek.protocol.api.describe_transactions import (
    DescribedTransaction,
    DescribeTransactionsRequest,
)
from odradek.protocol.api.end_txn import EndTxnRequest, EndTxnResponse
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest
from odradek.protocol.api.init_producer_id import InitProducerIdRequest
from unit.broker.replicated_nodes import ReplicatedNodes

NOT_YET = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)


class NodesWithTransaction(ReplicatedNodes):
    """Three nodes, and a transaction that is open in a topic whose one replica is on another node
    than the coordinator.
    """

    def __init__(self, **settings: str) -> None:
        super().__init__(
            transaction_state_log_num_partitions="1", min_insync_replicas="1", **settings
        )
        self.coordinator = self.find_coordinator()
        self.elsewhere = next(number for number in (1, 2, 3) if number != self.coordinator)
        self.create_topic(self.elsewhere)
        request = InitProducerIdRequest(transactional_id="id", transaction_timeout_ms=60_000)
        while (found := self.client.ask(self.coordinator, request)).error_code in NOT_YET:
            self.pass_time(10)
        assert found.error_code == ErrorCode.NONE
        self.producer = found.producer_id, found.producer_epoch
        self.begin()

    def find_coordinator(self, *others: int) -> int:
        """The coordinator of the id by any node that runs; not one of these others."""
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=["id"])
        while True:
            at = self.running[0].config.node_id
            (found,) = self.client.ask(at, request).coordinators
            if found.error_code == ErrorCode.NONE and found.node_id not in others:
                return int(found.node_id)
            self.pass_time(50)

    def begin(self, topic: str = "t") -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="id",
            v3_and_below_producer_id=self.producer[0],
            v3_and_below_producer_epoch=self.producer[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0])],
        )
        of_client = RequestBuilder(type(request), lambda version: request, max_version=3)
        answer = self.client.ask(self.coordinator, of_client)
        (found,) = answer.results_by_topic_v3_and_below
        assert found.results_by_partition[0].partition_error_code == ErrorCode.NONE

    def end(self) -> EndTxnResponse:
        request = EndTxnRequest(
            transactional_id="id",
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            committed=True,
        )
        found = self.client.ask(self.coordinator, request)
        assert isinstance(found, EndTxnResponse)
        return found

    def described(self, number: int) -> DescribedTransaction:
        request = DescribeTransactionsRequest(transactional_ids=["id"])
        (found,) = self.client.ask(number, request).transaction_states
        assert isinstance(found, DescribedTransaction)
        return found

    def await_state(self, state: str, number: int) -> None:
        while self.described(number).transaction_state != state:
            self.pass_time(10)


def test_the_leader_of_a_partition_gets_the_marker_from_the_coordinator() -> None:
    nodes = NodesWithTransaction()
    answer = nodes.end()
    assert (answer.error_code, answer.producer_epoch) == (ErrorCode.NONE, nodes.producer[1] + 1)
    nodes.await_state("CompleteCommit", nodes.coordinator)
    assert nodes.replica(nodes.elsewhere).log.log_end_offset == 1


def test_markers_are_sent_until_their_leader_is_back() -> None:
    nodes = NodesWithTransaction()
    nodes.machines[nodes.elsewhere].kill()
    assert nodes.end().error_code == ErrorCode.NONE
    nodes.pass_time(2_000)
    found = nodes.described(nodes.coordinator)
    assert found.transaction_state == "PrepareCommit"
    assert [topic.topic for topic in found.topics] == ["t"]
    nodes.boot(nodes.elsewhere)
    nodes.await_state("CompleteCommit", nodes.coordinator)
    assert nodes.replica(nodes.elsewhere).log.log_end_offset == 1


def test_the_successor_of_a_coordinator_goes_on_with_a_decided_transaction() -> None:
    nodes = NodesWithTransaction()
    nodes.machines[nodes.elsewhere].kill()
    answer = nodes.end()
    assert answer.error_code == ErrorCode.NONE
    first = nodes.coordinator
    nodes.machines[first].kill()
    nodes.boot(nodes.elsewhere)
    nodes.coordinator = nodes.find_coordinator(first)
    nodes.await_state("CompleteCommit", nodes.coordinator)
    assert nodes.replica(nodes.elsewhere).log.log_end_offset == 1
    again = nodes.end()
    assert again == answer, "a repeated request is answered alike"


def test_a_coordinator_that_moved_has_the_open_transaction() -> None:
    nodes = NodesWithTransaction()
    before = nodes.described(nodes.coordinator)
    first = nodes.coordinator
    nodes.machines[first].kill()
    nodes.coordinator = nodes.find_coordinator(first)
    nodes.await_state("Ongoing", nodes.coordinator)
    assert nodes.described(nodes.coordinator) == before
    assert nodes.end().error_code == ErrorCode.NONE
    nodes.await_state("CompleteCommit", nodes.coordinator)


def test_markers_leave_a_silent_leader_when_it_is_fenced() -> None:
    """The request to it would be in flight for `replica.socket.timeout.ms`, 30 seconds."""
    nodes = NodesWithTransaction(transaction_state_log_replication_factor="1")
    silent = nodes.elsewhere
    (third,) = {1, 2, 3} - {silent, nodes.coordinator}
    nodes.create_topic(silent, third, name="u")
    nodes.begin("u")
    nodes.pause(silent, 60_000)
    assert nodes.end().error_code == ErrorCode.NONE
    nodes.until(lambda: nodes.leads(third))
    waited_ms = nodes.until(lambda: nodes.replica(third).log.log_end_offset == 1)
    assert waited_ms < 1_000
