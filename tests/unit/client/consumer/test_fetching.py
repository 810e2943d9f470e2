"""Fetching: from brokers that do what they like to an application that gets each record once."""

from __future__ import annotations

from odradek.testing.scripted import ScriptedCluster
from odradek.testing.scripted_fetch import ScriptedLogs
from unit.client.consumer.application import Application, rows

ORDERS = ("orders", 0)


def one_topic(
    brokers: int = 1, leaders: tuple[int, ...] = (1,)
) -> tuple[ScriptedCluster, ScriptedLogs]:
    cluster = ScriptedCluster(brokers=brokers)
    cluster.create("orders", leaders=leaders)
    return cluster, ScriptedLogs(cluster)


def test_records_come_in_order_with_all_there_is_to_know() -> None:
    cluster, logs = one_topic()
    logs[ORDERS].append([(b"k", b"v", [("h", b"1")], 1_700_000_000_123)], epoch=4)
    cluster.topics["orders"].epochs[0] = 4
    application = Application(cluster)
    application.assign([ORDERS])
    [record] = application.read(1)
    assert (record.topic, record.partition, record.offset) == ("orders", 0, 0)
    assert (record.key, record.value, record.headers) == (b"k", b"v", [("h", b"1")])
    assert (record.timestamp_ms, record.leader_epoch) == (1_700_000_000_123, 4)
    assert record.timestamp.isoformat() == "2023-11-14T22:13:20.123000+00:00"
    assert record.timestamp_type.name == "CREATE_TIME"


def test_what_is_appended_later_comes_later() -> None:
    cluster, logs = one_topic()
    application = Application(cluster)
    application.assign([ORDERS])
    cluster.run(3000)
    assert application.drain() == 0
    for number in range(5):
        logs[ORDERS].append(rows(b"%d" % number))
        application.read(1, limit_ms=600)
    assert application.values == [b"0", b"1", b"2", b"3", b"4"]
