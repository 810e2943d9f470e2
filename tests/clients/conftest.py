"""One broker in this process for all tests of a module, and new topics for each test."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.testing.broker import Broker

names = itertools.count()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture(scope="module")
def admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


@pytest.fixture
def new_topic(admin: AdminClient) -> Callable[..., str]:
    """Return `new_topic(partitions=1, **config)`, which creates a topic and returns its name."""

    def make(partitions: int = 1, **config: str) -> str:
        name = f"topic-{next(names)}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        created = admin.create_topics([NewTopic(name, partitions, 1, config=settings)])
        created[name].result(60)
        return name

    return make
