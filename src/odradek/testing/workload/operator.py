"""A simulated operator of a cluster: reassigns partitions, elects leaders, changes the voters.

Its requests go to any broker, as those of Kafka's tools do. It takes a plan's operations one after
the other, at their times or when the one before has ended; each is tried a few times and may fail:
it is a disturbance, not work that must be done. Only the voters that a plan begins with
(`first_voters`) are added with patience: a cluster that was begun by one node has one voter before.

    reassign     other replicas for one partition, as many as before, one more or one fewer
    elect        the preferred leaders of all partitions
    voter        a voter leaves the quorum, or one that is none joins it (KIP-853)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from odradek.model.errors import ErrorCode
from odradek.protocol.api.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from odradek.protocol.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.api.describe_quorum import (
    DescribedQuorumPartition,
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopic,
    QuorumListener,
    ReplicaState,
)
from odradek.protocol.api.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from odradek.protocol.api.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from odradek.testing.prng import SplitMix64
from odradek.testing.scheduler import MS
from odradek.testing.workload.cluster_client import ClusterClient
from odradek.testing.workload.topics import TopicLife

METADATA_TOPIC = "__cluster_metadata"
TRIES = 5
LISTENER, CLUSTER_PORT = "CLUSTER", 19092
RETRY_MS = (100, 600)
LEAST_VOTERS = 2
"""The number of voters that an operator leaves."""


@dataclass(frozen=True, slots=True)
class OperatorAction:
    """One change that an operator asks for. `number` decides what exactly."""

    at_ns: int
    kind: str
    number: int


@dataclass(slots=True, eq=False)
class SimOperator:
    """Runs the operations of a plan. `hosts`: of all machines, by node id from 1 on."""

    client: ClusterClient
    topics: Mapping[str, TopicLife]
    hosts: Sequence[str]
    partitions: Mapping[str, int]
    """How many partitions each topic has."""
    operations: Sequence[OperatorAction]
    first_voters: int = 0
    least_replicas: int = 1
    """No partition is reassigned to fewer."""
    stopped: bool = False
    voters: int = 1
    """How many voters the quorum had when it was last asked."""
    _grown: bool = False
    _queue: deque[OperatorAction] = field(default_factory=deque)
    _busy: bool = False

    def start(self) -> None:
        """Add the first voters, and take the operations when their times have come."""
        if self.first_voters > 1:
            self._busy = True
            self._grow()
        for operation in self.operations:
            delay_ns = max(0, operation.at_ns - self._now_ns())
            self.client.process.post(delay_ns, operation.kind, self._due(operation))

    def _now_ns(self) -> int:
        return self.client.process.scheduler.now_ns

    @property
    def has_first_voters(self) -> bool:
        """True if the cluster has had the voters that it was to begin with."""
        return self._grown or self.first_voters <= 1

    def stop(self) -> None:
        """Begin nothing more, except what brings the first voters in."""
        self.stopped = True
        self._queue.clear()

    def _due(self, operation: OperatorAction) -> Callable[[], None]:
        def due() -> None:
            if not self.stopped:
                self._queue.append(operation)
                self._next()

        return due

    def _next(self) -> None:
        if self._busy or not self._queue:
            return
        self._busy = True
        operation = self._queue.popleft()
        kinds = {"reassign": self._reassign, "elect": self._elect, "voter": self._change_voters}
        kinds[operation.kind](SplitMix64(operation.number), TRIES)

    def _done(self) -> None:
        self._busy = False
        self._next()

    def _later(self, again: Callable[[], None]) -> None:
        delay_ms = self.client.chance.between(*RETRY_MS)
        self.client.process.post(delay_ms * MS, "operator tries again", again)

    def _reach(self, what: str) -> None:
        self.client.process.scheduler.reach(f"operator: {what}")

    def _ended(self, kind: str, error: ErrorCode, again: Callable[[], None], tries: int) -> None:
        """Handle an answer: done, or tried again."""
        self._reach(f"{kind} {error.name}")
        if error is ErrorCode.NONE or tries <= 1 or self.stopped:
            self._done()
        else:
            self._later(again)

    # Partitions.

    def _reassign(self, chance: SplitMix64, tries: int) -> None:
        known = sorted(label for label in self.partitions if label in self.topics)
        if not known:
            self._done()
            return
        name = chance.pick(known)
        number = chance.below(self.partitions[name])
        nodes = list(range(1, len(self.hosts) + 1))
        chance.shuffle(nodes)
        replicas = nodes[: max(self.least_replicas, chance.pick((1, 2, 3, 3, 3)))]
        cancel = chance.chance(100)
        topic = ReassignableTopic(
            name=self.topics[name].name,
            partitions=[
                ReassignablePartition(partition_index=number, replicas=None if cancel else replicas)
            ],
        )
        request = AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=3000)

        def again() -> None:
            self._ask_reassignment(request, tries)

        again()

    def _ask_reassignment(self, request: AlterPartitionReassignmentsRequest, tries: int) -> None:
        def again() -> None:
            self._ask_reassignment(request, tries - 1)

        def answered(response: AlterPartitionReassignmentsResponse) -> None:
            error = ErrorCode(response.error_code)
            if error is ErrorCode.NONE:
                error = ErrorCode(response.responses[0].partitions[0].error_code)
            self._ended("reassign", error, again, tries)

        self.client.call(
            request,
            1,
            AlterPartitionReassignmentsResponse,
            answered,
            lambda: self._ended("reassign", ErrorCode.NETWORK_EXCEPTION, again, tries),
        )

    def _elect(self, chance: SplitMix64, tries: int) -> None:
        def again() -> None:
            self._elect(chance, tries - 1)

        def answered(response: ElectLeadersResponse) -> None:
            self._ended("elect", ErrorCode(response.error_code), again, tries)

        self.client.call(
            ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=3000),
            2,
            ElectLeadersResponse,
            answered,
            lambda: self._ended("elect", ErrorCode.NETWORK_EXCEPTION, again, tries),
        )

    # Voters.

    def _describe(
        self, described: Callable[[DescribedQuorumPartition], None], failed: Callable[[], None]
    ) -> None:
        asked = DescribeQuorumTopic(
            topic_name=METADATA_TOPIC, partitions=[DescribeQuorumPartition(partition_index=0)]
        )

        def answered(response: DescribeQuorumResponse) -> None:
            if response.error_code != ErrorCode.NONE or not response.topics:
                failed()
                return
            partition = response.topics[0].partitions[0]
            if partition.error_code != ErrorCode.NONE:
                failed()
                return
            self.voters = len(partition.current_voters)
            described(partition)

        self.client.call(
            DescribeQuorumRequest(topics=[asked]), 2, DescribeQuorumResponse, answered, failed
        )

    def _grow(self) -> None:
        """Add voters until there are `first_voters`."""

        def described(quorum: DescribedQuorumPartition) -> None:
            joining = joinable(quorum)
            if self.voters >= self.first_voters:
                self._grown = True
                self._done()
            elif joining:
                self._add(joining[0], lambda _: self._later(self._grow))
            else:
                self._later(self._grow)

        self._describe(described, lambda: self._later(self._grow))

    def _change_voters(self, chance: SplitMix64, tries: int) -> None:
        def again() -> None:
            self._change_voters(chance, tries - 1)

        def ended(error: ErrorCode) -> None:
            self._ended("voter", error, again, tries)

        def described(quorum: DescribedQuorumPartition) -> None:
            joining, voters = joinable(quorum), quorum.current_voters
            if joining and (len(voters) <= LEAST_VOTERS or chance.chance(600)):
                self._add(chance.pick(joining), ended)
            elif len(voters) > LEAST_VOTERS:
                self._remove(chance.pick(voters), ended)
            else:
                self._done()

        self._describe(described, lambda: ended(ErrorCode.NETWORK_EXCEPTION))

    def _add(self, replica: ReplicaState, ended: Callable[[ErrorCode], None]) -> None:
        host = self.hosts[replica.replica_id - 1]
        request = AddRaftVoterRequest(
            voter_id=replica.replica_id,
            voter_directory_id=replica.replica_directory_id,
            listeners=[QuorumListener(name=LISTENER, host=host, port=CLUSTER_PORT)],
            timeout_ms=3000,
        )

        def answered(response: AddRaftVoterResponse) -> None:
            self._reach(f"add a voter {ErrorCode(response.error_code).name}")
            ended(ErrorCode(response.error_code))

        self.client.call(
            request,
            1,
            AddRaftVoterResponse,
            answered,
            lambda: ended(ErrorCode.NETWORK_EXCEPTION),
        )

    def _remove(self, replica: ReplicaState, ended: Callable[[ErrorCode], None]) -> None:
        request = RemoveRaftVoterRequest(
            voter_id=replica.replica_id, voter_directory_id=replica.replica_directory_id
        )

        def answered(response: RemoveRaftVoterResponse) -> None:
            self._reach(f"remove a voter {ErrorCode(response.error_code).name}")
            ended(ErrorCode(response.error_code))

        self.client.call(
            request,
            0,
            RemoveRaftVoterResponse,
            answered,
            lambda: ended(ErrorCode.NETWORK_EXCEPTION),
        )


def joinable(quorum: DescribedQuorumPartition) -> list[ReplicaState]:
    """Return the observers whose ids no voter has, by id."""
    taken = {voter.replica_id for voter in quorum.current_voters}
    free = [replica for replica in quorum.observers if replica.replica_id not in taken]
    return sorted(free, key=lambda replica: replica.replica_id)
