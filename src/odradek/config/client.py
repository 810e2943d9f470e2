"""The settings that all clients have, those of the admin client, and how they are loaded.

    {"queue.buffering.max.ms": 5}   linger_ms=5   {"LINGER.MS": "5"}   ─►   linger.ms = 5

`ClientSettings.load` takes a mapping of values by any of their names (`client_names` has the
table). Values may be Python's numbers, booleans and sequences of strings, besides text; None counts
as not given. Names, defaults and bounds are Kafka's, and every setting here has an effect.
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
from odradek.config.setting import (
    MINUTE_MS,
    ConfigError,
    at_least,
    at_most_bytes,
    choice,
    integer,
    long,
    refused,
    string,
    strings,
)
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
            if alias.name in written and values[alias.name] != alias.value(value_text(name, value)):
                raise ConfigError(
                    f"{written[alias.name]} and {name} both mean {alias.name}, and differ: give one"
                )
            values[alias.name] = alias.value(value_text(name, value))
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
        known = all_client_settings()
        arguments = {normalised(argument): argument for argument in cls.arguments}
        if alias.name in arguments:  # A constructor has taken its own out.
            raise ConfigError(
                f"{name} is no setting, but an argument of the constructor of a {cls.kind}"
            )
        # It may be given to several kinds of clients alike.
        if alias.name in known or alias.name in all_client_arguments():
            return None
        near = suggestion(normalised(name), {name: name for name in (*known, *ALIASES)} | arguments)
        raise ConfigError(f"no client has a setting {name}{near}")

    def check(self) -> None:
        """What must hold between settings. Raises `ConfigError`."""

    def is_given(self, name: str) -> bool:
        """Whether a setting was given, and is not its default."""
        return self.layer_of(name) is not None

    def corrected(self, **values: object) -> Self:
        """These settings, but some by their attributes' names."""
        changed = type(self)(self.layers)
        changed.__dict__.update(values)
        return changed


def all_client_settings() -> set[str]:
    """The settings of all kinds of clients."""
    return {name for kind in client_kinds() for name in kind.declared}


def all_client_arguments() -> set[str]:
    """What constructors of all kinds of clients take beside settings, written like those."""
    return {normalised(argument) for kind in client_kinds() for argument in kind.arguments}


def suggestion(name: str, known: Mapping[str, str]) -> str:
    """A question for the end of a message, if there is a name much like this one; `known` are names
    and how they are written."""
    near = get_close_matches(name, known, n=1)
    return f"; did you mean {known[near[0]]}?" if near else ""


def value_text(name: str, value: object) -> str:
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
        return ",".join(value_text(name, part) for part in value)
    if isinstance(value, type):
        return value.__name__
    raise ConfigError(f"{name} cannot be {value!r}: give text, a number, or a list of them")


def merge_settings(
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


def take_arguments(arguments: Iterable[str], given: dict[str, Any]) -> dict[str, Any]:
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


def argument_by_name(name: str, other: str, arguments: Mapping[str, Any]) -> Any:
    """An argument with two names. Raises `ConfigError` if it is given by both."""
    if name in arguments and other in arguments:
        raise ConfigError(f"{name} and {other} are the same, and both are given: give one")
    return arguments.get(name, arguments.get(other))


SECURITY = dict.fromkeys(
    ("SSL", "SASL_PLAINTEXT", "SASL_SSL"), "this client speaks PLAINTEXT only, so far"
)


PROTOCOL_TEXT_MAX = 32_767
"""As long as a text in a request may be, in bytes."""


class ConnectionSettings(ClientSettings):
    """Finding the cluster and talking to its nodes."""

    bootstrap_servers = strings(
        "bootstrap.servers",
        (),
        doc="Where to find the cluster, as host:port. Some of its brokers will do: they name the "
        "others.",
    )
    client_id = string(
        "client.id",
        "odradek",
        at_most_bytes(PROTOCOL_TEXT_MAX),
        doc="What brokers are told about who asks, for their logs.",
    )
    security_protocol = choice(
        "security.protocol",
        "PLAINTEXT",
        ("PLAINTEXT", *SECURITY),
        refused(SECURITY),
        doc="How connections are secured.",
    )
    request_timeout_ms = integer(
        "request.timeout.ms",
        30_000,
        at_least(0),
        doc="How long an answer may take. Then the connection is given up, and the request counts "
        "as failed.",
    )
    connections_max_idle_ms = long(
        "connections.max.idle.ms",
        9 * MINUTE_MS,
        at_least(1),
        doc="A connection that nothing was asked over for so long is closed.",
    )
    reconnect_backoff_ms = long(
        "reconnect.backoff.ms",
        50,
        at_least(0),
        doc="Pause before connecting again to a broker that could not be reached or went away. It "
        "doubles with each failure, give or take 20 %.",
    )
    reconnect_backoff_max_ms = long(
        "reconnect.backoff.max.ms", 1000, at_least(0), doc="The longest such pause."
    )
    socket_connection_setup_timeout_ms = long(
        "socket.connection.setup.timeout.ms",
        10_000,
        at_least(1),
        doc="How long connecting may take. It doubles with each attempt that came to nothing.",
    )
    socket_connection_setup_timeout_max_ms = long(
        "socket.connection.setup.timeout.max.ms", 30_000, at_least(1), doc="The longest such time."
    )


class MetadataSettings(ClientSettings):
    """Knowing who leads what."""

    metadata_max_age_ms = long(
        "metadata.max.age.ms",
        5 * MINUTE_MS,
        at_least(0),
        doc="What is known of the cluster is asked for again after this time, even if nothing "
        "seems to have changed.",
    )
    metadata_recovery_strategy = choice(
        "metadata.recovery.strategy",
        "rebootstrap",
        ("none", "rebootstrap"),
        doc="What to do when none of the known brokers can be reached: go on trying (`none`), or "
        "begin again with bootstrap.servers.",
    )
    metadata_recovery_rebootstrap_trigger_ms = long(
        "metadata.recovery.rebootstrap.trigger.ms",
        5 * MINUTE_MS,
        at_least(0),
        doc="Begin again with bootstrap.servers also when brokers are reached, and do not answer "
        "what the cluster looks like for so long.",
    )
    retry_backoff_ms = long(
        "retry.backoff.ms",
        100,
        at_least(0),
        doc="Pause before a request that failed is tried again. It doubles with each failure, give "
        "or take 20 %.",
    )
    retry_backoff_max_ms = long(
        "retry.backoff.max.ms", 1000, at_least(0), doc="The longest such pause."
    )


class ClientConfig(ConnectionSettings, MetadataSettings):
    """What every client has, with values: a snapshot."""


class AdminConfig(ClientConfig):
    """All settings of an admin client, with values: a snapshot."""

    kind = "admin client"

    connections_max_idle_ms = long(
        "connections.max.idle.ms",
        5 * MINUTE_MS,
        at_least(1),
        doc="A connection that nothing was asked over for so long is closed.",
    )
    default_api_timeout_ms = integer(
        "default.api.timeout.ms",
        60_000,
        at_least(0),
        doc="How long a call may take that was given no time of its own.",
    )


def client_kinds() -> tuple[type[ClientConfig], ...]:
    """The configuration classes of all clients.

    A program may give one mapping to its producer and its consumer: a setting that only the other
    one has causes a warning, not an error.
    """
    from odradek.config.consumer import ConsumerConfig  # Not above: they import this module.
    from odradek.config.producer import ProducerConfig

    return (ProducerConfig, ConsumerConfig, AdminConfig)
