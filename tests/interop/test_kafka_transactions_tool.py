"""`kafka-transactions.sh` with our broker: it lists, describes, finds what hangs, and aborts."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from interop.differential.peer import Peer
from interop.differential.scripts.produce import producing
from odradek import Admin
from odradek.protocol.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.record_batch_builder import build
from odradek.testing.broker import Broker

pytestmark = pytest.mark.interop

PATIENCE_S = 60
HANGING_ID = 2**40
A_DAY_AGO_MS = 86_400_000


def verify(peer: Peer, value: str) -> None:
    """Let leaders ask the coordinator before a transaction's first record, or not."""
    name = "transaction.partition.verification.enable"
    resource = AlterConfigsResource(
        resource_type=4,
        resource_name="",
        configs=[AlterableConfig(name=name, config_operation=0, value=value)],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    assert peer.ask(request, 1).responses[0].error_code == 0


@pytest.fixture
def tool(ours: Broker, run_tool: Callable[..., str]) -> Callable[..., str]:
    """`tool(*arguments)`, which returns the output of kafka-transactions."""

    def run(*arguments: str) -> str:
        name = "org.apache.kafka.tools.TransactionsCommand"
        return run_tool(name, "--bootstrap-server", ours.bootstrap, *arguments)

    return run


def test_kafka_transactions_lists_and_describes(ours: Broker, tool: Callable[..., str]) -> None:
    with Admin(brokers=ours.bootstrap) as admin:
        admin.create_topic("tool-open", partitions=1)
    producer = Producer({"bootstrap.servers": ours.bootstrap, "transactional.id": "tool-id"})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("tool-open", b"v")
    assert producer.flush(PATIENCE_S) == 0
    assert re.search(r"tool-id\s+1\s+\d+\s+Ongoing", tool("list"))
    assert "tool-id" in tool("list", "--transactional-id-pattern", "tool-.*")
    assert "tool-id" not in tool("list", "--duration-filter", "3600000")
    described = tool("describe", "--transactional-id", "tool-id")
    assert re.search(r"1\s+tool-id\s+\d+\s+0\s+Ongoing\s.*tool-open-0", described)
    producer.commit_transaction(PATIENCE_S)
    described = tool("describe", "--transactional-id", "tool-id")
    assert re.search(r"CompleteCommit|Empty", described)


def test_kafka_transactions_finds_and_aborts_what_hangs(
    ours: Broker, tool: Callable[..., str]
) -> None:
    with Admin(brokers=ours.bootstrap) as admin:
        admin.create_topic("tool-hangs", partitions=1)
    broker = ours.node.broker
    peer = Peer("odradek", ours.port, {})
    now_ms = broker.clock.wall_ms() - A_DAY_AGO_MS
    batch = build(
        [(None, b"v", (), now_ms)],
        producer_id=HANGING_ID,
        producer_epoch=3,
        base_sequence=0,
        transactional=True,
    )
    verify(peer, "false")
    try:
        topic_id = broker.image.topic("tool-hangs")
        assert topic_id is not None
        request = producing("tool-hangs", topic_id.id, [(0, batch)], transactional_id="hangs")
        answer = peer.ask(request, 11)
        assert answer.responses[0].partition_responses[0].error_code == 0
    finally:
        verify(peer, "true")
        peer.end()
    found = tool("find-hanging", "--topic", "tool-hangs")
    assert re.search(rf"tool-hangs\s+0\s+{HANGING_ID}\s+3\s", found)
    tool("abort", "--topic", "tool-hangs", "--partition", "0", "--start-offset", "0")
    assert str(HANGING_ID) not in tool("find-hanging", "--topic", "tool-hangs")
