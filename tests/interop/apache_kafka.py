"""The real Apache Kafka: its class path from Maven, one KRaft node, and its command line tools.

The node is a combined broker and controller on loopback ports of its own, in a directory of its
own, with a small heap. It is started once for a test session and ended by its process id.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from odradek.testing.ports import reserve_ports

POM = Path(__file__).with_name("pom.xml")
STREAMS_POM = POM.with_name("streams-pom.xml")
MIRROR_POM = POM.with_name("mirror-pom.xml")
START_TIMEOUT_S = 300
TOOL_TIMEOUT_S = 300
LOG_LEVEL = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
TEMPORARY = f"-Djava.io.tmpdir={tempfile.gettempdir()}"
"""Libraries unpack native code there; a process that is killed leaves it."""
# Tools run for a second or two: the first compiler tier and the simplest collector start fastest.
TOOL_OPTIONS = (
    "-Xmx256m",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xshare:auto",
    LOG_LEVEL,
    TEMPORARY,
)
GROUP_SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.max.size": "6",
}
"""Settings of groups with short delays and low limits, so that scripts need not wait."""
NODE_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", LOG_LEVEL, TEMPORARY)


class KafkaMissing(Exception):
    """Java, Maven or the jars are missing; the message says what to do."""


def class_path(cache: Path, pom: Path = POM) -> str:
    """Return the jars of a `pom.xml`, from Maven or `cache`. Raises `KafkaMissing`."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise KafkaMissing(
                f"{program} is not on the PATH: the interop tests need Java 17+ and Maven"
            )
    digest = hashlib.sha256(pom.read_bytes()).hexdigest()[:16]
    remembered = cache / f"class-path-{digest}.txt"
    # Maven's repository is not made for two processes that fill it.
    with (Path(tempfile.gettempdir()) / "odradek-maven.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if remembered.exists():
            jars = remembered.read_text()
            if all(Path(jar).exists() for jar in jars.split(":")):
                return jars
        return resolved(pom, remembered)


def resolved(pom: Path, remembered: Path) -> str:
    """Have Maven get the jars, and return them. Raises `KafkaMissing`."""
    done = subprocess.run(
        [
            *("mvn", "-q", "-B", "-f", pom, "dependency:build-classpath"),
            f"-Dmdep.outputFile={remembered.absolute()}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise KafkaMissing(f"Maven could not get the jars of {pom.name}:\n{done.stdout[-2000:]}")
    return remembered.read_text()


class ApacheKafka:
    """One node, started on entering and ended on leaving. Its output is `server.log` in
    `directory`.

    The steps can also be called: `format`, `spawn`, `await_start`, `kill`. `command` is that of the
    virtual machine.
    """

    def __init__(
        self,
        jars: str,
        directory: Path,
        command: Sequence[str] = ("java", *NODE_OPTIONS),
        settings: Mapping[str, str] = GROUP_SETTINGS,
    ) -> None:
        self.settings = settings
        self.jars = jars
        self.directory = directory
        self.command = command
        self.port, self.controller_port = reserve_ports(2)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def data_dir(self) -> Path:
        return self.directory / "data"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Self:
        self.format()
        self.spawn()
        self.await_start()
        return self

    def format(self) -> None:
        """Create the data directory."""
        properties = self._properties_file
        properties.write_text(self._properties())
        # One in 64 begins with a dash and would be parsed as an option.
        cluster_id = "k" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:].rstrip("=")
        tool(
            self.jars,
            "kafka.tools.StorageTool",
            *("format", "--standalone", "-t", cluster_id, "-c", str(properties)),
        )

    def spawn(self) -> None:
        """Start the process without waiting."""
        with (self.directory / "server.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*self.command, "-cp", self.jars, "kafka.Kafka", self._properties_file],
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()

    def kill(self) -> None:
        """Kill the process; the data is not needed any more."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @property
    def _properties_file(self) -> Path:
        return self.directory / "server.properties"

    def _properties(self) -> str:
        controller = f"127.0.0.1:{self.controller_port}"
        return "\n".join(
            [
                "process.roles=broker,controller",
                "node.id=1",
                f"listeners=PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://{controller}",
                f"advertised.listeners=PLAINTEXT://127.0.0.1:{self.port}",
                "controller.listener.names=CONTROLLER",
                "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
                f"controller.quorum.bootstrap.servers={controller}",
                f"log.dirs={self.data_dir}",
                "offsets.topic.replication.factor=1",
                "offsets.topic.num.partitions=1",
                *(f"{name}={value}" for name, value in self.settings.items()),
                "transaction.state.log.replication.factor=1",
                "transaction.state.log.min.isr=1",
                "share.coordinator.state.topic.replication.factor=1",
                "share.coordinator.state.topic.min.isr=1",
                "log.initial.task.delay.ms=600000",
            ]
        )

    def await_start(self) -> None:
        """Wait until it accepts connections. Raises `KafkaMissing` with the end of its output."""
        assert self._process is not None
        await_port(self.port, self._process, self.directory / "server.log")


def await_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a node accepts connections. Raises `KafkaMissing` with the end of its output."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise KafkaMissing(f"Apache Kafka did not start:\n{log.read_text()[-3000:]}")


def tool(jars: str, main: str, *arguments: str, stdin: str = "", check: bool = True) -> str:
    """Run a command line tool of Kafka to its end; return its stdout.

    Raises `AssertionError` with all of its output if it failed and `check` is set.
    """
    done = subprocess.run(
        ["java", *TOOL_OPTIONS, "-cp", jars, main, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TOOL_TIMEOUT_S,
        check=False,
    )
    if check and done.returncode != 0:
        raise AssertionError(
            f"{main} {arguments} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        )
    return done.stdout
