"""The settings that all clients have, those of the admin client, and how they are loaded.

    {"queue.buffering.max.ms": 5}   linger_ms=5   {"LINGER.MS": "5"}   ─►   linger.ms = 5

`ClientSettings.load` takes a mapping of values by any name in `client_names`. A value may be text,
a number, a boolean or a sequence of strings; None counts as not given. Names, defaults and bounds
are Kafka's, and every setting here has an effect.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
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
    """The base of the configurations of clients."""

    kind = "client"
    arguments: ClassVar[tuple[str, ...]] = ("brokers",)
    """Keywords of the client's constructor that are not settings, for suggestions in messages."""

    @classmethod
    def load(cls, given: Mapping[str, Any], where: str = "") -> Self:
        """Make a configuration from values by any of their names.

        Logs a warning with the names that have no effect. Raises `ConfigError`.
        """
        values: dict[str, str] = {}
        written: dict[str, str] = {}
        ignored: list[str] = []
        for name, value in given.items():
            if value is None:
                continue
            alias = cls.resolve(name, value)
            if alias is None:
                ignored.append(name)
                continue
            if alias.name in written and values[alias.name] != alias.value(value_text(name, value)):
                raise ConfigError(
                    f"{written[alias.name]} and {name} both mean {alias.name} and have different "
                    f"values: give one of them"
                )
            values[alias.name] = alias.value(value_text(name, value))
            written[alias.name] = name
        if ignored:
            log.warning("without effect on this %s: %s", cls.kind, ", ".join(sorted(ignored)))
        config = cls([Layer(ConfigSource.STATIC_BROKER_CONFIG, values, where)])
        config.check()
        return config

    @classmethod
    def resolve(cls, name: str, value: object = None) -> Alias | None:
        """The setting that a name means; None if the name is known but has no effect.

        Raises `ConfigError` for unknown names, and for names of features that are not supported
        unless the value turns the feature off.
        """
        alias = alias_of(name)
        if alias.name in cls.declared:
            return alias
        if alias.name in REFUSED and HARMLESS.get(alias.name) == harmless_text(value):
            return None
        if alias.name in REFUSED:
            raise ConfigError(f"{name} is not for this {cls.kind}: {REFUSED[alias.name]}")
        if alias.name in WITHOUT_EFFECT or alias.name.startswith(SECURITY_PREFIXES):
            return None
        known = all_client_settings()
        arguments = {normalised(argument): argument for argument in cls.arguments}
        if alias.name in arguments:  # The constructor has removed the arguments given to it.
            raise ConfigError(
                f"{name} is not a setting but an argument of the constructor of a {cls.kind}"
            )
        # A program may give the same mapping to several kinds of clients.
        if alias.name in known or alias.name in all_client_arguments():
            return None
        near = suggestion(normalised(name), {name: name for name in (*known, *ALIASES)} | arguments)
        raise ConfigError(f"no client has a setting {name}{near}")

    def check(self) -> None:
        """Raise `ConfigError` if settings contradict each other."""

    def is_given(self, name: str) -> bool:
        """True if the value of the setting was given, even if it equals the default."""
        return self.layer_of(name) is not None


def harmless_text(value: object) -> str:
    """A value as `HARMLESS` has it; an empty list is an empty text."""
    return "" if isinstance(value, (list, tuple)) and not value else str(value).strip().lower()


def all_client_settings() -> set[str]:
    """The names of the settings of all clients."""
    return {name for kind in client_kinds() for name in kind.declared}


def all_client_arguments() -> set[str]:
    """The arguments of the constructors of all clients, written like settings."""
    return {normalised(argument) for kind in client_kinds() for argument in kind.arguments}


def suggestion(name: str, known: Mapping[str, str]) -> str:
    """The end of an error message, with the known name that is most similar to this one.

    `known` has the names in normal form and as users write them. Empty if none is similar.
    """
    from difflib import get_close_matches  # Imported here: it is slow and rarely needed.

    near = get_close_matches(name, known, n=1)
    return f"; did you mean {known[near[0]]}?" if near else ""


def value_text(name: str, value: object) -> str:
    """Format the Python value of a setting as text. Raises `ConfigError`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ConfigError(
                f"{name} cannot be {value!a}, which cannot be encoded as UTF-8: {error.reason}"
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
    """The settings given to a constructor as mapping, keywords and `brokers`, in one mapping.

    A mapping is the convention of confluent-kafka, keywords are that of kafka-python. Raises
    `ConfigError`.
    """
    if not isinstance(config, Mapping | None):
        raise ConfigError(f"{config!r} is not a mapping of settings: give brokers={config!r}")
    given = dict(config or {}) | dict(keywords)
    if brokers is not None:
        given["brokers"] = brokers
    return given


def take_arguments(arguments: Iterable[str], given: dict[str, Any]) -> dict[str, Any]:
    """Remove the arguments that are not settings from `given`, and return them.

    They may be written in all the ways that settings may. Raises `ConfigError` for an argument with
    two values.
    """
    by_normal_name = {normalised(argument): argument for argument in arguments}
    found: dict[str, Any] = {}
    written: dict[str, str] = {}
    for name in [each for each in given if normalised(each) in by_normal_name]:
        argument, value = by_normal_name[normalised(name)], given.pop(name)
        if value is None:
            continue
        if argument in found and found[argument] != value:
            raise ConfigError(
                f"{written[argument]} and {name} are the same argument with different values: give "
                f"one of them"
            )
        found[argument], written[argument] = value, name
    return found


def aliased_argument(name: str, other: str, arguments: Mapping[str, Any]) -> Any:
    """The value of an argument with two names. Raises `ConfigError` if both are given."""
    if name in arguments and other in arguments:
        raise ConfigError(f"{name} and {other} are the same argument: give one of them")
    return arguments.get(name, arguments.get(other))


SECURITY = dict.fromkeys(
    ("SSL", "SASL_PLAINTEXT", "SASL_SSL"), "this client supports only PLAINTEXT so far"
)
PROTOCOL_TEXT_MAX = 32_767
"""The largest size of a string in a request, in bytes."""


class ConnectionSettings(ClientSettings):
    """Bootstrap servers and connections."""

    bootstrap_servers = strings(
        "bootstrap.servers",
        (),
        doc="Brokers of the cluster, as host:port. Some are enough: the client learns the others "
        "from them.",
    )
    client_id = string(
        "client.id",
        "odradek",
        at_most_bytes(PROTOCOL_TEXT_MAX),
        doc="The name of the client in requests, for the logs of brokers.",
    )
    security_protocol = choice(
        "security.protocol",
        "PLAINTEXT",
        ("PLAINTEXT", *SECURITY),
        refused(SECURITY),
        doc="The security protocol of connections.",
    )
    send_buffer_bytes = integer(
        "send.buffer.bytes",
        -1,
        at_least(-1),
        doc="The size of the send buffer of connections (SO_SNDBUF); -1: the operating system "
        "adapts it. Kafka's default is 131072. Linux doubles a given size, up to "
        "net.core.wmem_max, and then no longer adapts it.",
    )
    receive_buffer_bytes = integer(
        "receive.buffer.bytes",
        -1,
        at_least(-1),
        doc="The size of the receive buffer of connections (SO_RCVBUF); -1: the operating system "
        "adapts it. Kafka's default is 65536, of a producer 32768. Linux doubles a given size, up "
        "to net.core.rmem_max, and then no longer adapts it.",
    )
    request_timeout_ms = integer(
        "request.timeout.ms",
        30_000,
        at_least(0),
        doc="The time to wait for a response. Then the client closes the connection, and the "
        "request has failed.",
    )
    connections_max_idle_ms = long(
        "connections.max.idle.ms",
        9 * MINUTE_MS,
        at_least(1),
        doc="The client closes a connection without traffic after this time.",
    )
    reconnect_backoff_ms = long(
        "reconnect.backoff.ms",
        50,
        at_least(0),
        doc="The delay before the client connects again to a broker that it could not reach or "
        "lost. It doubles with each failure, with 20 % jitter.",
    )
    reconnect_backoff_max_ms = long(
        "reconnect.backoff.max.ms", 1000, at_least(0), doc="The upper limit of this delay."
    )
    socket_connection_setup_timeout_ms = long(
        "socket.connection.setup.timeout.ms",
        10_000,
        at_least(1),
        doc="The time to establish a connection. It doubles with each failed attempt.",
    )
    socket_connection_setup_timeout_max_ms = long(
        "socket.connection.setup.timeout.max.ms",
        30_000,
        at_least(1),
        doc="The upper limit of this time.",
    )


class MetadataSettings(ClientSettings):
    """Cluster metadata, and retries."""

    metadata_max_age_ms = long(
        "metadata.max.age.ms",
        5 * MINUTE_MS,
        at_least(0),
        doc="The age at which the client requests metadata again, even if nothing seems to have "
        "changed.",
    )
    metadata_recovery_strategy = choice(
        "metadata.recovery.strategy",
        "rebootstrap",
        ("none", "rebootstrap"),
        doc="What to do if no known broker can be reached: keep trying (`none`), or start again "
        "from bootstrap.servers.",
    )
    metadata_recovery_rebootstrap_trigger_ms = long(
        "metadata.recovery.rebootstrap.trigger.ms",
        5 * MINUTE_MS,
        at_least(0),
        doc="The client also starts again from bootstrap.servers if brokers can be reached but "
        "return no metadata for this long.",
    )
    retry_backoff_ms = long(
        "retry.backoff.ms",
        100,
        at_least(0),
        doc="The delay before a failed request is sent again. It doubles with each failure, with "
        "20 % jitter.",
    )
    retry_backoff_max_ms = long(
        "retry.backoff.max.ms", 1000, at_least(0), doc="The upper limit of this delay."
    )


class ClientConfig(ConnectionSettings, MetadataSettings):
    """A snapshot of the values of the settings that all clients have."""


class AdminConfig(ClientConfig):
    """A snapshot of the values of all settings of an admin client."""

    kind = "admin client"

    connections_max_idle_ms = long(
        "connections.max.idle.ms",
        5 * MINUTE_MS,
        at_least(1),
        doc="The client closes a connection without traffic after this time.",
    )
    default_api_timeout_ms = integer(
        "default.api.timeout.ms",
        60_000,
        at_least(0),
        doc="The timeout of calls for which none is given.",
    )


def client_kinds() -> tuple[type[ClientConfig], ...]:
    """The configuration classes of all clients.

    A program may give one mapping to its producer and its consumer: a setting that only the other
    one has causes a warning, not an error.
    """
    from odradek.config.consumer import ConsumerConfig  # Not above: they import this module.
    from odradek.config.producer import ProducerConfig

    return (ProducerConfig, ConsumerConfig, AdminConfig)
