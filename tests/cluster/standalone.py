"""A standalone Spark cluster of real processes on this machine: a master and workers.

Started from the installed PySpark, as `sbin/start-all.sh` of a Spark distribution starts them, on
free ports of the loopback interface. Each application gets an executor of its own, a JVM, on both
workers, which remove the directory of an application soon after its end. Nothing of the environment
of the tests reaches a worker but `PATH`, `HOME`, the place of Java and that of temporary files.

`SPARK_HOME` is the home that local sessions have, for the archive of classes fits its class path
only. It lacks the Python of the distribution, which executors get by `PYTHONPATH` instead: links to
the installed packages. Out of the distribution's zips each worker would compile what it imports.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import py4j
import pyspark

from odradek.spark.home import spark_home
from odradek.spark.java import java_home

HOST = "127.0.0.1"
DISTRIBUTION = Path(pyspark.__file__).parent
PY4J = Path(str(py4j.__file__)).parent
SPARK_HOME = spark_home()
READY_SECONDS = 300
STOP_SECONDS = 20
KEPT = ("PATH", "HOME", "TMPDIR", "SPARK_LOCAL_DIRS", "JDK_JAVA_OPTIONS")
DAEMON_OPTIONS = "-Dspark.master.rest.enabled=false"
WORKER_OPTIONS = " ".join(
    f"-Dspark.worker.cleanup.{name}"
    for name in ("enabled=true", "interval=5", "appDataTtl=10")  # Seconds.
)

EXECUTORS = {
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.ui.enabled": "false",
    # The tests' traffic stays on this machine; a driver on a network needs neither.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""One executor of one core on each worker."""


class DaemonFailed(RuntimeError):
    """A process of the cluster ended, or did not say that it is ready; the text is its log."""


@dataclass
class Daemon:
    """A process of Spark's whose log says when it is ready."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def await_line(self, pattern: str) -> re.Match[str]:
        """The first match of `pattern` in its log. Raises `DaemonFailed`."""
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            found = re.search(pattern, self.log.read_text(errors="replace"))
            if found:
                return found
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise DaemonFailed(f"{self.name} is not ready:\n{self.log.read_text(errors='replace')}")

    def stop(self) -> None:
        """Ask it to end, with the executors that it started; kill what does not."""
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass
class Cluster:
    """The address of the master, and the processes."""

    directory: Path
    url: str = ""
    daemons: list[Daemon] = field(default_factory=list)

    def python_path(self) -> Path:
        """Return a directory with PySpark and Py4J alone, for executors that have neither."""
        directory = self.directory / "python"
        if not directory.exists():
            directory.mkdir()
            for package in (DISTRIBUTION, PY4J):
                (directory / package.name).symlink_to(package)
        return directory

    def start(self, name: str, *command: str, **environment: str) -> Daemon:
        """Run a class of Spark's with nothing of this process's Python in its environment."""
        log = self.directory / f"{name}.log"
        kept = {key: os.environ[key] for key in KEPT if key in os.environ}
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["bash", str(SPARK_HOME / "bin" / "spark-class"), *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                start_new_session=True,
                env={
                    **kept,
                    "JAVA_HOME": str(java_home()),
                    "SPARK_HOME": str(SPARK_HOME),
                    "PYTHONPATH": str(self.python_path()),
                    "SPARK_LOCAL_IP": "127.0.0.1",
                    "SPARK_DAEMON_MEMORY": "256m",
                    "SPARK_DAEMON_JAVA_OPTS": DAEMON_OPTIONS,
                    "SPARK_WORKER_OPTS": WORKER_OPTIONS,
                    **environment,
                },
            )
        daemon = Daemon(name, process, log)
        self.daemons.append(daemon)
        return daemon

    def start_connect_server(
        self, master: str, settings: Mapping[str, str], **environment: str
    ) -> tuple[Daemon, str]:
        """Start a server of Spark Connect on a free port; return it and its `host:port`."""
        bound = {
            "spark.connect.grpc.binding.address": HOST,
            "spark.connect.grpc.binding.port": "0",
            **settings,
        }
        server = self.start(
            "connect",
            "org.apache.spark.deploy.SparkSubmit",
            *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
            *("--master", master),
            *(word for name, value in bound.items() for word in ("--conf", f"{name}={value}")),
            "spark-internal",
            SPARK_DAEMON_MEMORY="640m",
            **environment,
        )
        return server, server.await_line(r"Spark Connect server started at: (\S+)")[1]

    def start_worker(self, number: int, host: str = HOST, cores: int = 2) -> Daemon:
        """Start a worker, or one that takes the place of one that is gone."""
        return self.start(
            f"worker-{number}",
            "org.apache.spark.deploy.worker.Worker",
            *anywhere(host),
            *("--cores", str(cores), "--memory", f"{cores}g"),
            *("--work-dir", str(self.directory / f"work-{number}")),
            self.url,
            SPARK_LOCAL_IP=host,
        )


def anywhere(host: str) -> tuple[str, ...]:
    """The options for free ports of a loopback address."""
    return ("--host", host, "--port", "0", "--webui-port", "0")


@contextlib.contextmanager
def standalone(
    directory: Path, hosts: Sequence[str] = (HOST, HOST), cores: int = 2
) -> Iterator[Cluster]:
    """A running cluster with a worker on each of some loopback addresses; all its processes are
    gone afterwards. Spark takes two addresses for two hosts: it runs no speculative attempt on the
    host of the first one."""
    cluster = Cluster(directory)
    try:
        master = cluster.start("master", "org.apache.spark.deploy.master.Master", *anywhere(HOST))
        cluster.url = master.await_line(r"Starting Spark master at (spark://\S+)")[1]
        started = [cluster.start_worker(n, host, cores) for n, host in enumerate(hosts)]
        for worker in started:
            worker.await_line("Successfully registered with master")
        yield cluster
    finally:
        for daemon in reversed(cluster.daemons):
            daemon.stop()
