"""`odradek up` as a subprocess."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

ODRADEK = (sys.executable, "-m", "odradek")
STOP_TIMEOUT_S = 120
"""Time for a broker with many partitions to stop on a busy machine."""


class Up:
    """`odradek up` as a context manager; `ready` is its JSON line. It is killed on exit."""

    def __init__(self, *arguments: str, command: tuple[str, ...] = ODRADEK) -> None:
        self.command = (*command, "up", "--json", *arguments)

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            self.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"it did not start: {self.process.communicate()[1]}")
        self.ready = json.loads(line)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    @property
    def bootstrap(self) -> str:
        return str(self.ready["bootstrap"])

    def stop(self, number: int = signal.SIGINT) -> int:
        """Send the signal, wait, and return the exit code."""
        os.kill(self.process.pid, number)
        return self.process.wait(STOP_TIMEOUT_S)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [*ODRADEK, *arguments], capture_output=True, text=True, timeout=300, check=False
    )


def data_dir(tmp_path: Path) -> str:
    return str(tmp_path / "data")
