"""Records how a cluster of Apache Kafka fails over: brokers 1 to 3, and 4 with the controller.

    PYTHONPATH=src:tests python -m interop.kafka_cluster

writes `tests/unit/controller/failover_of_kafka.txt`, which takes some minutes. Broker 4 has no
partitions of the script; it answers all requests.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from clients.wire import RawConnection
from interop.apache_kafka import LOG_LEVEL, class_path, tool
from odradek.protocol.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from odradek.protocol.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from odradek.protocol.api.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from odradek.protocol.api.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from odradek.protocol.api.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from odradek.testing.ports import reserve_ports
from unit.controller.failover_script import OUTCOMES, describe, run

T = TypeVar("T")
OBSERVER = 4
CLUSTER_ID = "kAAAAAAAQACAAAAAAAAAAA"
OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", LOG_LEVEL)
TIMEOUT_S = 180
STABLE_S = 6
"""Longer than a follower takes to come into an ISR."""


class KafkaCluster:
    """Four nodes on loopback ports, in directories of their own."""

    def __init__(self, jars: str, directory: Path) -> None:
        self.jars = jars
        self.directory = directory
        self.ports = dict(zip((1, 2, 3, OBSERVER), reserve_ports(4), strict=True))
        (self.controller_port,) = reserve_ports(1)
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def begin(self) -> None:
        for node_id in (OBSERVER, 1, 2, 3):
            path = self._properties(node_id)
            standalone = ("--standalone",) if node_id == OBSERVER else ("--no-initial-controllers",)
            tool(
                self.jars,
                "kafka.tools.StorageTool",
                *("format", *standalone, "-t", CLUSTER_ID, "-c", str(path)),
            )
            self._spawn(node_id)
        self._await(lambda: self._alive() == {1, 2, 3, OBSERVER})

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()

    def _properties(self, node_id: int) -> Path:
        directory = self.directory / str(node_id)
        directory.mkdir(exist_ok=True)
        path = directory / "server.properties"
        address = f"PLAINTEXT://127.0.0.1:{self.ports[node_id]}"
        controller = f"127.0.0.1:{self.controller_port}"
        is_observer = node_id == OBSERVER
        listeners = f"{address},CONTROLLER://{controller}" if is_observer else address
        lines = [
            f"process.roles={'broker,controller' if is_observer else 'broker'}",
            f"node.id={node_id}",
            f"listeners={listeners}",
            f"advertised.listeners={address}",
            "controller.listener.names=CONTROLLER",
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            f"controller.quorum.bootstrap.servers={controller}",
            f"log.dirs={directory / 'data'}",
            "broker.session.timeout.ms=6000",
            "broker.heartbeat.interval.ms=500",
            "auto.leader.rebalance.enable=false",
            "log.initial.task.delay.ms=600000",
        ]
        path.write_text("\n".join(lines))
        return path

    def _spawn(self, node_id: int) -> None:
        with (self.directory / str(node_id) / "server.log").open("ab") as log:
            self.processes[node_id] = subprocess.Popen(
                ["java", *OPTIONS, "-cp", self.jars, "kafka.Kafka", self._properties(node_id)],
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    # The script

    def create(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        response = self._ask(request, 7, CreateTopicsResponse)
        self._await_stable()
        return response

    def describe(self, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
        return self._ask(request, 0, DescribeTopicPartitionsResponse)

    def elect(self, request: ElectLeadersRequest) -> ElectLeadersResponse:
        response = self._ask(request, 2, ElectLeadersResponse)
        self._await_stable()
        return response

    def reassign(
        self, request: AlterPartitionReassignmentsRequest
    ) -> AlterPartitionReassignmentsResponse:
        response = self._ask(request, 1, AlterPartitionReassignmentsResponse)
        self._await_stable()
        return response

    def ongoing(
        self, request: ListPartitionReassignmentsRequest
    ) -> ListPartitionReassignmentsResponse:
        return self._ask(request, 0, ListPartitionReassignmentsResponse)

    def kill(self, broker_id: int) -> None:
        self._end(broker_id, signal.SIGKILL)

    def stop(self, broker_id: int) -> None:
        self._end(broker_id, signal.SIGTERM)

    def start(self, broker_id: int) -> None:
        self._spawn(broker_id)
        self._await(lambda: broker_id in self._alive())
        self._await_stable()

    def _end(self, broker_id: int, how: signal.Signals) -> None:
        process = self.processes.pop(broker_id)
        process.send_signal(how)
        process.wait(TIMEOUT_S)
        self._await(lambda: broker_id not in self._alive())
        self._await_stable()

    # Waiting

    def _ask(self, request: Any, version: int, expect: type[T]) -> T:
        with RawConnection(f"127.0.0.1:{self.ports[OBSERVER]}", TIMEOUT_S) as wire:
            return wire.ask(request, version, expect)

    def _alive(self) -> set[int]:
        """Return the brokers that are not fenced."""
        request = DescribeClusterRequest(include_cluster_authorized_operations=False)
        with contextlib.suppress(OSError, AssertionError):
            response = self._ask(request, 0, DescribeClusterResponse)
            return {broker.broker_id for broker in response.brokers}
        return set()

    def _await(self, is_done: Any) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not is_done():
            assert time.monotonic() < deadline, f"see the logs in {self.directory}"
            time.sleep(0.2)

    def _await_stable(self) -> None:
        """Wait until no partition has changed for some seconds."""
        seen, since = None, time.monotonic()
        while time.monotonic() - since < STABLE_S:
            now = list(describe(self, ["t", "u", "v"]))
            if now != seen:
                seen, since = now, time.monotonic()
            time.sleep(0.2)


@contextlib.contextmanager
def kafka_cluster(jars: str, directory: Path) -> Iterator[KafkaCluster]:
    """Start a cluster, and end it with its processes."""
    cluster = KafkaCluster(jars, directory)
    try:
        cluster.begin()
        yield cluster
    finally:
        cluster.end()


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with kafka_cluster(class_path(directory), directory) as cluster:
            OUTCOMES.write_text(run(cluster), encoding="utf-8")


if __name__ == "__main__":
    main()
