"""Transactions during a chaos run: none is torn, lost, or left open.

A producer of each library writes transactions to a topic, a record into each of its partitions and
an offset of a group of its own. Ours are of version 2, where the brokers add the partitions, and so
are those of raw requests like franz-go's; those of the others are of version 1. Every third
transaction is aborted. What each was told is kept:

    committed   all of its records are read, once
    aborted     none is read
    unknown     no answer came: all of them, or none

Once the last fault is healed each library commits one more. At the end nothing is open in any
partition, and the group's offset is that of a transaction which was committed, not before the last
one that surely was.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from chaos.cluster import PATIENCE_S, TRANSACTIONS_TOPIC, ChaosFailure
from chaos.node import environment
from chaos.reading import Values
from chaos.transactional_writer import HUNG, PARTITIONS
from clients.libraries.raw_transactions import RawRequests
from clients.libraries.transactional import PATIENCE_S as PATIENCE_OF_CALLS_S
from clients.libraries.transactional import (
    Aiokafka,
    Confluent,
    KafkaPython,
    Odradek,
    TransactionalProducer,
)
from odradek import Admin, TopicPartition

COMMITTED, GONE, UNKNOWN = "committed", "aborted", "unknown"
LAST_ERRORS = 3
"""How many are told of a writer that commits nothing."""

LIBRARIES = (Confluent, KafkaPython, Aiokafka, Odradek, RawRequests)
HANGING = (Confluent, KafkaPython)
"""Libraries with calls that never return when brokers go: `docs/clients.md` says which. Their
process is ended, and another one goes on."""
HANGING_S = 20
NOT_HANGING_S = 2 * PATIENCE_OF_CALLS_S
"""The longest time of a call of the other libraries."""


class TransactionalWriter:
    """The processes of `chaos.transactional_writer` that write with a library, one after the other,
    and what they told of each transaction.
    """

    def __init__(
        self, library: type[TransactionalProducer], bootstrap: str, directory: Path
    ) -> None:
        self.name = f"{library.__name__.lower()}-transactions"
        self.outcomes: dict[int, str] = {}
        """By the number of each transaction that was begun."""
        self.begun = 0
        """The number of the last transaction that was begun."""
        self.committed = 0
        """The number of the last transaction that was committed."""
        self.hung = 0
        """How many processes were in a call that did not return."""
        self.errors: deque[str] = deque(maxlen=LAST_ERRORS)
        self._may_hang = library in HANGING
        self._library = f"{library.__module__}:{library.__name__}"
        self._bootstrap = bootstrap
        self._log = directory / f"{self.name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._ending = threading.Event()
        self._failure = ""
        """Why no process is started any more."""
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ending.set()
        if (process := self._process) is not None:
            if kind is not None:
                process.kill()
            finish(process)
        self._thread.join()
        if kind is None:
            self._raise_failure()

    def await_commit(self) -> None:
        """Wait until a transaction is committed that was begun after now."""
        begun = self.begun
        deadline = time.monotonic() + PATIENCE_S
        while self.committed <= begun:
            self._raise_failure()
            if time.monotonic() > deadline:
                raise ChaosFailure(
                    f"{self.name} committed nothing for {PATIENCE_S} s; its last errors: "
                    + ("; ".join(self.errors) or "none")
                )
            threading.Event().wait(0.05)

    def _raise_failure(self) -> None:
        if self._failure:
            raise ChaosFailure(f"{self.name} {self._failure}: see {self._log}")

    def _run(self) -> None:
        while not self._ending.is_set() and not self._failure:
            with self._log.open("ab") as log, self._started(log) as process:
                self._process = process
                if self._ending.is_set():
                    finish(process)
                assert process.stdout is not None
                for line in process.stdout:
                    self._note(json.loads(line))
            if process.returncode == HUNG and not self._failure:
                self.hung += 1
                if not self._may_hang:
                    self._failure = "was in a call that did not return"
            elif process.returncode != 0 and not self._failure:
                self._failure = f"ended with {process.returncode}"

    def _started(self, log: BinaryIO) -> subprocess.Popen[bytes]:
        limit_s = HANGING_S if self._may_hang else NOT_HANGING_S
        arguments = (self._bootstrap, self.name, self.begun + 1, limit_s)
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "chaos.transactional_writer", self._library),
                *map(str, arguments),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment(),
        )

    def _note(self, what: list[object]) -> None:
        match what:
            case ["begun", int(number)]:
                self.begun = number
                self.outcomes[number] = GONE
            case ["ending", int(number)]:
                self.outcomes[number] = UNKNOWN
            case ["committed", int(number)]:
                self.outcomes[number] = COMMITTED
                self.committed = number
            case ["refused", str(error)]:
                self.errors.append(error)
            case ["bug", str(error)]:
                self._failure = f"ended by {error}"

    def violations(self, values: Values) -> list[str]:
        """Return what does not fit: `values` are all that were read, with their partitions."""
        found = []
        for number, outcome in self.outcomes.items():
            name = f"{self.name}:{number}"
            counts = {values[partition, name] for partition in range(PARTITIONS)}
            if len(counts) > 1 or max(counts) > 1:
                found.append(f"{name}, {outcome}, is torn: {sorted(counts)} in its partitions")
            elif (outcome == COMMITTED and 0 in counts) or (outcome == GONE and 1 in counts):
                found.append(f"{name} was {outcome}, and is {'not ' if 0 in counts else ''}read")
        return found

    def wrong_offset(self, offset: int, values: Values) -> list[str]:
        """Return what is wrong with the committed offset of the group, the last committed one."""
        read = [number for number in self.outcomes if values[0, f"{self.name}:{number}"]]
        expected = max(read, default=-1)
        if offset == expected:
            return []
        return [f"{self.name}: offset {offset} is committed, of {expected}"]


def finish(process: subprocess.Popen[bytes]) -> None:
    """Tell a writer to end."""
    assert process.stdin is not None
    process.stdin.close()


def await_ends(bootstrap: str, *topics: str) -> list[str]:
    """Wait until no transaction is open in these topics. Return those that stay open."""
    with Admin({"default.api.timeout.ms": PATIENCE_S * 1000}, brokers=bootstrap) as admin:
        wanted = admin.partitions_of(topics)
        for _ in range(PATIENCE_S * 2):
            found = [
                f"{where} has an open transaction of producer {each.producer_id}"
                for where, producers in admin.describe_producers(wanted).items()
                for each in producers
                if each.transaction_start_offset is not None
            ]
            if not found:
                break
            threading.Event().wait(0.5)
        return found


def committed_offset(bootstrap: str, group: str) -> int:
    """The offset that a group has committed with its transactions; -1 if none."""
    with Admin(brokers=bootstrap) as admin:
        found = admin.group_offsets(group).get(TopicPartition(TRANSACTIONS_TOPIC, 0))
        return -1 if found is None else found.offset
