"""A broker for the tests of a module, and commands that connect to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cli.piping import Run, runner
from odradek import Admin
from odradek.testing.broker import Broker


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap


@pytest.fixture
def run(bootstrap: str) -> Iterator[Run]:
    """Run commands with the topics `t` and `wide` (three partitions); deletes all topics
    afterwards.
    """
    with Admin(brokers=bootstrap) as admin:
        admin.create_topic("t", partitions=1)
        admin.create_topic("wide", partitions=3)
        yield runner(bootstrap)
        for topic in admin.topics():
            admin.delete_topic(topic.name)


@pytest.fixture
def admin(bootstrap: str) -> Iterator[Admin]:
    """An admin client; afterwards all groups are deleted."""
    with Admin(brokers=bootstrap) as client:
        yield client
        for group in client.groups():
            client.delete_group(group.group_id, missing_ok=True)
