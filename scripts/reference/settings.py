"""The page of the settings of brokers and topics, rendered from their tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from odradek.config.broker import (
    BrokerConfig,
    ClusterSettings,
    GroupCoordinatorSettings,
    IdentitySettings,
    MetadataLogSettings,
    NetworkSettings,
    TopicSettings,
)
from odradek.config.broker_connections import BrokerConnectionSettings
from odradek.config.broker_log import CleanerSettings, LogSettings
from odradek.config.client_metrics import ClientMetricsConfig
from odradek.config.group import GroupConfig
from odradek.config.quorum import QuorumSettings
from odradek.config.replication import ReplicationSettings
from odradek.config.setting import Setting
from odradek.config.settings import Settings
from odradek.config.topic import TopicConfig
from odradek.config.transactions import TransactionCoordinatorSettings
from odradek.config.without_effect import SettingsWithoutEffect

GROUPS: tuple[tuple[str, type[Settings]], ...] = (
    ("Identity", IdentitySettings),
    ("Listeners, connections and requests", NetworkSettings),
    ("Connections to other brokers", BrokerConnectionSettings),
    ("Topics", TopicSettings),
    ("Logs", LogSettings),
    ("Log compaction", CleanerSettings),
    ("Consumer groups", GroupCoordinatorSettings),
    ("Transactions", TransactionCoordinatorSettings),
    ("Cluster metadata", MetadataLogSettings),
    ("The metadata quorum", QuorumSettings),
    ("The active controller", ClusterSettings),
    ("Replication", ReplicationSettings),
)
INTRODUCTION = """\
# Settings

<!-- Rendered from the code: `make reference` writes this page again. -->

Names and meanings are Kafka's; Kafka does not have the settings marked *ours*. The settings of a
broker are given when it starts. Those marked *cluster-wide* may also change while it runs, by
AlterConfigs (`kafka-configs`, an admin client), for all brokers or for one, those marked
*per-broker* for one broker. The value that counts
is the first of these: the value of the topic, of the broker, of all brokers, the value given at the
start, the default.
"""

WITHOUT_EFFECT = """\
Settings of Kafka that configure nothing here. AlterConfigs accepts them by Kafka's rules, keeps
them and shows them, so that tools and scripts made for Kafka work; they cannot be given at the
start.
"""
KEPT_ONLY = """\
The settings of a {} are accepted, kept and shown; they have no effect here.
"""


def page() -> str:
    """The page as Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield INTRODUCTION
    yield "## Broker\n"
    for title, group in GROUPS:
        yield f"### {title}\n"
        for setting in group.declared.values():
            yield from _entry(setting)
    yield "### Without effect\n"
    yield WITHOUT_EFFECT
    yield from _table(SettingsWithoutEffect)
    yield "## Topic\n"
    yield "They are set when a topic is created, or at any later time by AlterConfigs.\n"
    for setting in TopicConfig.declared.values():
        if not setting.hidden:
            yield from _entry(setting)
    yield "## Group\n"
    yield KEPT_ONLY.format("group")
    yield from _table(GroupConfig)
    yield "## Client metrics\n"
    yield KEPT_ONLY.format("subscription to metrics of clients (KIP-714)")
    yield from _table(ClientMetricsConfig)


def _table(group: type[Settings]) -> Iterator[str]:
    yield "| Setting | Values | Meaning |"
    yield "|---|---|---|"
    for setting in group.declared.values():
        facts = "; ".join(_facts(setting)).replace("|", r"\|")
        yield f"| `{setting.name}` | {facts} | {setting.doc} |"
    yield ""


def _entry(setting: Setting[Any]) -> Iterator[str]:
    yield f"#### `{setting.name}`" + (" (ours)\n" if setting.ours else "\n")
    yield f"{setting.doc}\n"
    yield "; ".join(_facts(setting)) + "\n"


def _facts(setting: Setting[Any]) -> list[str]:
    default = setting.text(setting.default)
    facts = [
        setting.kind.name.lower(),
        "default null"
        if default is None
        else f"default `{default}`"
        if default
        else "default empty",
        *(check.text for check in setting.validators),
    ]
    if setting.broker is None:
        if setting.name in BrokerConfig.declared:
            facts.append(setting.update.value)
    else:
        facts.append(f"falls back to `{setting.broker.name}`")
    return facts
