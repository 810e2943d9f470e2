"""A set of settings with values, and the source of each value.

Values come in layers. The first layer that has a setting gives its value:

    per-topic > per-broker dynamic > cluster-wide dynamic > static > default

An instance is a snapshot and never changes: a new layer makes a new instance, and `changed` returns
the names whose values differ. `describe` returns the rows of DescribeConfigs: each value with its
source, and its synonyms, which are all layers and settings that could give the value, the winner
first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import dropwhile
from typing import Any, ClassVar, Self

from odradek.config.setting import ConfigError, ConfigType, Setting, UpdateMode


class ConfigSource(IntEnum):
    """The source of a value, with its code in DescribeConfigs."""

    UNKNOWN = 0
    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


@dataclass(frozen=True, slots=True)
class Layer:
    """Values as text, by Kafka's names.

    `where` says for messages where they were written, for all or by name: `--set`, a file, an
    environment variable.
    """

    source: ConfigSource
    values: Mapping[str, str]
    where: Mapping[str, str] | str = ""

    def place(self, name: str) -> str:
        """The place where the value of `name` was written; empty if unknown."""
        return self.where if isinstance(self.where, str) else self.where.get(name, "")


@dataclass(frozen=True, slots=True)
class Synonym:
    """A setting of one layer that gives a value, or would without those before it."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class DescribedConfig:
    """A row of a DescribeConfigs response. The value of a sensitive setting is None."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    type: ConfigType
    documentation: str
    synonyms: tuple[Synonym, ...]


class Settings:
    """The base of classes whose attributes are `Setting`s; an instance holds their values."""

    declared: ClassVar[dict[str, Setting[Any]]]
    families: ClassVar[dict[str, tuple[Setting[Any], ...]]]
    unknown: ClassVar[str] = "Unknown config name"

    layers: tuple[Layer, ...]

    def __init_subclass__(cls) -> None:
        cls.declared = {
            item.name: item
            for base in reversed(cls.__mro__)
            for item in vars(base).values()
            if isinstance(item, Setting)
        }
        cls.families = {name: (setting,) for name, setting in cls.declared.items()}
        for setting in cls.declared.values():
            if setting.fallbacks:
                family = tuple(member for member, _ in setting.family())
                cls.families.update((member.name, family) for member in family)

    def __init__(self, layers: Sequence[Layer] = ()) -> None:
        """Layers in order of precedence. Raises `ConfigError` for an invalid value."""
        self.__dict__["layers"] = tuple(layers)
        for setting in self.declared.values():
            layer = self.layer_of(setting.name)
            value = self.fallback(setting) if layer is None else self._parse(setting, layer)
            self.__dict__[setting.attribute] = value

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"{type(self).__name__} is a snapshot: make a new one to change {name}"
        )

    def _parse(self, setting: Setting[Any], layer: Layer) -> object:
        place = layer.place(setting.name)
        try:
            return setting.parse(layer.values[setting.name])
        except ConfigError as error:
            raise (ConfigError(f"{place}: {error}") if place else error) from None

    def layer_of(self, name: str) -> Layer | None:
        """The layer that gives the value of `name`; None if it is the default."""
        return next((layer for layer in self.layers if name in layer.values), None)

    def fallback(self, setting: Setting[Any]) -> object:
        """The value of a setting that no layer has."""
        return setting.default

    @classmethod
    def find(cls, name: str) -> Setting[Any]:
        """The declaration of `name`. Raises `ConfigError` with the most similar name."""
        setting = cls.declared.get(name)
        if setting is None:
            from difflib import get_close_matches  # Imported here: it is slow and rarely needed.

            near = get_close_matches(name, cls.declared, n=1)
            raise ConfigError(
                f"{cls.unknown}: {name}" + (f"; did you mean {near[0]}?" if near else "")
            )
        return setting

    def value(self, setting: Setting[Any]) -> Any:
        """The value of a declared setting."""
        return self.__dict__[setting.attribute]

    def effective(self, setting: Setting[Any]) -> int:
        """The value of a setting, or of its first fallback that is not null, in its own unit."""
        for member, factor in setting.family():
            value = self.value(member)
            if value is not None:
                return int(value * factor)
        raise AssertionError(f"{setting.name}: the last fallback always has a value")

    def changed(self, other: Self) -> tuple[str, ...]:
        """Names of the settings whose values differ, in the order of declaration."""
        return tuple(
            setting.name
            for setting in self.declared.values()
            if self.value(setting) != other.value(setting)
        )

    def origin(self, name: str) -> str:
        """The source of a value as text for users: `default`, `--set`, a file ..."""
        layer = self.layer_of(self.find(name).name)
        if layer is None:
            return "default"
        return layer.place(name) or layer.source.name.lower()

    def synonyms(self, setting: Setting[Any], *, relatives: bool = False) -> tuple[Synonym, ...]:
        """All settings of all layers that could give the value, the winner first.

        With `relatives`, a fallback counts even if the setting itself is null and was never set:
        the topic's `retention.ms` comes from the broker's `log.retention.hours`.
        """
        family = self.families[setting.name]
        given = [
            Synonym(
                member.name, None if member.sensitive else layer.values[member.name], layer.source
            )
            for layer in self.layers
            for member in family
            if member.name in layer.values
        ]
        defaults = [
            Synonym(member.name, member.text(member.default), ConfigSource.DEFAULT_CONFIG)
            for member in family
            if member.default is not None and (member.ours or not member.hidden_unless_set)
        ]
        rest = tuple(dropwhile(lambda item: item.name != setting.name, [*given, *defaults]))
        return tuple(given) if relatives and not rest else rest

    def documentation(self, setting: Setting[Any]) -> str:
        """What DescribeConfigs says about a setting."""
        return setting.doc

    def describe_one(self, setting: Setting[Any]) -> DescribedConfig:
        """One row of DescribeConfigs."""
        synonyms = self.synonyms(setting)
        return DescribedConfig(
            name=setting.name,
            value=None if setting.sensitive else setting.text(self.value(setting)),
            source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
            read_only=setting.update is UpdateMode.READ_ONLY,
            sensitive=setting.sensitive,
            type=setting.kind,
            documentation=self.documentation(setting),
            synonyms=synonyms,
        )

    def describe(self, names: Iterable[str] | None = None) -> list[DescribedConfig]:
        """Rows for DescribeConfigs, in the order of declaration.

        With `names`: of those that exist. Without: of all settings but hidden ones. Kafka's tools
        show everything that is listed, so one of ours is listed only where it was set or is named.
        """
        requested = None if names is None else set(names)
        return [
            self.describe_one(setting)
            for setting in self.declared.values()
            if not setting.hidden
            and (requested is None or setting.name in requested)
            and not (
                setting.hidden_unless_set
                and self.layer_of(setting.name) is None
                and (requested is None or not setting.ours)
            )
        ]


class ResourceConfig(Settings):
    """The settings of a resource, such as a topic, some of which fall back to the broker's."""

    own_source: ClassVar[ConfigSource]

    def __init__(self, broker: Settings, overrides: Mapping[str, str]) -> None:
        """`overrides`: the values of the resource itself. Raises `ConfigError`."""
        for name in overrides:
            self.find(name)
        self.__dict__["broker"] = broker
        super().__init__([Layer(self.own_source, dict(overrides))])

    def fallback(self, setting: Setting[Any]) -> object:
        if setting.broker is None:
            return setting.default
        broker: Settings = self.__dict__["broker"]
        if setting.broker.fallbacks:
            # A negative value means never, in any unit.
            return max(broker.effective(setting.broker), -1)
        return broker.value(setting.broker)

    def inherited(self, setting: Setting[Any]) -> tuple[Synonym, ...]:
        """The settings that give the value unless the resource has one, the winner first."""
        if setting.broker is None:
            return ()
        broker: Settings = self.__dict__["broker"]
        return broker.synonyms(setting.broker, relatives=True)

    def describe_one(self, setting: Setting[Any]) -> DescribedConfig:
        row = super().describe_one(setting)
        own = row.synonyms[:1] if row.source is self.own_source else ()
        synonyms = (*own, *self.inherited(setting))
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
        return replace(row, source=source, synonyms=synonyms)
