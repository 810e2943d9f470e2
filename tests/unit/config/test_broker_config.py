"""The settings of a broker: layers, synonyms, listeners, errors."""

from __future__ import annotations

import pytest

from odradek.config.addresses import Listener, parse_listener
from odradek.config.broker import BrokerConfig
from odradek.config.setting import ConfigError
from odradek.config.settings import ConfigSource, Synonym

STATIC = ConfigSource.STATIC_BROKER_CONFIG
DEFAULT = ConfigSource.DEFAULT_CONFIG


OURS = {setting.name for setting in BrokerConfig.declared.values() if setting.ours}


def test_settings_that_kafka_has_not_are_listed_only_where_they_are_set_or_named() -> None:
    assert {"log.durability", "first.request.max.bytes", "max.requests.per.connection"} <= OURS
    listed = {row.name for row in BrokerConfig.load({}).describe()}
    assert listed & OURS == set()
    chosen = BrokerConfig.load({"log.durability": "os"})
    assert {row.name for row in chosen.describe()} & OURS == {"log.durability"}
    assert describe(BrokerConfig.load({}), "log.durability")[:2] == ("fsync", DEFAULT)


def describe(config: BrokerConfig, name: str) -> tuple[str | None, ConfigSource, list[Synonym]]:
    (row,) = config.describe([name])
    return row.value, row.source, list(row.synonyms)


def test_defaults_are_those_of_kafka_on_the_loopback_interface() -> None:
    config = BrokerConfig()
    assert config.log_segment_bytes == 1 << 30
    assert config.num_partitions == 1
    assert config.log_retention_ms is None
    assert config.parsed_listeners() == (Listener("PLAINTEXT", "127.0.0.1", 9092),)
    assert config.log_durability == "fsync"


def test_the_origin_of_a_value_is_where_it_was_written() -> None:
    config = BrokerConfig.load({"num.partitions": "3"}, "--set")
    assert config.num_partitions == 3
    assert config.origin("num.partitions") == "--set"
    assert config.origin("log.segment.bytes") == "default"


def test_the_error_for_an_unknown_name_has_the_origin_and_the_most_similar_name() -> None:
    message = "--set: Unknown config name: num.partition; did you mean num.partitions?"
    with pytest.raises(ConfigError) as error:
        BrokerConfig.load({"num.partition": "3"}, "--set")
    assert str(error.value) == message


def test_the_error_for_an_invalid_value_has_its_origin() -> None:
    with pytest.raises(ConfigError, match=r"^server.properties, line 3: Invalid value 0 for"):
        BrokerConfig.load({"num.partitions": "0"}, {"num.partitions": "server.properties, line 3"})


def test_setting_an_attribute_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="snapshot"):
        BrokerConfig().num_partitions = 3


def test_broker_values_override_cluster_values_and_those_override_static_ones() -> None:
    config = BrokerConfig.load({"message.max.bytes": "1"})
    cluster, own = {"message.max.bytes": "2"}, {"message.max.bytes": "3"}
    assert config.with_dynamic({}, {}).message_max_bytes == 1
    assert config.with_dynamic(cluster, {}).message_max_bytes == 2
    assert config.with_dynamic(cluster, own).message_max_bytes == 3
    assert config.with_dynamic(cluster, own).with_dynamic({}, {}).message_max_bytes == 1


def test_synonyms_are_the_values_of_all_layers_with_the_winner_first() -> None:
    config = BrokerConfig.load({"message.max.bytes": "1"}).with_dynamic(
        {"message.max.bytes": "2"}, {"message.max.bytes": "3"}
    )
    assert describe(config, "message.max.bytes") == (
        "3",
        ConfigSource.DYNAMIC_BROKER_CONFIG,
        [
            Synonym("message.max.bytes", "3", ConfigSource.DYNAMIC_BROKER_CONFIG),
            Synonym("message.max.bytes", "2", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            Synonym("message.max.bytes", "1", STATIC),
            Synonym("message.max.bytes", "1048588", DEFAULT),
        ],
    )


def test_coarser_fallbacks_are_synonyms_only_if_the_setting_is_not_null() -> None:
    """Observed on Apache Kafka 4.3: what is null itself lists nothing."""
    given = {"log.retention.hours": "2"}
    config = BrokerConfig.load(given)
    assert describe(config, "log.retention.ms") == (None, DEFAULT, [])
    assert describe(config, "log.retention.hours") == (
        "2",
        STATIC,
        [
            Synonym("log.retention.hours", "2", STATIC),
            Synonym("log.retention.hours", "168", DEFAULT),
        ],
    )
    both = BrokerConfig.load({**given, "log.retention.ms": "7"})
    assert describe(both, "log.retention.ms")[2] == [
        Synonym("log.retention.ms", "7", STATIC),
        Synonym("log.retention.hours", "2", STATIC),
        Synonym("log.retention.hours", "168", DEFAULT),
    ]


@pytest.mark.parametrize(
    ("given", "effective_ms"),
    [
        ({}, 168 * 3_600_000),
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
    ],
)
def test_the_effective_value_comes_from_the_finest_unit_that_is_set(
    given: dict[str, str], effective_ms: int
) -> None:
    assert BrokerConfig.load(given).effective(BrokerConfig.log_retention_ms) == effective_ms


def test_the_cluster_resource_has_only_the_dynamic_values_for_all_brokers() -> None:
    config = BrokerConfig.load({"node.id": "2"}).with_dynamic(
        {"max.connections": "9"}, {"message.max.bytes": "5"}
    )
    assert [(row.name, row.value) for row in config.describe_cluster_defaults()] == [
        ("max.connections", "9")
    ]


def test_settings_that_need_a_restart_are_read_only() -> None:
    rows = {row.name: row.read_only for row in BrokerConfig().describe()}
    assert rows["num.partitions"]
    assert not rows["log.segment.bytes"]
    with pytest.raises(ConfigError, match="restart"):
        BrokerConfig.check_dynamic("num.partitions", "3", for_all=True)
    BrokerConfig.check_dynamic("log.segment.bytes", "2000000", for_all=True)


def test_settings_of_one_broker_cannot_be_set_for_all() -> None:
    BrokerConfig.check_dynamic("ssl.protocol", "TLSv1.2", for_all=False)
    with pytest.raises(ConfigError, match="broker id must be specified"):
        BrokerConfig.check_dynamic("ssl.protocol", "TLSv1.2", for_all=True)


@pytest.mark.parametrize("name", ["num.io.threads", "ssl.client.auth"])
def test_a_setting_without_effect_cannot_be_given_at_the_start(name: str) -> None:
    with pytest.raises(ConfigError, match=f"--set: {name} has no effect"):
        BrokerConfig.load({name: "1"}, "--set")


def test_a_throttled_rate_is_listed_only_where_it_is_set() -> None:
    name = "leader.replication.throttled.rate"
    assert not BrokerConfig().describe([name])
    changed = BrokerConfig().with_dynamic({}, {name: "1000"})
    assert [row.value for row in changed.describe([name])] == ["1000"]


def test_the_workers_are_at_most_halved_or_doubled() -> None:
    present = BrokerConfig()
    with pytest.raises(ConfigError, match=r"background\.threads=9: value should be between half"):
        present.check_changed_threads(present.with_dynamic({"background.threads": "9"}, {}))


def test_a_directory_is_cordoned_by_its_name_or_with_all_others() -> None:
    given = {"log.dirs": "/data"}
    assert not BrokerConfig.load(given).directory_is_cordoned
    for value in ("/data", "*"):
        config = BrokerConfig.load({**given, "cordoned.log.dirs": value})
        assert config.directory_is_cordoned


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("/elsewhere", "must be present in log.dirs or log.dir. Missing entries : /elsewhere"),
        ("/data,/elsewhere", "Missing entries : /elsewhere"),
        ("/data,*", "must not contain other values"),
    ],
)
def test_only_a_directory_of_the_node_can_be_cordoned(value: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        BrokerConfig.load({"log.dirs": "/data", "cordoned.log.dirs": value})


@pytest.mark.parametrize(
    "value", ["CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT", "PLAINTEXT:PLAINTEXT,OTHER:SSL"]
)
def test_listeners_have_the_protocol_plaintext(value: str) -> None:
    config = BrokerConfig.load({"listener.security.protocol.map": value})
    assert config.listener_security_protocol_map == value


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("", "No security protocol defined for listener PLAINTEXT"),
        ("CONTROLLER:PLAINTEXT", "No security protocol defined for listener PLAINTEXT"),
        ("PLAINTEXT:SSL", "listener PLAINTEXT cannot have the protocol SSL"),
        ("PLAINTEXT:PLAINTEXT,A:B", "expected NAME:PROTOCOL"),
        ("nonsense", "expected NAME:PROTOCOL"),
    ],
)
def test_a_listener_with_no_protocol_or_another_one_is_refused(value: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        BrokerConfig.load({"listener.security.protocol.map": value})


def test_a_listener_between_nodes_needs_an_entry_only_by_its_name_in_kafka() -> None:
    given = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"}
    BrokerConfig.load({**given, "listeners": "PLAINTEXT://:1,CLUSTER://h:2"})
    with pytest.raises(ConfigError, match="for listener CONTROLLER: add CONTROLLER:PLAINTEXT"):
        BrokerConfig.load({**given, "listeners": "PLAINTEXT://:1,CONTROLLER://h:2"})


@pytest.mark.parametrize("count", ["3", "17"])
def test_a_number_of_threads_is_at_most_halved_or_doubled(count: str) -> None:
    present = BrokerConfig()
    present.check_changed_threads(present.with_dynamic({"num.io.threads": "16"}, {}))
    present.check_changed_threads(present.with_dynamic({"num.io.threads": "4"}, {}))
    with pytest.raises(ConfigError, match="half and double the current value 8"):
        present.check_changed_threads(present.with_dynamic({"num.io.threads": count}, {}))


def test_node_id_and_broker_id_have_the_same_value_or_raise_config_error() -> None:
    assert BrokerConfig.load({"broker.id": "4"}).node_id == 4
    assert BrokerConfig.load({"node.id": "4"}).broker_id == 4
    with pytest.raises(ConfigError, match="give one"):
        BrokerConfig.load({"node.id": "4", "broker.id": "5"})


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("PLAINTEXT://127.0.0.1:9092", "127.0.0.1", 9092),
        ("PLAINTEXT://:0", "", 0),
        ("PLAINTEXT://[::1]:9092", "::1", 9092),
        ("PLAINTEXT://broker-1.example.org:65535", "broker-1.example.org", 65535),
    ],
)
def test_a_listener_is_parsed_and_has_the_same_text(text: str, host: str, port: int) -> None:
    assert parse_listener(text) == ("PLAINTEXT", host, port)
    assert str(parse_listener(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1:9092",
        "SSL://127.0.0.1:9092",
        "PLAINTEXT://::1:9092",
        "PLAINTEXT://h:65536",
        "PLAINTEXT://h",
    ],
)
def test_an_invalid_listener_raises_config_error(text: str) -> None:
    with pytest.raises(ConfigError, match="PLAINTEXT://HOST:PORT"):
        BrokerConfig.load({"listeners": text})


def test_listeners_are_advertised_unless_advertised_listeners_is_set() -> None:
    assert BrokerConfig().effective_advertised_listeners() == BrokerConfig().parsed_listeners()
    behind = BrokerConfig.load({"advertised.listeners": "PLAINTEXT://public:19092"})
    assert behind.effective_advertised_listeners() == (Listener("PLAINTEXT", "public", 19092),)


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
def test_advertising_every_interface_raises_config_error(host: str) -> None:
    assert BrokerConfig.load({"listeners": f"PLAINTEXT://{host}:9092"}).parsed_listeners()
    with pytest.raises(
        ConfigError, match=r"^advertised\.listeners .*by which clients reach this machine"
    ):
        BrokerConfig.load({"advertised.listeners": f"PLAINTEXT://{host}:9092"})


@pytest.mark.parametrize("name", ["listeners", "advertised.listeners"])
def test_two_listeners_of_one_name_raise_config_error(name: str) -> None:
    """The others would be silently left out."""
    with pytest.raises(ConfigError, match=rf"Each listener must have a different name, {name}:"):
        BrokerConfig.load({name: "PLAINTEXT://127.0.0.1:9092,PLAINTEXT://[::1]:9092"})


def test_an_empty_list_of_listeners_raises_config_error() -> None:
    with pytest.raises(ConfigError, match="listeners has no address for clients"):
        BrokerConfig.load({"listeners": ""})


def test_changed_returns_names_in_the_order_of_declaration() -> None:
    before = BrokerConfig()
    after = before.with_dynamic({"max.connections": "9", "log.segment.bytes": "1048576"}, {})
    assert after.changed(before) == tuple(
        name for name in BrokerConfig.declared if name in ("max.connections", "log.segment.bytes")
    )
