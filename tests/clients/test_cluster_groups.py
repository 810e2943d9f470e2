"""A consumer group over three broker processes, each of which is killed once while it works."""

from __future__ import annotations

import threading
from pathlib import Path

from confluent_kafka import Consumer, KafkaException

from clients.cluster_processes import ClusterProcesses, until
from clients.killing import IDEMPOTENT, Load, check, read_back

SETTINGS = {
    "min_insync_replicas": "2",
    "offsets_topic_num_partitions": "3",
    "group_initial_rebalance_delay_ms": "0",
}


class Reader:
    """A member of the group that reads and commits on a thread of its own."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.seen: list[int] = []
        self.committed = 0
        self._stopping = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "readers",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 10_000,
                "log_level": 0,
            }
        )
        self._consumer.subscribe([topic])
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            messages = [m for m in self._consumer.consume(500, 0.1) if m.error() is None]
            self.seen.extend(int(message.value() or b"") for message in messages)
            if messages:
                self._commit()
        self._consumer.close()

    def _commit(self) -> None:
        try:
            (found,) = self._consumer.commit(asynchronous=False) or []
        except KafkaException:
            return  # Its coordinator moves: the next commit has these offsets, too.
        assert found.offset >= self.committed, "a committed offset went back"
        self.committed = found.offset

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()


def test_a_group_reads_and_commits_on_while_each_broker_is_killed_once(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, **SETTINGS) as cluster:
        cluster.create(IDEMPOTENT)
        load, reader = Load(IDEMPOTENT, cluster.bootstrap), Reader(cluster.bootstrap, IDEMPOTENT)
        try:
            until(lambda: reader.committed > 0)
            for number in cluster.numbers:
                cluster.kill(number)
                before = reader.committed
                until(lambda before=before: reader.committed > before + 100)  # type: ignore[misc]
                cluster.start(number)
                until(lambda: cluster.partition(IDEMPOTENT)[1] == [1, 2, 3])
            load.finish()
            until(lambda: reader.committed == load.sent)
        finally:
            load.stop()
            reader.stop()
        assert sorted(set(reader.seen)) == list(range(load.sent))
        check(load, read_back(cluster.bootstrap, IDEMPOTENT))
        cluster.await_equal_logs()
