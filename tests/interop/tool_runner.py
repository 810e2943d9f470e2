"""Kafka's command line tools in one Java virtual machine, which starts once for all."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from interop.apache_kafka import TOOL_OPTIONS

SOURCE = Path(__file__).with_name("ToolRunner.java")


class ToolRun(NamedTuple):
    """The exit code and the output of one run."""

    code: int
    out: str
    err: str


class ToolRunner:
    """The virtual machine, started on entering and ended on leaving."""

    def __init__(self, jars: str) -> None:
        self._command = ["java", *TOOL_OPTIONS, "-cp", jars, str(SOURCE)]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def run(self, tool: str, *arguments: str, stdin: str = "") -> ToolRun:
        """Run a tool, by its main class or the path of its source, to its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = "\t".join((base64.b64encode(stdin.encode()).decode(), tool, *arguments))
        assert "\n" not in line, "an argument has a line break"
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()
        head = self._process.stdout.readline().split()
        assert head, f"the virtual machine ended in {line}"
        code, out, err = (int(number) for number in head)
        return ToolRun(
            code,
            self._process.stdout.read(out).decode(),
            self._process.stdout.read(err).decode(),
        )
