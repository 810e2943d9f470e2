"""A metadata log on a disk in memory, in an environment that a test steps."""

from __future__ import annotations

from uuid import UUID

from odradek.config.broker import BrokerConfig
from odradek.controller.brokers import bootstrap
from odradek.controller.metadata_log import MetadataLog, open_metadata_log
from odradek.controller.quorum_controller import QuorumController
from odradek.controller.topics import create_topics, delete_topics
from odradek.log.fence import Fence
from odradek.log.index import IndexCache
from odradek.log.memory_disk import MemoryDisk
from odradek.protocol.api.create_topics import CreateTopicsRequest
from odradek.protocol.api.delete_topics import DeleteTopicsRequest
from odradek.raft.raft_log import METADATA_DIRECTORY, QuorumPlace
from odradek.raft.replicas import ReplicaKey
from odradek.timing.timer import SystemTimer
from unit.controller.cluster_making import CLUSTER, SteppedEnv, a_topic, broker_records

DIRECTORY = f"data/{METADATA_DIRECTORY}"


class MetadataNode:
    """A process with a metadata log; `restart` starts the next one."""

    def __init__(self, disk: MemoryDisk | None = None, **given: str) -> None:
        self.steps = SteppedEnv(disk)
        self.config = BrokerConfig.load(
            {name.replace("_", "."): value for name, value in given.items()}
        )
        self.failures: list[OSError] = []
        self.timer = SystemTimer(self.steps.clock.monotonic_ms())
        self.log, self.problems = self.open()
        self.log.start()

    def open(self) -> tuple[MetadataLog, list[str]]:
        return open_metadata_log(
            self.steps.env,
            self.timer,
            "data",
            CLUSTER,
            QuorumPlace(ReplicaKey(1, UUID(int=2001))),
            self.config,
            fence=Fence("data"),
            cache=IndexCache(),
            failed=self.failures.append,
        )

    def begin(self) -> MetadataNode:
        """Register a broker, as a first start does."""
        records = [
            *bootstrap(self.controller.pending, self.config),
            *broker_records(self.controller.pending, 1),
        ]
        self.controller.submit(records)
        self.steps.run_until_idle()
        return self

    def restart(self) -> MetadataNode:
        """Start another process on the same disk; the old one ends without a stop."""
        return MetadataNode(self.disk)

    @property
    def controller(self) -> QuorumController:
        return self.log.controller

    @property
    def disk(self) -> MemoryDisk:
        assert isinstance(self.steps.disk, MemoryDisk)
        return self.steps.disk

    def create(self, name: str) -> int:
        request = CreateTopicsRequest(topics=[a_topic(name, 2, 1)])
        decision = create_topics(
            self.controller.pending, request, self.config, self.steps.env.random
        )
        (result,) = decision.response.topics
        self.controller.submit(decision.records)
        return result.error_code

    def delete(self, name: str) -> int:
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=1)
        decision = delete_topics(self.controller.pending, request, 5, enabled=True)
        (result,) = decision.response.responses
        self.controller.submit(decision.records)
        return result.error_code
