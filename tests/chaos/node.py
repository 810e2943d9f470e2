"""One broker of a chaos run: its process, on a data directory and a port that stay the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from interop.apache_kafka import free_ports

STOP_TIMEOUT_S = 60
TESTS = Path(__file__).resolve().parent.parent


def environment() -> dict[str, str]:
    """Return the environment of a process that imports what this one imports."""
    paths = [str(TESTS), *(path for path in sys.path if path)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


class Node:
    """A broker that can be started, killed, stopped and suspended. `port` is behind the proxy."""

    def __init__(self, directory: Path, advertised_port: int) -> None:
        (self.port,) = free_ports(1)
        self.starts = 0
        self._directory = directory
        self._advertised_port = advertised_port
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()

    @property
    def process(self) -> subprocess.Popen[str]:
        assert self._process is not None, "the broker was never started"
        return self._process

    def start(self, *, wait: bool = True) -> None:
        """Start it, and wait until it is ready."""
        arguments = [str(self._directory / "data"), str(self.port), str(self._advertised_port)]
        with (self._directory / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "chaos.broker_process", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment(),
            )
        self.starts += 1
        assert self._process.stdout is not None
        if wait and self._process.stdout.readline() != "ready\n":
            raise AssertionError(f"the broker did not start: see {self._directory}/broker.log")

    def kill(self) -> None:
        """End it with SIGKILL."""
        self.process.kill()
        self._forget()

    def stop(self) -> int:
        """Stop it cleanly with SIGTERM; return its exit code."""
        self.process.terminate()
        self.process.wait(STOP_TIMEOUT_S)
        return self._forget()

    def suspend(self) -> None:
        """Stop it in its tracks (SIGSTOP); connections stay open."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def disk(self, command: str) -> None:
        """Change what its disk does: see `broker_process`."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()

    def _forget(self) -> int:
        code = self.process.wait(STOP_TIMEOUT_S)
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()
        return code
