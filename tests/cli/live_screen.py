"""A command with a live screen on a terminal, and what the terminal shows."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from cli.processes import ODRADEK

PATIENCE_S = 60
HOME = "\x1b[H"
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class LiveScreen:
    """Runs a command on a terminal of its own, in a session of its own."""

    def __init__(self, bootstrap: str, *arguments: str, columns: int = 80, lines: int = 24) -> None:
        self.terminal, theirs = pty.openpty()
        self.resize(columns, lines)
        self.modes_before = termios.tcgetattr(theirs)
        environment = {**os.environ, "TERM": "xterm", "ODRADEK_BROKERS": bootstrap}
        environment.pop("COLUMNS", None)
        environment.pop("LINES", None)
        self.theirs = theirs
        self.process = subprocess.Popen(
            [*ODRADEK, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        self.output = ""

    def __enter__(self) -> Self:
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
        os.close(self.terminal)
        os.close(self.theirs)

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        if hasattr(self, "process"):
            # The command has no controlling terminal that would send it.
            self.process.send_signal(signal.SIGWINCH)

    def type(self, keys: str) -> None:
        os.write(self.terminal, keys.encode())

    def read(self, timeout_s: float = 0.2) -> None:
        """Read what has been written."""
        ready, _, _ = select.select([self.terminal], [], [], timeout_s)
        if ready:
            self.output += os.read(self.terminal, 65536).decode(errors="replace")

    def shown(self) -> list[str]:
        """Return the lines of the last whole screen, without escape sequences."""
        screens = self.output.split(HOME)[2:-1]  # Before the first one it opens the screen.
        text = screens[-1] if screens else "\n" * 24
        return [line.rstrip() for line in ESCAPES.sub("", text).splitlines()]

    def until(self, holds: Callable[[list[str]], bool]) -> list[str]:
        """Read until the screen is as wanted; return its lines."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds(self.shown()):
            assert time.monotonic() < deadline, "\n".join(self.shown())
            assert self.process.poll() is None, self.end()
            self.read()
        return self.shown()

    def end(self) -> tuple[int, str]:
        """Wait for the end; return the exit code and what was written to stderr."""
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None and time.monotonic() < deadline:
            self.read()
        self.read()
        assert self.process.stderr is not None
        return self.process.wait(1), self.process.stderr.read().decode()

    def is_restored(self) -> bool:
        """True if the terminal is in the mode it had before, on its normal screen."""
        same = termios.tcgetattr(self.theirs) == self.modes_before
        return same and self.output.rfind("\x1b[?1049l") > self.output.rfind("\x1b[?1049h")
