"""Every setting has an effect, or the reason why it has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.config.broker import BrokerConfig
from odradek.config.client import client_kinds
from odradek.config.topic import TopicConfig
from odradek.config.without_effect import SettingsWithoutEffect

SOURCES = Path(__file__).parents[3] / "src" / "odradek"
CODE = "\n".join(path.read_text() for path in SOURCES.rglob("*.py") if path.parent.name != "config")
FACTS = {
    "broker.id": "an alias of node.id",
    "listener.security.protocol.map": "checked against listeners",
    "controller.listener.names": "checked against listeners",
    "advertised.listeners": "read through BrokerConfig.effective_advertised_listeners",
    "listeners": "read through BrokerConfig.parsed_listeners",
    "process.roles": "read through BrokerConfig.has_controller_role",
    "controller.quorum.moved.voters": "read through QuorumSettings.moved_voters",
}
NO_EFFECT = {
    "local.retention.bytes": "of tiered storage, which is refused, as in a Kafka without it",
    "local.retention.ms": "of tiered storage, which is refused, as in a Kafka without it",
    "remote.storage.enable": "true is refused, as in a Kafka without it",
    "remote.log.copy.disable": "of tiered storage, which is refused, as in a Kafka without it",
    "remote.log.delete.on.disable": "of tiered storage, which is refused",
    "preallocate": "a hint; its documentation says that it changes nothing",
    "segment.bytes": "read through TopicConfig.roll_bytes",
    "internal.segment.bytes": "read through TopicConfig.roll_bytes",
}


@pytest.mark.parametrize("name", sorted(TopicConfig.declared))
def test_every_topic_setting_is_used_or_documented_as_unused(name: str) -> None:
    assert f".{TopicConfig.declared[name].attribute}" in CODE or name in NO_EFFECT


@pytest.mark.parametrize("name", sorted(BrokerConfig.declared))
def test_every_broker_setting_is_used_or_a_fallback_of_topics(name: str) -> None:
    inherited = {
        member.name
        for setting in TopicConfig.declared.values()
        if setting.broker is not None
        for member, _ in setting.broker.family()
    }
    used = f".{BrokerConfig.declared[name].attribute}" in CODE
    assert used or name in inherited or name in FACTS or name in SettingsWithoutEffect.declared


@pytest.mark.parametrize("name", sorted(SettingsWithoutEffect.declared))
def test_a_setting_without_effect_is_used_nowhere(name: str) -> None:
    assert f"config.{SettingsWithoutEffect.declared[name].attribute}" not in CODE


OF_CLIENTS = {
    "auto.offset.reset": "read through ConsumerConfig.offset_reset",
    "enable.idempotence": "read through ProducerConfig.idempotent",
    "group.protocol": "there is one value so far",
    "partitioner": "there is one value so far",
    "security.protocol": "there is one value so far",
}


@pytest.mark.parametrize(
    "name", sorted({name for kind in client_kinds() for name in kind.declared})
)
def test_every_client_setting_is_used(name: str) -> None:
    attribute = name.replace(".", "_")
    assert f".{attribute}" in CODE or name in OF_CLIENTS
