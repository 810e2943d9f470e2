"""AlterConfigs, IncrementalAlterConfigs and DescribeConfigs, with the answers of Kafka 4.3."""

from __future__ import annotations

import pytest

from odradek.config.broker import BrokerConfig
from odradek.controller.brokers import bootstrap
from odradek.controller.configs import (
    MOST_CHANGES,
    AlterConfigOpType,
    alter_configs,
    describe_configs,
    incremental_alter_configs,
    list_config_resources,
)
from odradek.controller.image import MetadataImage
from odradek.model.errors import ErrorCode
from odradek.protocol.api import alter_configs as legacy
from odradek.protocol.api import incremental_alter_configs as incremental
from odradek.protocol.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.protocol.api.list_config_resources import ListConfigResourcesRequest
from odradek.protocol.metadata_records import (
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
)
from unit.controller.cluster_making import CONFIG, a_topic, an_image, create, replay_all

SET, DELETE, APPEND, SUBTRACT = AlterConfigOpType
TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
Change = tuple[str, int, str | None]
Resource = tuple[int, str, list[Change]]
INVALID, BAD = ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG


@pytest.fixture
def image() -> MetadataImage:
    image = an_image()
    create(image, a_topic("t", configs={"retention.ms": "1000"}))
    return image


def alter(
    image: MetadataImage, *resources: Resource, validate_only: bool = False
) -> list[tuple[int, str]]:
    request = incremental.IncrementalAlterConfigsRequest(
        resources=[
            incremental.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    incremental.AlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in changes
                ],
            )
            for kind, name, changes in resources
        ],
        validate_only=validate_only,
    )
    decision = incremental_alter_configs(image, request, CONFIG)
    replay_all(image, decision.records)
    return [(item.error_code, item.error_message or "") for item in decision.response.responses]


def replace(image: MetadataImage, kind: int, name: str, values: dict[str, str | None]) -> int:
    request = legacy.AlterConfigsRequest(
        resources=[
            legacy.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    legacy.AlterableConfig(name=key, value=value) for key, value in values.items()
                ],
            )
        ],
        validate_only=False,
    )
    decision = alter_configs(image, request, CONFIG)
    replay_all(image, decision.records)
    return decision.response.responses[0].error_code


def describe(
    image: MetadataImage,
    kind: int,
    name: str,
    keys: list[str] | None,
    config: BrokerConfig = CONFIG,
) -> tuple[int, dict[str, str | None]]:
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
        ]
    )
    (result,) = describe_configs(image, request, config).results
    return result.error_code, {row.name: row.value for row in result.configs}


def test_settings_are_set_and_deleted(image: MetadataImage) -> None:
    assert alter(image, (TOPIC, "t", [("segment.ms", SET, "5"), ("retention.ms", DELETE, None)]))
    assert image.topic_config("t") == {"segment.ms": "5"}
    assert alter(image, (TOPIC, "t", [("segment.ms", DELETE, "ignored")])) == [(0, "")]
    assert image.topic_config("t") == {}


def test_lists_are_appended_to_and_subtracted_from_beginning_with_the_default(
    image: MetadataImage,
) -> None:
    name = "leader.replication.throttled.replicas"
    alter(image, (TOPIC, "t", [(name, APPEND, "0:1,1:1")]))
    alter(image, (TOPIC, "t", [(name, APPEND, "1:1, 2:1")]))
    assert image.topic_config("t")[name] == "0:1,1:1,2:1"
    alter(image, (TOPIC, "t", [(name, SUBTRACT, "1:1,7:7")]))
    assert image.topic_config("t")[name] == "0:1,2:1"
    alter(image, (TOPIC, "t", [("cleanup.policy", SUBTRACT, "delete")]))
    assert image.topic_config("t")["cleanup.policy"] == ""


def test_a_list_does_not_grow_beyond_what_a_record_can_hold(image: MetadataImage) -> None:
    name = "leader.replication.throttled.replicas"
    long = ",".join(f"{number}:1" for number in range(100_000, 102_000))
    other = ",".join(f"{number}:1" for number in range(200_000, 202_000))
    assert alter(image, (TOPIC, "t", [(name, SET, long)])) == [(0, "")]
    ((error, message),) = alter(image, (TOPIC, "t", [(name, APPEND, other)]))
    assert error == INVALID
    assert "32767" in message
    assert image.topic_config("t")[name] == long


def test_an_unchanged_setting_makes_no_record(image: MetadataImage) -> None:
    request = incremental.IncrementalAlterConfigsRequest(
        resources=[
            incremental.AlterConfigsResource(
                resource_type=TOPIC,
                resource_name="t",
                configs=[
                    incremental.AlterableConfig(
                        name="retention.ms", config_operation=SET, value="1000"
                    ),
                    incremental.AlterableConfig(name="nope", config_operation=DELETE, value=None),
                ],
            )
        ],
        validate_only=False,
    )
    decision = incremental_alter_configs(image, request, CONFIG)
    assert decision.response.responses[0].error_code == ErrorCode.NONE
    assert decision.records == []


def test_validate_only_changes_nothing(image: MetadataImage) -> None:
    assert alter(image, (TOPIC, "t", [("segment.ms", SET, "5")]), validate_only=True) == [(0, "")]
    assert image.topic_config("t") == {"retention.ms": "1000"}


@pytest.mark.parametrize(
    ("kind", "name", "change", "error"),
    [
        (TOPIC, "nope", ("retention.ms", SET, "5"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "", ("retention.ms", SET, "5"), INVALID),
        (TOPIC, "bad name", ("retention.ms", SET, "5"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "t", ("retention.ms", SET, None), INVALID),
        (TOPIC, "t", ("cleanup.policy", APPEND, None), INVALID),
        (TOPIC, "t", ("nope", SET, "1"), BAD),
        (TOPIC, "t", ("nope", APPEND, "1"), BAD),
        (TOPIC, "t", ("retention.ms", APPEND, "5"), BAD),
        (TOPIC, "t", ("cleanup.policy", APPEND, "foo"), BAD),
        (TOPIC, "t", ("retention.ms", 7, "5"), INVALID),
        (TOPIC, "t", ("segment.bytes", SET, "x"), BAD),
        (BROKER, "1", ("log.retention.ms", SET, "5"), ErrorCode.NONE),
        (BROKER, "01", ("max.connections", SET, "5"), ErrorCode.NONE),
        (BROKER, "", ("log.retention.ms", SET, "5"), ErrorCode.NONE),
        (BROKER, "2", ("log.retention.ms", SET, "5"), INVALID),
        (BROKER, "x", ("log.retention.ms", SET, "5"), INVALID),
        (BROKER, "1", ("num.partitions", SET, "5"), INVALID),
        (BROKER, "1", ("num.partitions", DELETE, None), ErrorCode.NONE),
        (BROKER, "", ("log.retention.ms", SET, "x"), INVALID),
        (BROKER, "1", ("foo.bar", SET, "x"), INVALID),
        (8, "1", ("root", SET, "INFO"), INVALID),
        (99, "1", ("x", SET, "1"), INVALID),
        (-1, "1", ("x", SET, "1"), INVALID),
    ],
)
def test_each_request_has_kafkas_answer(
    image: MetadataImage, kind: int, name: str, change: Change, error: ErrorCode
) -> None:
    ((code, message),) = alter(image, (kind, name, [change]))
    assert code == error, message
    assert (message == "") == (error is ErrorCode.NONE)


def test_the_controller_alters_the_settings_of_every_broker_and_describes_its_own() -> None:
    image = an_image(1, 2)
    ((code, _),) = alter(image, (BROKER, "2", [("log.retention.ms", SET, "5")]))
    assert code == ErrorCode.NONE
    assert image.broker_config(2) == {"log.retention.ms": "5"}
    assert describe(image, BROKER, "2", None)[0] == INVALID


def test_a_resource_or_a_setting_that_is_there_twice_is_refused(image: MetadataImage) -> None:
    twice = [("retention.ms", SET, "5"), ("retention.ms", SET, "6")]
    assert [code for code, _ in alter(image, (TOPIC, "t", list(twice)))] == [INVALID]
    first, second = [("retention.ms", SET, "5")], [("segment.ms", SET, "6")]
    both = alter(image, (TOPIC, "t", list(first)), (TOPIC, "t", list(second)))
    assert [code for code, _ in both] == [INVALID, INVALID]
    assert image.topic_config("t") == {"retention.ms": "1000"}


def test_more_settings_of_one_resource_than_there_are_any_is_refused(image: MetadataImage) -> None:
    many = [(f"setting.{number}", SET, "1") for number in range(MOST_CHANGES + 500)]
    ((code, message),) = alter(image, (TOPIC, "t", list(many)))
    assert (code, message) == (INVALID, "More than 1000 settings of one resource")
    assert replace(image, TOPIC, "t", {name: value for name, _, value in many}) == INVALID


def test_a_refused_resource_does_not_affect_the_others(image: MetadataImage) -> None:
    good: Resource = (TOPIC, "t", [("segment.ms", SET, "6")])
    bad: Resource = (TOPIC, "nope", [("segment.ms", SET, "6")])
    assert [code for code, _ in alter(image, bad, good)] == [3, 0]
    assert image.topic_config("t")["segment.ms"] == "6"


def test_alter_configs_replaces_all_settings(image: MetadataImage) -> None:
    assert replace(image, TOPIC, "t", {"segment.ms": "6"}) == ErrorCode.NONE
    assert image.topic_config("t") == {"segment.ms": "6"}
    assert replace(image, TOPIC, "t", {"segment.ms": None}) == INVALID
    assert replace(image, TOPIC, "t", {}) == ErrorCode.NONE
    assert image.topic_config("t") == {}


def test_describe_configs_returns_the_requested_names_that_exist_or_all(
    image: MetadataImage,
) -> None:
    assert describe(image, TOPIC, "t", ["retention.ms", "nope"]) == (0, {"retention.ms": "1000"})
    assert len(describe(image, TOPIC, "t", [])[1]) == 33
    assert len(describe(image, TOPIC, "t", None)[1]) == 33


def test_describing_a_broker_has_its_own_values_and_the_cluster_defaults(
    image: MetadataImage,
) -> None:
    alter(image, (BROKER, "", [("max.connections", SET, "9")]))
    alter(image, (BROKER, "1", [("message.max.bytes", SET, "7")]))
    config = CONFIG.with_dynamic(image.broker_config(None), image.broker_config(1))
    asked = ["max.connections", "message.max.bytes"]
    assert describe(image, BROKER, "1", asked, config) == (
        0,
        {"message.max.bytes": "7", "max.connections": "9"},
    )
    for_all = {"max.connections": "9", "min.insync.replicas": "1"}
    assert describe(image, BROKER, "", None, config) == (0, for_all)


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", INVALID),
        (BROKER, "x", INVALID),
        (99, "x", INVALID),
    ],
)
def test_describing_an_unknown_resource_is_refused(
    image: MetadataImage, kind: int, name: str, error: ErrorCode
) -> None:
    assert describe(image, kind, name, None) == (error, {})


def listed(
    image: MetadataImage, *types: int, version: int = 1
) -> tuple[int, list[tuple[int, str]]]:
    request = ListConfigResourcesRequest(resource_types=list(types))
    response = list_config_resources(image, request, version)
    return response.error_code, [
        (each.resource_type, each.resource_name) for each in response.config_resources
    ]


def test_settings_of_groups_are_kept_and_shown(image: MetadataImage) -> None:
    name = "consumer.session.timeout.ms"
    assert describe(image, GROUP, "g", [name]) == (0, {name: "45000"})
    assert alter(image, (GROUP, "g", [(name, SET, "50000")])) == [(0, "")]
    assert describe(image, GROUP, "g", [name]) == (0, {name: "50000"})
    assert describe(image, GROUP, "other", [name]) == (0, {name: "45000"})
    assert listed(image, GROUP) == (0, [(GROUP, "g")])
    alter(image, (GROUP, "g", [(name, DELETE, None)]))
    assert listed(image, GROUP) == (0, [])


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (("consumer.session.timeout.ms", SET, "44999"), BAD),
        (("consumer.heartbeat.interval.ms", SET, "soon"), BAD),
        (("share.auto.offset.reset", SET, "none"), BAD),
        (("share.auto.offset.reset", SET, "by_duration:PT1H"), 0),
        (("nonsense", SET, "1"), BAD),
        (("nonsense", DELETE, None), 0),
        (("consumer.session.timeout.ms", APPEND, "1"), BAD),
    ],
)
def test_settings_of_groups_are_checked(image: MetadataImage, change: Change, error: int) -> None:
    assert alter(image, (GROUP, "g", [change]))[0][0] == error


def test_subscriptions_to_metrics_are_kept_and_shown(image: MetadataImage) -> None:
    changes: list[Change] = [("metrics", SET, "a,b"), ("interval.ms", SET, "100")]
    assert alter(image, (CLIENT_METRICS, "m", changes)) == [(0, "")]
    values = {"metrics": "a,b", "interval.ms": "100", "match": ""}
    assert describe(image, CLIENT_METRICS, "m", None) == (0, values)
    assert listed(image, version=0) == (0, [(CLIENT_METRICS, "m")])


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (("interval.ms", SET, "99"), INVALID),
        (("interval.ms", SET, "soon"), BAD),
        (("nonsense", SET, "1"), INVALID),
        (("match", SET, "client_id=a.*,client_software_name=x"), 0),
        (("match", SET, "client_id=("), BAD),
        (("match", SET, "nonsense=a"), BAD),
        (("match", SET, "client_id"), BAD),
        (("metrics", APPEND, "a"), BAD),
    ],
)
def test_subscriptions_to_metrics_are_checked(
    image: MetadataImage, change: Change, error: int
) -> None:
    assert alter(image, (CLIENT_METRICS, "m", [change]))[0][0] == error


@pytest.mark.parametrize("kind", [GROUP, CLIENT_METRICS])
def test_groups_and_subscriptions_have_names(image: MetadataImage, kind: int) -> None:
    assert alter(image, (kind, "", [("metrics", DELETE, None)]))[0][0] == INVALID
    assert describe(image, kind, "", None)[0] == INVALID


def test_resources_are_listed_by_type(image: MetadataImage) -> None:
    alter(image, (GROUP, "g", [("share.isolation.level", SET, "read_committed")]))
    alter(image, (CLIENT_METRICS, "m", [("metrics", SET, "")]))
    everything = [(GROUP, "g"), (CLIENT_METRICS, "m"), (BROKER, "1"), (TOPIC, "t")]
    assert listed(image) == (0, everything)
    assert listed(image, TOPIC, BROKER) == (0, [(BROKER, "1"), (TOPIC, "t")])
    assert listed(image, TOPIC, 99) == (ErrorCode.UNSUPPORTED_VERSION, [])
    assert listed(image, TOPIC, version=0) == (ErrorCode.UNSUPPORTED_VERSION, [])


def test_settings_without_effect_are_kept_and_shown(image: MetadataImage) -> None:
    changes: list[Change] = [
        ("log.cleaner.threads", SET, "2"),
        ("sasl.kerberos.min.time.before.relogin", SET, "1"),
    ]
    assert alter(image, (BROKER, "1", changes)) == [(0, "")]
    config = CONFIG.with_dynamic(image.broker_config(None), image.broker_config(1))
    names = [name for name, _, _ in changes]
    expected = {name: value for name, _, value in changes}
    assert describe(image, BROKER, "1", names, config) == (0, expected)


def test_the_documentation_of_a_setting_without_effect_begins_with_that() -> None:
    names = ["log.cleaner.threads", "num.network.threads", "ssl.client.auth", "min.insync.replicas"]
    of_broker = {row.name: row.documentation for row in CONFIG.describe(names)}
    without = [name for name, text in of_broker.items() if text.startswith("Without effect on")]
    assert sorted(without) == names[:3]


@pytest.mark.parametrize(
    ("broker", "change"),
    [
        ("", ("sasl.kerberos.min.time.before.relogin", SET, "1")),
        ("1", ("log.cleaner.threads", SET, "0")),
        ("1", ("log.cleaner.threads", SET, "3")),
        ("1", ("log.cleaner.threads", SET, "many")),
        ("1", ("ssl.client.auth", SET, "maybe")),
        ("1", ("group.consumer.session.timeout.ms", SET, "45000")),
        ("1", ("leader.replication.throttled.rate", SET, "-1")),
    ],
)
def test_settings_without_effect_are_checked(
    image: MetadataImage, broker: str, change: Change
) -> None:
    assert alter(image, (BROKER, broker, [change]))[0][0] == INVALID


def test_the_least_number_of_in_sync_replicas_is_one_value_for_all(image: MetadataImage) -> None:
    name = "min.insync.replicas"
    assert image.broker_config(None)[name] == "1"
    assert alter(image, (BROKER, "", [(name, SET, "2")])) == [(0, "")]
    assert alter(image, (BROKER, "", [(name, DELETE, None)]))[0][0] == BAD
    assert alter(image, (BROKER, "1", [(name, SET, "2")]))[0][0] == BAD
    assert alter(image, (BROKER, "1", [(name, DELETE, None)]))[0][0] == BAD
    assert alter(image, (BROKER, "1", [(name, SET, "0")]))[0][0] == INVALID
    assert replace(image, BROKER, "", {"max.connections": "5"}) == BAD
    assert replace(image, BROKER, "", {name: "3"}) == 0
    assert image.broker_config(None) == {name: "3"}


def test_a_cluster_made_before_gets_one_value_for_all_brokers() -> None:
    name = "min.insync.replicas"
    image = MetadataImage("older")
    set_for_one = ConfigRecord(resource_type=BROKER, resource_name="1", name=name, value="2")
    replay_all(image, [FeatureLevelRecord(name="metadata.version", feature_level=30), set_for_one])
    replay_all(image, bootstrap(image, BrokerConfig.load({name: "3"})))
    assert image.broker_config(None) == {name: "3"}
    assert image.broker_config(1) == {}
    assert bootstrap(image, BrokerConfig.load({name: "4"})) == []


@pytest.mark.parametrize(
    ("kind", "resource", "other"), [(TOPIC, "t", "retention.ms"), (BROKER, "", "max.connections")]
)
def test_another_minimum_of_in_sync_replicas_forgets_who_was_eligible_below_the_old_one(
    image: MetadataImage, kind: int, resource: str, other: str
) -> None:
    topic = image.topics["t"].id
    replay_all(
        image,
        [
            FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1),
            PartitionChangeRecord(partition_id=0, topic_id=topic, eligible_leader_replicas=[1]),
        ],
    )
    assert alter(image, (kind, resource, [(other, SET, "7")])) == [(0, "")]
    assert list(image.topics["t"].partitions[0].elr) == [1]
    assert alter(image, (kind, resource, [("min.insync.replicas", SET, "2")])) == [(0, "")]
    assert not image.topics["t"].partitions[0].elr
