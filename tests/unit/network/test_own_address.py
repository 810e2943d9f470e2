"""The address by which others reach this machine."""

from __future__ import annotations

import errno
import socket

import pytest

from odradek.network.listener import LOOPBACK, own_address


@pytest.mark.parametrize("listens_on", ["", "0.0.0.0", "::"])
def test_it_is_an_address_of_this_machine(listens_on: str) -> None:
    address = own_address(listens_on)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as bound:
        bound.bind((address, 0))
        assert bound.getsockname()[0] == address


def test_a_machine_without_a_way_out_has_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoWay(socket.socket):
        def connect(self, address: object, /) -> None:
            raise OSError(errno.ENETUNREACH, "Network is unreachable")

    monkeypatch.setattr(socket, "socket", NoWay)
    assert own_address("0.0.0.0") == own_address("::") == LOOPBACK


def test_who_listens_on_ipv4_tells_no_address_of_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    class OnlyIpv6(socket.socket):
        def connect(self, address: object, /) -> None:
            if self.family == socket.AF_INET:
                raise OSError(errno.ENETUNREACH, "Network is unreachable")

        def getsockname(self) -> tuple[str, int]:
            return "2001:db8::77", 0

    monkeypatch.setattr(socket, "socket", OnlyIpv6)
    assert own_address("0.0.0.0") == LOOPBACK
    assert own_address("::") == "2001:db8::77"
