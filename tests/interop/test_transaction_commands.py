"""`odradek txn` with a real Apache Kafka and ours: it lists, describes and aborts transactions."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer

from interop.apache_kafka import ApacheKafka
from odradek import Admin
from odradek.cli import exits
from odradek.cli.main import main
from odradek.testing.broker import Broker

pytestmark = pytest.mark.interop

Run = Callable[..., Result]
PATIENCE_S = 60
names = itertools.count()


@pytest.fixture(params=["kafka", "ours"])
def bootstrap(request: pytest.FixtureRequest) -> str:
    running: ApacheKafka | Broker = request.getfixturevalue(request.param)
    return running.bootstrap


@pytest.fixture
def run(bootstrap: str) -> Run:
    def call(*arguments: str, code: int = 0) -> Result:
        done = CliRunner().invoke(main, ["txn", *arguments, "-b", bootstrap])
        assert done.exit_code == code, (arguments, done.output, done.exception)
        return done

    return call


@pytest.fixture
def topic(bootstrap: str) -> Iterator[str]:
    name = f"txn-{next(names)}"
    with Admin(brokers=bootstrap) as admin:
        admin.create_topic(name, partitions=2)
        yield name
        admin.delete_topic(name)


def open_transaction(bootstrap: str, topic: str, transactional_id: str) -> Producer:
    """A producer whose transaction has one record, in partition 1."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "log_level": 0}
    )
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, b"v", partition=1)
    assert producer.flush(PATIENCE_S) == 0
    return producer


def rows(result: Result) -> list[list[str]]:
    return [line.split("\t") for line in result.stdout.splitlines()]


def test_open_transaction_is_listed_described_and_aborted_by_its_id(
    bootstrap: str, run: Run, topic: str
) -> None:
    name = f"{topic}-id"
    producer = open_transaction(bootstrap, topic, name)
    ((listed, state, producer_id, _),) = rows(run("ls", "--match", f"{topic}-.*"))
    assert (listed, state) == (name, "Ongoing")
    assert name in [row[0] for row in rows(run("ls", "-s", "ongoing"))]
    assert name not in [row[0] for row in rows(run("ls", "--open-for", "1h"))]
    described = json.loads(run("describe", name, "--json").stdout)
    assert described["partitions"] == [f"{topic}-1"]
    assert described["open_ms"] >= 0
    ((_, number, found, *_, open_from),) = rows(run("producers", topic))
    assert (number, found, open_from) == ("1", producer_id, "0")
    assert rows(run("hanging", "-t", topic, "--open-for", "0ms")) == []
    run("abort", name, "--dry-run")
    assert run("abort", name, "--yes").stderr == f"{name}: aborted\n"
    assert json.loads(run("describe", name, "--json").stdout)["partitions"] == []
    ((*_, open_from),) = rows(run("producers", topic))
    assert open_from == ""
    with pytest.raises(Exception, match="fenced"):
        producer.commit_transaction(PATIENCE_S)


def test_transaction_is_aborted_in_one_partition(bootstrap: str, run: Run, topic: str) -> None:
    producer = open_transaction(bootstrap, topic, f"{topic}-id")
    ((_, _, producer_id, *_),) = rows(run("producers", topic, "-p", "1"))
    aborted = run("abort", f"{topic}:1", "--producer-id", producer_id, "--yes")
    assert aborted.stderr == f"{topic}-1: aborted from offset 0 on\n"
    ((*_, open_from),) = rows(run("producers", topic))
    assert open_from == ""
    again = run("abort", f"{topic}:1", "--producer-id", producer_id, "-y", code=exits.NOT_FOUND)
    assert "has no open transaction" in again.stderr
    producer.abort_transaction(PATIENCE_S)


def test_unknown_transactional_id_is_not_found(run: Run) -> None:
    for command in (["describe", "nobody"], ["abort", "nobody", "-y"]):
        said = run(*command, code=exits.NOT_FOUND).stderr
        assert "TRANSACTIONAL_ID_NOT_FOUND" in said
        assert "`odradek txn ls` lists" in said
