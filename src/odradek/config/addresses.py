"""`host:port` as people write and read it: in `bootstrap.servers`, on command lines, in messages.

An IPv6 address stands in brackets: `[::1]:9092`.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.config.setting import ConfigError


def address_text(host: str, port: int) -> str:
    """`host:port`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


DEFAULT = "localhost:9092"
ENVIRONMENT = ("ODRADEK_BROKERS", "KAFKA_BOOTSTRAP_SERVERS")
"""The variables that say where the cluster is, to the command and to `odradek.read`."""


def parse_address(text: str) -> tuple[str, int]:
    """Host and port; a scheme before is passed over, IPv6 hosts stand in brackets. Raises
    `ConfigError`.
    """
    host, separator, port = text.strip().rpartition("://")[2].rpartition(":")
    if not separator or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(
            f"Invalid url in bootstrap.servers: {text}. Write host:port, such as localhost:9092"
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


def parse_addresses(texts: Iterable[str]) -> list[tuple[str, int]]:
    """All of them, each once. Raises `ConfigError`, also if there is none."""
    found = dict.fromkeys(parse_address(text) for text in texts if text.strip())
    if not found:
        raise ConfigError("bootstrap.servers is empty: name a broker, such as localhost:9092")
    return list(found)
