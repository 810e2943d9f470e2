"""A real Apache Kafka of several nodes, each broker and controller, on loopback."""

from __future__ import annotations

import base64
import subprocess
import uuid
from pathlib import Path
from types import TracebackType
from typing import Self

from interop.apache_kafka import NODE_OPTIONS, await_port, free_ports, tool


class ApacheKafkaCluster:
    """The nodes 1 to `count`, started on entering and killed on leaving."""

    def __init__(self, jars: str, directory: Path, count: int = 3) -> None:
        self.count = count
        self._jars = jars
        self._directory = directory
        self._ports = free_ports(2 * count)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self._ports[2 * i]}" for i in range(self.count))

    def __enter__(self) -> Self:
        cluster_id, *directories = [url_id() for _ in range(self.count + 1)]
        voters = ",".join(
            f"{i + 1}@{self._controller(i)}:{directory}" for i, directory in enumerate(directories)
        )
        for i in range(self.count):
            self._properties_file(i).write_text(self._properties(i))
            arguments = ("format", "-t", cluster_id, "-c", str(self._properties_file(i)))
            tool(self._jars, "kafka.tools.StorageTool", *arguments, "--initial-controllers", voters)
        for i in range(self.count):
            self._start(i)
        for i in range(self.count):
            await_port(
                self._ports[2 * i], self._processes[i + 1], self._directory / f"node{i + 1}.log"
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for node_id in list(self._processes):
            self.kill(node_id)

    def kill(self, node_id: int) -> None:
        """End a node with SIGKILL."""
        process = self._processes.pop(node_id)
        process.kill()
        process.wait()

    def _start(self, i: int) -> None:
        with (self._directory / f"node{i + 1}.log").open("wb") as log:
            self._processes[i + 1] = subprocess.Popen(
                ["java", *NODE_OPTIONS, "-cp", self._jars, "kafka.Kafka", self._properties_file(i)],
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _controller(self, i: int) -> str:
        return f"127.0.0.1:{self._ports[2 * i + 1]}"

    def _properties_file(self, i: int) -> Path:
        return self._directory / f"node{i + 1}.properties"

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
                f"log.dirs={self._directory / f'data{i + 1}'}",
                "offsets.topic.replication.factor=1",
                "offsets.topic.num.partitions=3",
                "group.initial.rebalance.delay.ms=0",
            ]
        )


def url_id() -> str:
    """Return a random id as Kafka writes it; not one that begins with a dash, as one in 64 does."""
    return "k" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:].rstrip("=")
