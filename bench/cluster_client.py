"""A small client of a cluster: asks for its state, and notices when each partition acknowledges.

The same bytes go to every system, and nothing of a client's own back-off is in the figures: whoever
does not answer is asked again within milliseconds, and another node when it does not answer at all.
"""

from __future__ import annotations

import itertools
import select
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

import raw_client
from odradek.model.errors import ErrorCode
from odradek.protocol.api.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.api.describe_quorum import (
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopic,
)
from odradek.protocol.api.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from odradek.protocol.api.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)
from odradek.protocol.api.produce import ProduceResponse
from odradek.protocol.hot_produce import PartitionProduceResponse

T = TypeVar("T")
METADATA, DESCRIBE_QUORUM, ELECT_LEADERS = 12, 1, 2
PATIENCE_S = 240.0
SHORT_S = 0.2
"""How long a node is waited for that may be stopped; then another one is asked."""


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int


class NotInTime(Exception):
    """What a measurement waits for did not happen."""


def ask(port: int, request: object, response: type[Any], version: int, timeout_s: float) -> Any:
    """Return the response to one request. Raises `OSError` if there is none in time."""
    with socket.create_connection(("127.0.0.1", port), timeout_s) as client:
        client.sendall(raw_client.frame(request, version))
        head = exactly(client, 4)
        data = exactly(client, raw_client.LENGTH.unpack(head)[0])
    return raw_client.decoded(data, response, version)


def exactly(client: socket.socket, size: int) -> bytes:
    """Receive so many bytes, within the timeout of the socket."""
    data = bytearray()
    while len(data) < size:
        part = client.recv(size - len(data))
        if not part:
            raise ConnectionError("closed by the broker")
        data += part
    return bytes(data)


class ClusterClient:
    """Asks the nodes of `ports`, first who answered last; those that are `down` are not asked."""

    def __init__(self, ports: Mapping[int, int]) -> None:
        self.ports = ports
        self.down: set[int] = set()
        self._last = 0

    def any(
        self,
        request: object,
        response: type[Any],
        version: int,
        timeout_s: float = 60.0,
        patience_s: float = PATIENCE_S,
    ) -> Any:
        """Return the first response that comes. Raises `NotInTime`."""
        end = time.monotonic() + patience_s
        while True:
            up = [each for each in self.ports if each not in self.down]
            for node_id in sorted(up, key=lambda each: each != self._last):
                with suppress(OSError):
                    answer = ask(self.ports[node_id], request, response, version, timeout_s)
                    self._last = node_id
                    return answer
            if time.monotonic() > end:
                raise NotInTime(f"no answer to {type(request).__name__} in {patience_s} s")
            time.sleep(0.005)

    def metadata(self, topics: Iterable[str], timeout_s: float = 60.0) -> MetadataResponse:
        wanted = [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        answer: MetadataResponse = self.any(request, MetadataResponse, METADATA, timeout_s)
        return answer

    def partitions(
        self, topics: Iterable[str], timeout_s: float = 60.0
    ) -> dict[Partition, MetadataResponsePartition]:
        """Return what the metadata of some node say of each partition."""
        return by_partition(self.metadata(topics, timeout_s))

    def _partitions_of_all(
        self, topics: Iterable[str]
    ) -> dict[Partition, MetadataResponsePartition] | None:
        """Return the same, or None if that node does not know all topics yet.

        Apache Kafka answers CreateTopics before the broker that is asked next knows the topics.
        """
        answer = self.metadata(topics)
        if any(topic.error_code != ErrorCode.NONE for topic in answer.topics):
            return None
        return by_partition(answer)

    def create(self, topics: Iterable[str], partitions: int, factor: int) -> None:
        """Create topics, as soon as there are nodes enough. Raises `NotInTime`."""
        left, end = list(topics), time.monotonic() + PATIENCE_S
        while left:
            errors = self.create_once(left, partitions, factor)
            left = [topic for topic, error in errors.items() if error != ErrorCode.NONE]
            if left:
                if time.monotonic() > end:
                    raise NotInTime(f"topics were not created: {errors}")
                time.sleep(0.01)

    def create_once(
        self, topics: Iterable[str], partitions: int, factor: int, timeout_s: float = 60.0
    ) -> dict[str, ErrorCode]:
        """Ask once; return the error of each topic. One that is there already is none."""
        wanted = [
            CreatableTopic(
                name=topic,
                num_partitions=partitions,
                replication_factor=factor,
                assignments=[],
                configs=[CreatableTopicConfig(name="file.delete.delay.ms", value="500")],
            )
            for topic in topics
        ]
        request = CreateTopicsRequest(topics=wanted, timeout_ms=30_000)
        version = raw_client.CREATE_TOPICS
        answer = self.any(request, CreateTopicsResponse, version, timeout_s)
        there = ErrorCode.TOPIC_ALREADY_EXISTS
        return {
            each.name: ErrorCode.NONE if each.error_code == there else ErrorCode(each.error_code)
            for each in answer.topics
        }

    def controller(self) -> int:
        """Return the node that leads the metadata quorum."""
        topic = DescribeQuorumTopic(
            topic_name="__cluster_metadata",
            partitions=[DescribeQuorumPartition(partition_index=0)],
        )
        request = DescribeQuorumRequest(topics=[topic])

        def led() -> int | None:
            answer = self.any(request, DescribeQuorumResponse, DESCRIBE_QUORUM)
            found = [each.leader_id for topic in answer.topics for each in topic.partitions]
            return found[0] if found and found[0] > 0 else None

        return until(led, "no leader of the quorum")

    def elect_preferred(self) -> None:
        """Give the leaderships back to the first replicas, where these are in sync."""
        request = ElectLeadersRequest(election_type=0, topic_partitions=None)
        self.any(request, ElectLeadersResponse, ELECT_LEADERS)

    def await_in_sync(self, topics: Iterable[str], replicas: int) -> None:
        """Wait until every partition has so many in-sync replicas. Raises `NotInTime`."""
        names = list(topics)

        def in_sync() -> bool:
            found = self._partitions_of_all(names)
            return found is not None and all(
                len(each.isr_nodes) >= replicas for each in found.values()
            )

        until(in_sync, f"not all of {names} have {replicas} in-sync replicas")

    def await_led(self, topics: Iterable[str], without: int = 0) -> None:
        """Wait until every partition has a leader that takes a record (acks=1), and not node
        `without`."""
        names, end = list(topics), time.monotonic() + PATIENCE_S
        left: set[Partition] | None = None
        while left is None or left:
            if time.monotonic() > end:
                raise NotInTime(f"{len(left or names)} of {names} have no leader")
            found = self._partitions_of_all(names)
            if found is None:
                time.sleep(0.02)
                continue
            if left is None:
                left = set(found)
            by_leader: dict[int, list[Partition]] = defaultdict(list)
            for partition in left:
                leader = found[partition].leader_id
                if leader >= 0 and leader != without:
                    by_leader[leader].append(partition)
            for node_id, partitions in by_leader.items():
                with suppress(OSError):
                    left -= took_a_record(self.ports[node_id], partitions)
            if left:
                time.sleep(0.02)


def by_partition(answer: MetadataResponse) -> dict[Partition, MetadataResponsePartition]:
    return {
        Partition(topic.name or "", each.partition_index): each
        for topic in answer.topics
        for each in topic.partitions
    }


def until(happened: Callable[[], T | None], what: str, patience_s: float = PATIENCE_S) -> T:
    """Ask until there is an answer that is true. Raises `NotInTime`."""
    end = time.monotonic() + patience_s
    while not (found := happened()):
        if time.monotonic() > end:
            raise NotInTime(what)
        time.sleep(0.02)
    return found


def took_a_record(port: int, partitions: Iterable[Partition]) -> set[Partition]:
    """Send each partition a record with acks=1; return those that acknowledged."""
    by_topic: dict[str, list[int]] = defaultdict(list)
    for partition in partitions:
        by_topic[partition.topic].append(partition.number)
    done = set()
    with socket.create_connection(("127.0.0.1", port), 5) as client:
        for topic, indexes in by_topic.items():
            client.sendall(raw_client.produce_frame(topic, 100, 1, indexes))
            size = raw_client.LENGTH.unpack(exactly(client, 4))[0]
            data = exactly(client, size)
            answer = raw_client.decoded(data, ProduceResponse, raw_client.PRODUCE)
            done |= {
                Partition(topic, each.index)
                for each in answer.responses[0].partition_responses
                if each.error_code == ErrorCode.NONE
            }
    return done


class Ack(NamedTuple):
    """A record that was acknowledged: when it was sent, and when its answer came."""

    sent: float
    acked: float


class AckProbe:
    """Sends each partition a record every `interval_s`, one at a time, acks=all; keeps the times.

    Each partition has a connection of its own to its leader: the answer to one that waits holds no
    other. While a partition does not acknowledge, some node is asked for its leader every 20 ms.
    """

    def __init__(
        self, client: ClusterClient, topics: Iterable[str], interval_s: float = 0.02
    ) -> None:
        self._client = client
        self._topics = list(topics)
        self._interval_s = interval_s
        self.acks: dict[Partition, list[Ack]] = {}
        self._leaders: dict[Partition, int] = {}
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._probe, daemon=True),
            threading.Thread(target=self._follow_leaders, daemon=True),
        ]
        self._stalled = False
        self.failure: BaseException | None = None

    def __enter__(self) -> Self:
        found = self._client.partitions(self._topics)
        self._leaders = {partition: each.leader_id for partition, each in found.items()}
        self.acks = {partition: [] for partition in found}
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def await_acks(self, since: float) -> list[float]:
        """Wait until every partition acknowledged a record sent after `since`; return the seconds
        from `since` to the first of each. Raises `NotInTime`."""

        def all_acked() -> list[float] | None:
            if self.failure is not None:
                raise self.failure
            firsts = [
                next((ack.acked for ack in acks[-500:] if ack.sent > since), None)
                for acks in list(self.acks.values())
            ]
            found = [first - since for first in firsts if first is not None]
            return found if len(found) == len(firsts) else None

        return until(all_acked, "partitions do not acknowledge")

    def latencies(self, since: float, before: float) -> list[float]:
        """Return the times from record to acknowledgement, of records sent meanwhile."""
        return [
            ack.acked - ack.sent
            for acks in self.acks.values()
            for ack in acks
            if since <= ack.sent < before
        ]

    def longest_gap(self, since: float) -> float:
        """Return the longest time in which some partition acknowledged nothing."""
        now = time.perf_counter()
        longest = 0.0
        for acks in self.acks.values():
            times = [since, *(ack.acked for ack in acks if ack.acked > since), now]
            longest = max(longest, *(b - a for a, b in itertools.pairwise(times)))
        return longest

    def _follow_leaders(self) -> None:
        while not self._ended.wait(0.02):
            if self._stalled:
                with suppress(NotInTime):
                    found = self._client.partitions(self._topics, SHORT_S)
                    self._leaders.update(
                        {key: each.leader_id for key, each in found.items() if each.leader_id >= 0}
                    )

    def _probe(self) -> None:
        try:
            self._run()
        except BaseException as failure:
            self.failure = failure
            raise

    def _run(self) -> None:
        poll = select.epoll()
        lines = [ProbedPartition(key, poll, self.acks[key]) for key in self.acks]
        by_fd: dict[int, ProbedPartition] = {}
        while not self._ended.is_set():
            for fd, _ in poll.poll(0.002):
                by_fd[fd].receive()
            now = time.perf_counter()
            stalled = False
            for line in lines:
                leader = self._leaders[line.partition]
                if line.leader != leader:
                    line.close()
                if line.due <= now:
                    if line.connection is None:
                        line.connect(leader, self._client.ports[leader])
                        if line.connection is not None:
                            by_fd[line.connection.fileno()] = line
                    line.send(self._interval_s)
                stalled |= line.connection is None or (
                    line.sent is not None and now - line.sent > 0.05
                )
            self._stalled = stalled
        for line in lines:
            line.close()
        poll.close()


class ProbedPartition:
    """One partition of a probe: its connection, and the record under way."""

    def __init__(self, partition: Partition, poll: select.epoll, acks: list[Ack]) -> None:
        self.partition = partition
        self.leader = -1
        self.connection: socket.socket | None = None
        self.due = 0.0
        self.sent: float | None = None
        self._poll = poll
        self._acks = acks
        self._request = raw_client.produce_frame(partition.topic, 100, -1, (partition.number,))
        self._received = bytearray()

    def connect(self, leader: int, port: int) -> None:
        self.leader = leader
        try:
            self.connection = raw_client.connect(port)
        except OSError:
            self.due = time.perf_counter() + 0.01
            return
        self.connection.setblocking(False)
        self._poll.register(self.connection, select.EPOLLIN)

    def close(self) -> None:
        if self.connection is not None:
            self._poll.unregister(self.connection)
            self.connection.close()
        self.connection, self.sent = None, None
        self._received.clear()

    def send(self, interval_s: float) -> None:
        """Send the next record, unless one is under way."""
        if self.connection is None or self.sent is not None:
            return
        now = time.perf_counter()
        try:
            self.connection.send(self._request)
        except OSError:
            self.close()
            self.due = now + 0.01
            return
        self.sent, self.due = now, now + interval_s

    def receive(self) -> None:
        """Take what has arrived; an error is tried again, at a new leader if there is one."""
        if self.connection is None:
            return
        try:
            data = self.connection.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        now = time.perf_counter()
        if not data:
            self.close()
            self.due = now + 0.01
            return
        self._received += data
        size = raw_client.LENGTH.unpack(self._received[:4])[0] if len(self._received) >= 4 else None
        if size is None or len(self._received) < 4 + size:
            return
        answer = raw_client.decoded(bytes(self._received[4:]), ProduceResponse, raw_client.PRODUCE)
        self._received.clear()
        produced: PartitionProduceResponse = answer.responses[0].partition_responses[0]
        if produced.error_code == ErrorCode.NONE:
            assert self.sent is not None
            self._acks.append(Ack(self.sent, now))
            self.sent = None
        else:
            self.close()
            self.due = now + 0.01
