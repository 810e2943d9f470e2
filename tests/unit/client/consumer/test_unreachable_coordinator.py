"""Timeout errors of group calls when no broker can be reached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from odradek.client.consumer.batch import OffsetAndMetadata
from odradek.client.consumer.group.runner import GroupRunner, NoGroup
from odradek.client.errors import ApiTimeout
from odradek.client.waiter import Waiter
from unit.client.consumer.application import ORDERS, SECOND, Application, one_topic

Ask = Callable[[GroupRunner | NoGroup], Waiter[Any]]


def committed(group: GroupRunner | NoGroup) -> Waiter[Any]:
    return group.committed([ORDERS], 60 * SECOND)


def commit(group: GroupRunner | NoGroup) -> Waiter[Any]:
    return group.commit({ORDERS: OffsetAndMetadata(1)}, 60 * SECOND)


@pytest.mark.parametrize("ask", [committed, commit])
def test_errors_name_addresses_and_causes_of_unreachable_brokers(ask: Ask) -> None:
    cluster, _ = one_topic()
    application = Application(cluster, group_id="g", bootstrap_servers="nowhere:9092")
    with pytest.raises(ApiTimeout) as raised:
        application.side.wait(lambda: ask(application.consumer.group))
    text = str(raised.value)
    assert text.startswith("the coordinator of group g did not")
    assert "nowhere:9092" in text and "cannot be used: " in text
    assert text.endswith(
        "What to do: check bootstrap.servers, the broker's log, and its advertised.listeners"
    )
