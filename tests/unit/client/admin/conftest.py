"""A broker that does not create topics by itself, and an admin client, per module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odradek.client.blocking.admin import Admin
from odradek.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"auto.create.topics.enable": False}) as broker:
        yield broker


@pytest.fixture(scope="module")
def admin(broker: Broker) -> Iterator[Admin]:
    with Admin(brokers=broker.bootstrap) as admin:
        yield admin
