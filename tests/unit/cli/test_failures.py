"""Commands that take several names: what a cluster refuses for one does not stop the others."""

from __future__ import annotations

import pytest

from odradek.cli.failures import SomeFailed, for_each
from odradek.client.errors import Disconnected, error_for
from odradek.model.errors import ErrorCode


def test_each_name_is_handled_although_others_are_refused():
    done = []

    def act(name: str) -> None:
        if name == "b":
            raise error_for(ErrorCode.INVALID_TXN_STATE, "aborting in b")
        done.append(name)

    with pytest.raises(SomeFailed) as raised:
        for_each(["a", "b", "c", "a"], act)
    assert done == ["a", "c"]
    assert [error.code for error in raised.value.errors] == [ErrorCode.INVALID_TXN_STATE]


def test_a_lost_connection_ends_the_command_at_once():
    done = []

    def act(name: str) -> None:
        done.append(name)
        raise Disconnected("no broker")

    with pytest.raises(Disconnected):
        for_each(["a", "b"], act)
    assert done == ["a"]
