"""Topics and partitions that brokers list some time after the controller created them."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.client.admin.admin import AdminCalls
from odradek.client.errors import UnknownTopicOrPartition
from odradek.client.waiter import spawn
from odradek.protocol.api.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from odradek.protocol.api.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.api.metadata import MetadataRequest, MetadataResponse
from odradek.testing.scripted import ClientSide, ScriptedCluster

BEHIND_MS = 700
"""How much later than the others the last broker applies what the controller commits."""


class LaggingCluster(ScriptedCluster):
    """Three brokers, the third of which is `BEHIND_MS` behind the controller."""

    def __init__(self) -> None:
        super().__init__(brokers=3)
        self.answers[CreateTopicsRequest] = self.create_topics
        self.answers[CreatePartitionsRequest] = self.create_partitions
        self[3].answers[MetadataRequest] = self.metadata_before
        self.changed_ms = 0
        self.before: dict[str, Any] = {}

    def create_topics(self, request: CreateTopicsRequest, version: int) -> CreateTopicsResponse:
        self.change()
        for topic in request.topics:
            self.create(topic.name, leaders=[1])
        results = [
            CreatableTopicResult(name=topic.name, error_code=0, error_message=None)
            for topic in request.topics
        ]
        return CreateTopicsResponse(topics=results)

    def create_partitions(
        self, request: CreatePartitionsRequest, version: int
    ) -> CreatePartitionsResponse:
        self.change()
        for topic in request.topics:
            self.create(topic.name, leaders=[1] * topic.count)
        results = [
            CreatePartitionsTopicResult(name=topic.name, error_code=0) for topic in request.topics
        ]
        return CreatePartitionsResponse(results=results)

    def change(self) -> None:
        self.before, self.changed_ms = dict(self.topics), self.now_ms

    def metadata_before(self, request: MetadataRequest, version: int) -> MetadataResponse:
        present = self.topics
        if self.now_ms < self.changed_ms + BEHIND_MS:
            self.topics = self.before
        answer = self.metadata(request)
        self.topics = present
        return answer


def admin_of(cluster: ScriptedCluster) -> tuple[ClientSide, AdminCalls]:
    side = cluster.client()
    return side, AdminCalls(side.engine(), 60_000)


def test_a_created_topic_is_listed_by_each_broker() -> None:
    cluster = LaggingCluster()
    side, admin = admin_of(cluster)
    assert side.wait(lambda: spawn(admin.create_topic("new")))
    assert cluster.now_ms >= cluster.changed_ms + BEHIND_MS
    for node_id in (1, 2):
        cluster[node_id].stop()
    assert side.wait(lambda: spawn(admin.topic("new"))).name == "new"


def test_added_partitions_are_listed_by_each_broker() -> None:
    cluster = LaggingCluster()
    cluster.create("grown", leaders=[1])
    side, admin = admin_of(cluster)
    side.wait(lambda: spawn(admin.create_partitions("grown", 4)))
    for node_id in (1, 2):
        cluster[node_id].stop()
    assert len(side.wait(lambda: spawn(admin.topic("grown"))).partitions) == 4


@pytest.mark.parametrize("failure", ["stop", "fall_silent"])
def test_a_broker_that_does_not_answer_does_not_fail_a_creation(failure: str) -> None:
    cluster = LaggingCluster()
    side, admin = admin_of(cluster)
    side.wait(lambda: spawn(admin.topics()))
    getattr(cluster[3], failure)()
    assert side.wait(lambda: spawn(admin.create_topic("new")), limit_ms=6_000)


def test_a_topic_that_was_not_created_is_not_waited_for() -> None:
    cluster = LaggingCluster()
    side, admin = admin_of(cluster)
    with pytest.raises(UnknownTopicOrPartition, match="missing"):
        side.wait(lambda: spawn(admin.topic("missing")), limit_ms=500)
    side.wait(lambda: spawn(admin.create_topic("new", validate_only=True)), limit_ms=500)
