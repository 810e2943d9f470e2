"""One node with records becomes three under load, and its loss loses nothing.

    python -m bench grow -- [--gigabytes 5] [--rate 2000]

A node alone takes records of 1 KB from an idempotent producer of librdkafka, which goes on at a
steady rate, and groups commit offsets. Two nodes join, `odradek cluster grow` gives everything
three replicas, then the first node is killed (`kill -9`). All records are read from the others:
each once, in order; and every committed offset.

It needs about three and a half times the size on the disk. A row is appended to
`bench/results/grow.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from cluster_load import progress
from clusters import with_bytecode
from odradek import Admin, leaves

RESULTS = Path(__file__).parent / "results" / "grow.jsonl"
TOPIC, PARTITIONS, GROUPS = "orders", 6, 20
RECORD = 1024
PAYLOAD = (bytes(range(256)) * 4)[: RECORD - 8]
ODRADEK = (sys.executable, "-m", "odradek")
PATIENCE_S = 1800
SHOWN_EVERY_S = 10


class Wrong(Exception):
    """What must hold does not."""


class Node:
    """A process of `odradek up` with a directory of its own."""

    def __init__(self, directory: Path, *options: str) -> None:
        command = [*ODRADEK, "up", "--json", "--http", "none", "--port", "0", *options]
        with directory.with_suffix(".log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--data-dir", str(directory)],
                stdout=subprocess.PIPE,
                stderr=log,
                env=with_bytecode(),
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise Wrong(f"a node did not start: see {directory.with_suffix('.log')}")
        self.bootstrap: str = json.loads(line)["bootstrap"]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


class Load:
    """An idempotent producer; record `n` of a partition has the number `n`."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "log_level": 0,
                "linger.ms": 20,
                "queue.buffering.max.messages": 200_000,
                "queue.buffering.max.kbytes": 256_000,
                "topic.metadata.refresh.interval.ms": 1000,
                "delivery.timeout.ms": 600_000,
                "on_delivery": self._delivered,
            }
        )
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._rate = 0
        self.sent = [0] * PARTITIONS
        self.acked = 0
        self.failed: list[str] = []
        self.last_ack = [0.0] * PARTITIONS

    @property
    def count(self) -> int:
        """How many records were sent."""
        return sum(self.sent)

    def send(self, partition: int) -> None:
        """Send the next record of a partition, as soon as there is room for it."""
        value = self.sent[partition].to_bytes(8, "big") + PAYLOAD
        while True:
            try:
                self._producer.produce(TOPIC, value, partition=partition)
                break
            except BufferError:
                self._producer.poll(0.05)
        self.sent[partition] += 1

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acked += 1
            self.last_ack[message.partition() or 0] = time.monotonic()
        else:
            self.failed.append(str(error))

    def fill(self, records: int) -> None:
        """Send so many records as fast as they are taken, and wait for them."""
        shown = time.monotonic()
        for number in range(records):
            self.send(number // 500 % PARTITIONS)
            if number % 1000 == 0:
                self._producer.poll(0)
                if time.monotonic() - shown >= SHOWN_EVERY_S:
                    shown = time.monotonic()
                    progress(f"{number / records:4.0%} of the records are sent")
        self.flush()

    def flush(self) -> None:
        """Wait for the outcome of all records."""
        if self._producer.flush(600):
            raise Wrong("not all records have an outcome")

    def begin(self, rate: int) -> None:
        """Go on at so many records a second."""
        self._rate = rate
        self._thread.start()

    def _run(self) -> None:
        began, sent = time.monotonic(), 0
        while not self._ended.is_set():
            due = int((time.monotonic() - began) * self._rate)
            for number in range(sent, due):
                self.send(number % PARTITIONS)
            sent = due
            self._producer.poll(0.02)

    def end(self) -> None:
        """Send no more, and wait for the outcomes."""
        self._ended.set()
        self._thread.join()
        self.flush()


def group_offsets(sent: list[int]) -> dict[str, dict[int, int]]:
    """What each group has committed, by partition."""
    return {
        f"group-{number}": {
            partition: end * (number + 1) // GROUPS for partition, end in enumerate(sent)
        }
        for number in range(GROUPS)
    }


def commit(bootstrap: str, groups: dict[str, dict[int, int]]) -> None:
    for group, offsets in groups.items():
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
        places = [TopicPartition(TOPIC, number, offset) for number, offset in offsets.items()]
        consumer.commit(offsets=places, asynchronous=False)
        consumer.close()


def committed(bootstrap: str, group: str) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    places = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    found = {each.partition: each.offset for each in consumer.committed(places, timeout=60)}
    consumer.close()
    return found


def read(bootstrap: str, sent: list[int]) -> tuple[int, int]:
    """Read every partition to its end; return how many records are lost, and how many are there
    again. Raises `Wrong` for one that was never sent, or out of order.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    following, lost, again = [0] * PARTITIONS, 0, 0
    unread, shown = set(range(PARTITIONS)), time.monotonic()
    while unread:
        messages = consumer.consume(10_000, timeout=60)
        if not messages:
            raise Wrong(f"nothing more is read of partitions {sorted(unread)}")
        for message in messages:
            partition, value, error = message.partition() or 0, message.value(), message.error()
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    raise Wrong(f"reading failed: {error}")
                unread.discard(partition)
                continue
            number = int.from_bytes((value or b"")[:8], "big")
            if number < following[partition]:
                again += 1
                continue
            if number >= sent[partition]:
                raise Wrong(f"record {number} of partition {partition} was never sent")
            lost += number - following[partition]
            following[partition] = number + 1
        if time.monotonic() - shown >= SHOWN_EVERY_S:
            shown = time.monotonic()
            progress(f"{sum(following) / sum(sent):4.0%} of the records are read")
    consumer.close()
    return lost + sum(sent) - sum(following), again


def await_whole(admin: Admin) -> None:
    """Until all partitions, of internal topics too, are in sync on three nodes, which all vote."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        topics = admin.topics(internal=True)
        if (
            all(len(each.isr) == 3 for topic in topics for each in topic.partitions)
            and len(admin.quorum().voters) == 3
        ):
            return
        time.sleep(0.1)
    raise Wrong("the cluster is not whole")


def grow(directory: Path, gigabytes: float, rate: int) -> dict[str, Any]:
    """Run it once; return the row."""
    records = int(gigabytes * 1e9 / RECORD)
    row: dict[str, Any] = {}
    with Node(directory / "1", "--cluster") as one:
        admin_client = AdminClient({"bootstrap.servers": one.bootstrap, "log_level": 0})
        made = admin_client.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])
        made[TOPIC].result(60)
        load = Load(one.bootstrap)
        began = time.monotonic()
        load.fill(records)
        took = time.monotonic() - began
        row["fill_mb_per_s"] = records * RECORD / took / 1e6
        progress(f"{records:,} records on one node: {row['fill_mb_per_s']:.0f} MB/s")
        groups = group_offsets(load.sent)
        commit(one.bootstrap, groups)
        load.begin(rate)
        join = ("--join", one.bootstrap)
        with Node(directory / "2", *join) as two, Node(directory / "3", *join) as three:
            others = f"{two.bootstrap},{three.bootstrap}"
            began = time.monotonic()
            command = [*ODRADEK, "cluster", "grow", "--yes", "-b", one.bootstrap]
            if subprocess.call(command, stdout=sys.stderr) != 0:
                raise Wrong("odradek cluster grow failed")
            with Admin(brokers=others) as admin:
                await_whole(admin)
            took = time.monotonic() - began
            copied = 2 * load.count * RECORD
            row |= {"grow_s": took, "grow_mb_per_s": copied / took / 1e6}
            progress(f"three replicas of all: {took:.1f} s, {copied / took / 1e6:.0f} MB/s")
            killed = time.monotonic()
            os.kill(one.process.pid, signal.SIGKILL)
            while min(load.last_ack) <= killed + 0.5:  # Not an answer that was under way.
                if time.monotonic() - killed > 120:
                    raise Wrong("the others do not acknowledge")
                time.sleep(0.01)
            row["outage_s"] = time.monotonic() - killed
            progress(f"node 1 killed; all partitions acknowledge after {row['outage_s']:.2f} s")
            time.sleep(5)
            load.end()
            lost, again = read(others, load.sent)
            wrong = [group for group, wish in groups.items() if committed(others, group) != wish]
            row |= {
                "records": load.count,
                "bytes": load.count * RECORD,
                "acked": load.acked,
                "failed": len(load.failed),
                "lost": lost,
                "duplicated": again,
                "groups": len(groups),
                "groups_with_other_offsets": len(wrong),
            }
    return row


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=5.0)
    parser.add_argument("--rate", type=int, default=2000, help="records a second meanwhile")
    parser.add_argument("--directory", type=Path, help="where the data go for the time")
    arguments = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="odradek-grow-", dir=arguments.directory))
    began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    try:
        row = grow(directory, arguments.gigabytes, arguments.rate)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    line = {
        "run": began,
        "leaves": leaves.mode(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        **{name: round(value, 3) for name, value in row.items()},
    }
    with RESULTS.open("a") as out:
        out.write(json.dumps(line) + "\n")
    print(json.dumps(line, indent=2))
    good = not (row["lost"] or row["duplicated"] or row["failed"])
    return 0 if good and not row["groups_with_other_offsets"] else 1


if __name__ == "__main__":
    sys.exit(main())
