"""Kafka's TransactionalMessageCopier during a chaos run: each input is copied exactly once.

It reads the committed records of one topic in a group, and writes them to the same partitions of
another one, with the group's offsets in the same transactions, some of which it aborts at random.
It ends when it has copied as much as there was at its last assignment, and with an error that it
cannot recover from; then it is started anew with the same transactional id.
"""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from chaos.cluster import COPY_TOPIC, PATIENCE_S, TRANSACTIONS_TOPIC, ChaosFailure
from chaos.reading import Values, values_of
from interop.apache_kafka import TOOL_OPTIONS

NAME = "copier"
MAIN = "org.apache.kafka.tools.TransactionalMessageCopier"
TRANSACTION_SIZE = 20
TIMEOUT_MS = 10_000
PAUSE_S = 0.2
"""Before it is started anew: it may have found nothing to copy."""
STOP_S = 30


class Copier:
    """Its processes, one after the other, until it is stopped; killed on leaving."""

    def __init__(self, bootstrap: str, directory: Path, jars: str) -> None:
        self.starts = 0
        self.failures = 0
        """How many of its processes ended with an error."""
        self._bootstrap = bootstrap
        self._log = directory / f"{NAME}.log"
        arguments = {
            "broker-list": bootstrap,
            "input-topic": TRANSACTIONS_TOPIC,
            "input-partition": "0",  # Must be given; the group mode ignores it.
            "output-topic": COPY_TOPIC,
            "consumer-group": NAME,
            "transactional-id": NAME,
            "transaction-size": str(TRANSACTION_SIZE),
            "transaction-timeout": str(TIMEOUT_MS),
        }
        self._command = [
            *("java", *TOOL_OPTIONS, "-cp", jars, MAIN),
            *("--group-mode", "--use-group-metadata", "--enable-random-aborts"),
            *(part for name, value in arguments.items() for part in (f"--{name}", value)),
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=NAME, daemon=True)

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
            with self._log.open("ab") as log:
                self._process = process = subprocess.Popen(
                    self._command, stdout=subprocess.DEVNULL, stderr=log
                )
            self.starts += 1
            if self._stopping.is_set():
                process.kill()
            if process.wait() != 0 and not self._stopping.is_set():
                self.failures += 1
            self._stopping.wait(PAUSE_S)

    def await_copied(self) -> None:
        """Wait until there is a copy of each input, of which there are no more to come; stop."""
        inputs = values_of(self._bootstrap, TRANSACTIONS_TOPIC)
        deadline = time.monotonic() + PATIENCE_S
        while missing := inputs - values_of(self._bootstrap, COPY_TOPIC):
            if time.monotonic() > deadline:
                raise ChaosFailure(
                    f"the copier left {missing.total()} of {inputs.total()} records: {self._log}"
                )
            threading.Event().wait(0.5)
        self._stopping.set()
        if self._process is not None:
            self._process.terminate()
        self._thread.join(STOP_S)


def wrong_copies(inputs: Values, copies: Values) -> list[str]:
    """Return what is not copied exactly once."""
    found = []
    for what, values in (("not copied", inputs - copies), ("copied again", copies - inputs)):
        if values:
            examples = ", ".join(value for _, value in sorted(values)[:3])
            found.append(f"{values.total()} records were {what} by Kafka's copier: {examples} …")
    return found
