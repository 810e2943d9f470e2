"""The commands print the same lines and exit codes with a real Apache Kafka and our broker."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer

from interop.apache_kafka import ApacheKafka
from odradek.cli.main import main
from odradek.testing.broker import Broker

pytestmark = pytest.mark.interop

Run = Callable[..., Result]
PATIENCE_S = 60
names = itertools.count()


@pytest.fixture(params=["Apache Kafka", "ours"])
def run(request: pytest.FixtureRequest) -> Run:
    """`run("topic", "ls", code=0, stdin=b"")` with either broker; `code=None` accepts any exit
    code.
    """
    if request.param == "ours":
        ours: Broker = request.getfixturevalue("ours")
        bootstrap = ours.bootstrap
    else:
        kafka: ApacheKafka = request.getfixturevalue("kafka")
        bootstrap = kafka.bootstrap

    def call(*arguments: str, stdin: bytes = b"", code: int | None = 0) -> Result:
        done = CliRunner().invoke(main, [*arguments, "-b", bootstrap], input=stdin)
        assert code in (None, done.exit_code), (arguments, done.output, done.exception)
        return done

    return call


@pytest.fixture
def topic(run: Run) -> str:
    """A new topic with one partition."""
    name = f"cli-{next(names)}"
    run("topic", "create", name, "-c", "retention.ms=60000")
    until(lambda: [name, "1", "1"] in lines(run("topic", "ls")))
    return name


def until(condition: Callable[[], bool]) -> None:
    """Repeat until the condition holds: Kafka's brokers learn of changes a moment later."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline


def lines(result: Result) -> list[list[str]]:
    return [line.split("\t") for line in result.stdout.splitlines()]


def test_topic_commands_print_the_same_lines(run: Run, topic: str) -> None:
    def retention() -> list[list[str]]:
        return [row for row in lines(run("topic", "config", topic)) if row[1] == "retention.ms"]

    run("topic", "create", topic, code=5)
    run("topic", "create", topic, "--if-not-exists")
    assert retention() == [[topic, "retention.ms", "60000", "topic"]]
    run("topic", "config", topic, "retention.ms-")
    until(lambda: retention() == [])
    run("topic", "config", topic, "no.such.setting=1", code=5)
    run("topic", "add-partitions", topic, "-n", "1")
    run("produce", topic, "-p", "1", stdin=b"1\n2\n3\n")
    run("topic", "trim", topic, "-p", "1", "-o", "2", "-y")
    described = lines(run("topic", "describe", topic))
    assert [[row[1], *row[6:]] for row in described] == [["0", "0", "0"], ["1", "2", "3"]]
    assert lines(run("topic", "rm", topic, "--dry-run")) == [[topic, "2", "1"]]
    run("topic", "rm", topic, "-y")
    until(lambda: run("topic", "describe", topic, code=None).exit_code == 4)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_produced_records_are_consumed_with_the_same_output(
    run: Run, topic: str, codec: str
) -> None:
    run("produce", topic, "-K", ":", "-H", "h=1", "-z", codec, stdin=b"a:1\nb:2\nc:\xff\n")
    read = run("consume", topic, "-e", "-f", r"%o %k %v %h\n").stdout_bytes
    assert read == b"0 a 1 h=1\n1 b 2 h=1\n2 c \xff h=1\n"
    run("produce", topic, "--json", stdin=run("consume", topic, "-eJ").stdout_bytes)
    twice = [json.loads(line) for line in run("consume", topic, "-eJ").stdout.splitlines()]
    assert [line.pop("offset") for line in twice] == list(range(6))
    assert twice[:3] == twice[3:]
    assert run("consume", "-r", f"x|{topic}", "-o", "-1", "-e").stdout_bytes == b"\xff\n"
    assert run("consume", topic, "-o", "1:2").stdout == "2\n"


def test_group_commands_print_the_same_lines(run: Run, topic: str) -> None:
    run("produce", topic, stdin=b"1\n2\n3\n4\n")
    group, copy = f"{topic}-group", f"{topic}-copy"
    run("group", "lag", group, code=4)
    assert run("consume", topic, "-g", group, "-n", "3").stdout == "1\n2\n3\n"
    cooperative = ["-X", "partition.assignment.strategy=cooperative-sticky"]
    assert run("consume", topic, "-g", group, "-n", "1", *cooperative).stdout == "4\n"
    assert [group, "Empty", "classic", "consumer"] in lines(run("group", "ls"))
    run("group", "seek", group, "--to", "-1", "-y")
    assert lines(run("group", "lag", group, "-l")) == [[group, topic, "0", "3", "4", "1"]]
    run("group", "seek", copy, "--to-group", group, "-y")
    assert run("consume", topic, "-g", copy, "-n", "1").stdout == "4\n"
    for name in (group, copy):
        run("group", "rm", name, "-y")
        run("group", "describe", name, code=4)


def test_a_group_of_the_kip_848_protocol_is_shown_and_not_changed(kafka: ApacheKafka) -> None:
    name = "cli-new-protocol"

    def run(*arguments: str, code: int | None = 0) -> Result:
        done = CliRunner().invoke(main, [*arguments, "-b", kafka.bootstrap])
        assert code in (None, done.exit_code), (arguments, done.output, done.exception)
        return done

    run("topic", "create", name)
    until(lambda: [name, "1", "1"] in lines(run("topic", "ls")))
    settings = {"bootstrap.servers": kafka.bootstrap, "group.id": name}
    member = Consumer({**settings, "group.protocol": "consumer", "enable.auto.commit": False})
    try:
        member.subscribe([name])
        stable = [name, "Stable", "consumer", "consumer"]
        until(lambda: member.poll(0.1) is None and stable in lines(run("group", "ls")))
        until(lambda: member.poll(0.1) is None and bool(member.assignment()))
        assert run("group", "lag", name).stdout == ""
        shown = run("group", "describe", name)
        assert shown.stderr == f"{name}: Stable, of type consumer: its members cannot be listed\n"
        for refused in (("rm", name), ("seek", name, "--to", "start", "-t", name)):
            said = run("group", *refused, "--dry-run", code=5)
            assert said.stdout == ""
            assert "group describe" in said.stderr
    finally:
        member.close()
    until(lambda: [name, "Empty", "consumer", "consumer"] in lines(run("group", "ls")))
    run("group", "seek", name, "--to", "start", "-t", name, "-y")
    [row] = lines(run("group", "describe", name))
    assert row == [name, name, "0", "0", "0", "0", "", "", "", "Empty", ""]
    run("group", "rm", name, "-y")
