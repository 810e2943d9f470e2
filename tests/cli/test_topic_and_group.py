"""`odradek topic` and `odradek group` in a pipe, against a broker: lines, JSON, exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from odradek import Admin
from odradek.cli.main import main
from odradek.model.ids import TopicPartition
from odradek.testing.broker import Broker

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap


@pytest.fixture
def admin(bootstrap: str) -> Iterator[Admin]:
    """Also leaves nothing behind."""
    with Admin(brokers=bootstrap) as client:
        yield client
        for topic in client.topics():
            client.delete_topic(topic.name)
        for group in client.groups():
            client.delete_group(group.group_id)


@pytest.fixture
def run(bootstrap: str, admin: Admin) -> Run:
    def call(*arguments: str, code: int = 0) -> Result:
        done = CliRunner().invoke(main, [*arguments, "-b", bootstrap])
        assert done.exit_code == code, done.output
        return done

    return call


def lines(result: Result) -> list[list[str]]:
    return [line.split("\t") for line in result.stdout.splitlines()]


def test_topics_are_created_listed_described_and_deleted(run: Run) -> None:
    run("topic", "create", "orders", "refunds", "-p", "3", "-c", "retention.ms=60000")
    assert lines(run("topic", "ls")) == [["orders", "3", "1"], ["refunds", "3", "1"]]
    assert lines(run("topics", "list")) == lines(run("topic", "ls"))
    described = lines(run("topic", "describe", "orders"))
    assert described == [["orders", str(p), "1", "0", "1", "1", "0", "0"] for p in range(3)]
    setting = ["orders", "retention.ms", "60000", "topic"]
    assert lines(run("topic", "describe", "-c", "orders")) == [setting]
    run("topic", "rm", "orders", "refunds", "--yes")
    assert lines(run("topic", "ls")) == []


def test_json_has_one_object_a_line_with_the_columns_for_keys(run: Run) -> None:
    run("topic", "create", "orders", "-p", "2")
    first, second = map(json.loads, run("topic", "describe", "orders", "--json").stdout.split())
    assert first == {
        "topic": "orders",
        "partition": 0,
        "leader": 1,
        "epoch": 0,
        "replicas": [1],
        "in_sync": [1],
        "start": 0,
        "end": 0,
    }
    assert second["partition"] == 1


def test_settings_are_changed_and_taken_back(run: Run) -> None:
    run("topic", "create", "orders")
    run("topic", "config", "orders", "retention.ms=5", "max.message.bytes=2000", "--dry-run")
    assert lines(run("topic", "config", "orders")) == []
    run("topic", "config", "orders", "retention.ms=5", "max.message.bytes=2000")
    run("topic", "config", "orders", "retention.ms-")
    changed = [["orders", "max.message.bytes", "2000", "topic"]]
    assert lines(run("topic", "config", "orders")) == changed
    assert len(lines(run("topic", "config", "orders", "--all"))) > 20


def test_partitions_are_added_to_those_there_are(run: Run) -> None:
    run("topic", "create", "orders", "-p", "2")
    run("topic", "add-partitions", "orders", "-n", "3", "--dry-run")
    assert lines(run("topic", "ls")) == [["orders", "2", "1"]]
    run("topic", "add-partitions", "orders", "-n", "3")
    assert lines(run("topic", "ls")) == [["orders", "5", "1"]]


def test_a_group_is_moved_looked_at_and_deleted(run: Run, admin: Admin) -> None:
    run("topic", "create", "orders", "-p", "2")
    run("group", "seek", "billing", "--to", "start", "-t", "orders", "--dry-run")
    assert lines(run("group", "ls")) == []
    run("group", "seek", "billing", "--to", "start", "-t", "orders", "-y")
    assert lines(run("group", "ls")) == [["billing", "Empty", "classic", ""]]
    expected = [["billing", "orders", str(p), "0", "0", "0"] for p in range(2)]
    assert lines(run("group", "lag", "billing")) == expected
    assert admin.group_offsets("billing").keys() == {
        TopicPartition("orders", 0),
        TopicPartition("orders", 1),
    }
    run("g", "rm", "billing", "-y")
    assert lines(run("groups", "list")) == []


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["topic", "describe", "nope"], 4, "nope"),
        (["topic", "config", "nope"], 4, "nope"),
        (["topic", "config", "nope", "retention.ms=1"], 4, "nope"),
        (["topic", "rm", "nope", "-y"], 4, "no such topic: nope"),
        (["topic", "trim", "nope", "-o", "end", "-y"], 4, "nope"),
        (["group", "describe", "nope"], 4, "nope"),
        (["group", "lag", "nope"], 4, "nope"),
        (["group", "rm", "nope", "-y"], 4, "nope"),
        (["topic", "create", "bad name"], 5, "Topic name is invalid"),
        (["topic", "create", "t", "-r", "9"], 5, "REPLICATION"),
        (["topic", "create", "t", "-c", "retention.mss=1"], 5, "retention.mss"),
        (["topic", "create", "t", "-c", "retention.ms"], 2, "NAME=VALUE"),
        (["topic", "config", "t", "retention.ms"], 2, "NAME=VALUE"),
        (["topic", "trim", "t", "-o", "middle", "-y"], 4, "t"),
        (["topic", "ls", "-X", "nonsense=1"], 2, "nonsense"),
        (["topic", "ls", "-X", "nonsense"], 2, "NAME=VALUE"),
    ],
)
def test_what_cannot_be_done_is_said_with_a_code(
    run: Run, arguments: list[str], code: int, said: str
) -> None:
    assert said in run(*arguments, code=code).stderr


def test_nothing_is_destroyed_unasked(run: Run) -> None:
    run("topic", "create", "orders")
    assert "--yes" in run("topic", "rm", "orders", code=2).stderr
    assert lines(run("topic", "rm", "orders", "--dry-run")) == [["orders", "1", "0"]]
    assert lines(run("topic", "ls")) == [["orders", "1", "1"]]


def test_who_is_not_there_is_named_with_what_to_do(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text(
        "# nobody listens there\nbootstrap.servers = 127.0.0.1:1\ndefault.api.timeout.ms=200\n"
    )
    done = CliRunner().invoke(main, ["topic", "ls", "--command-config", str(config)])
    assert done.exit_code == 3
    assert "127.0.0.1:1" in done.stderr
    assert "odradek up" in done.stderr


def test_every_setting_of_the_clients_is_listed() -> None:
    done = CliRunner().invoke(main, ["topic", "ls", "-X", "list"])
    assert done.exit_code == 0
    names = [line.split("\t")[0] for line in done.stdout.splitlines()]
    assert {"bootstrap.servers", "linger.ms", "auto.offset.reset"} <= set(names)
