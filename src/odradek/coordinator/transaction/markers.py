"""TransactionMarkers: writes the ends of decided transactions into their partitions.

    write(end) ─► by leader: waiting ─► in flight ─► answered ─► nothing left: `written(end)`
                     ▲                                  │
                     │     leader unknown or changed,   │
                     └── connection lost, error: again ─┘

Markers that wait for one node go in one request; up to `IN_FLIGHT` requests are open to a node. A
marker is sent until it is written: a partition that has no leader waits for one, and a partition
that was deleted is dropped. A coordinator that loses the leadership of its partition `forget`s what
belongs to it, and its successor sends the markers again: they are idempotent, and fenced by the
coordinator's epoch. As in Kafka, a request is answered when each of its partitions has an answer.
What is left of an end for long is logged once, because it holds up those who read there.

What an error of a partition means:

| error                                        | then                                             |
|----------------------------------------------|--------------------------------------------------|
| none                                         | written                                          |
| INVALID_PRODUCER_EPOCH, UNSUPPORTED_VERSION, | nothing of the transaction is open there: the    |
| UNSUPPORTED_FOR_MESSAGE_FORMAT               | partition is done, and the log says so           |
| TRANSACTION_COORDINATOR_FENCED               | another coordinator goes on: the end is dropped  |
| anything else                                | again, to the leader by the metadata of then     |

A pure state machine: `send`, time and the cluster's metadata are arguments.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from odradek.model.errors import ErrorCode, error_code
from odradek.model.topics import TopicPartition, numbers_by_topic
from odradek.protocol.api.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

log = logging.getLogger(__name__)

RETRY_MS: Final = 50
"""The wait until a step of an end that failed is tried again."""
IN_FLIGHT: Final = 4
PARTITIONS_AT_ONCE: Final = 2_000
"""Partitions in one request, which its receiver handles in one turn; a larger transaction goes in
several."""
LOOK_MS: Final = 10_000
"""Between two looks at the open ends: what is left of one at its second look is logged."""
PARTITIONS_LOGGED: Final = 5
NO_LEADER: Final = -1
DONE_THERE: Final = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
)

Send = Callable[
    [int, WriteTxnMarkersRequest, Callable[[WriteTxnMarkersResponse | None], None]], None
]


class TransactionEnd(NamedTuple):
    """A decided transaction: what its markers say, and where they go."""

    transactional_id: str
    shard: int
    """The partition of `__transaction_state`."""
    coordinator_epoch: int
    producer_id: int
    producer_epoch: int
    committed: bool
    transaction_version: int
    partitions: frozenset[TopicPartition]


class OpenEnd:
    """An end whose markers are not all written."""

    __slots__ = ("end", "left", "looks")

    def __init__(self, end: TransactionEnd) -> None:
        self.end = end
        self.left = set(end.partitions)
        """The partitions whose markers are not written."""
        self.looks = 0


Errors = dict[tuple[int, TopicPartition], ErrorCode]
Batch = list[tuple[OpenEnd, list[TopicPartition]]]


class TransactionMarkers:
    """The markers of all shards of a coordinator. Owner thread."""

    def __init__(
        self,
        leader_of: Callable[[TopicPartition], int | None],
        send: Send,
        call_soon: Callable[[Callable[[], None]], None],
        call_later: Callable[[int, Callable[[], None]], object],
        written: Callable[[TransactionEnd], None],
    ) -> None:
        """`leader_of(partition)`: by this node's metadata; None if the partition does not exist.
        `send(node, request, answered)`: `answered` gets None if there was no answer.
        """
        self._leader_of = leader_of
        self._send = send
        self._call_soon = call_soon
        self._call_later = call_later
        self._written = written
        self._open: dict[str, OpenEnd] = {}
        self._begun: Batch = []
        """The ends that were decided in this turn of the loop."""
        self._waiting: dict[int, Batch] = {}
        """By node; under `NO_LEADER` what waits for metadata or for `RETRY_MS`."""
        self._in_flight: dict[int, int] = {}
        self._retries = False
        self._looks = False

    @property
    def open_ends(self) -> int:
        """The number of transactions whose markers are not all written."""
        return len(self._open)

    def left(self, transactional_id: str) -> frozenset[TopicPartition] | None:
        """The partitions whose markers are not written; None if no end is under way."""
        found = self._open.get(transactional_id)
        return None if found is None else frozenset(found.left)

    def write(self, end: TransactionEnd) -> None:
        """Write the markers of an end; call `written` when no partition is left.

        They are sent in the next turn of the loop: the answer of the decision goes first, and the
        decisions of one turn go to each leader in one request.
        """
        opened = self._open[end.transactional_id] = OpenEnd(end)
        if not opened.left:
            self._finished(opened)
            return
        self._look_later()
        if not self._begun:
            self._call_soon(self._send_begun)
        self._begun.append((opened, sorted(opened.left)))

    def _send_begun(self) -> None:
        begun, self._begun = self._begun, []
        self._route(begun)

    def forget(self, shard: int) -> None:
        """Drop what belongs to a shard that this node leads no more."""
        for opened in [each for each in self._open.values() if each.end.shard == shard]:
            del self._open[opened.end.transactional_id]

    def metadata_changed(self) -> None:
        """Give what waits, for a leader or for room in flight, to the leaders of now."""
        waiting, self._waiting = self._waiting, {}
        for batch in waiting.values():
            self._route(batch)

    def _look_later(self) -> None:
        if not self._looks:
            self._looks = True
            self._call_later(LOOK_MS, self._look)

    def _look(self) -> None:
        """Log the ends that are open for long, each once."""
        self._looks = False
        for opened in self._open.values():
            opened.looks += 1
            if opened.looks == 2:
                log_late(opened)
        if self._open:
            self._look_later()

    # -- sending -----------------------------------------------------------------------------------

    def _route(self, batch: Batch) -> None:
        """Give each partition to its leader's queue, or drop it if it was deleted."""
        nodes: dict[int, None] = {}
        for opened, partitions in batch:
            if not self._is_open(opened):
                continue
            by_node: dict[int, list[TopicPartition]] = {}
            for partition in partitions:
                leader = self._leader_of(partition)
                if leader is None:
                    log.info(
                        "%s was deleted: the transaction of %r ends without it",
                        partition,
                        opened.end.transactional_id,
                    )
                    opened.left.discard(partition)
                else:
                    by_node.setdefault(leader, []).append(partition)
            for node, there in by_node.items():
                self._waiting.setdefault(node, []).append((opened, there))
                nodes[node] = None
            if not opened.left:
                self._finished(opened)
        for node in nodes:
            if node == NO_LEADER:
                self._retry_later()
            else:
                self._send_waiting(node)

    def _send_waiting(self, node: int) -> None:
        while self._waiting.get(node) and self._in_flight.get(node, 0) < IN_FLIGHT:
            batch = self._take(node)
            if batch:
                self._in_flight[node] = self._in_flight.get(node, 0) + 1
                self._transmit(node, batch)

    def _take(self, node: int) -> Batch:
        """Take what waits for a node, up to `PARTITIONS_AT_ONCE`."""
        waiting, batch, room = self._waiting.pop(node), Batch(), PARTITIONS_AT_ONCE
        for opened, partitions in waiting:
            if not self._is_open(opened):
                continue
            if room:
                batch.append((opened, partitions[:room]))
            if len(partitions) > room:
                self._waiting.setdefault(node, []).append((opened, partitions[room:]))
            room = max(0, room - len(partitions))
        return batch

    def _transmit(self, node: int, batch: Batch) -> None:
        markers = [marker(opened.end, partitions) for opened, partitions in batch]
        request = WriteTxnMarkersRequest(markers=markers)
        self._send(node, request, MarkersInFlight(self, node, batch).answered)

    # -- answers -----------------------------------------------------------------------------------

    def node_answered(
        self, node: int, batch: Batch, response: WriteTxnMarkersResponse | None
    ) -> None:
        """Take the answer of a request, and send what waits for its node."""
        self._in_flight[node] -= 1
        self._answered(batch, response)
        self._send_waiting(node)

    def _answered(self, batch: Batch, response: WriteTxnMarkersResponse | None) -> None:
        errors = {} if response is None else errors_of(response)
        again: Batch = []
        for opened, partitions in batch:
            failed = self._failed(opened, partitions, errors) if self._is_open(opened) else []
            if not self._is_open(opened):
                continue
            if not opened.left:
                self._finished(opened)
            elif failed:
                again.append((opened, failed))
        if again:
            self._waiting.setdefault(NO_LEADER, []).extend(again)
            self._retry_later()

    def _failed(
        self, opened: OpenEnd, partitions: list[TopicPartition], errors: Errors
    ) -> list[TopicPartition]:
        """Note the results of an end's partitions; return those to send again."""
        failed = []
        for partition in partitions:
            error = errors.get((opened.end.producer_id, partition))
            if error is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
                log.warning(
                    "%s was written to by a newer coordinator of %r; this one sends no more "
                    "markers",
                    partition,
                    opened.end.transactional_id,
                )
                del self._open[opened.end.transactional_id]
                return []
            if self._is_done(opened.end, partition, error):
                opened.left.discard(partition)
            else:
                failed.append(partition)
        return failed

    def _is_done(
        self, end: TransactionEnd, partition: TopicPartition, error: ErrorCode | None
    ) -> bool:
        if error in DONE_THERE:
            log.warning(
                "%s has no open transaction of %r: %s",
                partition,
                end.transactional_id,
                error.name,
            )
            return True
        return error is ErrorCode.NONE

    def _is_open(self, opened: OpenEnd) -> bool:
        return self._open.get(opened.end.transactional_id) is opened

    def _finished(self, opened: OpenEnd) -> None:
        del self._open[opened.end.transactional_id]
        self._written(opened.end)

    def _retry_later(self) -> None:
        if not self._retries:
            self._retries = True
            self._call_later(RETRY_MS, self._retry)

    def _retry(self) -> None:
        self._retries = False
        self._route(self._waiting.pop(NO_LEADER, []))


class MarkersInFlight:
    """One request to a node: its answer comes once."""

    __slots__ = ("_batch", "_is_answered", "_markers", "_node")

    def __init__(self, markers: TransactionMarkers, node: int, batch: Batch) -> None:
        self._markers = markers
        self._node = node
        self._batch = batch
        self._is_answered = False

    def answered(self, response: WriteTxnMarkersResponse | None) -> None:
        assert not self._is_answered, "answered twice"
        self._is_answered = True
        self._markers.node_answered(self._node, self._batch, response)


def log_late(opened: OpenEnd) -> None:
    """Log where a transaction is still open that was decided some time ago."""
    left = sorted(opened.left)
    log.warning(
        "the transaction of %r is decided, but %d of its %d partitions have no marker yet, which "
        "holds up the readers of committed records there: %s%s",
        opened.end.transactional_id,
        len(left),
        len(opened.end.partitions),
        ", ".join(map(str, left[:PARTITIONS_LOGGED])),
        " ..." if len(left) > PARTITIONS_LOGGED else "",
    )


def errors_of(response: WriteTxnMarkersResponse) -> Errors:
    """The errors of a response by producer id and partition."""
    return {
        (result.producer_id, TopicPartition(topic.name, each.partition_index)): error_code(
            each.error_code
        )
        for result in response.markers
        for topic in result.topics
        for each in topic.partitions
    }


def marker(end: TransactionEnd, partitions: Iterable[TopicPartition]) -> WritableTxnMarker:
    """The marker of an end for some of its partitions."""
    return WritableTxnMarker(
        producer_id=end.producer_id,
        producer_epoch=end.producer_epoch,
        transaction_result=end.committed,
        topics=[
            WritableTxnMarkerTopic(name=name, partition_indexes=numbers)
            for name, numbers in numbers_by_topic(partitions).items()
        ],
        coordinator_epoch=end.coordinator_epoch,
        transaction_version=end.transaction_version,
    )
