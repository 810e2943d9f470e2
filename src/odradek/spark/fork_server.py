"""The process that Spark's Python processes are forked from, in a local session.

A small streaming query has some twenty Python processes: one that plans each of its sources, and
for each kind of step (creating the data source, planning a read, tasks, writes, commits) a daemon
with workers. PySpark starts them one by one, and each imports PySpark, Arrow and the data source
for itself: about a second each, one after the other before the first micro-batch, and 60 MiB that
they do not share. The fork server imports them once, while the JVM starts, and forks.

    driver ── start ──────────────► fork server: preload ── fork ──► daemon, planner of a stream
    Spark ─► `launch`, as its Python ──── SOCKET ───┘

The server listens on a Unix socket in a directory of the user's own. `launch` sends what a process
is started with. `run_job` gives a forked child these and runs the module as `python -m` does. A
process that would differ from one that starts from nothing is refused (`refusal`), and `launch`
becomes a plain Python then: other packages are first on its path, or an environment variable would
change how Python starts.

A process must not be forked while it has other threads. None of the preloaded modules starts a
thread when it is imported, once numpy's linear algebra and the allocator that comes with Arrow are
told not to (`WITHOUT_THREADS`). Pandas is among them because `pa.array` imports it, which PySpark
calls at the end of each task that writes. Numpy's random numbers, which pandas imports, begin in
each process anew (`seed_random_numbers`).

The server ends with the driver. What it has forked belongs to Spark, whose daemons and planners end
with their pipes and sockets.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.machinery
import itertools
import os
import re
import runpy
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from odradek.spark.launch import LENGTH_BYTES, REFUSED, STREAMS

PRELOADED = (
    "pyspark.daemon",
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.streaming.datasource",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.data_source_pushdown_filters",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.worker.write_into_data_source",
    "pyarrow",
    "pyarrow.compute",
    "pyarrow.pandas_compat",
    "pandas",
    "encodings.idna",
    "concurrent.futures.thread",
    "odradek.client.blocking.consumer",
    "odradek.client.blocking.producer",
    "odradek.client.arrow.arrow_input",
    "odradek.client.arrow.record_batches",
    "odradek.spark.source",
    "odradek.spark.reader",
    "odradek.spark.stream_reader",
    "odradek.spark.writer",
    "odradek.spark.json.columns",
)

WITHOUT_THREADS = {
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
"""Environment variables that the libraries read when they are loaded."""

HASH_SEED = "PYTHONHASHSEED"
UNBUFFERED = {"PYTHONUNBUFFERED": "YES"}
"""An environment variable with which Spark starts Python."""

SPARK_CORE = re.compile(r"spark-core_[\d.]+-.+\.jar")
"""The name of the jar that Spark puts on the path of its Python processes. There is no Python in
it. Each would look into it once or twice, for 40 ms: Python reads the list of its 6,000 files."""

SAME_PACKAGES = ("pyspark", "odradek", "numpy", "pyarrow")


def preload() -> None:
    """Import what Spark's processes need, and freeze it, so that collections do not copy its
    pages."""
    for name in PRELOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def seed_random_numbers() -> None:
    """Seed numpy's global generator: forked processes would all have the same numbers."""
    # Not imported above: it reads `WITHOUT_THREADS`, and the driver uses it as it likes.
    import numpy

    numpy.random.seed()


@dataclass(frozen=True, slots=True)
class Job:
    """The start of one process, as `launch.message` describes it."""

    directory: str
    arguments: list[str]
    environment: dict[str, str]

    @classmethod
    def parse(cls, text: bytes) -> Job:
        """Parse the message of `launch`, without its length."""
        fields = [os.fsdecode(each) for each in text.split(b"\0")]
        count = int(fields[1])
        settings = (each.split("=", 1) for each in fields[2 + count :])
        environment = {each[0]: each[1] for each in settings}
        return cls(fields[0], fields[2 : 2 + count], environment)

    def path(self, own_environment: Mapping[str, str], own_path: list[str]) -> list[str]:
        """Return the module path of the process, by that of a server that `python -m` started with
        an environment."""
        own = search_path(own_environment, own_path[0])
        # What follows PYTHONPATH is Python's and site's.
        rest = itertools.dropwhile(own.__contains__, own_path)
        path = [*search_path(self.environment, self.directory), *rest]
        return [each for each in path if not SPARK_CORE.fullmatch(os.path.basename(each))]


def search_path(environment: Mapping[str, str], directory: str) -> list[str]:
    """Return the first part of the module path: the working directory and those of PYTHONPATH."""
    given = environment.get("PYTHONPATH")
    named = given.split(os.pathsep) if given else []
    return [directory, *(os.path.join(directory, each) for each in named)]


def refusal(job: Job, own_environment: Mapping[str, str], own_path: list[str]) -> str | None:
    """Return why a process cannot be forked; None if it can."""
    if job.arguments[:1] != ["-m"] or len(job.arguments) < 2:
        return "only modules are run"
    for name in sorted({*job.environment, *own_environment}):
        if not name.startswith("PYTHON") or name.startswith("PYTHON_") or name == "PYTHONPATH":
            continue  # Those with an underscore are Spark's.
        given = job.environment.get(name)
        any_will_do = name == HASH_SEED and given is None
        if given != own_environment.get(name) and not any_will_do:
            return f"{name} is {given}"
    path = job.path(own_environment, own_path)
    for package in SAME_PACKAGES:
        found = importlib.machinery.PathFinder.find_spec(package, path)
        if found is None or found.origin != sys.modules[package].__file__:
            return f"{package} would be another"
    return None


@dataclass(slots=True)
class LaunchConnection:
    """A connection to `launch`, and what came of it."""

    channel: socket.socket
    received: bytearray = field(default_factory=bytearray)
    streams: list[int] = field(default_factory=list)
    child: int | None = None

    def receive(self) -> bytes | None:
        """Read what has come; return the whole message, once. Raises `ConnectionError` at the end
        of the connection."""
        data, streams, _, _ = socket.recv_fds(self.channel, 65_536, len(STREAMS))
        self.streams += streams
        if not data:
            raise ConnectionError("the launcher has ended")
        self.received += data
        text = self.received[LENGTH_BYTES:]
        complete = len(self.received) >= LENGTH_BYTES and len(text) == int.from_bytes(
            self.received[:LENGTH_BYTES], "big"
        )
        return bytes(text) if complete else None

    def answer(self, code: int) -> None:
        with contextlib.suppress(OSError):  # The launcher may have been killed.
            self.channel.sendall(code.to_bytes(LENGTH_BYTES, "big", signed=True))

    def close(self) -> None:
        self.channel.close()
        for stream in self.streams:
            os.close(stream)
        self.streams.clear()


class ForkServer:
    """Forks the processes that launchers ask for, and tells them the exit codes."""

    def __init__(self, listener: socket.socket, driver: int) -> None:
        self.listener = listener
        self.driver = driver
        """A descriptor that can be read when the driver has ended."""
        self.connections: dict[int, LaunchConnection] = {}
        self.environment = dict(os.environ)
        self.path = list(sys.path)
        self.ended, self.wakeup = socket.socketpair()

    def serve(self) -> Job | None:
        """Serve until the driver ends, and return None; in each forked child, return its job."""
        for end in (self.ended, self.wakeup):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        before = signal.set_wakeup_fd(self.wakeup.fileno())
        with selectors.DefaultSelector() as selector:
            for readable in (self.listener, self.driver, self.ended):
                selector.register(readable, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj is self.listener:
                        self.accept(selector)
                    elif key.fileobj is self.ended:
                        self.ended.recv(4096)
                        self.reap(selector)
                    elif key.fileobj == self.driver:
                        return None
                    elif key.fd in self.connections:
                        job = self.handle(selector, self.connections[key.fd])
                        if job is not None:
                            signal.set_wakeup_fd(before)
                            return job

    def accept(self, selector: selectors.BaseSelector) -> None:
        channel, _ = self.listener.accept()
        self.connections[channel.fileno()] = LaunchConnection(channel)
        selector.register(channel, selectors.EVENT_READ)

    def handle(self, selector: selectors.BaseSelector, connection: LaunchConnection) -> Job | None:
        """Take what a launcher sent. Returns its job in the forked child."""
        try:
            text = connection.receive()
        except OSError:
            if connection.child is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(connection.child, signal.SIGTERM)
            self.forget(selector, connection)
            return None
        if text is None or connection.child is not None:
            return None
        job = Job.parse(text)
        reason = refusal(job, self.environment, self.path)
        if reason is not None:
            said = f"odradek: {' '.join(job.arguments)} starts from nothing: {reason}\n"
            os.write(connection.streams[-1], os.fsencode(said))
            connection.answer(REFUSED)
            self.forget(selector, connection)
            return None
        child = os.fork()
        if child == 0:
            for number, stream in zip(STREAMS, connection.streams, strict=True):
                os.dup2(stream, number)
            self.close()
            return job
        connection.child = child
        for stream in connection.streams:
            os.close(stream)
        connection.streams.clear()
        return None

    def reap(self, selector: selectors.BaseSelector) -> None:
        """Answer the launchers of the children that have ended."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                child, status = ended
                code = os.waitstatus_to_exitcode(status)
                for connection in list(self.connections.values()):
                    if connection.child == child:
                        connection.answer(code if code >= 0 else 128 - code)
                        self.forget(selector, connection)

    def forget(self, selector: selectors.BaseSelector, connection: LaunchConnection) -> None:
        selector.unregister(connection.channel)
        del self.connections[connection.channel.fileno()]
        connection.close()

    def close(self) -> None:
        """Close everything that belongs to the server."""
        for connection in self.connections.values():
            connection.close()
        for each in (self.listener, self.ended, self.wakeup):
            each.close()


ARGUMENTS_START, ARGUMENTS_END = 45, 46
"""Fields of /proc/PID/stat behind the name, see proc(5)."""


def show_command(arguments: list[str]) -> None:
    """Show the arguments as this process's command line, where that is possible: by it tools and
    people know Spark's processes."""
    if sys.platform != "linux":
        return
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[ARGUMENTS_START]), int(fields[ARGUMENTS_END])
    text = b"\0".join([b"python", *map(os.fsencode, arguments)])[: end - start - 1]
    # Some containers do not allow it, and the process does its work without.
    with contextlib.suppress(OSError), open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(start)
        memory.write(text.ljust(end - start, b"\0"))


def run_job(job: Job, own_environment: Mapping[str, str], own_path: list[str]) -> None:
    """Run a module as `python -m` would, in a forked child."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    show_command(job.arguments)
    sys.path[:] = job.path(own_environment, own_path)
    importlib.invalidate_caches()
    os.chdir(job.directory)
    os.environ.clear()
    os.environ.update({**WITHOUT_THREADS, **job.environment})
    _, module, *sys.argv[1:] = job.arguments
    # Else Python warns that it is run a second time.
    sys.modules.pop(module, None)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def main() -> None:
    """Serve: `python -m odradek.spark.fork_server DIRECTORY LISTENER`; standard input ends with the
    driver."""
    directory, listener = sys.argv[1], int(sys.argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    preload()
    # This also holds for processes that a forked daemon forks.
    os.register_at_fork(after_in_child=seed_random_numbers)
    server = ForkServer(socket.socket(fileno=listener), sys.stdin.fileno())
    job = server.serve()
    if job is None:
        shutil.rmtree(directory, ignore_errors=True)
    else:
        run_job(job, server.environment, server.path)


SOCKET = "socket"
PYTHON = "python"


@dataclass(frozen=True, slots=True)
class Started:
    """A fork server of this process."""

    pid: int
    server: subprocess.Popen[bytes]
    python: Path

    def close(self) -> int:
        """End the server, as the end of the driver does, and return its exit code."""
        self.server.communicate()
        return self.server.returncode


_started: Started | None = None


def python_of_server() -> Path:
    """Return the program for Spark to start as its Python. Starts this process's fork server, if
    none runs."""
    global _started
    if _started is None or _started.pid != os.getpid() or _started.server.poll() is not None:
        _started = start()
    return _started.python


def start() -> Started:
    """Start a fork server, which is still importing when this returns: launchers wait for it."""
    directory = Path(tempfile.mkdtemp(prefix="odradek-fork-"))
    python = directory / PYTHON
    with resources.as_file(resources.files("odradek.spark") / "launch.py") as launch:
        command = shlex.join([sys.executable, "-IS", str(launch), str(directory / SOCKET)])
    python.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    python.chmod(0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(directory / SOCKET))
        listener.listen(128)
        server = subprocess.Popen(
            [sys.executable, "-m", __name__, str(directory), str(listener.fileno())],
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
            process_group=0,  # Ctrl-C is not for it.
            env={**WITHOUT_THREADS, HASH_SEED: "0", **os.environ, **UNBUFFERED},
        )
    return Started(os.getpid(), server, python)


@contextlib.contextmanager
def spark_starts(python: Path | str, then: str) -> Iterator[None]:
    """Have a JVM and a session that are started meanwhile use this program as their Python;
    afterwards the environment names `then`, which is right for other programs too."""
    names = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
    os.environ.update(dict.fromkeys(names, str(python)))
    try:
        yield
    finally:
        os.environ.update(dict.fromkeys(names, then))


if __name__ == "__main__":
    main()
