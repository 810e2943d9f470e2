"""A real Apache Kafka of several nodes, each broker and controller, on loopback."""

from __future__ import annotations

import base64
import signal
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from interop.apache_kafka import NODE_OPTIONS, await_port, tool
from odradek.testing.ports import reserve_ports

SETTINGS = {
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.leader.rebalance.enable": "false",
}


class ApacheKafkaCluster:
    """The nodes 1 to `count`, started on entering and killed on leaving.

    The steps can also be called: `format`, `spawn`, `await_start`, `kill`. `command` is that of the
    virtual machine, `settings` are those of every node.
    """

    def __init__(
        self,
        jars: str,
        directory: Path,
        count: int = 3,
        command: Sequence[str] = ("java", *NODE_OPTIONS),
        settings: Mapping[str, str] = SETTINGS,
    ) -> None:
        self.count = count
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self._jars = jars
        self._directory = directory
        self._command = command
        self._settings = settings
        self._ports = reserve_ports(2 * count)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    @property
    def ports(self) -> dict[int, int]:
        """The ports for clients, by node id."""
        return {i + 1: self._ports[2 * i] for i in range(self.count)}

    def data_dir(self, node_id: int) -> Path:
        return self._directory / f"data{node_id}"

    def __enter__(self) -> Self:
        self.format()
        for node_id in self.ports:
            self.spawn(node_id)
        for node_id in self.ports:
            self.await_start(node_id)
        return self

    def format(self) -> None:
        """Create the data directories."""
        cluster_id, *directories = [url_id() for _ in range(self.count + 1)]
        voters = ",".join(
            f"{i + 1}@{self._controller(i)}:{directory}" for i, directory in enumerate(directories)
        )
        for i in range(self.count):
            self.properties_file(i + 1).write_text(self._properties(i))
            arguments = ("format", "-t", cluster_id, "-c", str(self.properties_file(i + 1)))
            tool(self._jars, "kafka.tools.StorageTool", *arguments, "--initial-controllers", voters)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for node_id in list(self.processes):
            self.kill(node_id)

    def kill(self, node_id: int) -> None:
        """End a node with SIGKILL."""
        process = self.processes.pop(node_id)
        process.kill()
        process.wait()

    def pause(self, node_id: int) -> None:
        """Let a node do nothing, with its connections open, until `resume`."""
        self.processes[node_id].send_signal(signal.SIGSTOP)

    def resume(self, node_id: int) -> None:
        """Let a paused node go on."""
        self.processes[node_id].send_signal(signal.SIGCONT)

    def spawn(self, node_id: int) -> None:
        """Start the process of a node without waiting; also again on what it left."""
        with self._log(node_id).open("ab") as log:
            self.processes[node_id] = subprocess.Popen(
                [*self._command, "-cp", self._jars, "kafka.Kafka", self.properties_file(node_id)],
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def await_start(self, node_id: int) -> None:
        """Wait until it accepts connections. Raises `KafkaMissing` with the end of its output."""
        await_port(self.ports[node_id], self.processes[node_id], self._log(node_id))

    def _log(self, node_id: int) -> Path:
        return self._directory / f"node{node_id}.log"

    def _controller(self, i: int) -> str:
        return f"127.0.0.1:{self._ports[2 * i + 1]}"

    def properties_file(self, node_id: int) -> Path:
        """The configuration of a node."""
        return self._directory / f"node{node_id}.properties"

    def _properties(self, i: int) -> str:
        plaintext = f"PLAINTEXT://127.0.0.1:{self._ports[2 * i]}"
        listeners = f"{plaintext},CONTROLLER://{self._controller(i)}"
        return "\n".join(
            [
                "process.roles=broker,controller",
                f"node.id={i + 1}",
                f"listeners={listeners}",
                f"advertised.listeners={listeners}",
                "controller.listener.names=CONTROLLER",
                "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
                "controller.quorum.bootstrap.servers="
                + ",".join(self._controller(each) for each in range(self.count)),
                f"log.dirs={self.data_dir(i + 1)}",
                *(f"{name}={value}" for name, value in self._settings.items()),
            ]
        )


def url_id() -> str:
    """Return a random id as Kafka writes it; not one that begins with a dash, as one in 64 does."""
    return "k" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:].rstrip("=")
