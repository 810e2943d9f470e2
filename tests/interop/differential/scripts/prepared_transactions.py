"""A transaction is held in PrepareCommit or PrepareAbort; then each request × epochs is asked.

One of the transaction's partitions needs two replicas in sync, of which one is on a node that does
nothing: the silent one. So its leader refuses the marker until that node goes on. No request may
change anything meanwhile, so one id gets all of them, and its description is recorded after each.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from interop.differential.peer import Peer, creatable
from interop.differential.scripts.transactions import TransactionalScript
from odradek.model.errors import ErrorCode
from odradek.model.topics import METADATA_TOPIC
from odradek.protocol.api.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.api.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from odradek.protocol.api.create_topics import CreateTopicsRequest
from odradek.protocol.api.describe_quorum import (
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumTopic,
)
from odradek.protocol.api.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.api.end_txn import EndTxnRequest
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest
from odradek.protocol.api.init_producer_id import InitProducerIdRequest
from odradek.protocol.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.protocol.api.list_transactions import ListTransactionsRequest
from odradek.protocol.api.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.protocol.record_batch_builder import RecordBatchBuilder

TOPIC, REFUSING = "held", "refusing"
"""The only partition of the second topic refuses a marker while the node does nothing."""
WRITTEN, OTHER, LEADERLESS = range(3)
"""Partitions of the first one: one whose marker is written, one that is in no transaction, and one
that has no leader while the node does nothing.
"""
GROUP = "g"
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
FENCED_S = 60.0
"""The time in which a cluster notices that a node does nothing, and has elected others."""
LOST_S = 3.0
"""Longer than a coordinator that drops a marker needs for the rest."""
BRIEF_MS = 1_000
LOST, WITHOUT_LEADER = "lost", "a partition without a leader"
NOBODY = (-1, -1)
Producer = tuple[int, int]
Asked = tuple[str, int, Any, int]
"""A label, the node, a request and its version."""


class PausableCluster(Protocol):
    """A cluster whose nodes can be stopped in what they do."""

    def pause(self, node_id: int) -> None: ...

    def resume(self, node_id: int) -> None: ...


class HeldCluster:
    """Three nodes, of which one, the silent one, does nothing between `hold` and `release`."""

    def __init__(self, peer: Peer, ports: dict[int, int], cluster: PausableCluster) -> None:
        """`peer`: has the transcript. `ports`: by node id."""
        self.peer = peer
        self.at = {node: peer.at(port) for node, port in ports.items()}
        self._cluster = cluster
        self.group_node = self.find(0, GROUP, list(ports))
        self.find(1, "first", list(ports))
        self.silent = max(set(ports) - {self.group_node, self._controller()})
        self.live = sorted(node for node in ports if node != self.silent)
        self._create()

    def find(self, key_type: int, key: str, nodes: list[int]) -> int:
        """The coordinator of a key, once it is one of these nodes."""
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        found: list[int] = []

        def is_found() -> bool:
            (told,) = self.at[min(nodes)].ask(request, 4).coordinators
            found[:] = [told.node_id]
            return told.error_code == 0 and told.node_id in nodes

        wait(is_found)
        return found[0]

    def _controller(self) -> int:
        """The active controller: requests to one that does nothing would wait for a long time."""
        asked = DescribeQuorumTopic(
            topic_name=METADATA_TOPIC, partitions=[DescribeQuorumPartition(partition_index=0)]
        )
        found = self.peer.ask(DescribeQuorumRequest(topics=[asked]), 0)
        return int(found.topics[0].partitions[0].leader_id)

    def _create(self) -> None:
        first, second = self.live
        alone = creatable(TOPIC, -1, -1, assignments={0: [first], 1: [second], 2: [self.silent]})
        together = creatable(
            REFUSING,
            -1,
            -1,
            assignments={0: [first, self.silent]},
            configs={"min.insync.replicas": "2"},
        )
        request = CreateTopicsRequest(topics=[alone, together], timeout_ms=15_000)
        response = self.peer.ask(request, 7)
        assert all(topic.error_code == 0 for topic in response.topics), response
        self.await_in_sync(True)

    def await_in_sync(self, is_in_sync: bool) -> None:
        """Wait until all nodes that do something know that the silent one is in sync, or is not."""
        names = [MetadataRequestTopic(name=name) for name in (TOPIC, REFUSING)]
        in_sync = [self.live[0], self.silent]
        expected = sorted(in_sync) if is_in_sync else in_sync[:1]
        leader = self.silent if is_in_sync else -1

        def is_known_to(peer: Peer) -> bool:
            topics = peer.ask(MetadataRequest(topics=names), 9).topics
            found = {
                (topic.name, each.partition_index): each
                for topic in topics
                for each in topic.partitions
            }
            return (
                {(TOPIC, LEADERLESS), (REFUSING, 0)} <= found.keys()
                and sorted(found[REFUSING, 0].isr_nodes) == expected
                and found[TOPIC, LEADERLESS].leader_id == leader
            )

        asked = list(self.at.values()) if is_in_sync else [self.at[node] for node in self.live]
        wait(lambda: all(map(is_known_to, asked)))

    def hold(self) -> None:
        """Let the node do nothing, and wait until the others do without it."""
        self._cluster.pause(self.silent)
        self.await_in_sync(False)

    def release(self) -> None:
        """Let the node go on."""
        self._cluster.resume(self.silent)
        self.await_in_sync(True)

    def stable_offset(self) -> int:
        """The last stable offset of the partition whose leader is the silent node."""
        asked = ListOffsetsPartition(partition_index=LEADERLESS, timestamp=-1)
        topic = ListOffsetsTopic(name=TOPIC, partitions=[asked])
        request = ListOffsetsRequest(replica_id=-1, isolation_level=1, topics=[topic])
        (found,) = self.at[self.silent].ask(request, 7).topics[0].partitions
        assert found.error_code == 0, found
        return int(found.offset)

    def end(self) -> None:
        """Close the connections."""
        for peer in self.at.values():
            peer.end()


def wait(condition: Callable[[], bool]) -> None:
    """Ask until a condition holds, which a new leader may delay."""
    deadline = time.monotonic() + FENCED_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


class HeldTransaction:
    """A transactional id, and the requests about it."""

    def __init__(self, cluster: HeldCluster, name: str, node: int | None = None) -> None:
        """`node`: its coordinator, None for one that does something."""
        self.cluster = cluster
        self.name = name
        self.node = node or cluster.find(1, name, cluster.live)
        self.peer = cluster.at[self.node]
        self.script = TransactionalScript(self.peer, name)

    def begin(self, timeout_ms: int = 60_000, last: tuple[str, int] = (REFUSING, 0)) -> Producer:
        """Begin a transaction of the id's second producer in two partitions."""
        self.script.init()
        found = self.script.init(timeout_ms=timeout_ms)
        of = found.producer_id, found.producer_epoch
        for topic, partition in ((TOPIC, WRITTEN), last):
            assert self.script.add(of, topic=topic, partition=partition) == 0
        return of

    def description(self) -> dict[str, Any]:
        """What DescribeTransactions tells, with a name in place of the producer id."""
        request = DescribeTransactionsRequest(transactional_ids=[self.name])
        (one,) = self.peer.ask(request, 0).transaction_states
        return {
            "error": ErrorCode(one.error_code).name,
            "state": one.transaction_state,
            "timeout_ms": one.transaction_timeout_ms,
            "is_open": one.transaction_start_time_ms > 0,
            "producer": self.peer.names.drawn("producer", one.producer_id),
            "epoch": one.producer_epoch,
            "partitions": sorted((topic.topic, list(topic.partitions)) for topic in one.topics),
        }

    def is_complete(self) -> bool:
        """True if all markers are written."""
        return str(self.description()["state"]).startswith("Complete")

    def until_held(self, state: str) -> Producer:
        """Wait until only the marker that is held is missing; the producer of then."""
        expected = [state, [(REFUSING, [0])]]
        wait(lambda: [self.description()[each] for each in ("state", "partitions")] == expected)
        request = DescribeTransactionsRequest(transactional_ids=[self.name])
        (one,) = self.peer.ask(request, 0).transaction_states
        return one.producer_id, one.producer_epoch

    # Requests.

    def requests(self, of: Producer) -> Iterator[Asked]:
        """Each request of a transactional client, in the versions of both kinds of clients."""
        producer: dict[str, Any] = {
            "transactional_id": self.name,
            "producer_id": of[0],
            "producer_epoch": of[1],
        }
        group, leader = self.cluster.group_node, self.cluster.live[OTHER]
        init = InitProducerIdRequest(transaction_timeout_ms=60_000, **producer)
        yield "init", self.node, init, 5
        added = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=of[0],
            v3_and_below_producer_epoch=of[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[OTHER])],
        )
        yield "add v3", self.node, added, 3
        of_group = AddOffsetsToTxnRequest(group_id=GROUP, **producer)
        yield "add group v4", self.node, of_group, 4
        for version in (4, 5):
            for committed in (True, False):
                what = "commit" if committed else "abort"
                ended = EndTxnRequest(committed=committed, **producer)
                yield f"{what} v{version}", self.node, ended, version
            yield f"offsets v{version}", group, self.offsets(producer), version
        for version in (11, 12):
            yield f"produce v{version}", leader, self.produced(of, OTHER), version
        written = self.produced(of, WRITTEN)
        yield "produce v12 where the marker is", self.cluster.live[WRITTEN], written, 12

    def offsets(self, producer: dict[str, Any]) -> TxnOffsetCommitRequest:
        """A TxnOffsetCommit of one partition."""
        partition = TxnOffsetCommitRequestPartition(
            partition_index=OTHER, committed_offset=7, committed_metadata=""
        )
        topic = TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
        return TxnOffsetCommitRequest(group_id=GROUP, topics=[topic], **producer)

    def produced(self, of: Producer, index: int) -> ProduceRequest:
        """A batch of the producer's transaction."""
        builder = RecordBatchBuilder(
            producer_id=of[0], producer_epoch=of[1], base_sequence=0, transactional=True
        )
        builder.append(None, b"v", timestamp=0)
        data = [PartitionProduceData(index=index, records=builder.build())]
        return ProduceRequest(
            transactional_id=self.name,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name=TOPIC, partition_data=data)],
        )

    def note(self, label: str, asked: Asked) -> None:
        """Ask once; record the answer, and the description after it."""
        what, node, request, version = asked
        peer = self.cluster.at[node]
        peer.call(f"{label}, {what}", request, version)
        peer.note(f"{label}, {what}, then", self.description())

    def note_listed(self, label: str) -> None:
        """Record how ListTransactions shows the id, by its state and by another one."""
        for version in self.peer.each_version(ListTransactionsRequest):
            for states in ([], ["PrepareCommit"], ["PrepareAbort"], ["Ongoing"]):
                request = ListTransactionsRequest(state_filters=states, producer_id_filters=[])
                found = self.peer.ask(request, version)
                told = [
                    [self.peer.names.drawn("producer", each.producer_id), each.transaction_state]
                    for each in found.transaction_states
                    if each.transactional_id == self.name
                ]
                self.peer.note(f"{label}, list v{version} {states}", [found.error_code, told])


def ended(committed: bool, version: int) -> Callable[[HeldTransaction], Producer]:
    """Return what brings a transaction to its end by an EndTxn."""

    def end(held: HeldTransaction) -> Producer:
        of = held.begin()
        found = held.script.end(of, committed, version)
        assert found.error_code == 0
        return held.until_held("PrepareCommit" if committed else "PrepareAbort")

    return end


def taken_over(held: HeldTransaction) -> Producer:
    """A second producer takes the id over while the transaction of the first one is open."""
    held.begin()
    request = InitProducerIdRequest(
        transactional_id=held.name,
        transaction_timeout_ms=60_000,
        producer_id=NOBODY[0],
        producer_epoch=NOBODY[1],
    )
    assert held.peer.ask(request, 5).error_code == CONCURRENT
    return held.until_held("PrepareAbort")


def timed_out(held: HeldTransaction) -> Producer:
    """The timeout of the transaction has passed."""
    held.begin(BRIEF_MS)
    return held.until_held("PrepareAbort")


STATES: dict[str, Callable[[HeldTransaction], Producer]] = {
    "PrepareCommit by v4": ended(True, 4),
    "PrepareAbort by v4": ended(False, 4),
    "PrepareCommit by v5": ended(True, 5),
    "PrepareAbort by v5": ended(False, 5),
    "PrepareAbort by another producer": taken_over,
    "PrepareAbort by the timeout": timed_out,
}
EPOCHS: dict[str, Callable[[Producer], Producer]] = {
    "present": lambda of: of,
    "before": lambda of: (of[0], of[1] - 1),
    "after": lambda of: (of[0], of[1] + 1),
    "other id": lambda of: (of[0] + 1_000_000, of[1]),
}


def begin_at_the_silent_node(nodes: HeldCluster) -> Producer:
    """Write a record in the partition that will have no leader, while it has one."""
    anyone = [*nodes.live, nodes.silent]
    held = HeldTransaction(nodes, LOST, nodes.find(1, LOST, anyone))
    of = held.begin(last=(TOPIC, LEADERLESS))
    produced = nodes.at[nodes.silent].ask(held.produced(of, LEADERLESS), 11)
    assert produced.responses[0].partition_responses[0].error_code == 0, produced
    return of


def commit_without_leader(nodes: HeldCluster, of: Producer) -> HeldTransaction:
    """Commit that transaction; record its state after a while."""
    held = HeldTransaction(nodes, LOST)
    assert held.script.end(of, True, 4).error_code == 0
    deadline = time.monotonic() + LOST_S
    while held.description()["state"] == "PrepareCommit" and time.monotonic() < deadline:
        time.sleep(0.05)
    nodes.peer.note(WITHOUT_LEADER, held.description())
    return held


def prepared(peer: Peer, ports: dict[int, int], cluster: PausableCluster) -> None:
    """Each way into a prepared state × each request × epochs; then the end of all."""
    with contextlib.ExitStack() as left:
        nodes = HeldCluster(peer, ports, cluster)
        left.callback(nodes.end)
        left.callback(cluster.resume, nodes.silent)
        lost = begin_at_the_silent_node(nodes)
        nodes.hold()
        transactions = []
        for number, (state, reach) in enumerate(STATES.items()):
            held = HeldTransaction(nodes, f"held{number}")
            of = reach(held)
            transactions.append((state, held))
            peer.note(state, held.description())
            for kind, choose in EPOCHS.items():
                for asked in held.requests(choose(of)):
                    held.note(f"{state}, {kind}", asked)
            without_id = InitProducerIdRequest(
                transactional_id=held.name,
                transaction_timeout_ms=60_000,
                producer_id=NOBODY[0],
                producer_epoch=NOBODY[1],
            )
            held.note(state, ("init without id", held.node, without_id, 5))
            held.note_listed(state)
        transactions.append((WITHOUT_LEADER, commit_without_leader(nodes, lost)))
        nodes.release()
        for state, held in transactions:
            wait(held.is_complete)
            peer.note(f"{state}, released", held.description())
        peer.note(f"{WITHOUT_LEADER}, stable offset", nodes.stable_offset())
