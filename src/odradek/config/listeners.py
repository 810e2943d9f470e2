"""Listener addresses: `NAME://HOST:PORT`, as in `listeners` and `advertised.listeners`.

One kind so far, `PLAINTEXT`. An IPv6 address stands in brackets. No host, `0.0.0.0` and `::` mean
every interface: one can listen there, but nobody can connect to such an address.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from odradek.config.addresses import address_text
from odradek.config.setting import ConfigError

LISTENER_PATTERN = r"(PLAINTEXT)://(\[[0-9A-Fa-f:.%a-z0-9]+\]|[^\[\]:/,\s]*):([0-9]{1,5})"
COMPILED = re.compile(LISTENER_PATTERN)
EVERY_INTERFACE = ("", "0.0.0.0", "::")


class Listener(NamedTuple):
    """One address. The name is also the security protocol."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}://{address_text(self.host, self.port)}"

    @property
    def is_everywhere(self) -> bool:
        """Whether it means every interface, and so tells no client where to connect."""
        return self.host in EVERY_INTERFACE


def parse_listener(text: str) -> Listener:
    """`PLAINTEXT://127.0.0.1:9092` in parts. Raises `ConfigError`."""
    match = COMPILED.fullmatch(text.strip())
    if match is None or int(match[3]) > 65535:
        raise ConfigError(
            f"{text!r} is not an address of the form PLAINTEXT://HOST:PORT (port 0 to 65535)"
        )
    return Listener(match[1], match[2].strip("[]"), int(match[3]))
