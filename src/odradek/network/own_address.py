"""By which address others reach this machine, as far as it can tell itself.

Of a machine with several addresses it is the one from which what goes to the rest of the world
leaves. Behind a port mapping (a container's, a router's) others use an address that cannot be seen
from here: only `advertised.listeners` can say that one.
"""

from __future__ import annotations

import logging
import socket

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
ELSEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
"""Addresses of nobody, kept for documentation (RFC 5737, RFC 3849)."""


def own_address(listens_on: str) -> str:
    """An IPv4 address; else, if `listens_on` is `::`, an IPv6 one. A machine that knows no way out
    has only the loopback address, and is told so. Nothing is sent.
    """
    for family, elsewhere in ELSEWHERE[: 2 if listens_on == "::" else 1]:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as unsent:
                unsent.connect((elsewhere, 9))  # Of a datagram socket this only chooses the route.
                return str(unsent.getsockname()[0])
        except OSError as error:
            log.debug("no way to %s: %s", elsewhere, error)
    log.warning(
        "this machine knows no way to others, so clients are told %s. What to do: if others are to "
        "connect, say how in advertised.listeners",
        LOOPBACK,
    )
    return LOOPBACK
