"""The brokers that are compared, each a process on loopback, and what a process has used.

Both run on one core, named by `BROKER_CORE`; whoever drives them pins itself to another with
`pin_client`. Apache Kafka gets the heap and collector of its own start script, its log directory
lies beside Odradek's, and its class path comes out of Maven (`tests/interop`) or, where that has
been done before, out of `KAFKA_CLASSPATH`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, TypeVar

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from interop.apache_kafka import ApacheKafka, KafkaMissing, class_path  # noqa: E402

__all__ = [
    "ON_ITS_CORE",
    "ROOT",
    "KafkaMissing",
    "Node",
    "Odradek",
    "PeerKafka",
    "class_path",
    "cpu_s",
    "jars",
    "pin_client",
    "pss_mib",
]

BROKER_CORE, CLIENT_CORE = 0, 1
ON_ITS_CORE = ("taskset", "-c", str(BROKER_CORE))
KAFKA_OPTIONS = (
    "-Xms1G",
    "-Xmx1G",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
CPU_CLOCK = 2


class Node(Protocol):
    """A broker: `spawn`, `await_ready`, then it has a port."""

    name: str
    port: int

    def spawn(self) -> None:
        """Start the process, without waiting for anything."""
        ...

    def await_ready(self) -> None: ...

    @property
    def pid(self) -> int: ...

    def kill(self) -> None:
        """At once, as `kill -9` does."""
        ...


N = TypeVar("N", bound=Node)


def started(node: N) -> N:
    """Start it and wait until it takes connections."""
    node.spawn()
    node.await_ready()
    return node


class Odradek:
    """`odradek up` in `directory`; not started yet."""

    name = "odradek"

    def __init__(
        self, directory: Path, settings: Mapping[str, str], python: str = sys.executable
    ) -> None:
        self.directory = directory
        self.settings = settings
        self.python = python
        self.port = 0

    def prefix(self) -> list[str]:
        """The command in front of Python's."""
        return [*ON_ITS_CORE]

    def spawn(self) -> None:
        """Start the process; also again, after `kill`, on what it left."""
        command = [*self.prefix(), self.python, "-m", "odradek", "up", "--port", "0", "--json"]
        command += ["--data-dir", str(self.directory)]
        for name, value in self.settings.items():
            command += ["--set", f"{name}={value}"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)

    def await_ready(self) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("odradek did not start")
        self.port = int(json.loads(line)["bootstrap"].rpartition(":")[2])

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


class PeerKafka:
    """Apache Kafka, one node in `directory`; formatted, not started yet."""

    name = "kafka"

    def __init__(
        self, directory: Path, class_path: str, settings: Mapping[str, str] | None = None
    ) -> None:
        directory.mkdir()
        command = (*ON_ITS_CORE, "java", *KAFKA_OPTIONS)
        self._node = ApacheKafka(class_path, directory, command, settings or {})
        self._node.format()
        self.port = self._node.port

    def spawn(self) -> None:
        self._node.spawn()

    def await_ready(self) -> None:
        self._node.await_start()

    @property
    def pid(self) -> int:
        return self._node.pid

    def kill(self) -> None:
        self._node.kill()


def jars() -> str:
    """Kafka's class path. Raises `KafkaMissing`."""
    given = os.environ.get("KAFKA_CLASSPATH")
    if given:
        return given
    cache = ROOT / ".setup"
    cache.mkdir(exist_ok=True)
    return class_path(cache)


def pin_client() -> None:
    """Keep this process off the broker's core."""
    os.sched_setaffinity(0, {CLIENT_CORE})


def cpu_s(pid: int) -> float:
    """User and system time of a process so far, all its threads.

    Of the process's own clock (`clock_getcpuclockid`); `/proc/PID/stat` has steps of 10 ms.
    """
    return time.clock_gettime(~pid << 3 | CPU_CLOCK)


def pss_mib(pid: int) -> float:
    """The process's share of the memory in use."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no Pss in smaps_rollup")
