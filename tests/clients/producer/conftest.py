"""A broker that creates no topics automatically, and a new topic for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from clients.producer.read_back import PARTITIONS
from odradek import Admin
from odradek.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"auto.create.topics.enable": False}) as running:
        yield running
        assert running.bugs == 0


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    """A new topic for this test."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    with Admin(brokers=broker.bootstrap) as admin:
        admin.create_topic(name, partitions=PARTITIONS)
    return name
