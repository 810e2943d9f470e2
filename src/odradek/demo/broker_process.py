"""A broker as a process of its own, as a user would start it: `python -m odradek up`.

Its ready line has its address. It runs in a session of its own, so that a Ctrl-C at the terminal
reaches only this program, which then stops the broker. Its stderr goes to a file.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import IO, Self

READY_TIMEOUT_SECONDS = 30
STOP_TIMEOUT_SECONDS = 20


class BrokerFailed(RuntimeError):
    """The broker did not start or stop; the message has its output."""


class BrokerProcess:
    """A broker that starts on entering and stops on leaving. `bootstrap` is its address."""

    def __init__(self, data_dir: Path, log_file: Path) -> None:
        self.data_dir = data_dir
        self.log_file = log_file
        self.bootstrap = ""
        self.version = ""
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "odradek", "up", "--port", "0", "--json"]
        with self.log_file.open("w") as log:
            self.process = subprocess.Popen(
                [*command, "--data-dir", str(self.data_dir)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        try:
            assert self.process.stdout is not None
            ready = json.loads(self.ready_line(self.process.stdout))
            self.bootstrap, self.version = ready["bootstrap"], ready["version"]
        except BaseException:
            self.stop()
            raise
        return self

    def ready_line(self, output: IO[str]) -> str:
        ready, _, _ = select.select([output], [], [], READY_TIMEOUT_SECONDS)
        line = output.readline() if ready else ""
        if not line.startswith("{"):
            printed = (line + self.log_file.read_text()).strip() or "nothing"
            raise BrokerFailed(f"the broker did not start; it said: {printed[-2000:]}")
        return line

    def stop(self) -> int | None:
        """Stop the broker and wait; return its exit code."""
        process, self.process = self.process, None
        if process is None:
            return None
        process.terminate()
        try:
            return process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise BrokerFailed("the broker did not stop when asked; it was killed") from None
        finally:
            if process.stdout is not None:
                process.stdout.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        code = self.stop()
        if kind is None and code not in (None, 0):
            output = self.log_file.read_text().strip()[-2000:]
            raise BrokerFailed(f"the broker ended with exit code {code}; it said: {output}")
