"""Addresses as text: `host:port` of brokers and `NAME://HOST:PORT` of listeners.

`host:port` is the form in `bootstrap.servers`, on command lines and in messages. Listener addresses
are those of `listeners` and `advertised.listeners`. Their name is the security protocol, of which
`PLAINTEXT` is the only one so far, or `CLUSTER` for the requests between nodes. An IPv6 address
stands in brackets: `[::1]:9092`. In a listener, no host, `0.0.0.0` and `::` mean every interface: a
broker can listen there, but no client can connect to such an address.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from odradek.config.setting import ConfigError


def address_text(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


DEFAULT_BROKER = "localhost:9092"
BROKER_VARIABLES = ("ODRADEK_BROKERS", "KAFKA_BOOTSTRAP_SERVERS")
"""Environment variables with the brokers that are used by default: see `default_brokers`."""


def default_brokers(environment: Mapping[str, str]) -> str:
    """Return the brokers of the command, `odradek.read` and `odradek.process` if none are given."""
    return next(filter(None, map(environment.get, BROKER_VARIABLES)), DEFAULT_BROKER)


def any_brokers_are_set(environment: Mapping[str, str]) -> bool:
    """Return True if the environment names brokers."""
    return any(map(environment.get, BROKER_VARIABLES))


def parse_address(text: str) -> tuple[str, int]:
    """The host and port of `host:port`, after an ignored `scheme://`. Raises `ConfigError`."""
    host, separator, port = text.strip().rpartition("://")[2].rpartition(":")
    if not separator or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(
            f"Invalid url in bootstrap.servers: {text}. Write host:port, such as localhost:9092"
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


def parse_addresses(texts: Iterable[str]) -> list[tuple[str, int]]:
    """The distinct addresses. Raises `ConfigError`, also if there is none."""
    found = dict.fromkeys(parse_address(text) for text in texts if text.strip())
    if not found:
        raise ConfigError("bootstrap.servers is empty: name a broker, such as localhost:9092")
    return list(found)


CLUSTER = "CLUSTER"
"""The name of the listener for requests between the nodes of a cluster."""
NAMES_BETWEEN_NODES = (CLUSTER, "CONTROLLER")
"""The names of that listener: ours, and the usual one in configurations of Kafka."""
LISTENER_PATTERN = (
    r"(PLAINTEXT|CLUSTER|CONTROLLER)://(\[[0-9A-Fa-f:.%a-z0-9]+\]|[^\[\]:/,\s]*):([0-9]{1,5})"
)
LISTENER = re.compile(LISTENER_PATTERN)
EVERY_INTERFACE = ("", "0.0.0.0", "::")


class Listener(NamedTuple):
    """A listener's address. Its name is also the security protocol, unless it is `CLUSTER`."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}://{address_text(self.host, self.port)}"

    @property
    def is_wildcard(self) -> bool:
        """True if the host means every interface: no client can connect to it."""
        return self.host in EVERY_INTERFACE


def parse_listener(text: str) -> Listener:
    """Parse `PLAINTEXT://127.0.0.1:9092`. Raises `ConfigError`."""
    match = LISTENER.fullmatch(text.strip())
    if match is None or int(match[3]) > 65535:
        raise ConfigError(
            f"{text!r} is not a listener address: write PLAINTEXT://HOST:PORT (port 0 to 65535)"
        )
    name = CLUSTER if match[1] in NAMES_BETWEEN_NODES else match[1]
    return Listener(name, match[2].strip("[]"), int(match[3]))
