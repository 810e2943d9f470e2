"""What type checkers say of a user's program: nothing of a right one; of a wrong one, where it is.

mypy and pyright (as basedpyright, which needs nothing but Python), both strict.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import odradek

RIGHT = """
import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_type

import odradek
from odradek import (
    Admin,
    Consumer,
    Delivery,
    KafkaError,
    Producer,
    Record,
    SeekPlan,
    Serde,
    TopicPartition,
)
from odradek.errors import DecodeError


@dataclass
class Order:
    id: int
    item: str


class Registered:
    def serialize(
        self, topic: str, headers: Sequence[tuple[str, bytes | None]], data: Order, /
    ) -> bytes:
        return f"{topic} {headers} {data.id}".encode()

    def deserialize(
        self, topic: str, headers: Sequence[tuple[str, bytes | None]], data: bytes, /
    ) -> Order:
        return Order(len(data), topic)


registered: Serde[Order] = Registered()


def told(error: KafkaError | None, delivery: Delivery) -> None:
    print(error, delivery.topic, delivery.partition, delivery.offset, delivery.timestamp)


def produce() -> None:
    with Producer(brokers="localhost:9092", linger_ms=5, compression_type="zstd") as plain:
        assert_type(plain.send("t", b"v", key="k").result(), Delivery)
        plain.send("t", "v", headers={"h": b"1"}, timestamp=datetime.now(), on_delivery=told)
        plain.produce("t", b"v", callback=told)
        assert_type(plain.produce_batch("t", [{"value": b"v", "key": "k"}], on_delivery=told), int)
        print(plain.flush(1.0))
    with Producer(brokers=["a:1", "b:2"], key=str, value=Order) as orders:
        orders.send("orders", Order(1, "pen"), key="7", partition=0)
        orders.send_many("orders", [Order(1, "pen"), None])
    with Producer({"bootstrap.servers": "a:1", "acks": 1}) as mapped:
        mapped.send("t", b"v")
    with Producer(brokers="a:1", value="json") as anything:
        anything.send("t", {"id": 1})
    with Producer(brokers="a:1", value=registered) as by_schema:
        by_schema.send("orders", Order(1, "pen"))
    with Producer(bootstrap_servers="a:1", compression_type=None) as as_by_default:
        as_by_default.flush(float("inf"))


def assigned(consumer: Consumer[bytes, bytes], partitions: list[TopicPartition]) -> None:
    print(consumer.assignment(), partitions)


def consume() -> None:
    with Consumer("orders", group="shop", brokers="localhost:9092") as raw:
        for record in raw:
            assert_type(record, Record[bytes, bytes])
            print(record.value, record.key, record.headers, record.timestamp)
            raw.commit(record)
        for batch in raw.batches(max_records=10):
            raw.commit(batch)
        for columns in raw.arrow(decode="json"):
            print(columns.num_rows, columns.to_pylist()[0]["value"])
            raw.commit(columns)
    with Consumer("orders", brokers="a:1", value=Order, on_decode_error=skipped) as orders:
        found = orders.poll(1.0)
        if found is not None and found.value is not None:
            assert_type(found.value, Order)
        print(orders.position(("orders", 0)), orders.lag(("orders", 0)))
        orders.seek(("orders", 0), datetime.now() - timedelta(hours=1))
        orders.seek(TopicPartition("orders", 0), "start")
        starts = orders.beginning_offsets(("orders", 0))
        orders.assign(starts)
        orders.commit(starts)
        orders.commit({("orders", 0): 5})
        orders.offsets_for_times({each: datetime.now() for each in starts})
    with Consumer(
        "orders", brokers="a:1", value=registered, on_decode_error="dlq:broken"
    ) as by_schema:
        for order in by_schema:
            assert_type(order, Record[bytes, Order])
    alone = Consumer("t", brokers="a:1", group_id=None, group=None, group_instance_id=None)
    alone.close(None)
    with Consumer({"bootstrap.servers": "a:1", "group.id": "g"}) as mapped:
        mapped.subscribe(re.compile("orders-.*"), on_assign=assigned)
        print(mapped.consume(10, 1.0)[0].offset)


def skipped(error: DecodeError) -> None:
    print(error.code, error.name, error.retriable, error.fatal, error.requires_abort)
    if error.record is not None:
        print(error.record.topic, error.record.value)


def administer() -> None:
    with Admin(brokers="localhost:9092") as admin:
        admin.create_topic("orders", partitions=3, config={"retention.ms": "1000"}, exist_ok=True)
        print([topic.name for topic in admin.topics()])
        admin.delete_topic("orders", missing_ok=True)
        admin.set_config({"retention.ms": 1000, "cleanup.policy": None}, topic="orders")
        print(admin.describe_config(broker="all")["log.retention.ms"].value)
        print(admin.group("shop").members, admin.lag("shop")[TopicPartition("orders", 0)].lag)
        plan = admin.seek_group("shop", "start", dry_run=True)
        assert_type(plan, SeekPlan)
        for partition, move in plan.items():
            print(partition.topic, move.before, move.after)
        admin.seek_group("shop", {("orders", 0): 5, ("orders", 1): 7})
        admin.seek_group("shop", {TopicPartition("orders", 0): 5})


async def awaited() -> None:
    async with odradek.aio.Producer(brokers="a:1", value=Order) as producer:
        assert_type(await producer.send("orders", Order(1, "pen")), Delivery)
    async with odradek.aio.Consumer("orders", brokers="a:1", value=Order) as consumer:
        async for record in consumer:
            assert_type(record, Record[bytes, Order])
        async for columns in consumer.arrow():
            print(columns.num_rows)
            await consumer.commit(columns)
        await consumer.seek(("orders", 0), "end")
    async with odradek.aio.Admin(brokers="a:1") as admin:
        await admin.create_topic("orders")
        print((await admin.topic("orders")).partitions)
        await admin.set_config({"retention.ms": 1000}, topic="orders")


table = odradek.read("orders", since="1h", decode="json")
print(table.num_rows, table.to_pandas())
asyncio.run(awaited())
"""

WRONG = """
from dataclasses import dataclass

import odradek
from odradek import Admin, Consumer, Producer


@dataclass
class Order:
    id: int


with Producer(brokers="a:1", value=Order) as producer:
    producer.send("orders", "text")  # wrong
    producer.send("orders", Order(1), key=5)  # wrong
    producer.send(b"orders", Order(1))  # wrong
Producer(brokers="a:1", linger_mss=5)  # wrong
Producer(brokers="a:1", linger_ms="soon")  # wrong
odradek.aio.Producer(brokers="a:1", linger_mss=5)  # wrong
with Consumer("orders", brokers="a:1", value=Order) as consumer:
    for record in consumer:
        print(record.value.upper())  # wrong
        record.value = None  # wrong
        consumer.commit(record.offset)  # wrong
    consumer.seek(("orders", 0), "middle")  # wrong
with Admin(brokers="a:1") as admin:
    admin.set_config({"retention.ms": 1000}, topics="orders")  # wrong
    admin.describe_config(broker="every")  # wrong
Consumer("orders", brokers="a:1", auto_ofset_reset="earliest")  # wrong
Consumer("orders", brokers="a:1", on_decode_error=5)  # wrong
odradek.aio.Consumer("orders", brokers="a:1", auto_ofset_reset="earliest")  # wrong
"""


PROGRAMS = {"right.py": RIGHT, "wrong.py": WRONG}
Errors = dict[str, set[int]]
"""The lines that a checker complains of, by program."""


def mypy(directory: Path) -> Errors:
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        "--show-column-numbers",
    ]
    done = subprocess.run(
        [*command, f"--cache-dir={os.devnull}", "--config-file=", *PROGRAMS],
        cwd=directory,
        capture_output=True,
        text=True,
    )
    assert not done.stderr, done.stderr
    print(done.stdout)
    found: Errors = {name: set() for name in PROGRAMS}
    for line in done.stdout.splitlines():
        if ": error: " in line:
            name, number, _ = line.split(":", 2)
            found[name].add(int(number))
    return found


def pyright(directory: Path) -> Errors:
    settings = directory / "pyrightconfig.json"
    source = str(Path(odradek.__file__).parents[1])
    settings.write_text(json.dumps({"typeCheckingMode": "strict", "extraPaths": [source]}))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "basedpyright",
            "--outputjson",
            "-p",
            str(settings),
            "--pythonpath",
            sys.executable,
        ],
        cwd=directory,
        capture_output=True,
        text=True,
    )
    told = json.loads(done.stdout)
    assert told["summary"]["filesAnalyzed"] == len(PROGRAMS)
    print(json.dumps(told["generalDiagnostics"], indent=1))
    found: Errors = {name: set() for name in PROGRAMS}
    for each in told["generalDiagnostics"]:
        found[Path(each["file"]).name].add(each["range"]["start"]["line"] + 1)
    return found


@pytest.mark.parametrize("check", [mypy, pyright], ids=["mypy", "pyright"])
def test_a_wrong_program_is_refused_where_it_is_wrong_and_a_right_one_is_not(
    check: Callable[[Path], Errors], tmp_path: Path
) -> None:
    """Both programs in one run: reading the packages that they import takes most of the time."""
    wrong: Errors = {}
    for name, program in PROGRAMS.items():
        (tmp_path / name).write_text(program)
        lines = enumerate(program.splitlines(), 1)
        wrong[name] = {number for number, line in lines if line.endswith("# wrong")}
    assert check(tmp_path) == wrong
