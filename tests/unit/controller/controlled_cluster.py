"""A cluster as its active controller sees it: brokers that register and send heartbeats.

Records are replayed at once; `run_due_steps` takes the controller's steps until nothing is due.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from odradek.config.broker import BrokerConfig
from odradek.controller.alter_partition import alter_partition
from odradek.controller.brokers import bootstrap
from odradek.controller.cluster_control import ClusterControl
from odradek.controller.decision import RECORDS_PER_PART, ApiError, Parts
from odradek.controller.features import SUPPORTED_FEATURES
from odradek.controller.image import MetadataImage, PartitionRegistration
from odradek.controller.topics import create_topics
from odradek.protocol.api.alter_partition import (
    AlteredPartition,
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionTopic,
    ProposedReplica,
)
from odradek.protocol.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from odradek.protocol.api.broker_registration import (
    BrokerRegistrationRequest,
    RegistrationFeature,
    RegistrationListener,
)
from odradek.protocol.api.create_topics import CreateTopicsRequest
from odradek.protocol.api.unregister_broker import UnregisterBrokerRequest
from unit.controller.cluster_making import CLUSTER, T, a_topic

ALL_SUPPORTED = {name: (low, high) for name, (low, high) in SUPPORTED_FEATURES.items()}


def directory(broker_id: int, disk: int = 0) -> UUID:
    """Return the id of a directory of a broker, on its first or another disk."""
    return UUID(int=2000 + broker_id + 100 * disk)


@dataclass(slots=True)
class Process:
    """One incarnation of a broker."""

    id: int
    incarnation: UUID
    log_dirs: list[UUID]
    epoch: int = -1


class ControlledCluster:
    """The image, the controller's soft state, and the last process of each broker."""

    def __init__(self, *broker_ids: int, **settings: str) -> None:
        self.config = BrokerConfig.load(
            {name.replace("_", "."): value for name, value in settings.items()}
        )
        self.now_ms = 0
        self.end_offset = 0
        self.records: list[object] = []
        self.largest_part = 0
        self.image = MetadataImage(CLUSTER)
        self.processes: dict[int, Process] = {}
        self.submit(bootstrap(self.image, self.config))
        self.take_over()
        for broker_id in broker_ids:
            self.start(broker_id)

    def take_over(self) -> None:
        """Let another controller go on with the same records."""
        self.control = ClusterControl(
            self.image, lambda: self.config, lambda: self.end_offset, self.now_ms
        )

    def submit(self, records: Sequence[object]) -> None:
        for record in records:
            self.image.replay(record)
        self.records += records
        self.end_offset += len(records)

    def run(self, parts: Parts[T]) -> T:
        """Submit all parts of a decision; return its response."""
        while True:
            try:
                records = next(parts)
            except StopIteration as end:
                response: T = end.value
                return response
            self.take(records)

    def take(self, records: list[object]) -> None:
        """Submit one part."""
        assert len(records) <= RECORDS_PER_PART
        self.largest_part = max(self.largest_part, len(records))
        self.submit(records)

    def run_due_steps(self) -> ControlledCluster:
        """Take the controller's steps until nothing is due."""
        while self.control.is_busy or self.control.next_ms() <= self.now_ms:
            self.take(self.control.step(self.now_ms))
        return self

    def wait(self, ms: int) -> None:
        """Let time pass, with the controller's steps at their times."""
        end_ms = self.now_ms + ms
        while self.control.next_ms() <= end_ms:
            self.now_ms = max(self.now_ms, self.control.next_ms())
            self.run_due_steps()
        self.now_ms = end_ms

    # Brokers

    def registration(
        self,
        broker_id: int,
        *,
        incarnation: int = 0,
        log_dirs: list[UUID] | None = None,
        previous_epoch: int = -1,
        cluster_id: str = CLUSTER,
        features: dict[str, tuple[int, int]] | None = None,
        rack: str | None = None,
    ) -> BrokerRegistrationRequest:
        """Make the request of a process."""
        supported = ALL_SUPPORTED if features is None else features
        return BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=cluster_id,
            incarnation_id=UUID(int=1000 + broker_id + 100 * incarnation),
            listeners=[
                RegistrationListener(
                    name="PLAINTEXT", host="127.0.0.1", port=9000 + broker_id, security_protocol=0
                )
            ],
            features=[
                RegistrationFeature(
                    name=name, min_supported_version=low, max_supported_version=high
                )
                for name, (low, high) in supported.items()
            ],
            rack=rack,
            log_dirs=[directory(broker_id)] if log_dirs is None else log_dirs,
            previous_broker_epoch=previous_epoch,
        )

    def register(
        self,
        broker_id: int,
        *,
        incarnation: int = 0,
        log_dirs: list[UUID] | None = None,
        previous_epoch: int = -1,
        cluster_id: str = CLUSTER,
        features: dict[str, tuple[int, int]] | None = None,
        rack: str | None = None,
    ) -> int:
        """Register a process; return the error."""
        request = self.registration(
            broker_id,
            incarnation=incarnation,
            log_dirs=log_dirs,
            previous_epoch=previous_epoch,
            cluster_id=cluster_id,
            features=features,
            rack=rack,
        )
        process = Process(broker_id, request.incarnation_id, request.log_dirs)
        try:
            response = self.run(self.control.register(request, lambda: self.now_ms))
        except ApiError as refused:
            return refused.error
        process.epoch = response.broker_epoch
        self.processes[broker_id] = process
        return response.error_code

    def beat(
        self,
        broker_id: int,
        *,
        at: int | None = None,
        fence: bool = False,
        stop: bool = False,
        offline: list[UUID] | None = None,
        cordoned: list[UUID] | None = None,
        epoch: int | None = None,
    ) -> BrokerHeartbeatResponse:
        """Send a heartbeat of a broker that has replayed all metadata, or up to `at`."""
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self.processes[broker_id].epoch if epoch is None else epoch,
            current_metadata_offset=self.end_offset - 1 if at is None else at,
            want_fence=fence,
            want_shut_down=stop,
            offline_log_dirs=offline or [],
            cordoned_log_dirs=cordoned,
        )
        decision = self.control.heartbeat(request, self.now_ms)
        self.submit(decision.records)
        return decision.response

    def start(self, broker_id: int, *, incarnation: int = 0, rack: str | None = None) -> None:
        """Register a process and let it be unfenced."""
        assert self.register(broker_id, incarnation=incarnation, rack=rack) == 0
        assert not self.beat(broker_id).is_fenced
        self.run_due_steps()

    def fence(self, *broker_ids: int) -> None:
        """Let brokers ask to be fenced, one after another, and take the due steps after each."""
        for broker_id in broker_ids:
            assert self.beat(broker_id, fence=True).is_fenced
            self.run_due_steps()

    def unregister(self, broker_id: int) -> int:
        """Remove a registration; return the error."""
        request = UnregisterBrokerRequest(broker_id=broker_id)
        try:
            return self.run(self.control.unregister(request)).error_code
        except ApiError as refused:
            return refused.error

    # Topics

    def create(
        self, name: str, assignments: dict[int, list[int]], **configs: str
    ) -> ControlledCluster:
        """Create a topic whose partitions have these replicas."""
        values = {key.replace("_", "."): value for key, value in configs.items()}
        topic = a_topic(name, assignments=assignments, configs={**values})
        request = CreateTopicsRequest(topics=[topic])
        decision = create_topics(self.image, request, self.config, random.Random(7))
        assert [each.error_code for each in decision.response.topics] == [0]
        self.submit(decision.records)
        return self

    def partition(self, name: str = "t", number: int = 0) -> PartitionRegistration:
        return self.image.topics[name].partitions[number]

    def alteration(
        self, isr: Sequence[int | tuple[int, int]], name: str = "t", number: int = 0
    ) -> AlterPartitionRequest:
        """Make the leader's proposal; a replica may be given with the epoch of its broker."""
        partition = self.partition(name, number)
        leader = partition.leader
        replicas = [
            ProposedReplica(broker_id=each, broker_epoch=self.processes[each].epoch)
            if isinstance(each, int)
            else ProposedReplica(broker_id=each[0], broker_epoch=each[1])
            for each in isr
        ]
        proposed = AlterPartitionPartition(
            partition_index=number,
            leader_epoch=partition.leader_epoch,
            new_isr_with_epochs=replicas,
            leader_recovery_state=0,
            partition_epoch=partition.partition_epoch,
        )
        topic = AlterPartitionTopic(topic_id=self.image.topics[name].id, partitions=[proposed])
        return AlterPartitionRequest(
            broker_id=leader, broker_epoch=self.processes[leader].epoch, topics=[topic]
        )

    def alter(self, request: AlterPartitionRequest, version: int = 3) -> list[AlteredPartition]:
        """Decide on a request, replay its records, and return the outcomes."""
        response = self.run(alter_partition(self.image, request, version, lambda: self.config))
        assert response.error_code == 0
        return [each for topic in response.topics for each in topic.partitions]

    def in_sync(self, *isr: int, name: str = "t", number: int = 0) -> None:
        """Let the leader change the ISR."""
        (outcome,) = self.alter(self.alteration(isr, name, number))
        assert outcome.error_code == 0
