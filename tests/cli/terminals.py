"""Runs a command on a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess

from cli.processes import ODRADEK

TIMEOUT_S = 120
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def on_terminal(
    bootstrap: str, *arguments: str, typed: bytes = b"", columns: int = 80, **environment: str
) -> tuple[int, str]:
    """Run a command on a terminal; return its exit code and its output."""
    ours, theirs = pty.openpty()
    known = {"TERM": "xterm", "COLUMNS": str(columns), "ODRADEK_BROKERS": bootstrap}
    with subprocess.Popen(
        [*ODRADEK, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, **known, **environment},
        start_new_session=True,
    ) as process:
        os.close(theirs)
        os.write(ours, typed)
        shown = b"".join(iter(lambda: read(ours), b""))
        code = process.wait(TIMEOUT_S)
    os.close(ours)
    return code, shown.decode().replace("\r\n", "\n")


def read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # What Linux says when nobody has it open any more.
        return b""
