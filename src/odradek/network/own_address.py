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


def own_address() -> str:
    """An IPv4 address, else an IPv6 one; without a way out nobody but this machine itself can
    connect, and it is the loopback address. Nothing is sent.
    """
    for family, elsewhere in ELSEWHERE:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as unsent:
                unsent.connect((elsewhere, 9))  # Of a datagram socket this only chooses the route.
                return str(unsent.getsockname()[0])
        except OSError as error:
            log.debug("no way to %s: %s", elsewhere, error)
    return LOOPBACK
