"""A process of a chaos run that is started anew whenever it ends, as it cannot recover from all."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

PAUSE_S = 0.2
"""Before it is started anew: it may have found nothing to do."""
STOP_S = 30


class RestartedProcess:
    """Its processes, one after the other, until it is stopped; killed on leaving."""

    def __init__(self, name: str, command: Sequence[str], directory: Path) -> None:
        self.starts = 0
        self.failures = 0
        """How many of its processes ended with an error."""
        self.log = directory / f"{name}.log"
        """What they write to their standard error."""
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stopping.set()
        if self._process is not None:
            self._process.kill()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            with self.log.open("ab") as log:
                self._process = process = subprocess.Popen(
                    self._command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=log
                )
            self.starts += 1
            if self._stopping.is_set():
                process.kill()
            code = process.wait()
            assert process.stdin is not None
            process.stdin.close()
            if code != 0 and not self._stopping.is_set():
                self.failures += 1
            self._stopping.wait(PAUSE_S)

    def stop(self) -> None:
        """Let the process end, and start none any more; one that does not end is killed later."""
        self._stopping.set()
        if self._process is not None:
            self.ask_to_end(self._process)
        self._thread.join(STOP_S)

    def ask_to_end(self, process: subprocess.Popen[bytes]) -> None:
        process.terminate()
