"""The address by which others reach this machine."""

from __future__ import annotations

import errno
import socket

import pytest

from odradek.network.own_address import LOOPBACK, own_address


def test_it_is_an_address_of_this_machine() -> None:
    address = own_address()
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as bound:
        bound.bind((address, 0))
        assert bound.getsockname()[0] == address


def test_a_machine_without_a_way_out_has_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoWay(socket.socket):
        def connect(self, address: object, /) -> None:
            raise OSError(errno.ENETUNREACH, "Network is unreachable")

    monkeypatch.setattr(socket, "socket", NoWay)
    assert own_address() == LOOPBACK
