"""`odradek topic` and `odradek group` in a pipe, against a broker: lines, JSON, exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.piping import Run, lines, runner
from cli.processes import ODRADEK
from odradek import Admin, Consumer
from odradek.cli.main import main
from odradek.model.topics import TopicPartition


@pytest.fixture
def admin(bootstrap: str) -> Iterator[Admin]:
    """An admin client; afterwards all topics and groups are deleted."""
    with Admin(brokers=bootstrap) as client:
        yield client
        for topic in client.topics():
            client.delete_topic(topic.name)
        for group in client.groups():
            client.delete_group(group.group_id, missing_ok=True)


@pytest.fixture
def run(bootstrap: str, admin: Admin) -> Run:
    """Run commands in a cluster without topics."""
    return runner(bootstrap)


OF_ALL_TOPICS = ["min.insync.replicas", "1", "dynamic default broker"]
"""A setting that is not a default of any topic, as in Kafka."""


def test_topics_are_created_listed_described_and_deleted(run: Run) -> None:
    run("topic", "create", "orders", "refunds", "-p", "3", "-c", "retention.ms=60000")
    assert lines(run("topic", "ls")) == [["orders", "3", "1"], ["refunds", "3", "1"]]
    assert lines(run("topics", "list")) == lines(run("topic", "ls"))
    described = lines(run("topic", "describe", "orders"))
    assert described == [["orders", str(p), "1", "0", "1", "1", "0", "0"] for p in range(3)]
    setting = ["orders", "retention.ms", "60000", "topic"]
    assert lines(run("topic", "describe", "-c", "orders")) == [["orders", *OF_ALL_TOPICS], setting]
    twice = run("topic", "rm", "orders", "refunds", "orders", "--yes")
    assert twice.stderr == "orders: deleted\nrefunds: deleted\n"
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


def test_with_json_an_action_prints_its_result(run: Run) -> None:
    def printed_by(*arguments: str) -> list[dict[str, object]]:
        return [json.loads(line) for line in run(*arguments).stdout.splitlines()]

    assert printed_by("topic", "create", "a", "b", "--json") == [
        {"topic": "a", "created": True},
        {"topic": "b", "created": True},
    ]
    again = printed_by("topic", "create", "a", "--if-not-exists", "-o", "json")
    assert again == [{"topic": "a", "created": False}]
    assert printed_by("topic", "create", "c", "-d", "--json") == [{"topic": "c", "created": False}]
    assert printed_by("topic", "config", "a", "retention.ms=5", "--json") == [
        {"topic": "a", "changed": True}
    ]
    assert printed_by("topic", "add-partitions", "a", "-n", "2", "--json") == [
        {"topic": "a", "partitions": 3, "added": 2}
    ]
    assert printed_by("topic", "trim", "b", "-o", "end", "-y", "--json") == [
        {"topic": "b", "partition": 0, "start": 0}
    ]
    assert printed_by("group", "seek", "g", "--to", "start", "-t", "b", "--dry-run", "--json") == [
        {"topic": "b", "partition": 0, "committed": None, "new": 0, "instead_of": None}
    ]
    assert printed_by("group", "seek", "g", "--to", "start", "-t", "b", "-y", "--json") == [
        {"group": "g", "partitions": 1}
    ]
    assert printed_by("group", "rm", "g", "-y", "-o", "jsonl") == [{"group": "g", "deleted": True}]
    assert printed_by("topic", "rm", "a", "-y", "--json") == [{"topic": "a", "deleted": True}]
    assert printed_by("topic", "ls", "-o", "json") == [
        {"topic": "b", "partitions": 1, "replication": 1}
    ]


def test_sections_of_a_description(run: Run) -> None:
    run("topic", "create", "orders", "-p", "2", "-c", "retention.ms=60000")
    summary = lines(run("topic", "describe", "orders", "-s"))
    assert [[row[0], *row[2:]] for row in summary] == [["orders", "false", "2", "1", "0"]]
    both = lines(run("topic", "describe", "orders", "-s", "-c"))
    assert both[1:] == [["orders", *OF_ALL_TOPICS], ["orders", "retention.ms", "60000", "topic"]]
    everything = lines(run("topic", "describe", "orders", "-a"))
    assert everything[:3] == [*summary, *lines(run("topic", "describe", "orders", "-p"))]
    assert len(everything) > 20
    for section in ("-s", "-p", "-c"):
        assert lines(run("topic", "describe", "orders", "-a", section)) == everything


def test_settings_can_be_changed_and_reset(run: Run) -> None:
    run("topic", "create", "orders")
    run("topic", "config", "orders", "retention.ms=5", "max.message.bytes=2000", "--dry-run")
    assert lines(run("topic", "config", "orders")) == [["orders", *OF_ALL_TOPICS]]
    run("topic", "config", "orders", "retention.ms=5", "max.message.bytes=2000")
    run("topic", "config", "orders", "retention.ms-")
    changed = [["orders", "max.message.bytes", "2000", "topic"], ["orders", *OF_ALL_TOPICS]]
    assert lines(run("topic", "config", "orders")) == changed
    assert len(lines(run("topic", "config", "orders", "--all"))) > 20


def test_partitions_are_added_to_those_there_are(run: Run) -> None:
    run("topic", "create", "orders", "-p", "2")
    run("topic", "add-partitions", "orders", "-n", "3", "--dry-run")
    beyond = run("topic", "add-partitions", "orders", "-n", "2147483647", code=2)
    assert "orders has 2 partitions: at most 2147483645 more" in beyond.stderr
    assert lines(run("topic", "ls")) == [["orders", "2", "1"]]
    run("topic", "add-partitions", "orders", "-n", "3")
    assert lines(run("topic", "ls")) == [["orders", "5", "1"]]


@pytest.mark.parametrize("names", [("one", "nope", "two"), ("nope", "one", "two")])
def test_a_missing_name_does_not_stop_the_others(
    run: Run, admin: Admin, names: tuple[str, ...]
) -> None:
    run("topic", "create", "one", "two")
    for group in ("one", "two"):
        admin.alter_group_offsets(group, {TopicPartition("one", 0): 0})
    for command in (("group", "lag"), ("group", "describe"), ("topic", "describe")):
        shown = run(*command, *names, "nope-either", code=4)
        assert [row[0] for row in lines(shown)] == ["one", "two"], command
        assert "nope" in shown.stderr
        assert "nope-either" in shown.stderr
        assert shown.stderr.count(" ls` lists the") == 1
    made = run("topic", "create", "one", "three", "two", code=5)
    assert "three: created" in made.stderr
    planned = run("group", "rm", *names, "--dry-run", code=4)
    assert lines(planned) == [["one", "1"], ["two", "1"]]
    assert "nope" in planned.stderr
    optional = run("group", "rm", "nope", "--if-exists", "--json")
    assert json.loads(optional.stdout) == {"group": "nope", "deleted": False}
    assert "two: deleted" in run("group", "rm", *names, "-y", code=4).stderr
    assert lines(run("group", "ls")) == []


def test_a_group_without_members_and_offsets_is_described_in_one_row(
    run: Run, admin: Admin, bootstrap: str
) -> None:
    with Consumer("t", group="g", brokers=bootstrap, enable_auto_commit=False) as member:
        while not member.assignment():
            member.poll(0.1)
    (row,) = map(json.loads, run("group", "describe", "g", "--json").stdout.splitlines())
    assert (row.pop("group"), row.pop("state")) == ("g", "Empty")
    assert set(row.values()) == {None}
    assert lines(run("group", "describe", "g")) == [["g", *[""] * 8, "Empty", ""]]
    assert run("group", "describe", "g", "--lag-only", "--json").stdout == ""
    assert run("group", "lag", "g", "--json").stdout == ""


WATCHING = [
    ("topic", "ls"),
    ("topic", "describe", "orders"),
    ("group", "ls"),
    ("group", "describe", "g"),
    ("group", "lag", "g"),
]


@pytest.mark.parametrize("arguments", WATCHING, ids=" ".join)
def test_watch_prints_the_output_periodically(
    run: Run, admin: Admin, bootstrap: str, arguments: tuple[str, ...]
) -> None:
    run("topic", "create", "orders")
    admin.alter_group_offsets("g", {TopicPartition("orders", 0): 0})
    with subprocess.Popen(
        [*ODRADEK, *arguments[:2], "-w", *arguments[2:], "--interval", "10ms", "-b", bootstrap],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        once = process.stdout.readline()
        assert [process.stdout.readline() for _ in range(3)] == [once] * 3
        os.kill(process.pid, signal.SIGINT)
        process.stdout.close()
        assert process.wait(60) in (0, 130)
    for interval, printed_by in (
        ("often", "not a duration"),
        ("99999999999999d", "at most"),
        ("9" * 400 + "d", "too long"),
    ):
        assert printed_by in run(*arguments, "--interval", interval, code=2).stderr


@pytest.mark.parametrize(
    ("arguments", "code", "printed_by"),
    [
        (["topic", "describe", "nope"], 4, "nope"),
        (["topic", "config", "nope"], 4, "nope"),
        (["topic", "config", "nope", "retention.ms=1"], 4, "nope"),
        (["topic", "rm", "nope", "-y"], 4, "no such topic: nope"),
        (["topic", "trim", "nope", "-o", "end", "-y"], 4, "nope"),
        (["group", "describe", "nope"], 4, "nope"),
        (["group", "lag", "nope"], 4, "nope"),
        (["group", "rm", "nope", "-y"], 4, "nope"),
        (["group", "rm", "nope", "--dry-run"], 4, "nope"),
        (["topic", "create", "bad name"], 5, "Topic name is invalid"),
        (["topic", "create", "t", "-r", "9"], 5, "REPLICATION"),
        (["topic", "create", "t", "-c", "retention.mss=1"], 5, "retention.mss"),
        (["topic", "create", "t", "-c", "retention.ms"], 2, "NAME=VALUE"),
        (["topic", "create", "t", "-p", "99999999999"], 2, "1<=x<=2147483647"),
        (["topic", "create", "t", "-r", "40000"], 2, "1<=x<=32767"),
        (["topic", "add-partitions", "t", "-n", "2147483648"], 2, "1<=x<=2147483647"),
        (["topic", "config", "t", "retention.ms"], 2, "NAME=VALUE"),
        (["topic", "trim", "t", "-o", "middle", "-y"], 4, "t"),
        (["topic", "ls", "-X", "nonsense=1"], 2, "nonsense"),
        (["topic", "ls", "-X", "nonsense"], 2, "NAME=VALUE"),
    ],
)
def test_an_error_has_a_message_and_an_exit_code(
    run: Run, arguments: list[str], code: int, printed_by: str
) -> None:
    assert printed_by in run(*arguments, code=code).stderr


def test_a_deletion_needs_confirmation(run: Run) -> None:
    run("topic", "create", "orders")
    run("produce", "orders", "one")
    beyond = run("topic", "trim", "orders", "-o", "7", "-y", code=2)
    assert "orders-0 ends at 1, before 7: write end to delete all" in beyond.stderr
    assert "--yes" in run("topic", "rm", "orders", code=2).stderr
    assert lines(run("topic", "rm", "orders", "--dry-run")) == [["orders", "1", "1"]]
    assert lines(run("topic", "ls")) == [["orders", "1", "1"]]


def test_an_unreachable_broker_is_named_with_what_to_do(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text(
        "# nobody listens there\nbootstrap.servers = 127.0.0.1:1\ndefault.api.timeout.ms=200\n"
    )
    done = CliRunner().invoke(main, ["topic", "ls", "--command-config", str(config)])
    assert done.exit_code == 3
    assert "127.0.0.1:1" in done.stderr
    assert "odradek up" in done.stderr


@pytest.mark.parametrize(
    ("given", "meant"),
    [("consum", "consume"), ("dumplog", "dump-log"), ("topcs", "topics"), ("xyz", None)],
)
def test_a_misspelt_command_is_refused_with_the_nearest_name(given: str, meant: str | None) -> None:
    done = CliRunner().invoke(main, [given])
    assert done.exit_code == 2
    assert f"No such command '{given}'" in done.stderr
    assert ("did you mean" in done.stderr) == (meant is not None)
    assert meant is None or f"did you mean {meant}?" in done.stderr


def test_every_setting_of_the_clients_is_listed() -> None:
    done = CliRunner().invoke(main, ["topic", "ls", "-X", "list"])
    assert done.exit_code == 0
    names = [line.split("\t")[0] for line in done.stdout.splitlines()]
    assert {"bootstrap.servers", "linger.ms", "auto.offset.reset"} <= set(names)
