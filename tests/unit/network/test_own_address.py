"""`own_address`: the address by which other machines reach this one."""

from __future__ import annotations

import errno
import socket

import pytest

from odradek.network.listener import LOOPBACK, own_address


@pytest.mark.parametrize("listens_on", ["", "0.0.0.0", "::"])
def test_own_address_is_an_address_of_this_machine(listens_on: str) -> None:
    address = own_address(listens_on)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as bound:
        bound.bind((address, 0))
        assert bound.getsockname()[0] == address


def test_without_a_route_own_address_is_the_loopback_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class NoWay(socket.socket):
        def connect(self, address: object, /) -> None:
            raise OSError(errno.ENETUNREACH, "Network is unreachable")

    monkeypatch.setattr(socket, "socket", NoWay)
    assert own_address("0.0.0.0") == own_address("::") == LOOPBACK


def test_a_listener_on_ipv4_gets_no_ipv6_address(monkeypatch: pytest.MonkeyPatch) -> None:
    class OnlyIpv6(socket.socket):
        def connect(self, address: object, /) -> None:
            if self.family == socket.AF_INET:
                raise OSError(errno.ENETUNREACH, "Network is unreachable")

        def getsockname(self) -> tuple[str, int]:
            return "2001:db8::77", 0

    monkeypatch.setattr(socket, "socket", OnlyIpv6)
    assert own_address("0.0.0.0") == LOOPBACK
    assert own_address("::") == "2001:db8::77"
