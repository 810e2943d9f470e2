"""Producers that an admin client shuts out."""

from __future__ import annotations

import pytest

from odradek.client.blocking.admin import Admin
from odradek.client.blocking.producer import Producer
from odradek.client.errors import ProducerFenced
from odradek.testing import Broker


def test_a_producer_is_fenced_on_a_broker_that_takes_short_timeouts_only() -> None:
    with (
        Broker(settings={"transaction.max.timeout.ms": 10_000}) as broker,
        Admin(brokers=broker.bootstrap) as admin,
        Producer(
            brokers=broker.bootstrap, transactional_id="id", transaction_timeout_ms=5_000
        ) as producer,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"a").result()
        admin.fence_producers("id")
        with pytest.raises(ProducerFenced):
            producer.commit_transaction()
        assert admin.describe_transactions("id")["id"].state == "Empty"
