"""One simulated client's connections to all brokers of a cluster, and what it knows of leaders.

    call              to any broker: the one in use, the next one after a failure
    call_leader       to the leader of a partition; if it is not known, Metadata is asked first
    learn_features    ask any broker for the levels of features; an older epoch of them is not taken
    call_coordinator  to the coordinator of a group or of a transactional id; if it is not known,
                      FindCoordinator first
    note_error, note_coordinator_error   an answer said that a leader or coordinator is elsewhere:
                      forget it

A leader is known by the host name in Metadata, with its epoch. Answers of Metadata may be old, as
brokers learn of a new leader one after the other: an older epoch never replaces a newer one.

With one broker there is nothing to find: every call goes to it, and Metadata is never asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.api.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from odradek.testing.network import SimNetwork
from odradek.testing.prng import SplitMix64
from odradek.testing.process import SimProcess
from odradek.testing.scheduler import MS
from odradek.testing.workload.topics import TopicLife
from odradek.testing.workload.wire import WireClient

METADATA_VERSION, FIND_VERSION, API_VERSIONS_VERSION = 12, 4, 3
MOVED = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
)
"""The errors after which a client asks for the leader again."""
COORDINATOR_MOVED = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
Answered = Callable[[Any], None]
Failed = Callable[[], None]


class CoordinatorKey(NamedTuple):
    """The key of a coordinator: a group's (`GROUP`), or a transactional id's (`TRANSACTION`)."""

    kind: int
    name: str


GROUP, TRANSACTION = 0, 1


@dataclass(frozen=True, slots=True)
class KnownLeader:
    """The leader of a partition, by Metadata."""

    host: str
    epoch: int


@dataclass(slots=True, eq=False)
class ClusterClient:
    """A client process. `topics`: the lives of topics by label, as they become known."""

    process: SimProcess
    network: SimNetwork
    chance: SplitMix64
    hosts: Sequence[str]
    port: int
    topics: Mapping[str, TopicLife]
    timeout_ms: int = 2000
    leaders: dict[TopicPartition, KnownLeader] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    """The finalized levels of features, by the newest answer."""
    _features_epoch: int = -1
    _wires: dict[str, WireClient] = field(default_factory=dict)
    _coordinators: dict[CoordinatorKey, str] = field(default_factory=dict)
    _epochs: dict[TopicPartition, int] = field(default_factory=dict)
    _in_use: int = 0
    _waiting: dict[TopicPartition, list[Callable[[], None]]] = field(default_factory=dict)
    """The calls that wait until the leaders of their partitions are known."""

    @property
    def several(self) -> bool:
        """True if there is more than one broker, so that leaders must be found."""
        return len(self.hosts) > 1

    def wire(self, host: str) -> WireClient:
        """Return the connection to one broker."""
        found = self._wires.get(host)
        if found is None:
            found = self._wires[host] = WireClient(
                self.process, self.network, self.chance, host, self.port, self.timeout_ms
            )
        return found

    def crash(self) -> None:
        """Kill the client's process; its connections are closed."""
        self.process.kill()
        self.network.process_ended()

    def connected_ns(self, host: str) -> int:
        """Return when the connection to a broker was made."""
        return self.wire(host).connected_ns

    # Calls.

    def call(
        self,
        request: Any,
        version: int,
        response_type: type[Any] | None,
        answered: Answered,
        failed: Failed,
    ) -> None:
        """Send a request to any broker."""

        def next_time() -> None:
            self._in_use += 1
            failed()

        host = self.hosts[self._in_use % len(self.hosts)]
        self.wire(host).call(request, version, response_type, answered, next_time)

    def call_leader(
        self,
        tp: TopicPartition,
        request: Any,
        version: int,
        response_type: type[Any] | None,
        answered: Answered,
        failed: Failed,
    ) -> None:
        """Send a request to the leader of a partition."""
        if not self.several:
            self.wire(self.hosts[0]).call(request, version, response_type, answered, failed)
            return

        def send() -> None:
            leader = self.leaders.get(tp)
            if leader is None:
                failed()
            else:
                self.wire(leader.host).call(request, version, response_type, answered, unanswered)

        def unanswered() -> None:
            self.leaders.pop(tp, None)
            failed()

        waiting = self._waiting.get(tp)
        if waiting is not None:  # Calls keep their order.
            waiting.append(send)
        elif tp in self.leaders:
            send()
        else:
            self._waiting[tp] = [send]
            self.find_leaders([tp.topic], lambda: self._found(tp))

    def _found(self, tp: TopicPartition) -> None:
        for send in self._waiting.pop(tp):
            send()

    def call_coordinator(
        self,
        key: CoordinatorKey,
        request: Any,
        version: int,
        response_type: type[Any],
        answered: Answered,
        failed: Failed,
    ) -> None:
        """Send a request to the coordinator of a group, or of a transactional id."""

        def send() -> None:
            host = self._coordinators.get(key)
            if host is None:
                failed()
            else:
                self.wire(host).call(request, version, response_type, answered, unanswered)

        def unanswered() -> None:
            self._coordinators.pop(key, None)
            failed()

        if key in self._coordinators:
            send()
        else:
            self._find_coordinator(key, send)

    def learn_features(self, done: Callable[[], None]) -> None:
        """Ask any broker for the levels of features; `done` is called in any case."""

        def answered(response: ApiVersionsResponse) -> None:
            if response.finalized_features_epoch > self._features_epoch:
                self._features_epoch = response.finalized_features_epoch
                self.features = {
                    each.name: each.max_version_level for each in response.finalized_features
                }
            done()

        self._in_use += 1  # One broker alone may know old levels for ever.
        request = ApiVersionsRequest(client_software_name="scripted", client_software_version="1")
        self.call(request, API_VERSIONS_VERSION, ApiVersionsResponse, answered, done)

    def note_error(self, tp: TopicPartition, error: ErrorCode) -> None:
        """Handle an error of a partition: forget its leader if it may be another one."""
        if self.several and error in MOVED and self.leaders.pop(tp, None) is not None:
            self.process.scheduler.reach(f"client: another leader after {error.name}")

    def note_coordinator_error(self, key: CoordinatorKey, error: ErrorCode) -> None:
        """Handle an error of a coordinator."""
        if error in COORDINATOR_MOVED and self._coordinators.pop(key, None) is not None:
            self.process.scheduler.reach(f"client: another coordinator after {error.name}")

    # Leaders and coordinators.

    def by_leader(
        self, partitions: Sequence[TopicPartition]
    ) -> list[tuple[str, list[TopicPartition]]]:
        """Group partitions by the host of their leader; those without a known one are left out."""
        if not self.several:
            return [(self.hosts[0], list(partitions))]
        found: dict[str, list[TopicPartition]] = {}
        for tp in partitions:
            leader = self.leaders.get(tp)
            if leader is not None:
                found.setdefault(leader.host, []).append(tp)
        return list(found.items())

    def epoch_of(self, tp: TopicPartition) -> int:
        """Return the leader epoch that Metadata gave, or -1."""
        leader = self.leaders.get(tp)
        return -1 if leader is None else leader.epoch

    def find_leaders(self, labels: Sequence[str], done: Callable[[], None]) -> None:
        """Ask any broker for the leaders of topics; `done` is called in any case."""
        names = [MetadataRequestTopic(name=self.topics[label].name) for label in labels]
        request = MetadataRequest(topics=names, allow_auto_topic_creation=False)

        def answered(response: MetadataResponse) -> None:
            self._learn(labels, response)
            pause_ms = self.chance.between(0, 100)
            self.process.post(pause_ms * MS, "leaders found", done)

        self.process.scheduler.reach("client: asks for leaders")
        self._in_use += 1  # One broker alone may know an old leader for ever.
        self.call(request, METADATA_VERSION, MetadataResponse, answered, done)

    def _learn(self, labels: Sequence[str], response: MetadataResponse) -> None:
        hosts = {broker.node_id: broker.host for broker in response.brokers}
        by_id = {self.topics[label].id: label for label in labels}
        for topic in response.topics:
            label = by_id.get(topic.topic_id)
            if label is None:
                continue
            for partition in topic.partitions:
                tp = TopicPartition(label, partition.partition_index)
                host = hosts.get(partition.leader_id)
                epoch = partition.leader_epoch
                if host is None or epoch < self._epochs.get(tp, -1):
                    self.process.scheduler.reach("client: metadata is old, or has no leader")
                    continue
                self._epochs[tp] = epoch
                self.leaders[tp] = KnownLeader(host, epoch)

    def _find_coordinator(self, key: CoordinatorKey, done: Callable[[], None]) -> None:
        def answered(response: FindCoordinatorResponse) -> None:
            found = response.coordinators[0]
            if found.error_code == ErrorCode.NONE:
                self._coordinators[key] = found.host
            self.process.post(self.chance.between(0, 100) * MS, "coordinator found", done)

        request = FindCoordinatorRequest(key_type=key.kind, coordinator_keys=[key.name])
        self.call(request, FIND_VERSION, FindCoordinatorResponse, answered, done)
