"""Three brokers as processes of `odradek up`, which form a cluster by their settings."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka.admin import AdminClient, NewTopic

from cli.processes import ODRADEK
from odradek.testing.ports import reserve_ports

CLUSTER_ID = "Lbb1xuqcTUyKnq1VgYwvBQ"
PATIENCE_S = 60
METADATA = "__cluster_metadata-0"


class ClusterProcesses:
    """The nodes 1, 2, 3; all are killed at the end."""

    def __init__(self, directory: Path, **settings: str) -> None:
        """`settings`: of all nodes, with underscores for dots."""
        self._directory = directory
        self._settings = {name.replace("_", "."): value for name, value in settings.items()}
        self.numbers = (1, 2, 3)
        ports = reserve_ports(6)
        self.ports = dict(zip(self.numbers, ports[:3], strict=True))
        self._cluster_ports = dict(zip(self.numbers, ports[3:], strict=True))
        self.processes: dict[int, subprocess.Popen[str]] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def __enter__(self) -> Self:
        self.start(*self.numbers)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.communicate()

    def data(self, number: int) -> Path:
        return self._directory / f"node-{number}"

    def start(self, *numbers: int) -> None:
        """Start these nodes, and wait until each serves clients."""
        for number in numbers:
            self.processes[number] = self._popen(number)
        for number in numbers:
            process = self.processes[number]
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, f"node {number} did not start: {self.log_of(number)}"

    def _popen(self, number: int) -> subprocess.Popen[str]:
        voters = ",".join(f"{n}@127.0.0.1:{port}" for n, port in self._cluster_ports.items())
        settings = {
            "node.id": str(number),
            "cluster.id": CLUSTER_ID,
            "controller.quorum.voters": voters,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.ports[number]},"
            f"CLUSTER://127.0.0.1:{self._cluster_ports[number]}",
            **self._settings,
        }
        given = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        command = [*ODRADEK, "up", "--json", "--data-dir", str(self.data(number)), *given]
        with (self._directory / f"node-{number}.log").open("a") as log:
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)

    def log_of(self, number: int) -> str:
        """What a node has logged."""
        return (self._directory / f"node-{number}.log").read_text()

    def kill(self, number: int) -> None:
        """Kill a node, as kill -9 does."""
        self.processes[number].kill()
        self.processes[number].communicate()

    def stop(self, number: int) -> int:
        """Stop a node cleanly; return its exit code."""
        process = self.processes[number]
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_S)
        return process.returncode

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def create(self, name: str, partitions: int = 1, **config: str) -> None:
        """Create a topic with a replica on each node."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        admin = self.admin()
        created = admin.create_topics([NewTopic(name, partitions, 3, config=settings)])
        created[name].result(PATIENCE_S)

    def partition(self, topic: str, number: int = 0) -> tuple[int, list[int]]:
        """The leader of a partition, -1 if it has none, and its in-sync replicas in order."""
        metadata = self.admin().list_topics(topic, timeout=PATIENCE_S)
        found = metadata.topics[topic].partitions[number]
        return found.leader, sorted(found.isrs)

    def moved_from(self, number: int, topic: str) -> bool:
        """True if another node leads the partition, and this one is not in sync with it."""
        leader, in_sync = self.partition(topic)
        return leader not in (number, -1) and number not in in_sync

    def logs(self, number: int) -> dict[str, bytes]:
        """The bytes of each log of a node, by the name of its directory."""
        found: dict[str, bytes] = {}
        for path in sorted(self.data(number).glob("*/*.log")):
            name = path.parent.name
            if name != METADATA:
                found[name] = found.get(name, b"") + path.read_bytes()
        return found

    def await_equal_logs(self, numbers: tuple[int, ...] = (1, 2, 3)) -> dict[str, bytes]:
        """Wait until the logs of these nodes are equal, byte by byte; return them."""
        until(lambda: len({tuple(self.logs(number).items()) for number in numbers}) == 1)
        return self.logs(numbers[0])


def until(condition: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Wait until a condition holds."""
    for _ in attempts(patience_s):
        if condition():
            return
    raise AssertionError(f"not within {patience_s} s")


def attempts(patience_s: float) -> Iterator[None]:
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        yield
        time.sleep(0.05)
