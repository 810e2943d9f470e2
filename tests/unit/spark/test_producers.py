"""A topic that the sink has the brokers create is found, whichever broker is asked for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from odradek.client.admin.results import Topic
from odradek.client.errors import UnknownTopicOrPartition
from odradek.model.errors import ErrorCode
from odradek.spark import producers
from odradek.spark.connections import admin_of as connected_admin
from odradek.spark.options import ClientOptions
from odradek.testing import Broker

UNKNOWN = UnknownTopicOrPartition("t", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class LateAdmin:
    """An admin client whose broker learns of a topic only after some questions."""

    def __init__(self, find: Callable[[str], Topic], unknown_answers: int) -> None:
        self.find = find
        self.left = unknown_answers

    def topic(self, name: str) -> Topic:
        if self.left:
            self.left -= 1
            raise UNKNOWN
        return self.find(name)


def ask_late(monkeypatch: pytest.MonkeyPatch, unknown_answers: int) -> None:
    """Let the brokers answer so many questions for topics with UNKNOWN_TOPIC_OR_PARTITION."""
    admins: dict[ClientOptions, Any] = {}

    def admin_of(options: ClientOptions) -> Any:
        if options not in admins:
            admins[options] = LateAdmin(
                lambda name: connected_admin(options).topic(name), unknown_answers
            )
        return admins[options]

    monkeypatch.setattr(producers, "admin_of", admin_of)


def test_a_topic_that_was_created_is_asked_for_until_the_broker_asked_knows_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ask_late(monkeypatch, 3)
    with Broker() as broker:
        found = producers.existing_topic(ClientOptions(broker.bootstrap), "t")
    assert (found.name, len(found.partitions)) == ("t", 1)


def test_a_topic_that_no_broker_announces_is_an_error_after_the_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ask_late(monkeypatch, 10**6)
    with Broker() as broker, pytest.raises(UnknownTopicOrPartition, match="t"):
        producers.existing_topic(ClientOptions(broker.bootstrap, api_timeout_ms=100), "t")
