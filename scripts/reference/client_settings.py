"""The page of the settings of clients, rendered from their tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from odradek.config.client import (
    AdminConfig,
    ClientConfig,
    ClientSettings,
    ConnectionSettings,
    MetadataSettings,
)
from odradek.config.client_names import ALIASES, REFUSED, WITHOUT_EFFECT
from odradek.config.consumer import FetchSettings, GroupMembershipSettings, OffsetSettings
from odradek.config.producer import (
    BatchingSettings,
    DeliverySettings,
    PartitioningSettings,
    TransactionSettings,
)
from odradek.config.setting import Setting

GROUPS: tuple[tuple[str, tuple[tuple[str, type[ClientSettings]], ...]], ...] = (
    ("All clients", (("Connections", ConnectionSettings), ("Metadata", MetadataSettings))),
    (
        "Producer",
        (
            ("Batching", BatchingSettings),
            ("Delivery", DeliverySettings),
            ("Transactions", TransactionSettings),
            ("Partitioning", PartitioningSettings),
        ),
    ),
    (
        "Consumer",
        (
            ("Group", GroupMembershipSettings),
            ("Offsets", OffsetSettings),
            ("Fetching", FetchSettings),
        ),
    ),
)
INTRODUCTION = """\
# Settings of the clients

<!-- Rendered from the code: `make reference` writes this page again. -->

Names, meanings and defaults are Kafka's; Kafka does not have the settings marked *ours*. `_` means
`.`, and case does not matter: `linger_ms=5` and `{"linger.ms": "5"}` are the same. The names of
librdkafka (confluent-kafka), kafka-python and aiokafka for a setting are accepted as well.
"""
ARGUMENTS = """\
## Arguments that are not settings

Constructors take them as keywords or in the mapping, written in all the ways that settings may be:
`value_serializer=f` and `{"value.serializer": f}` are the same. If another kind of client gets
them, it logs a warning, as for settings that it does not have.

- producer: `brokers`; `key`, also `key_serializer`; `value`, also `value_serializer`; `on_full`,
  only for threads; `partitioner` as a function; `interceptors`
- consumer: `brokers`; `group`; `key`, also `key_deserializer`; `value`, also `value_deserializer`;
  `assignors`; `on_decode_error`, `interceptors`
- admin client: `brokers`

Serializers and deserializers are described under [keys and values](python-api.md#keys-and-values).
Those of confluent-kafka take an object and a context; here they get only the object, which is
enough for `StringSerializer` and similar ones. To use one that needs the context, such as that of a
schema registry, wrap it in an object with `serialize(topic, headers, data)` or `deserialize`. Names
of Java classes are not accepted.
"""


def page() -> str:
    """The page as Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield INTRODUCTION
    for kind, groups in GROUPS:
        yield f"## {kind}\n"
        for title, group in groups:
            yield f"### {title}\n"
            for setting in group.declared.values():
                yield from entry(setting)
    yield "## Admin client\n"
    for name, setting in AdminConfig.declared.items():
        if setting is not ClientConfig.declared.get(name):
            yield from entry(setting)
    yield ARGUMENTS
    yield "## Known, without effect\n"
    yield (
        "A client that gets one of these logs a warning with its name. It does the same for "
        "settings of TLS and SASL, and for those of other kinds of clients.\n"
    )
    yield ", ".join(f"`{name}`" for name in sorted(WITHOUT_EFFECT)) + "\n"
    yield "## Refused\n"
    yield "These belong to features that the clients do not have. They are errors.\n"
    for name, instead in sorted(REFUSED.items()):
        yield f"- `{name}`: {instead}"
    yield ""


def entry(setting: Setting[Any]) -> Iterator[str]:
    yield f"#### `{setting.name}`" + (" (ours)\n" if setting.ours else "\n")
    yield f"{setting.doc}\n"
    default = setting.text(setting.default)
    shown = "null" if default is None else f"`{default}`" if default else "empty"
    facts = [setting.kind.name.lower(), f"default {shown}", *(c.text for c in setting.validators)]
    others = [name for name, alias in ALIASES.items() if alias.name == setting.name != name]
    if others:
        facts.append("also " + ", ".join(f"`{name}`" for name in others))
    yield "; ".join(facts) + "\n"
