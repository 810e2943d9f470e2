"""Transactional clients of a live cluster that a test brings into a state, and holds there.

A `TransactionalClient` makes whole transactions: a record in each partition of its topic, and an
offset of its group. It keeps what it was told of each one's outcome, and `check_whole` compares
that with what readers of committed records and the group get.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

from odradek.broker.node import Node
from odradek.coordinator.transaction.transaction_state import TransactionState
from odradek.model.errors import ErrorCode
from odradek.testing.probes import nodes_of
from odradek.testing.workload.transactional_producer import error_of_response
from sim.live_cluster import LiveCluster
from sim.live_transactions import Producer, Send, committed_values, stable_offset

State = TransactionState
PARTITIONS = 3
AFTER = {
    State.PREPARE_COMMIT: State.COMPLETE_COMMIT,
    State.PREPARE_ABORT: State.COMPLETE_ABORT,
}
COMMITS = (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)
NONE = ErrorCode.NONE


def until_in(producer: Producer, state: TransactionState) -> None:
    """Run until the producer's id is in a state."""
    producer.cluster.until(lambda: producer.state is state)


def same_coordinator(cluster: LiveCluster, topic: str) -> Iterator[Producer]:
    """Yield new producers of one coordinator, of version 1 and 2 in turn."""
    first = Producer(cluster, f"{topic}-0", topic, 1)
    yield first
    made = 1
    for number in count(1):
        producer = Producer(cluster, f"{topic}-{number}", topic, made % 2 + 1)
        if producer.coordinator == first.coordinator:
            made += 1
            yield producer


class HeldMarkers:
    """Markers that a coordinator has sent, and that have not left it."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._markers = node.broker.transactions.markers
        self._send = self._markers._send
        self._held: list[Callable[[], None]] = []
        self._markers._send = self._hold

    def _hold(self, *arguments: Any) -> None:
        self._held.append(partial(self._send, *arguments))

    def release(self) -> None:
        """Let them go, and all that follow."""
        self._markers._send = self._send
        for send in self._held:
            send()

    def release_if_it_runs(self, cluster: LiveCluster) -> None:
        """Let them go unless their coordinator was killed, and they with it."""
        if self._node in nodes_of(cluster.world.machines).values():
            self.release()


@dataclass(slots=True)
class Written:
    """What a transaction writes, and what its client knows of its outcome."""

    values: list[bytes]
    offset: int
    committed: bool | None = False
    """None if the client has lost the answer; False while the transaction is open, too."""
    left: list[int] = field(default_factory=lambda: list(range(PARTITIONS)))
    """The partitions whose record is not acknowledged."""


class TransactionalClient:
    """A client with a producer, and the transactions of its id, which rivals share."""

    def __init__(self, producer: Producer, transactions: list[Written] | None = None) -> None:
        self.producer = producer
        self.transactions = [] if transactions is None else transactions
        self._open: Written | None = None

    @property
    def cluster(self) -> LiveCluster:
        return self.producer.cluster

    def rival(self, name: str) -> TransactionalClient:
        """Return another client of the same id, on a host of its own."""
        mine = self.producer
        producer = Producer(
            mine.cluster, mine.id, mine.topic, mine.version, mine.timeout_ms, f"{mine.id}-{name}"
        )
        return TransactionalClient(producer, self.transactions)

    def zombie(self) -> Producer:
        """Return a producer on another host that has this one's id and epoch of now."""
        made = self.rival("zombie").producer
        made.producer_id, made.epoch = self.producer.producer_id, self.producer.epoch
        return made

    # Transactions.

    @property
    def transaction(self) -> Written:
        """The transaction that is open, or the next one."""
        if self._open is None:
            number = len(self.transactions) + 1
            values = [f"{self.producer.id} {number} {each}".encode() for each in range(PARTITIONS)]
            self._open = Written(values, number)
            self.transactions.append(self._open)
        return self._open

    def write(self, index: int) -> ErrorCode:
        """Write the record of a partition."""
        transaction = self.transaction
        error = self.producer.write(index, transaction.values[index])
        if error is NONE:
            transaction.left.remove(index)
        return error

    def begin(self) -> None:
        """Write the first record of a transaction."""
        assert self.write(0) is NONE

    def write_rest(self) -> None:
        """Write the records that the transaction lacks, and its offset."""
        for index in list(self.transaction.left):
            assert self.write(index) is NONE
        assert self.producer.commit_offset(self.transaction.offset) is NONE

    def end(self, *, commit: bool) -> ErrorCode:
        """Commit or abort the transaction."""
        error = self.producer.end(commit=commit)
        if error is NONE:
            self.ended(commit)
        return error

    def ended(self, committed: bool | None) -> None:
        """Note what the client knows of the outcome."""
        self.transaction.committed = committed
        self._open = None

    def commit_whole(self) -> None:
        """Write what is left of the transaction, or a whole new one, and commit it."""
        self.write_rest()
        assert self.end(commit=True) is NONE

    def abort_whole(self) -> None:
        """Write a whole transaction, and abort it."""
        self.write_rest()
        assert self.end(commit=False) is NONE

    def bring_to(self, state: TransactionState | None) -> None:
        """Bring a new id into a state; None: it does not exist. Markers are held in time."""
        if state is None:
            return
        assert self.producer.init() is NONE
        if state is not State.EMPTY:
            self.write_rest()
        if state not in (State.EMPTY, State.ONGOING):
            assert self.end(commit=state in COMMITS) is NONE
        until_in(self.producer, state)

    # Single requests.

    def next_request(self, state: TransactionState | None) -> Send:
        """The first request of what the client does next."""
        if state is None:
            return self.producer.init_request()
        if state is State.ONGOING:
            return self.producer.end_request(commit=True)
        if self.producer.version == 1:
            return self.producer.add_request(0)
        return self.producer.produce_request(0, self.transaction.values[0])

    def send(self, request: Send) -> list[ErrorCode]:
        """Send a request; the list gets the error of its answer."""
        return self.producer.client(request[0]).send(request)

    def ask(self, request: Send) -> ErrorCode:
        """Send a request once, and wait for its answer."""
        return self.producer.client(request[0]).ask(request)

    def send_held(self, request: Send) -> Callable[[], ErrorCode]:
        """Send a request over connections that hold it back, and that the client gives up. Return
        what lets it arrive, and returns the answer, which the client does not take.
        """
        node, body, version, answer, error_of = request
        if error_of in (self.producer._identified, self.producer._ended):
            error_of = error_of_response
        connection = self.producer.client(node)
        connection.hold()
        answers = connection.send((node, body, version, answer, error_of))
        self.producer.reconnect()

        def arrive() -> ErrorCode:
            connection.release()
            self.cluster.until(lambda: answers)
            return answers[0]

        return arrive

    def go_on(self, state: TransactionState | None) -> None:
        """Take what the state still needs until the next transaction."""
        if state is None and self.producer.producer_id < 0:
            assert self.producer.init() is NONE
        if state is State.ONGOING and self._open is not None:
            assert self.end(commit=True) is NONE


def check_whole(cluster: LiveCluster, topic: str, clients: Sequence[TransactionalClient]) -> None:
    """Each transaction is visible as a whole or not at all, as its client was told; nothing is
    open, and last stable offsets have never gone back. The clients' last transactions are aborted.
    """
    values = committed_values(cluster, topic, PARTITIONS)
    assert len(values) == len(set(values)), "a record is there twice"
    expected = set[bytes]()
    for client in clients:
        last = -1
        for written in client.transactions:
            seen = set(values) & set(written.values)
            if written.committed or (written.committed is None and seen):
                assert seen == set(written.values), "a transaction is torn"
                expected |= seen
                last = written.offset
            assert written.committed is not False or not seen, "what was not committed is visible"
        assert stable_offset(client.producer) == last
        until_in(client.producer, State.COMPLETE_ABORT)
    assert set(values) == expected, "something else is visible"
    assert cluster.world.observer.judge(several=True, durable=True) == []
