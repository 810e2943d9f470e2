"""`cordoned.log.dirs`: a broker that takes no new partitions and keeps those that it has."""

from __future__ import annotations

from odradek.model.errors import ErrorCode
from odradek.protocol.api.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.api.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from odradek.protocol.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from unit.broker.memory_broker import MemoryBroker
from unit.broker.replicated_nodes import ReplicatedNodes

NAME = "cordoned.log.dirs"
SET, DELETE = 0, 1


def alter(serving: MemoryBroker, value: str | None) -> ErrorCode:
    operation = DELETE if value is None else SET
    resource = AlterConfigsResource(
        resource_type=4,
        resource_name=str(serving.node.config.node_id),
        configs=[AlterableConfig(name=NAME, config_operation=operation, value=value)],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    answer = serving.call(request, 1, IncrementalAlterConfigsResponse)
    return ErrorCode(answer.responses[0].error_code)


def created(serving: MemoryBroker, name: str) -> ErrorCode:
    topic = CreatableTopic(
        name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=1000)
    return ErrorCode(serving.call(request, 7, CreateTopicsResponse).topics[0].error_code)


def is_cordoned(serving: MemoryBroker) -> bool:
    answer = serving.call(DescribeLogDirsRequest(topics=None), 5, DescribeLogDirsResponse)
    return answer.results[0].is_cordoned


def test_a_broker_that_is_alone_takes_no_topic_while_it_is_cordoned() -> None:
    serving = MemoryBroker()
    serving.create("before")
    assert not is_cordoned(serving)
    assert alter(serving, "*") is ErrorCode.NONE
    assert is_cordoned(serving)
    assert created(serving, "meanwhile") is ErrorCode.INVALID_REPLICATION_FACTOR
    serving.produce_and_wait("before")
    assert alter(serving, None) is ErrorCode.NONE
    assert not is_cordoned(serving)
    assert created(serving, "after") is ErrorCode.NONE


def test_a_directory_stays_cordoned_over_a_restart() -> None:
    serving = MemoryBroker()
    assert alter(serving, "*") is ErrorCode.NONE
    serving.node.stop(lambda: None)
    serving.run_until_idle()
    again = MemoryBroker(serving.disk)
    again.run_until_idle()
    assert created(again, "t") is ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_directory_that_the_broker_does_not_have_is_refused() -> None:
    serving = MemoryBroker()
    assert alter(serving, "/elsewhere") is ErrorCode.INVALID_REQUEST
    assert created(serving, "t") is ErrorCode.NONE


def test_new_replicas_go_to_the_other_brokers_while_one_is_cordoned() -> None:
    nodes = ReplicatedNodes()
    nodes.set_broker_config(NAME, "*", of="2")
    nodes.until(lambda: not nodes.controllers[0].metadata.committed.brokers[2].usable)
    topic = CreatableTopic(
        name="t", num_partitions=4, replication_factor=2, assignments=[], configs=[]
    )
    at = nodes.controllers[0].config.node_id
    answer = nodes.client.ask(at, CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
    assert answer.topics[0].error_code == ErrorCode.NONE
    made = nodes.controllers[0].metadata.controller.pending.topics["t"].partitions.values()
    assert {each for partition in made for each in partition.replicas} == {1, 3}
    nodes.set_broker_config(NAME, "", of="2")
    nodes.until(lambda: nodes.controllers[0].metadata.committed.brokers[2].usable)
