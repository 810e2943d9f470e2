"""The clusters that are compared: some nodes on loopback, each a process; and what they have used.

Nothing is pinned to a core: nodes and clients share the machine, the same for both systems. Both
have the timeouts that they have by default, replication factor 3 and two in-sync replicas at
least; Apache Kafka gets the heap and collector of its own start script for each node.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from odradek.testing.ports import reserve_ports
from peers import KAFKA_OPTIONS, cpu_s, jars, pss_mib

# `peers` has made the tests' packages importable.
from interop.apache_kafka import await_port  # isort: skip

from interop.apache_kafka_cluster import ApacheKafkaCluster, url_id  # isort: skip

__all__ = [
    "ClusterProcesses",
    "KafkaCluster",
    "OdradekCluster",
    "StartedTogether",
    "jars",
    "used_cpu_s",
]

REPLICATED = {
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "min.insync.replicas": "2",
    "group.initial.rebalance.delay.ms": "0",
}
OF_KAFKA = {
    "share.coordinator.state.topic.replication.factor": "1",
    "log.initial.task.delay.ms": "600000",
}


class ClusterProcesses(ABC):
    """The nodes 1 to `count`, each a process; started on entering and killed on leaving."""

    name: str
    ports: dict[int, int]
    """The ports for clients, by node id."""

    def __init__(self) -> None:
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self._used_by_ended = 0.0

    @abstractmethod
    def spawn(self, node_id: int) -> None:
        """Start the process of a node without waiting; also again on what it left."""

    @abstractmethod
    def data_dir(self, node_id: int) -> Path: ...

    @abstractmethod
    def await_ready(self, node_id: int) -> None:
        """Wait until a node takes connections of clients."""

    def __enter__(self) -> Self:
        try:
            for node_id in self.ports:
                self.spawn(node_id)
            for node_id in self.ports:
                self.await_ready(node_id)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        for node_id in list(self.processes):
            self.kill(node_id)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def kill(self, node_id: int) -> None:
        """At once, as `kill -9` does."""
        process = self.processes.pop(node_id)
        if process.poll() is None:
            self._used_by_ended += used_cpu_s(process.pid)
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()

    def stop(self, node_id: int) -> None:
        """Stop a node as its users do, with SIGTERM, and wait for its end."""
        process = self.processes[node_id]
        process.terminate()
        process.wait(120)
        self.kill(node_id)

    def pause(self, node_id: int) -> None:
        self.processes[node_id].send_signal(signal.SIGSTOP)

    def resume(self, node_id: int) -> None:
        self.processes[node_id].send_signal(signal.SIGCONT)

    def cpu_s(self) -> float:
        """User and system time of all nodes so far, of killed ones and of child processes too."""
        return self._used_by_ended + sum(used_cpu_s(each.pid) for each in self.processes.values())

    def scheduled_s(self) -> float:
        """The CPU time of the threads that there are now, to the nanosecond: for little of it."""
        return sum(
            int(task.read_text().split()[0]) / 1e9
            for each in self.processes.values()
            for pid in with_children(each.pid)
            for task in Path(f"/proc/{pid}/task").glob("*/schedstat")
        )

    def pss_mib(self) -> float:
        """The memory of all nodes and of their child processes."""
        return sum(
            pss_mib(pid) for each in self.processes.values() for pid in with_children(each.pid)
        )


def with_children(pid: int) -> list[int]:
    """Return a process and all processes below it."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += with_children(int(child))
    return found


def used_cpu_s(pid: int) -> float:
    return sum(cpu_s(each) for each in with_children(pid))


def with_bytecode() -> dict[str, str]:
    """Return the environment of a node that keeps its bytecode, as one that is installed does."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


class OdradekCluster(ClusterProcesses):
    """`odradek up` for each node, in directories below `directory`."""

    def __init__(
        self, directory: Path, count: int = 3, settings: Mapping[str, str] | None = None
    ) -> None:
        super().__init__()
        given = settings or {}
        self.name = "odradek fsync" if given.get("log.durability") == "fsync" else "odradek"
        ports = reserve_ports(2 * count)
        self.ports = {number + 1: ports[number] for number in range(count)}
        self._between = {number + 1: ports[count + number] for number in range(count)}
        self._directory = directory
        self._settings = {**(REPLICATED if count >= 3 else {}), "cluster.id": url_id(), **given}

    def program(self, node_id: int) -> Sequence[str]:
        """What Python runs for a node, before `up`."""
        return ("-m", "odradek")

    def spawn(self, node_id: int) -> None:
        between = {each: f"127.0.0.1:{port}" for each, port in self._between.items()}
        clients = f"127.0.0.1:{self.ports[node_id]}"
        settings = {
            **self._settings,
            "node.id": str(node_id),
            "listeners": f"PLAINTEXT://{clients},CLUSTER://{between[node_id]}",
            "controller.quorum.voters": ",".join(f"{id_}@{at}" for id_, at in between.items()),
        }
        command = [sys.executable, *self.program(node_id), "up", "--json", "--http", "none"]
        command += ["--port", str(self.ports[node_id])]
        command += ["--data-dir", str(self.data_dir(node_id))]
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        self._directory.mkdir(exist_ok=True)
        with self._log(node_id).open("ab") as log:
            self.processes[node_id] = subprocess.Popen(
                command, stdout=log, stderr=log, env=with_bytecode()
            )

    def data_dir(self, node_id: int) -> Path:
        return self._directory / f"data{node_id}"

    def await_ready(self, node_id: int) -> None:
        await_port(self.ports[node_id], self.processes[node_id], self._log(node_id))

    def _log(self, node_id: int) -> Path:
        return self._directory / f"node{node_id}.log"


class StartedTogether:
    """`odradek up -n 3`: the nodes are processes of one parent. Started when it is made."""

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        command = [sys.executable, "-m", "odradek", "up", "-n", "3", "--json", "--http", "none"]
        command += ["--port", "0", "--data-dir", str(directory)]
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        self._parent = subprocess.Popen(command, stdout=subprocess.PIPE, env=with_bytecode())

    def await_ready(self) -> dict[int, int]:
        """Wait for the ready line; return the ports for clients, by node id."""
        assert self._parent.stdout is not None
        line = self._parent.stdout.readline()
        if not line:
            raise RuntimeError("odradek up -n 3 did not start")
        nodes = json.loads(line)["nodes"]
        return {each["id"]: int(each["address"].rpartition(":")[2]) for each in nodes}

    def cpu_s(self) -> float:
        return used_cpu_s(self._parent.pid)

    def stop(self) -> None:
        """Stop all nodes."""
        self._parent.terminate()
        self._parent.wait(60)
        if self._parent.stdout is not None:
            self._parent.stdout.close()


class KafkaCluster(ClusterProcesses):
    """Apache Kafka, each node broker and controller; formatted when it is made."""

    name = "kafka"

    def __init__(
        self,
        directory: Path,
        class_path: str,
        count: int = 3,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        directory.mkdir(exist_ok=True)
        settings = {**REPLICATED, **OF_KAFKA, **(settings or {})}
        command = ("java", *KAFKA_OPTIONS)
        self._cluster = ApacheKafkaCluster(class_path, directory, count, command, settings)
        self._cluster.format()
        self.processes = self._cluster.processes
        self.ports = self._cluster.ports

    def spawn(self, node_id: int) -> None:
        self._cluster.spawn(node_id)

    def data_dir(self, node_id: int) -> Path:
        return self._cluster.data_dir(node_id)

    def await_ready(self, node_id: int) -> None:
        self._cluster.await_start(node_id)
