"""The settings of clients: the names and defaults of Kafka, and the aliases of other libraries."""

from __future__ import annotations

import inspect
import logging
from pathlib import Path
from typing import Any, get_overloads, get_type_hints

import aiokafka
import kafka
import pytest
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from odradek.client.aio.admin import Admin as AwaitedAdmin
from odradek.client.aio.consumer import Consumer as AwaitedConsumer
from odradek.client.aio.producer import Producer as AwaitedProducer
from odradek.client.blocking.admin import Admin
from odradek.client.blocking.consumer import Consumer
from odradek.client.blocking.producer import Producer
from odradek.client.consumer.arguments import ConsumerOptions
from odradek.client.producer.arguments import ProducerOptions
from odradek.config.client import AdminConfig, ClientConfig, ClientSettings, client_kinds
from odradek.config.client_names import ALIASES, REFUSED, WITHOUT_EFFECT, normalised
from odradek.config.consumer import ConsumerConfig
from odradek.config.keywords import ConsumerKeywords, ProducerKeywords
from odradek.config.producer import ProducerConfig
from odradek.config.setting import ConfigError

OF_KAFKA = [
    line.split("\t")
    for line in (Path(__file__).parent / "kafka_client_settings.tsv").read_text().splitlines()
]
"""Kind of client, name, type and default of every setting of Kafka 4.3.1's clients."""

BY_NAME = {"producer": ProducerConfig, "consumer": ConsumerConfig, "admin": AdminConfig}
OTHER_DEFAULTS = {
    "client.id": "brokers log it, and an empty one is of no use in a log",
    "isolation.level": "records that are aborted later are not read unless asked for",
    "partition.assignment.strategy": "the same assignors, by other names",
    "receive.buffer.bytes": "a fixed size would switch off that Linux adapts it",
    "send.buffer.bytes": "a fixed size would switch off that Linux adapts it",
}
NEEDED = {"bootstrap.servers": "localhost:9092"}


def arguments_of(config: type[ClientSettings]) -> set[str]:
    """The arguments of a constructor that are not settings, in the form of settings."""
    return {normalised(argument) for argument in config.arguments}


# Settings of Kafka.


@pytest.mark.parametrize(
    ("kind", "name", "default"), [(kind, name, default) for kind, name, _, default in OF_KAFKA]
)
def test_every_setting_of_kafka_is_known_and_has_its_default(
    kind: str, name: str, default: str
) -> None:
    config = BY_NAME[kind]
    setting = config.declared.get(name)
    if setting is None:
        assert name in REFUSED or name in arguments_of(config) or config.resolve(name) is None
    elif name not in OTHER_DEFAULTS and default != "(none)":
        text = setting.text(setting.default)
        assert ("null" if text is None else text) == default.strip("[]")


@pytest.mark.parametrize("kind", client_kinds())
def test_a_setting_that_kafka_does_not_have_is_marked_as_ours(kind: type[ClientSettings]) -> None:
    known = {name for _, name, _, _ in OF_KAFKA}
    for setting in kind.declared.values():
        assert setting.ours == (setting.name not in known), setting.name
        assert setting.attribute == setting.name.replace(".", "_")
        assert setting.doc.endswith(".")


# Names.


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ({"linger.ms": "7"}, 7),
        ({"linger_ms": 7}, 7),
        ({"LINGER.ms": 7}, 7),
        ({"queue.buffering.max.ms": 7}, 7),
        ({}, 5),
        ({"linger.ms": None}, 5),
    ],
)
def test_a_setting_is_accepted_by_any_of_its_names(given: dict[str, Any], value: int) -> None:
    assert ProducerConfig.load(given).linger_ms == value


@pytest.mark.parametrize(
    ("given", "attribute", "value"),
    [
        ({"compression.codec": "ZSTD"}, "compression_type", "zstd"),
        ({"request.required.acks": -1}, "acks", "all"),
        ({"acks": 1}, "acks", "1"),
        ({"message.timeout.ms": 60_000}, "delivery_timeout_ms", 60_000),
        ({"queue.buffering.max.kbytes": 64}, "buffer_memory", 65_536),
        ({"metadata.broker.list": "a:1,b:2"}, "bootstrap_servers", ("a:1", "b:2")),
        ({"bootstrap_servers": ["a:1", "b:2"]}, "bootstrap_servers", ("a:1", "b:2")),
        ({"max.in.flight": 2}, "max_in_flight_requests_per_connection", 2),
        ({"enable_idempotence": False}, "enable_idempotence", False),
        ({"security.protocol": "plaintext"}, "security_protocol", "PLAINTEXT"),
        ({"metadata.recovery.strategy": "NONE"}, "metadata_recovery_strategy", "none"),
        ({"compression.type": "gzip", "compression.level": 4}, "compression_gzip_level", 4),
        ({"compression.codec": "zstd", "compression.level": -1}, "compression_zstd_level", 3),
    ],
)
def test_names_and_values_of_other_producers_are_converted(
    given: dict[str, Any], attribute: str, value: object
) -> None:
    assert getattr(ProducerConfig.load(given), attribute) == value


@pytest.mark.parametrize(
    ("given", "attribute", "value"),
    [
        ({"auto.offset.reset": "smallest"}, "auto_offset_reset", "earliest"),
        ({"auto.offset.reset": "largest"}, "auto_offset_reset", "latest"),
        ({"auto.offset.reset": "end"}, "auto_offset_reset", "latest"),
        ({"auto.offset.reset": "error"}, "auto_offset_reset", "none"),
        ({"auto.offset.reset": "by_duration:P1DT2H"}, "auto_offset_reset", "by_duration:P1DT2H"),
        ({"fetch.wait.max.ms": 9}, "fetch_max_wait_ms", 9),
        ({"fetch.message.max.bytes": 9}, "max_partition_fetch_bytes", 9),
        ({"queued.max.messages.kbytes": 9}, "prefetch_max_bytes", 9216),
        (
            {
                "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor,"
                "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
            },
            "partition_assignment_strategy",
            ("range", "cooperative-sticky"),
        ),
        (
            {"partition_assignment_strategy": ["RoundRobinAssignor", "sticky"]},
            "partition_assignment_strategy",
            ("roundrobin", "sticky"),
        ),
        (
            {
                "partition_assignment_strategy": (
                    RangePartitionAssignor,
                    RoundRobinPartitionAssignor,
                )
            },
            "partition_assignment_strategy",
            ("range", "roundrobin"),
        ),
        (
            {"partition_assignment_strategy": [StickyPartitionAssignor]},
            "partition_assignment_strategy",
            ("sticky",),
        ),
        ({"group_protocol": "CLASSIC"}, "group_protocol", "classic"),
    ],
)
def test_names_and_values_of_other_consumers_are_converted(
    given: dict[str, Any], attribute: str, value: object
) -> None:
    assert getattr(ConsumerConfig.load(given), attribute) == value


def keywords_of(*clients: Any) -> list[str]:
    return sorted({name for client in clients for name in client.DEFAULT_CONFIG})


def parameters_of(client: Any) -> list[str]:
    skipped = ("self", "loop", "topics", "kwargs")
    return [name for name in inspect.signature(client.__init__).parameters if name not in skipped]


@pytest.mark.parametrize(
    ("config", "names"),
    [
        (ProducerConfig, keywords_of(kafka.KafkaProducer)),
        (ConsumerConfig, keywords_of(kafka.KafkaConsumer)),
        (AdminConfig, keywords_of(kafka.KafkaAdminClient)),
        (ProducerConfig, parameters_of(aiokafka.AIOKafkaProducer)),
        (ConsumerConfig, parameters_of(aiokafka.AIOKafkaConsumer)),
    ],
)
def test_every_keyword_of_other_python_clients_is_known(
    config: type[ClientSettings], names: list[str]
) -> None:
    for name in names:
        if normalised(name) not in {*REFUSED, *arguments_of(config)}:
            config.resolve(name)


def test_the_error_for_an_unknown_name_has_the_most_similar_name() -> None:
    with pytest.raises(
        ConfigError, match=r"no client has a setting linger\.m; did you mean linger\.ms"
    ):
        ProducerConfig.load({"linger.m": 1})
    with pytest.raises(ConfigError, match=r"xyzzy$"):
        ConsumerConfig.load({"xyzzy": 1})


@pytest.mark.parametrize(
    ("config", "given", "meant"),
    [
        (ProducerConfig, "on_ful", "on_full"),
        (ProducerConfig, "valu", "value"),
        (ConsumerConfig, "on.decode.eror", "on_decode_error"),
        (ConsumerConfig, "grup", "group"),
        (AdminConfig, "broker", "brokers"),
    ],
)
def test_the_error_for_a_misspelt_argument_has_the_right_name(
    config: type[ClientSettings], given: str, meant: str
) -> None:
    with pytest.raises(ConfigError, match=rf"{given}; did you mean {meant}\?"):
        config.load({given: "x"})


@pytest.mark.parametrize(
    ("config", "argument"),
    [(config, each) for config in client_kinds() for each in config.arguments],
)
def test_an_argument_of_the_constructor_given_as_a_setting_raises_config_error(
    config: type[ClientSettings], argument: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A constructor removes its own arguments first; other clients may get the same mapping."""
    for name in (argument, argument.upper().replace("_", ".")):
        if normalised(name) in ALIASES:
            assert config.resolve(name)
            continue
        with pytest.raises(ConfigError) as told:
            config.load({name: "json"})
        assert str(told.value) == (
            f"{name} is not a setting but an argument of the constructor of a {config.kind}"
        )
        others = [kind for kind in client_kinds() if argument not in kind.arguments]
        assert all(kind.resolve(name, "json") is None for kind in others)


@pytest.mark.parametrize("config", client_kinds())
def test_the_most_similar_name_may_be_that_of_another_clients_setting(
    config: type[ClientSettings],
) -> None:
    with pytest.raises(ConfigError) as told:
        config.load({"auto.ofset.reset": "earliest"})
    assert str(told.value) == (
        "no client has a setting auto.ofset.reset; did you mean auto.offset.reset?"
    )


@pytest.mark.parametrize(
    ("config", "apis"),
    [
        (ProducerConfig, (Producer, AwaitedProducer)),
        (ConsumerConfig, (Consumer, AwaitedConsumer)),
        (AdminConfig, (Admin, AwaitedAdmin)),
    ],
)
def test_arguments_are_the_keywords_of_the_constructors(
    config: type[ClientSettings], apis: tuple[Any]
) -> None:
    found: set[str] = set()
    for api in apis:
        for overload in (*get_overloads(api.__init__), api.__init__):
            hints = inspect.signature(overload).parameters
            found |= {name for name, each in hints.items() if each.kind is each.KEYWORD_ONLY}
    if config is ConsumerConfig:
        found |= set(get_type_hints(ConsumerOptions)) - set(get_type_hints(ConsumerKeywords))
    if config is ProducerConfig:
        found |= set(get_type_hints(ProducerOptions)) - set(get_type_hints(ProducerKeywords))
    assert set(config.arguments) == found


@pytest.mark.parametrize("kind", [Producer, Admin, AwaitedProducer, AwaitedAdmin])
@pytest.mark.parametrize("given", ["127.0.0.1:9092", ["127.0.0.1:9092"]], ids=str)
def test_an_address_in_place_of_a_mapping_raises_config_error(kind: Any, given: object) -> None:
    with pytest.raises(ConfigError, match=r"brokers=.?'127\.0\.0\.1:9092'"):
        kind(given)


def test_one_warning_has_all_names_without_effect(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        ProducerConfig.load({"statistics.interval.ms": 1, "group.id": "g", "ssl.ca.location": "x"})
    assert [record.getMessage() for record in caplog.records] == [
        "without effect on this producer: group.id, ssl.ca.location, statistics.interval.ms"
    ]


def test_the_error_for_a_missing_feature_says_what_to_do_instead() -> None:
    with pytest.raises(ConfigError, match=r"enable\.auto\.commit=false"):
        ConsumerConfig.load({"enable.auto.offset.store": False})
    assert ConsumerConfig.load({"enable.auto.offset.store": True, "enable.partition.eof": "false"})


def test_a_transactional_id_needs_idempotence() -> None:
    assert ProducerConfig.load({"transactional.id": "t"}).transactional_id == "t"
    for setting, match in (
        ({"acks": "1"}, "acks is 1"),
        ({"enable.idempotence": False}, "it must be true"),
        ({"transactional.id": ""}, "is empty"),
    ):
        with pytest.raises(ConfigError, match=match):
            ProducerConfig.load({"transactional.id": "t", **setting})


def test_two_names_of_a_setting_with_different_values_raise_config_error() -> None:
    assert ProducerConfig.load({"linger.ms": 5, "linger_ms": "5"}).linger_ms == 5
    with pytest.raises(ConfigError, match=r"queue\.buffering\.max\.ms both mean linger\.ms"):
        ProducerConfig.load({"linger.ms": 5, "queue.buffering.max.ms": 6})


def test_aliases_and_ignored_and_refused_names_are_distinct() -> None:
    declared = {name for kind in client_kinds() for name in kind.declared}
    for name, alias in ALIASES.items():
        assert name == normalised(name) and alias.name in declared
    for name in (*WITHOUT_EFFECT, *REFUSED):
        assert name == normalised(name) and name not in ALIASES
    assert not WITHOUT_EFFECT & REFUSED.keys()


# Values.


@pytest.mark.parametrize(
    ("config", "given", "problem"),
    [
        (ProducerConfig, {"linger.ms": -1}, "must be at least 0"),
        (ProducerConfig, {"linger.ms": "soon"}, "Not a number"),
        (ProducerConfig, {"compression.type": "rar"}, "must be one of: none, gzip"),
        (ProducerConfig, {"acks": 2}, "must be one of: all, 1, 0"),
        (ProducerConfig, {"bootstrap.servers": object()}, "give text, a number, or a list"),
        (ProducerConfig, {"partitioner": "consistent_random"}, "leave it at murmur2_random"),
        (ProducerConfig, {"security.protocol": "SSL"}, "only PLAINTEXT"),
        (ProducerConfig, {"delivery.timeout.ms": 30_000}, r"less than linger\.ms plus"),
        (
            ProducerConfig,
            {"enable.idempotence": True, "acks": 1},
            "enable.idempotence is true, and acks is 1",
        ),
        (ProducerConfig, {"enable.idempotence": True, "retries": 0}, "retries is 0"),
        (ProducerConfig, {"enable.idempotence": True, "max.in.flight": 6}, "at most 5"),
        (ConsumerConfig, {"auto.offset.reset": "somewhere"}, "expected earliest, latest, none"),
        (ConsumerConfig, {"group.protocol": "consumer"}, "KIP-848"),
        (ConsumerConfig, {"heartbeat.interval.ms": 45_000}, "must be less than"),
        (ConsumerConfig, {"enable.auto.commit": True}, r"without a group\.id"),
        (ConsumerConfig, {"group.instance.id": "me"}, r"without a group\.id"),
        (ConsumerConfig, {"group.id": ""}, "group.id is empty"),
        (AdminConfig, {"client.id": "x" * 32_768}, "client.id.*32768 bytes are too long"),
        (ConsumerConfig, {"group.id": "é" * 16_384}, "group.id.*32768 bytes are too long"),
        (ConsumerConfig, {"partition.assignment.strategy": "best"}, "must be one of: range"),
    ],
)
def test_an_invalid_value_raises_config_error_with_the_rule(
    config: type[ClientSettings], given: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        config.load(given)


def test_idempotence_is_off_if_other_settings_make_it_impossible() -> None:
    assert ProducerConfig.load({}).idempotent
    assert not ProducerConfig.load({"acks": 0}).idempotent
    assert not ProducerConfig.load({"max.in.flight": 100}).idempotent
    assert not ProducerConfig.load({"enable.idempotence": False}).idempotent


def test_values_derived_from_settings() -> None:
    assert ProducerConfig.load({}).required_acks == -1
    assert ProducerConfig.load({"acks": 0}).required_acks == 0
    slow = ProducerConfig.load({"linger.ms": 200_000})
    assert slow.delivery_limit_ms == 230_000
    assert ProducerConfig.load({"compression.type": "lz4"}).compression_level is None
    leveled = ProducerConfig.load({"compression.type": "zstd", "compression.zstd.level": 9})
    assert leveled.compression_level == 9
    assert ConsumerConfig.load({"isolation.level": "READ_COMMITTED"}).read_committed


def test_the_error_for_a_client_setting_has_its_origin() -> None:
    with pytest.raises(ConfigError, match=r"^client\.properties: Invalid value x"):
        ClientConfig.load({"request.timeout.ms": "x"}, "client.properties")
