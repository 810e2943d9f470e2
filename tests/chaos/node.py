"""One broker of a chaos run: its process, on a data directory and settings that stay the same."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

STOP_TIMEOUT_S = 60
TESTS = Path(__file__).resolve().parent.parent


def environment() -> dict[str, str]:
    """Return the environment of a process that imports what this one imports."""
    paths = [str(TESTS), *(path for path in sys.path if path)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


class Node:
    """A broker that can be started, killed, stopped and suspended; killed at the end."""

    def __init__(self, directory: Path, name: str, settings: dict[str, str]) -> None:
        """Its data directory is `name` in `directory`, beside what it logs."""
        self.data = directory / name
        self.log = directory / f"{name}.log"
        self.settings = settings
        self.starts = 0
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
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
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "chaos.broker_process"),
                    *(str(self.data), json.dumps(self.settings)),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment(),
            )
        self.starts += 1
        if wait:
            self.await_ready()

    def await_ready(self) -> None:
        """Wait until it is ready after `start(wait=False)`."""
        assert self.process.stdout is not None
        if self.process.stdout.readline() != "ready\n":
            raise AssertionError(f"the broker did not start: see {self.log}")

    def kill(self) -> None:
        """End it with SIGKILL."""
        self.process.kill()
        self._forget()

    def wipe(self) -> None:
        """Remove the data directory of a node that was killed."""
        shutil.rmtree(self.data)

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
