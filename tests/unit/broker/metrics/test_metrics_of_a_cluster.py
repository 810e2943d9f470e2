"""What three simulated nodes count of the cluster's partitions and of its quorum."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

from odradek.broker.leader_ends import KNOWN_MS, REFRESH_MS, WANTED_MS
from odradek.broker.metrics.reading import samples_of
from odradek.broker.metrics.scrape import Scrape
from odradek.broker.metrics.table import BY_NAME
from odradek.model.errors import ErrorCode
from odradek.protocol.api.describe_waiting import DescribeWaitingRequest
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest
from odradek.protocol.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from unit.broker.replicated_nodes import ReplicatedNodes

LIST_OFFSETS = 2


def values(nodes: ReplicatedNodes, name: str) -> dict[int, list[Any]]:
    """The samples of a metric by node."""
    found: dict[int, list[Any]] = {node.config.node_id: [] for node in nodes.running}

    def read(number: int) -> None:
        for step in BY_NAME[name].read(Scrape(nodes.node(number))):
            found[number] += samples_of(step)

    for number in found:
        nodes.run(number, partial(read, number))
    return found


def test_in_sync_replicas_are_counted_by_the_leader_alone() -> None:
    nodes = ReplicatedNodes().create_topic(2, 1, 3)
    name = "kafka_server_replicamanager_underreplicatedpartitions"
    assert values(nodes, name) == {n: [((), 0)] for n in (1, 2, 3)}
    nodes.machines[3].kill()
    nodes.until(lambda: nodes.isr == [1, 2])
    nodes.until(nodes.agree)
    assert values(nodes, name) == {1: [((), 0)], 2: [((), 1)]}


def test_one_node_is_the_active_controller_and_all_know_the_leader() -> None:
    nodes = ReplicatedNodes()
    controller = nodes.controllers[0].config.node_id
    active = values(nodes, "kafka_controller_kafkacontroller_activecontrollercount")
    assert active == {n: [((), int(n == controller))] for n in (1, 2, 3)}
    leader = values(nodes, "kafka_server_raftmetrics_current_leader")
    assert leader == {n: [((), controller)] for n in (1, 2, 3)}
    voted = values(nodes, "kafka_server_raftmetrics_current_vote")
    assert voted.pop(controller) == [((), controller)]
    assert sum(found == [((), controller)] for found in voted.values()) >= 1, "a majority"
    states = values(nodes, "kafka_server_raftmetrics_current_state")
    expected = {n: "leader" if n == controller else "follower" for n in (1, 2, 3)}
    assert states == {n: [((state,), 1)] for n, state in expected.items()}


class NodesWithLag(ReplicatedNodes):
    """A group that has committed 1 of the 3 records of each of two topics: one that its coordinator
    leads, one that it has no replica of.
    """

    def __init__(self) -> None:
        super().__init__(offsets_topic_num_partitions="1")
        request = FindCoordinatorRequest(coordinator_keys=["g"])
        while self.client.ask(1, request).coordinators[0].error_code:
            self.pass_time(50)
        self.coordinator = int(self.client.ask(1, request).coordinators[0].node_id)
        self.other = next(number for number in (1, 2, 3) if number != self.coordinator)
        for leader, name in ((self.coordinator, "here"), (self.other, "there")):
            self.create_topic(leader, name=name)
            assert self.produced(leader, 3) == ErrorCode.NONE
            self.until(lambda: not self.commit(self.topic_id()))

    def commit(self, topic_id: UUID) -> int:
        """Commit offset 1 of a topic; return the error."""
        partition = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=1, committed_metadata=""
        )
        topic = OffsetCommitRequestTopic(topic_id=topic_id, partitions=[partition])
        request = OffsetCommitRequest(group_id="g", topics=[topic])
        answer = self.client.ask(self.coordinator, request)
        return int(answer.topics[0].partitions[0].error_code)

    def of_group(self, name: str) -> dict[tuple[Any, ...], int]:
        """The samples of a metric of the group, which only its coordinator has."""
        found = values(self, f"kafka_consumergroup_{name}")
        own = dict(found.pop(self.coordinator))
        assert not any(found.values())
        return own


def test_lag_of_a_partition_that_another_node_leads_is_asked_from_it() -> None:
    nodes = NodesWithLag()
    offsets = {("g", "here", 0): 1, ("g", "there", 0): 1}
    sums = {("g", "here"): 1, ("g", "there"): 1}
    assert nodes.of_group("current_offset") == offsets
    assert nodes.of_group("current_offset_sum") == sums
    assert nodes.of_group("lag") == {("g", "here", 0): 2}  # and now the other end is asked for
    assert nodes.of_group("lag_sum") == {("g", "here"): 2}
    nodes.pass_time(100)
    assert nodes.of_group("lag") == {("g", "here", 0): 2, ("g", "there", 0): 2}
    assert nodes.of_group("lag_sum") == {("g", "here"): 2, ("g", "there"): 2}
    assert nodes.produced(nodes.other, 4) == ErrorCode.NONE
    nodes.pass_time(2 * REFRESH_MS)
    assert nodes.of_group("lag_sum") == {("g", "here"): 2, ("g", "there"): 6}


def test_lag_is_not_told_of_a_leader_that_does_not_answer() -> None:
    nodes = NodesWithLag()
    nodes.of_group("lag")
    nodes.pass_time(100)
    assert nodes.of_group("lag_sum") == {("g", "here"): 2, ("g", "there"): 2}
    nodes.machines[nodes.other].kill()
    nodes.pass_time(KNOWN_MS + 100)
    assert nodes.of_group("lag_sum") == {("g", "here"): 2}
    assert nodes.of_group("current_offset_sum") == {("g", "here"): 1, ("g", "there"): 1}


def test_ends_are_asked_for_while_somebody_reads_them() -> None:
    nodes = NodesWithLag()
    lists = nodes.node(nodes.other).broker.request_metrics.by_key[LIST_OFFSETS]
    before = lists.request_bytes.count
    nodes.pass_time(WANTED_MS)
    assert lists.request_bytes.count == before
    nodes.of_group("lag")
    nodes.pass_time(WANTED_MS + REFRESH_MS)
    asked = lists.request_bytes.count - before
    assert asked in range(WANTED_MS // REFRESH_MS - 1, WANTED_MS // REFRESH_MS + 2)
    nodes.pass_time(WANTED_MS)
    assert lists.request_bytes.count == before + asked


def in_all(nodes: ReplicatedNodes, name: str, *labels: str | int) -> int:
    """The sum over the nodes of the samples with these labels."""
    return sum(dict(samples).get(labels, 0) for samples in values(nodes, name).values())


def test_sums_over_nodes_count_a_record_once_however_many_replicas_it_has() -> None:
    nodes = ReplicatedNodes().create_topic(2, 1, 3)
    for _ in range(4):
        assert nodes.produced(2, 5) == ErrorCode.NONE
    nodes.until(lambda: nodes.ends() == [20, 20, 20])
    size = nodes.replica(2).log.size
    kafka = "kafka_server_brokertopicmetrics"
    assert in_all(nodes, f"{kafka}_messagesin_total", "t") == 20
    assert in_all(nodes, f"{kafka}_bytesin_total", "t") == size
    assert in_all(nodes, f"{kafka}_bytesout_total", "t") == 0
    assert in_all(nodes, "odradek_topic_appended_records_total", "t") == 20
    assert in_all(nodes, "odradek_partition_appended_bytes_total", "t", 0) == size
    assert in_all(nodes, f"{kafka}_replicationbytesin_total") == 2 * size
    assert values(nodes, f"{kafka}_replicationbytesout_total")[2] == [((), 2 * size)]
    assert in_all(nodes, "odradek_partition_replication_received_bytes_total", "t", 0) == 2 * size


def test_counts_of_a_leader_stay_when_it_follows_and_those_of_the_next_begin() -> None:
    nodes = ReplicatedNodes().create_topic(2, 1, 3)
    assert nodes.produced(2, 5) == ErrorCode.NONE
    nodes.pause(2, 20_000)
    leader = nodes.await_leader(2)
    assert nodes.produced(leader, 7) == ErrorCode.NONE
    nodes.until(lambda: nodes.isr == [1, 2, 3], 60_000)
    name = "odradek_topic_appended_records_total"
    found = {number: dict(samples)["t",] for number, samples in values(nodes, name).items()}
    assert found == {1: 0, 3: 0} | {2: 5, leader: 7}


OF_EACH_PARTITION = (
    "kafka_topic_partition_current_offset",
    "kafka_topic_partition_oldest_offset",
    "kafka_topic_partition_leader",
    "kafka_topic_partition_leader_is_preferred",
    "kafka_topic_partition_replicas",
    "kafka_topic_partition_in_sync_replica",
    "kafka_topic_partition_under_replicated_partition",
    "kafka_cluster_partition_replicascount",
    "kafka_cluster_partition_insyncreplicascount",
    "kafka_cluster_partition_underreplicated",
    "kafka_cluster_partition_underminisr",
    "kafka_cluster_partition_atminisr",
)


def test_sample_of_a_partition_is_on_the_page_of_its_leader_alone() -> None:
    nodes = ReplicatedNodes().create_topic(2, 1, 3)
    for name in OF_EACH_PARTITION:
        found = values(nodes, name)
        assert [labels for labels, _ in found.pop(2)] == [("t", 0)], name
        assert not any(found.values()), name
    assert values(nodes, "kafka_topic_partitions") == {1: [], 2: [(("t",), 1)], 3: []}


def test_partition_without_a_leader_is_on_the_page_of_the_active_controller() -> None:
    nodes = ReplicatedNodes()
    controller = nodes.controllers[0].config.node_id
    leader = next(number for number in (1, 2, 3) if number != controller)
    nodes.create_topic(leader)
    nodes.machines[leader].kill()
    nodes.until(lambda: nodes.leader == -1)
    nodes.until(nodes.agree)
    found = values(nodes, "kafka_topic_partition_leader")
    assert found.pop(controller) == [(("t", 0), -1)]
    assert not any(found.values())
    assert values(nodes, "kafka_topic_partitions")[controller] == [(("t",), 1)]


def test_listener_of_nodes_has_counts_of_its_own() -> None:
    nodes = ReplicatedNodes().create_topic(1, 2, 3)
    nodes.pass_time(5_000)
    member = nodes.member(nodes.node(1)).sockets
    connections = dict(values(nodes, "odradek_connections")[1])
    assert connections["CLUSTER",] == len(member.connections) > 2
    assert connections["PLAINTEXT",] == 1  # the client that created the topic
    for name in ("odradek_received_bytes_total", "odradek_sent_bytes_total"):
        found = dict(values(nodes, name)[1])
        assert found["CLUSTER",] > found["PLAINTEXT",] > 0
    for name in ("odradek_bugs_total", "odradek_connections_closed_total"):
        assert {labels[0] for labels, _ in values(nodes, name)[1]} == {"CLUSTER", "PLAINTEXT"}
    kafka = values(nodes, "kafka_server_socket_server_metrics_connection_count")[1]
    assert dict(kafka) == {("PLAINTEXT", "0"): 1, ("CLUSTER", "0"): len(member.connections)}


def test_requests_of_other_nodes_show_in_what_waits() -> None:
    nodes = ReplicatedNodes().create_topic(1, 2, 3)
    fetchers = {"broker-2-fetcher", "broker-3-fetcher"}
    clients: set[str] = set()
    for _ in range(50):  # A fetcher whose fetch was just answered is about to send the next one.
        nodes.pass_time(60)
        found = nodes.client.ask(1, DescribeWaitingRequest(operations_limit=100, kinds=["Fetch"]))
        clients = {each.client_id for each in found.operations}
        if fetchers <= clients:
            break
    assert fetchers <= clients
    timers = {each.kind: each.count for each in found.timers}
    assert timers["FetchFollower"] == 2
