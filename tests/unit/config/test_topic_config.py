"""The settings of a topic: the defaults and bounds of Kafka, and the fallbacks to the broker."""

from __future__ import annotations

import pytest

from odradek.config.broker import BrokerConfig
from odradek.config.setting import ConfigError
from odradek.config.settings import ConfigSource, Synonym
from odradek.config.topic import TopicConfig, TopicConfigs

DEFAULTS_OF_KAFKA = {
    "cleanup.policy": "delete",
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.type": "producer",
    "compression.zstd.level": "3",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "follower.replication.throttled.replicas": "",
    "index.interval.bytes": "4096",
    "leader.replication.throttled.replicas": "",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}
"""The response of Apache Kafka 4.3 to DescribeConfigs for a new topic."""


def topic(overrides: dict[str, str], **broker: str) -> TopicConfig:
    given = {name.replace("_", "."): value for name, value in broker.items()}
    return TopicConfig(BrokerConfig.load(given), overrides)


def test_a_new_topic_has_exactly_the_settings_of_kafka() -> None:
    rows = topic({}).describe()
    assert {row.name: row.value for row in rows} == DEFAULTS_OF_KAFKA
    assert not any(row.read_only or row.sensitive for row in rows)


@pytest.mark.parametrize("name", sorted(DEFAULTS_OF_KAFKA))
def test_every_default_is_valid(name: str) -> None:
    assert (
        topic({name: DEFAULTS_OF_KAFKA[name]}).describe([name])[0].value == DEFAULTS_OF_KAFKA[name]
    )


def test_a_value_of_the_topic_overrides_that_of_the_broker() -> None:
    config = topic({"segment.bytes": " 2000000 "}, log_segment_bytes="3000000")
    assert config.segment_bytes == 2_000_000
    (row,) = config.describe(["segment.bytes"])
    assert row.source is ConfigSource.TOPIC_CONFIG
    assert row.synonyms == (
        Synonym("segment.bytes", " 2000000 ", ConfigSource.TOPIC_CONFIG),
        Synonym("log.segment.bytes", "3000000", ConfigSource.STATIC_BROKER_CONFIG),
        Synonym("log.segment.bytes", "1073741824", ConfigSource.DEFAULT_CONFIG),
    )


def test_a_time_falls_back_to_the_broker_in_every_unit() -> None:
    assert topic({}, log_retention_hours="2").retention_ms == 7_200_000
    assert topic({}, log_retention_hours="-1").retention_ms == -1
    assert topic({}, log_roll_hours="3", log_roll_ms="4").segment_ms == 4
    assert topic({}, log_flush_scheduler_interval_ms="9").flush_ms == 9


def test_a_value_from_the_broker_has_the_source_and_name_of_its_unit() -> None:
    (row,) = topic({}, log_retention_hours="2").describe(["retention.ms"])
    assert row.source is ConfigSource.STATIC_BROKER_CONFIG
    assert row.synonyms == (Synonym("log.retention.hours", "2", ConfigSource.STATIC_BROKER_CONFIG),)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("segment.bytes", "1048575"),
        ("segment.ms", "0"),
        ("segment.jitter.ms", "-1"),
        ("segment.index.bytes", "3"),
        ("flush.messages", "0"),
        ("flush.ms", "-1"),
        ("retention.ms", "-2"),
        ("max.message.bytes", "-1"),
        ("index.interval.bytes", "-1"),
        ("delete.retention.ms", "-1"),
        ("min.compaction.lag.ms", "-1"),
        ("max.compaction.lag.ms", "0"),
        ("file.delete.delay.ms", "-1"),
        ("min.cleanable.dirty.ratio", "1.1"),
        ("cleanup.policy", "delete,none"),
        ("min.insync.replicas", "0"),
        ("compression.type", "ZSTD"),
        ("compression.gzip.level", "10"),
        ("compression.lz4.level", "18"),
        ("compression.zstd.level", "23"),
        ("preallocate", "1"),
        ("message.timestamp.type", "logappendtime"),
        ("message.timestamp.before.max.ms", "-1"),
        ("leader.replication.throttled.replicas", "x"),
        ("local.retention.ms", "-3"),
        ("remote.storage.enable", "true"),
    ],
)
def test_a_value_outside_of_kafkas_bounds_raises_config_error(name: str, value: str) -> None:
    with pytest.raises(ConfigError):
        topic({name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.bytes", "-2"),
        ("cleanup.policy", ""),
        ("min.insync.replicas", "5"),
        ("unclean.leader.election.enable", "TRUE"),
        ("leader.replication.throttled.replicas", "0:1,1:1"),
        ("follower.replication.throttled.replicas", "*"),
    ],
)
def test_every_value_that_kafka_accepts_is_accepted(name: str, value: str) -> None:
    topic({name: value})


@pytest.mark.parametrize("policy", ["compact", "compact,delete", "delete,compact"])
def test_compaction_is_accepted_with_and_without_deletion(policy: str) -> None:
    assert topic({"cleanup.policy": policy}).cleanup_policy == tuple(policy.split(","))


def test_the_error_for_an_unknown_topic_setting_has_the_most_similar_name() -> None:
    with pytest.raises(ConfigError, match=r"Unknown topic config name: segment.byte; did you mean"):
        topic({"segment.byte": "1"})


def test_contradicting_compaction_lags_raise_config_error() -> None:
    with pytest.raises(ConfigError, match="conflict"):
        topic({"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "50"})


def test_the_hidden_setting_has_no_lower_bound_and_is_not_described() -> None:
    config = topic({"internal.segment.bytes": "10"})
    assert (config.roll_bytes, config.segment_bytes) == (10, 1 << 30)
    assert "internal.segment.bytes" not in {row.name for row in config.describe()}
    assert config.describe(["internal.segment.bytes"]) == []


def test_topics_with_the_same_settings_share_one_configuration() -> None:
    configs = TopicConfigs(BrokerConfig())
    first, second = configs.of({}), configs.of({})
    assert first is second
    assert configs.of({"retention.ms": "5"}) is not first
