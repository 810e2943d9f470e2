"""Where a broker serves HTTP, and the token that its clients need.

    none                        no HTTP
    9404                        this port of the loopback interface; 0 is any free port
    10.0.0.7:9404, [::1]:9404   this address

The token is the value of `Authorization: Bearer TOKEN` (RFC 6750). A broker that other machines can
reach must have one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address

from odradek.config.addresses import address_text
from odradek.config.setting import ConfigError

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 9404
"""The port of Prometheus's JMX exporter, under which Kafka's metrics are mostly found."""
NO_HTTP = "none"
PORTS_TRIED = 200
"""Ports from the default one that are tried in order, before any free one is taken."""
TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
HOW_TO_MAKE_A_TOKEN = "python -c 'import secrets; print(secrets.token_hex())'"


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """The address and the token of a broker's HTTP server."""

    host: str = LOOPBACK
    port: int = DEFAULT_PORT
    token: str | None = None
    """None: none is needed."""
    or_next_free: bool = False
    """True: if the port is in use, the next free port is taken."""

    def ports(self) -> list[int]:
        """The ports to try, in order; 0 is any free port."""
        if not self.or_next_free:
            return [self.port]
        return [*range(self.port, min(self.port + PORTS_TRIED, 65536)), 0]

    def check_address(self, bound: str) -> None:
        """Raise `ConfigError` if others can reach the bound IP address and there is no token."""
        if self.token is None and not ip_address(bound.partition("%")[0]).is_loopback:
            raise ConfigError(
                f"HTTP on {address_text(self.host, self.port)} can be reached from other machines "
                f"and needs a token. Make one with {HOW_TO_MAKE_A_TOKEN} and set it as "
                f"ODRADEK_HTTP_TOKEN, or write it to a file and give --http-token-file FILE; or "
                f"give --http {self.port}, which only this machine can reach"
            )


def parse_http(text: str | None, token: str | None = None) -> HttpSettings | None:
    """Parse `ADDRESS:PORT`, `PORT` or `none`; None is the default. Raises `ConfigError`."""
    if token is not None:
        check_token(token)
    if text is None:
        return HttpSettings(token=token, or_next_free=True)
    text = text.strip()
    if text == NO_HTTP:
        return None
    host, separator, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    ambiguous = ":" in host and not bracketed
    if not (port.isascii() and port.isdecimal()) or int(port) > 65535 or ambiguous:
        raise ConfigError(
            f"{text!r} is not an address for HTTP: write ADDRESS:PORT, such as "
            f"{LOOPBACK}:{DEFAULT_PORT}, or PORT, or {NO_HTTP}"
        )
    if separator and not host:
        raise ConfigError(
            f"{text!r} names no address: write {port} for this machine only, or 0.0.0.0:{port} for "
            f"every interface"
        )
    return HttpSettings(host.strip("[]") if separator else LOOPBACK, int(port), token)


def check_token(token: str) -> None:
    """Raise `ConfigError` if the token cannot stand in a header."""
    if not TOKEN.fullmatch(token):
        raise ConfigError(
            "the token for HTTP must have letters, digits and -._~+/ only, at least one. Make one "
            f"with {HOW_TO_MAKE_A_TOKEN}"
        )
