"""Groups move with the leaders of `__consumer_offsets`, between three simulated nodes."""

from __future__ import annotations

from odradek.model.errors import ErrorCode
from odradek.model.topics import CONSUMER_OFFSETS
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest
from odradek.protocol.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
)
from unit.broker.replicated_nodes import ReplicatedNodes

NOT_YET = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)


class NodesWithGroup(ReplicatedNodes):
    """Three nodes, and a group that commits offsets of a topic."""

    def __init__(self) -> None:
        super().__init__(offsets_topic_num_partitions="1", min_insync_replicas="2")
        self.create_topic()
        self.committed_topic = self.topic_id()
        self.coordinator = self.find_coordinator()
        self.await_serving(self.coordinator)
        self.topic = CONSUMER_OFFSETS

    def find_coordinator(self, *others: int) -> int:
        """The coordinator of the group by any node that runs; not one of these others."""
        request = FindCoordinatorRequest(coordinator_keys=["g"])
        while True:
            at = self.running[0].config.node_id
            (found,) = self.client.ask(at, request).coordinators
            if found.error_code == ErrorCode.NONE and found.node_id not in others:
                return int(found.node_id)
            self.pass_time(50)

    def commit(self, number: int, offset: int) -> ErrorCode:
        partition = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        topic = OffsetCommitRequestTopic(topic_id=self.committed_topic, partitions=[partition])
        answer = self.client.ask(number, OffsetCommitRequest(group_id="g", topics=[topic]))
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    def fetched(self, number: int) -> OffsetFetchResponseGroup:
        group = OffsetFetchRequestGroup(group_id="g", topics=None)
        (found,) = self.client.ask(number, OffsetFetchRequest(groups=[group])).groups
        assert isinstance(found, OffsetFetchResponseGroup)
        return found

    def await_serving(self, number: int) -> None:
        """Wait until that node knows itself that it coordinates the group."""
        while self.fetched(number).error_code in NOT_YET:
            self.pass_time(10)

    def committed(self, number: int) -> int | ErrorCode:
        found = self.fetched(number)
        if found.error_code:
            return ErrorCode(found.error_code)
        return int(found.topics[0].partitions[0].committed_offset)

    def await_committed(self, number: int) -> int | ErrorCode:
        """The committed offset, as soon as the coordinator has loaded it."""
        while (found := self.committed(number)) in NOT_YET:
            self.pass_time(10)
        return found


def test_the_offsets_topic_has_replicas_and_a_commit_is_on_all_of_them() -> None:
    nodes = NodesWithGroup()
    assert nodes.isr == [1, 2, 3]
    assert nodes.commit(nodes.coordinator, 7) == ErrorCode.NONE
    assert len(set(nodes.ends())) == 1
    assert nodes.logs_are_equal()


def test_a_killed_coordinator_is_replaced_and_the_next_has_every_committed_offset() -> None:
    nodes = NodesWithGroup()
    for offset in range(1, 8):
        assert nodes.commit(nodes.coordinator, offset) == ErrorCode.NONE
    nodes.machines[nodes.coordinator].kill()
    after = nodes.find_coordinator(nodes.coordinator)
    assert nodes.await_committed(after) == 7
    assert nodes.commit(after, 8) == ErrorCode.NONE
    nodes.boot(nodes.coordinator)
    nodes.until(lambda: nodes.isr == [1, 2, 3])
    assert nodes.committed(nodes.coordinator) == ErrorCode.NOT_COORDINATOR


def test_a_coordinator_that_loses_the_leadership_refuses_its_groups_at_once() -> None:
    nodes = NodesWithGroup()
    assert nodes.commit(nodes.coordinator, 7) == ErrorCode.NONE
    others = [number for number in (1, 2, 3) if number != nodes.coordinator]
    nodes.reassign(*others)
    after = nodes.find_coordinator(nodes.coordinator)
    nodes.until(
        lambda: not (nodes.has_replica(nodes.coordinator) and nodes.leads(nodes.coordinator))
    )
    assert nodes.committed(nodes.coordinator) == ErrorCode.NOT_COORDINATOR
    assert nodes.await_committed(after) == 7


def test_below_the_minimum_of_in_sync_replicas_a_commit_is_refused() -> None:
    nodes = NodesWithGroup()
    nodes.set_config("min.insync.replicas", "3")
    assert nodes.commit(nodes.coordinator, 7) == ErrorCode.NONE
    away = next(number for number in (1, 2, 3) if number != nodes.coordinator)
    nodes.machines[away].kill()
    nodes.until(lambda: away not in nodes.isr)
    assert nodes.commit(nodes.coordinator, 8) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert nodes.committed(nodes.coordinator) == 7
