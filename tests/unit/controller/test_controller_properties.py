"""Random requests in any order: the log and the image always agree.

Valid and invalid requests are decided on, work of the environment runs in between, and the node is
restarted at any time. A model replays every submitted record in order.
"""

from __future__ import annotations

import random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from odradek.controller.brokers import allocate_producer_ids, register_broker
from odradek.controller.configs import incremental_alter_configs
from odradek.controller.image import MetadataImage
from odradek.controller.topics import create_partitions, create_topics, delete_topics
from odradek.model.topics import new_uuid
from odradek.protocol.api import incremental_alter_configs as incremental
from odradek.protocol.api.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.protocol.api.create_topics import CreateTopicsRequest
from odradek.protocol.api.delete_topics import DeleteTopicsRequest
from odradek.raft.snapshot_files import list_snapshots
from unit.controller.cluster_making import CLUSTER, a_topic
from unit.controller.metadata_node import DIRECTORY, MetadataNode

NAMES = st.sampled_from(["a", "b", "c.d", "c_d", "", "bad name", "__consumer_offsets"])
COUNTS = st.integers(-2, 4)
BROKERS = st.lists(st.integers(0, 3), max_size=3)
CONFIGS = st.dictionaries(
    st.sampled_from(["retention.ms", "segment.bytes", "cleanup.policy", "nope"]),
    st.sampled_from([None, "", "5", "2000000", "delete", "compact"]),
    max_size=3,
)
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["retention.ms", "log.retention.ms", "cleanup.policy", "num.partitions"]),
        st.integers(-1, 4),
        st.sampled_from([None, "", "5", "delete", "x"]),
    ),
    max_size=3,
)


class Metadata(RuleBasedStateMachine):
    """A node, and the model of its log."""

    def __init__(self) -> None:
        super().__init__()
        self.node = MetadataNode(metadata_log_max_record_bytes_between_snapshots="2000")
        self.model = MetadataImage(CLUSTER)
        self.random = random.Random(5)
        self.register(1, True)

    def submit(self, records: list[object]) -> None:
        for record in records:
            self.model.replay(record)
        self.node.controller.submit(records)

    @rule(broker_id=st.integers(1, 3), clean=st.booleans())
    def register(self, broker_id: int, clean: bool) -> None:
        decision = register_broker(
            self.node.controller.pending,
            broker_id,
            epoch=self.node.log.end_offset,
            incarnation_id=new_uuid(self.random),
            endpoints=[],
            rack=None,
            log_dirs=[new_uuid(self.random)],
            clean=clean,
        )
        self.submit(decision.records)

    @rule(names=st.lists(NAMES, max_size=3), partitions=COUNTS, factor=COUNTS, configs=CONFIGS)
    def create(
        self, names: list[str], partitions: int, factor: int, configs: dict[str, str | None]
    ) -> None:
        topics = [a_topic(name, partitions, factor, configs=configs) for name in names]
        request = CreateTopicsRequest(topics=topics)
        decision = create_topics(
            self.node.controller.pending, request, self.node.config, self.random
        )
        self.submit(decision.records)

    @rule(name=NAMES, assignments=st.lists(st.tuples(st.integers(-1, 2), BROKERS), max_size=3))
    def create_assigned(self, name: str, assignments: list[tuple[int, list[int]]]) -> None:
        request = CreateTopicsRequest(topics=[a_topic(name, assignments=assignments)])
        decision = create_topics(
            self.node.controller.pending, request, self.node.config, self.random
        )
        self.submit(decision.records)

    @rule(
        name=NAMES, count=st.integers(-1, 6), assignments=st.none() | st.lists(BROKERS, max_size=3)
    )
    def grow(self, name: str, count: int, assignments: list[list[int]] | None) -> None:
        given = None
        if assignments is not None:
            given = [CreatePartitionsAssignment(broker_ids=each) for each in assignments]
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=count, assignments=given)],
            timeout_ms=1,
            validate_only=False,
        )
        self.submit(create_partitions(self.node.controller.pending, request, self.random).records)

    @rule(names=st.lists(NAMES, max_size=3))
    def delete(self, names: list[str]) -> None:
        request = DeleteTopicsRequest(topic_names=names, timeout_ms=1)
        self.submit(delete_topics(self.node.controller.pending, request, 5, enabled=True).records)

    @rule(kind=st.sampled_from([2, 4, 8]), name=NAMES | st.just("1"), changes=CHANGES)
    def alter(self, kind: int, name: str, changes: list[tuple[str, int, str | None]]) -> None:
        resource = incremental.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[
                incremental.AlterableConfig(name=key, config_operation=operation, value=value)
                for key, operation, value in changes
            ],
        )
        request = incremental.IncrementalAlterConfigsRequest(
            resources=[resource], validate_only=False
        )
        decision = incremental_alter_configs(
            self.node.controller.pending, request, self.node.config
        )
        self.submit(decision.records)

    @rule()
    def allocate(self) -> None:
        decision = allocate_producer_ids(self.node.controller.pending, 1)
        assert decision.response.first == self.model.next_producer_id
        self.submit(decision.records)

    @rule()
    def step(self) -> None:
        self.node.steps.step()

    @rule()
    def run_until_idle(self) -> None:
        self.node.steps.run_until_idle()
        assert self.node.log.committed == self.model

    @precondition(lambda self: self.node.log.idle)
    @rule()
    def snapshot(self) -> None:
        self.node.log.snapshot()

    @rule()
    def restart(self) -> None:
        """End the process; the disk in memory keeps everything that was appended."""
        self.node = self.node.restart()
        assert self.node.log.committed == self.model

    @invariant()
    def pending_has_all_submitted_records(self) -> None:
        assert self.node.controller.pending == self.model
        assert self.node.log.committed_offset <= self.node.log.end_offset

    def teardown(self) -> None:
        self.node.steps.run_until_idle()
        assert self.node.log.committed == self.model
        again = MetadataImage(CLUSTER)
        for record in self.model.records():
            again.replay(record)
        assert again == self.model
        assert len(list_snapshots(self.node.disk, DIRECTORY)) <= 2
        assert self.node.restart().log.committed == self.model


TestMetadata = Metadata.TestCase
TestMetadata.settings = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
