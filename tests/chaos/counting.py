"""Kafka Streams (`exactly_once_v2`) during a chaos run: it counts each input exactly once.

It counts the committed records of each transactional writer, by the name before the colon in their
values, and writes every new count. So the records go through a topic of its own to the task that
counts their writer, and the counts are kept in another topic, from which an application that is
started anew gets them back. What is read of a writer at the end is 1, 2, 3 … up to the number of
its committed records.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from chaos.cluster import COUNTS_TOPIC, PATIENCE_S, TRANSACTIONS_TOPIC, ChaosFailure
from chaos.node import TESTS
from chaos.reading import Values, read_to_end, values_of
from chaos.restarted import RestartedProcess
from interop.apache_kafka import TOOL_OPTIONS

NAME = "counting"
"""The application id, with which the topics of its own begin."""
SEPARATOR = ":"
SESSION_TIMEOUT_MS = 6_000
SOURCE = TESTS / "interop" / "StreamsCount.java"

Counts = Mapping[str, Sequence[int]]
"""The counts of each writer, in their order."""


class Counting(RestartedProcess):
    """The application, and what came of it."""

    def __init__(self, bootstrap: str, directory: Path, jars: str) -> None:
        command = [
            *("java", *TOOL_OPTIONS, "-cp", jars, str(SOURCE)),
            *(bootstrap, NAME, TRANSACTIONS_TOPIC, COUNTS_TOPIC, str(directory / NAME)),
            *(str(SESSION_TIMEOUT_MS), SEPARATOR),
        ]
        super().__init__(NAME, command, directory)
        self._bootstrap = bootstrap

    def ask_to_end(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        process.stdin.close()

    def await_counted(self) -> None:
        """Wait until each input is counted, of which there are no more to come; stop."""
        expected = expected_counts(values_of(self._bootstrap, TRANSACTIONS_TOPIC))
        deadline = time.monotonic() + PATIENCE_S
        while missing := expected - Counter(
            {writer: max(found) for writer, found in counts_of(self._bootstrap).items()}
        ):
            if time.monotonic() > deadline:
                raise ChaosFailure(
                    f"Kafka Streams left {missing.total()} of {expected.total()} records: "
                    f"{self.log}"
                )
            threading.Event().wait(0.5)
        self.stop()


def expected_counts(inputs: Values) -> Counter[str]:
    """Return how many records there are of each writer."""
    expected: Counter[str] = Counter()
    for (_, value), times in inputs.items():
        expected[value.split(SEPARATOR)[0]] += times
    return expected


def counts_of(bootstrap: str) -> Counts:
    """Read the counts."""
    found: dict[str, list[int]] = defaultdict(list)
    for message in read_to_end(bootstrap, COUNTS_TOPIC):
        found[(message.key() or b"").decode()].append(int(message.value() or b"0"))
    return found


def wrong_counts(inputs: Values, counts: Counts) -> list[str]:
    """Return what is not counted exactly once."""
    found = []
    expected = expected_counts(inputs)
    for writer in sorted(expected.keys() | counts.keys()):
        seen = counts.get(writer, ())
        if list(seen) == list(range(1, expected[writer] + 1)):
            continue
        at = next((n for n, count in enumerate(seen, 1) if n != count), len(seen) + 1)
        found.append(
            f"Kafka Streams counted the {expected[writer]} records of {writer} in {len(seen)} "
            f"counts, the last of which is {seen[-1] if seen else 0}; count {at} is wrong"
        )
    return found
