"""`odradek top` shows a real Apache Kafka as it shows our broker, without what only ours tells."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from cli.live_screen import LiveScreen
from interop.apache_kafka import ApacheKafka
from odradek import Admin, Consumer, Producer
from odradek.cli.main import main
from odradek.testing.broker import Broker

pytestmark = pytest.mark.interop

TOPIC, GROUP = "top-flights", "top-readers"


def prepare(bootstrap: str) -> None:
    """Ten records in two partitions, and a group that has read all of them."""
    with Admin(brokers=bootstrap) as admin:
        admin.create_topic(TOPIC, partitions=2)
    with Producer(brokers=bootstrap) as producer:
        for number in range(10):
            producer.send(TOPIC, b"value", partition=number % 2).result()
    with Consumer(TOPIC, brokers=bootstrap, group=GROUP, auto_offset_reset="earliest") as consumer:
        for _ in range(10):
            assert consumer.poll(60) is not None


def shown_once(bootstrap: str) -> list[dict[str, object]]:
    done = CliRunner().invoke(
        main, ["top", "--once", "--json", "--interval", "1s", "-b", bootstrap]
    )
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_topics_and_groups_are_the_same_of_both_brokers(kafka: ApacheKafka, ours: Broker) -> None:
    found = []
    for bootstrap in (kafka.bootstrap, ours.bootstrap):
        prepare(bootstrap)
        rows = shown_once(bootstrap)
        topic = next(row for row in rows if row.get("topic") == TOPIC)
        assert isinstance(topic["size"], int) and topic["size"] > 0
        group = next(row for row in rows if row.get("group") == GROUP)
        found.append([{**topic, "size": 0}, group])
    assert found[0] == found[1]
    assert found[0][1] == {
        "view": "groups",
        "group": GROUP,
        "lag": 0,
        "messages_s": 0.0,
        "members": 0,
        "state": "Empty",
    }


def test_the_screen_works_with_kafka_and_says_what_only_ours_tell(kafka: ApacheKafka) -> None:
    with LiveScreen(kafka.bootstrap, "top", "--interval", "500ms") as screen:
        screen.until(lambda lines: "messages/s  waiting, timers: Odradek's" in lines[2])
        screen.type("3")
        screen.until(lambda lines: lines[4] == "only Odradek's brokers show what waits in them")
        screen.type("q")
        assert screen.end() == (0, "")
        assert screen.is_restored()
