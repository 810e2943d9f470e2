"""Transactions during a chaos run: none is torn, lost, or left open.

Two producers write transactions to a topic of their own, a record into each of its partitions and
an offset of a group: one of confluent-kafka (version 1), one of ours (version 2, where the brokers
add the partitions). Every third transaction is aborted. What they were told about each is kept:

    committed   all of its records are read, once
    aborted     none is read
    unknown     no answer came: all of them, or none

At the end nothing is open in any partition, and the group's offset is that of a transaction which
was committed, not before the last one that surely was.
"""

from __future__ import annotations

import contextlib
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from types import TracebackType
from typing import Self

import confluent_kafka

from chaos.cluster import PATIENCE_S, TRANSACTIONS_TOPIC, ChaosFailure
from odradek import Admin, KafkaError, Producer, TopicPartition
from odradek.client.consumer.assignor.partition_assignor import ConsumerGroupMetadata

PARTITIONS = 3
TIMEOUT_MS = 10_000
CALL_S = 30
PAUSE_S = 0.02
ABORTED = 3
"""Every transaction whose number this divides is aborted."""
COMMITTED, GONE, UNKNOWN = "committed", "aborted", "unknown"


class Failed(Exception):
    """A call of a producer failed; it is made anew."""


class Client(ABC):
    """A transactional producer of some library."""

    @abstractmethod
    def write(self, value: bytes, group: str, offset: int) -> None:
        """Begin a transaction, and write it. Raises `Failed`."""

    @abstractmethod
    def end(self, *, committed: bool) -> None:
        """End it. Raises `Failed`: then the outcome is not known."""

    @abstractmethod
    def close(self) -> None:
        """Drop the producer, as a process that dies does."""


class Confluent(Client):
    """librdkafka's."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._bootstrap = bootstrap
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": TIMEOUT_MS,
                # With a re-bootstrap, librdkafka 2.16 keeps the old broker in its cache of group
                # coordinators, and send_offsets_to_transaction waits for it for ever.
                "metadata.recovery.strategy": "none",
                "log_level": 0,
            }
        )
        with failed_by(confluent_kafka.KafkaException):
            self._producer.init_transactions(CALL_S)

    def write(self, value: bytes, group: str, offset: int) -> None:
        with failed_by(confluent_kafka.KafkaException):
            self._producer.begin_transaction()
            for partition in range(PARTITIONS):
                self._producer.produce(TRANSACTIONS_TOPIC, value, partition=partition)
            settings = {"bootstrap.servers": self._bootstrap, "group.id": group, "log_level": 0}
            consumer = confluent_kafka.Consumer(settings)
            try:
                positions = [confluent_kafka.TopicPartition(TRANSACTIONS_TOPIC, 0, offset)]
                metadata = consumer.consumer_group_metadata()
                self._producer.send_offsets_to_transaction(positions, metadata, CALL_S)
            finally:
                consumer.close()
            if self._producer.flush(CALL_S):
                raise Failed("records without an answer")

    def end(self, *, committed: bool) -> None:
        with failed_by(confluent_kafka.KafkaException):
            if committed:
                self._producer.commit_transaction(CALL_S)
            else:
                self._producer.abort_transaction(CALL_S)

    def close(self) -> None:
        with contextlib.suppress(confluent_kafka.KafkaException):
            self._producer.purge()


class Odradek(Client):
    """Our own."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._producer = Producer(
            {"transaction.timeout.ms": TIMEOUT_MS},
            brokers=bootstrap,
            transactional_id=transactional_id,
        )
        with failed_by(KafkaError):
            self._producer.init_transactions()

    def write(self, value: bytes, group: str, offset: int) -> None:
        with failed_by(KafkaError):
            self._producer.begin_transaction()
            for partition in range(PARTITIONS):
                self._producer.send(TRANSACTIONS_TOPIC, value, partition=partition)
            where = TopicPartition(TRANSACTIONS_TOPIC, 0)
            self._producer.send_offsets_to_transaction(
                {where: offset}, ConsumerGroupMetadata(group, -1, "", None)
            )

    def end(self, *, committed: bool) -> None:
        with failed_by(KafkaError):
            if committed:
                self._producer.commit_transaction()
            else:
                self._producer.abort_transaction()

    def close(self) -> None:
        with contextlib.suppress(KafkaError):
            self._producer.close(timeout=0)


@contextlib.contextmanager
def failed_by(kind: type[Exception]) -> Iterator[None]:
    """Raise `Failed` for an error of a library."""
    try:
        yield
    except kind as error:
        raise Failed(str(error)) from error


TRANSACTIONAL: tuple[type[Confluent] | type[Odradek], ...] = (Confluent, Odradek)


class TransactionalWriter:
    """Writes transactions on a thread of its own, and keeps what it was told of each."""

    def __init__(self, library: type[Confluent] | type[Odradek], bootstrap: str) -> None:
        self.name = f"{library.__name__.lower()}-transactions"
        self.outcomes: dict[int, str] = {}
        """By the number of each transaction that was begun."""
        self.failures: Counter[str] = Counter()
        self._library = library
        self._bootstrap = bootstrap
        self._ending = threading.Event()
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
        self._thread.join(2 * CALL_S)
        if kind is None and self._thread.is_alive():
            raise ChaosFailure(f"{self.name} is in a call that does not return")

    def _run(self) -> None:
        number = 0
        client: Client | None = None
        while not self._ending.wait(PAUSE_S):
            try:
                if client is None:
                    client = self._library(self._bootstrap, self.name)
                number += 1
                self.outcomes[number] = GONE
                client.write(f"{self.name}:{number}".encode(), self.name, number)
                committed = number % ABORTED != 0
                self.outcomes[number] = UNKNOWN if committed else GONE
                client.end(committed=committed)
                self.outcomes[number] = COMMITTED if committed else GONE
            except Failed as failure:
                self.failures[str(failure)[:80]] += 1
                if client is not None:
                    client.close()
                client = None
        if client is not None:
            client.close()

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
        if offset == max(read, default=-1):
            return []
        return [f"{self.name}: offset {offset} is committed, of {max(read, default=-1)}"]


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
