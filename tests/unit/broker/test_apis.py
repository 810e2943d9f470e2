"""The rows of the table of APIs and the handlers that they name."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

import pytest

from odradek.broker import broker, context
from odradek.broker.apis import ROWS, Api
from odradek.model.errors import ErrorCode

NAMES = {"Broker": broker.Broker, "RequestContext": context.RequestContext}
SEVERAL = {"quorum_requests"}
"""Modules with one handler for several APIs."""


def hints(function: Any) -> dict[str, Any]:
    """The annotations of a handler. Those for type checkers only are resolved by `NAMES`."""
    names = {name: getattr(context, name) for name in vars(context)} | NAMES
    return get_type_hints(function, globalns=names | vars(inspect.getmodule(function)))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_names_a_handler_that_takes_the_request_of_its_api(row: Api) -> None:
    assert list(inspect.signature(row.handle).parameters) == ["broker", "context", "request"]
    # A compiled handler has no annotations: the interpreted run looks at them.
    if row.handler not in SEVERAL and inspect.isfunction(row.handle):
        assert hints(row.handle)["request"] is row.request


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.of_controller], ids=lambda row: row.name
)
def test_a_handler_of_the_active_controller_makes_refusals_of_its_api(row: Api) -> None:
    found = hints(row.failed)
    assert (found["request"], found["error"]) == (row.request, ErrorCode)
    assert found["return"] is row.response
