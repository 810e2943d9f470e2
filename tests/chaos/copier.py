"""Kafka's TransactionalMessageCopier during a chaos run: each input is copied exactly once.

It reads the committed records of one topic in a group, and writes them to the same partitions of
another one, with the group's offsets in the same transactions, some of which it aborts at random.
It ends when it has copied as much as there was at its last assignment, and with an error that it
cannot recover from; then it is started anew with the same transactional id.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

from chaos.cluster import COPY_TOPIC, PATIENCE_S, TRANSACTIONS_TOPIC, ChaosFailure
from chaos.reading import Values, values_of
from chaos.restarted import RestartedProcess
from interop.apache_kafka import TOOL_OPTIONS

NAME = "copier"
MAIN = "org.apache.kafka.tools.TransactionalMessageCopier"
TRANSACTION_SIZE = 20
TIMEOUT_MS = 10_000


class Copier(RestartedProcess):
    """The copier, and what came of it."""

    def __init__(self, bootstrap: str, directory: Path, jars: str) -> None:
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
        command = [
            *("java", *TOOL_OPTIONS, "-cp", jars, MAIN),
            *("--group-mode", "--use-group-metadata", "--enable-random-aborts"),
            *(part for name, value in arguments.items() for part in (f"--{name}", value)),
        ]
        super().__init__(NAME, command, directory)
        self._bootstrap = bootstrap

    def await_copied(self) -> None:
        """Wait until there is a copy of each input, of which there are no more to come; stop."""
        inputs = values_of(self._bootstrap, TRANSACTIONS_TOPIC)
        deadline = time.monotonic() + PATIENCE_S
        while missing := inputs - values_of(self._bootstrap, COPY_TOPIC):
            if time.monotonic() > deadline:
                raise ChaosFailure(
                    f"the copier left {missing.total()} of {inputs.total()} records: {self.log}"
                )
            threading.Event().wait(0.5)
        self.stop()


def wrong_copies(inputs: Values, copies: Values) -> list[str]:
    """Return what is not copied exactly once."""
    found = []
    for what, values in (("not copied", inputs - copies), ("copied again", copies - inputs)):
        if values:
            examples = ", ".join(value for _, value in sorted(values)[:3])
            found.append(f"{values.total()} records were {what} by Kafka's copier: {examples} …")
    return found
