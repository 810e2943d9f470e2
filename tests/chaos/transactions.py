"""Transactions during a chaos run: none is torn, lost, or left open.

A producer of each library writes transactions to a topic, a record into each of its partitions and
an offset of a group of its own (but for librdkafka's, see `WITHOUT_OFFSETS`). Ours are of version
2, where the brokers add the partitions, those of the others of version 1. Every third transaction
is aborted. What each was told is kept:

    committed   all of its records are read, once
    aborted     none is read
    unknown     no answer came: all of them, or none

Once the last fault is healed each library commits one more. At the end nothing is open in any
partition, and the group's offset is that of a transaction which was committed, not before the last
one that surely was.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter, deque
from types import TracebackType
from typing import Self

from chaos.cluster import PATIENCE_S, TRANSACTIONS_TOPIC, ChaosFailure
from clients.libraries.transactional import PATIENCE_S as PATIENCE_OF_CALLS_S
from clients.libraries.transactional import (
    Aiokafka,
    Confluent,
    Odradek,
    TransactionalProducer,
)
from odradek import Admin, TopicPartition

PARTITIONS = 3
TIMEOUT_MS = 10_000
PAUSE_S = 0.02
ABORTED = 3
"""Every transaction whose number this divides is aborted."""
COMMITTED, GONE, UNKNOWN = "committed", "aborted", "unknown"
LAST_ERRORS = 3
"""How many are told of a writer that commits nothing."""


LIBRARIES = (Confluent, Aiokafka, Odradek)
"""kafka-python is not here: its calls have no timeout, and one did not return after a cut, which is
not explained yet."""
WITHOUT_OFFSETS = (Confluent,)
"""Libraries that cannot commit offsets while brokers go: librdkafka 2.16 keeps a broker that it has
dropped as the group's coordinator, and send_offsets_to_transaction waits for it for ever."""


class TransactionalWriter:
    """Writes transactions on a thread of its own, and keeps what it was told of each."""

    def __init__(self, library: type[TransactionalProducer], bootstrap: str) -> None:
        self.name = f"{library.__name__.lower()}-transactions"
        self.outcomes: dict[int, str] = {}
        """By the number of each transaction that was begun."""
        self.begun = 0
        """The number of the last transaction that was begun."""
        self.committed = 0
        """The number of the last transaction that was committed."""
        self._errors: deque[str] = deque(maxlen=LAST_ERRORS)
        self._library = library
        self._commits_offsets = library not in WITHOUT_OFFSETS
        self._refused: tuple[type[Exception], ...] = (*library.refused, TimeoutError)
        self._bootstrap = bootstrap
        self._ending = threading.Event()
        self._bug: BaseException | None = None
        """The error that ended the thread, which is none of its library."""
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
        self._thread.join(2 * PATIENCE_OF_CALLS_S)
        if kind is None and self._thread.is_alive():
            raise ChaosFailure(f"{self.name} is in a call that does not return")
        if kind is None:
            self._raise_bug()

    def await_commit(self) -> None:
        """Wait until a transaction is committed that was begun after now."""
        begun = self.begun
        deadline = time.monotonic() + PATIENCE_S
        while self.committed <= begun:
            self._raise_bug()
            if time.monotonic() > deadline:
                raise ChaosFailure(
                    f"{self.name} committed nothing for {PATIENCE_S} s; its last errors: "
                    + ("; ".join(self._errors) or "none")
                )
            threading.Event().wait(0.05)

    def _raise_bug(self) -> None:
        if self._bug is not None:
            raise ChaosFailure(f"{self.name} ended: {self._bug!r}") from self._bug

    def _run(self) -> None:
        try:
            self._write_all()
        except BaseException as error:
            self._bug = error

    def _write_all(self) -> None:
        producer: TransactionalProducer | None = None
        while not self._ending.wait(PAUSE_S):
            try:
                if producer is None:
                    producer = self._library(self._bootstrap, self.name, TIMEOUT_MS)
                    producer.init()
                self.begun += 1
                self._write(producer, self.begun)
            except self._refused as failure:
                self._errors.append(str(failure) or repr(failure))
                self._drop(producer)
                producer = None
        self._drop(producer)

    def _write(self, producer: TransactionalProducer, number: int) -> None:
        """Write one transaction, and end it."""
        self.outcomes[number] = GONE
        producer.begin()
        for partition in range(PARTITIONS):
            producer.send(TRANSACTIONS_TOPIC, f"{self.name}:{number}".encode(), partition)
        if self._commits_offsets:
            producer.commit_offsets(self.name, {(TRANSACTIONS_TOPIC, 0): number})
        if number % ABORTED == 0:
            producer.abort()
            return
        self.outcomes[number] = UNKNOWN
        producer.commit()
        self.outcomes[number] = COMMITTED
        self.committed = number

    def _drop(self, producer: TransactionalProducer | None) -> None:
        """Close a producer, whatever its state is: the next one shuts it out."""
        if producer is not None:
            with contextlib.suppress(*self._refused):
                producer.close()

    def violations(self, values: Counter[tuple[int, str]]) -> list[str]:
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

    def wrong_offset(self, offset: int, values: Counter[tuple[int, str]]) -> list[str]:
        """Return what is wrong with the committed offset of the group, the last committed one."""
        read = [number for number in self.outcomes if values[0, f"{self.name}:{number}"]]
        expected = max(read, default=-1) if self._commits_offsets else -1
        if offset == expected:
            return []
        return [f"{self.name}: offset {offset} is committed, of {expected}"]


def await_ends(bootstrap: str) -> list[str]:
    """Wait until no partition of transactions is open. Return those that stay open."""
    with Admin({"default.api.timeout.ms": PATIENCE_S * 1000}, brokers=bootstrap) as admin:
        wanted = admin.partitions_of([TRANSACTIONS_TOPIC, "__consumer_offsets"])
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
