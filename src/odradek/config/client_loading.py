"""From what a user gives a client, a mapping or keywords, to its settings.

    {"queue.buffering.max.ms": 5}   linger_ms=5   {"LINGER.MS": "5"}   ─►   linger.ms = 5

Values may be Python's: numbers, booleans, sequences of strings. None is as if it were not given.
What becomes of a name is in `client_names`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, ClassVar, Self

from odradek.config.client_names import (
    ALIASES,
    HARMLESS,
    REFUSED,
    SECURITY_PREFIXES,
    WITHOUT_EFFECT,
    Alias,
    alias_of,
    normalised,
)
from odradek.config.setting import ConfigError
from odradek.config.settings import ConfigSource, Layer, Settings

log = logging.getLogger(__name__)


class ClientSettings(Settings):
    """The base of all sets of client settings."""

    kind = "client"
    arguments: ClassVar[tuple[str, ...]] = ("brokers",)
    """What else such a client's constructor takes by keyword: who misspells it is told."""

    @classmethod
    def load(cls, given: Mapping[str, Any], where: str = "") -> Self:
        """Settings by any of their names. Raises `ConfigError`; warns of what has no effect."""
        values: dict[str, str] = {}
        written: dict[str, str] = {}
        idle: list[str] = []
        for name, value in given.items():
            if value is None:
                continue
            alias = cls.resolve(name, value)
            if alias is None:
                idle.append(name)
                continue
            if alias.name in written and values[alias.name] != alias.value(text_of(name, value)):
                raise ConfigError(
                    f"{written[alias.name]} and {name} both mean {alias.name}, and differ: give one"
                )
            values[alias.name] = alias.value(text_of(name, value))
            written[alias.name] = name
        if idle:
            log.warning("without effect on this %s: %s", cls.kind, ", ".join(sorted(idle)))
        config = cls([Layer(ConfigSource.STATIC_BROKER_CONFIG, values, where)])
        config.check()
        return config

    @classmethod
    def resolve(cls, name: str, value: object = None) -> Alias | None:
        """What a name means here; None if it is known and has no effect, at least with this value.
        Raises `ConfigError`.
        """
        alias = alias_of(name)
        if alias.name in cls.declared:
            return alias
        if alias.name in REFUSED and HARMLESS.get(alias.name) == str(value).lower():
            return None
        if alias.name in REFUSED:
            raise ConfigError(f"{name} is not for this {cls.kind}: {REFUSED[alias.name]}")
        if alias.name in WITHOUT_EFFECT or alias.name.startswith(SECURITY_PREFIXES):
            return None
        known = known_to_any()
        arguments = {normalised(argument): argument for argument in cls.arguments}
        if alias.name in arguments:  # A constructor has taken its own out.
            raise ConfigError(
                f"{name} is no setting, but an argument of the constructor of a {cls.kind}"
            )
        # It may be given to several kinds of clients alike.
        if alias.name in known or alias.name in arguments_of_any():
            return None
        near = nearest(normalised(name), {name: name for name in (*known, *ALIASES)} | arguments)
        raise ConfigError(f"no client has a setting {name}{near}")

    def check(self) -> None:
        """What must hold between settings. Raises `ConfigError`."""

    def given(self, name: str) -> bool:
        """Whether a setting was given, and is not its default."""
        return self.layer_of(name) is not None

    def corrected(self, **values: object) -> Self:
        """These settings, but some by their attributes' names."""
        changed = type(self)(self.layers)
        changed.__dict__.update(values)
        return changed


def known_to_any() -> set[str]:
    """The settings of all kinds of clients."""
    from odradek.config.clients import KINDS  # Not above: they are made of what is here.

    return {name for kind in KINDS for name in kind.declared}


def arguments_of_any() -> set[str]:
    """What constructors of all kinds of clients take beside settings, written like those."""
    from odradek.config.clients import KINDS

    return {normalised(argument) for kind in KINDS for argument in kind.arguments}


def nearest(name: str, known: Mapping[str, str]) -> str:
    """A question for the end of a message, if there is a name much like this one; `known` are names
    and how they are written."""
    near = get_close_matches(name, known, n=1)
    return f"; did you mean {known[near[0]]}?" if near else ""


def text_of(name: str, value: object) -> str:
    """A value as text. Raises `ConfigError` for what can be none."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ConfigError(
                f"{name} cannot be {value!a}, which is not text that UTF-8 knows: {error.reason}"
            ) from None
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(text_of(name, part) for part in value)
    if isinstance(value, type):
        return value.__name__
    raise ConfigError(f"{name} cannot be {value!r}: give text, a number, or a list of them")


def together(
    config: Mapping[str, Any] | None,
    brokers: str | Sequence[str] | None,
    keywords: Mapping[str, Any],
) -> dict[str, Any]:
    """What a constructor was given: a mapping (confluent-kafka's habit), keywords (kafka-python's),
    and the brokers, for `ClientSettings.load`. Raises `ConfigError`.
    """
    if not isinstance(config, Mapping | None):
        raise ConfigError(f"{config!r} is no mapping of settings: give brokers={config!r}")
    given = dict(config or {}) | dict(keywords)
    if brokers is not None:
        given["brokers"] = brokers
    return given


def taken(arguments: Iterable[str], given: dict[str, Any]) -> dict[str, Any]:
    """Arguments that are no settings, of what a constructor was `given`, and taken out there. They
    may be written in all the ways that settings may. Raises `ConfigError` for one that has two
    values.
    """
    meant = {normalised(argument): argument for argument in arguments}
    found: dict[str, Any] = {}
    written: dict[str, str] = {}
    for name in [each for each in given if normalised(each) in meant]:
        argument, value = meant[normalised(name)], given.pop(name)
        if value is None:
            continue
        if argument in found and found[argument] != value:
            raise ConfigError(f"{written[argument]} and {name} are the same, and differ: give one")
        found[argument], written[argument] = value, name
    return found


def either(name: str, other: str, arguments: Mapping[str, Any]) -> Any:
    """An argument with two names. Raises `ConfigError` if it is given by both."""
    if name in arguments and other in arguments:
        raise ConfigError(f"{name} and {other} are the same, and both are given: give one")
    return arguments.get(name, arguments.get(other))
