"""Late TxnOffsetCommits: those that arrive over a connection that their producer has given up.

A producer that gets no answer connects again and asks again. What it sent before may still be in
the buffer of the old connection, and be read when the producer's next transaction is open. Below
version 5 of the request that transaction has the same epoch: nothing else in the request tells the
two apart, and the offsets of the one before, older ones or aborted ones, would be committed with
the next one. Kafka does that; it is the counterpart of the late EndTxn of KAFKA-17754.

So offsets are not taken at once that come over an older connection than the newest one over which
the same producer, of the same epoch, has committed offsets: the producer is told to try again
(COORDINATOR_LOAD_IN_PROGRESS). Nobody reads that from a connection that was given up. A client with
several connections at once, such as kafka-go, does, and what it sends over that connection
`ANSWER_READ_MS` later is not late. As soon as it takes another one, that counts for nothing.

A producer is forgotten when no connection can be left that is older than its last commit and still
open: a silent one is closed (`connections.max.idle.ms`).
"""

from __future__ import annotations

from typing import NamedTuple

from odradek.coordinator.answered_connection import AnsweredConnection


class LastCommit(NamedTuple):
    """The newest connection over which a producer has committed offsets, and when it did so last.

    `answered`: an older connection over which the producer was told to try again.
    """

    epoch: int
    connection: int
    at_ms: int
    answered: AnsweredConnection | None = None


class ProducerConnections:
    """The newest connections of the producers that commit offsets at this broker.

    `keep_ms`: for how long a connection without traffic stays open.
    """

    __slots__ = ("_keep_ms", "_last_commits")

    def __init__(self, keep_ms: int) -> None:
        self._keep_ms = keep_ms
        self._last_commits: dict[int, LastCommit] = {}
        """By producer id, the longest silent one first."""

    def __len__(self) -> int:
        return len(self._last_commits)

    def is_late(self, producer_id: int, epoch: int, connection: int, now_ms: int) -> bool:
        """True if the producer has committed over a newer connection, and is to try again; else
        this commit is noted.

        `connection`: its number, which grows with each one that is accepted. What has an older
        epoch is not late: the log refuses it.
        """
        self._forget(now_ms)
        commit = LastCommit(epoch, connection, now_ms)
        last = self._last_commits.get(producer_id)
        if last is not None and epoch <= last.epoch:
            if epoch < last.epoch:
                return False
            if connection < last.connection:
                answered = last.answered
                if answered is None or answered.connection != connection:
                    answered = AnsweredConnection(connection, now_ms)
                    self._last_commits[producer_id] = last._replace(answered=answered)
                if not answered.is_read(now_ms):
                    return True
                commit = last._replace(at_ms=now_ms)
        self._last_commits.pop(producer_id, None)
        self._last_commits[producer_id] = commit
        return False

    def _forget(self, now_ms: int) -> None:
        """Forget who has committed nothing for so long that older connections are closed."""
        while self._last_commits:
            producer_id = next(iter(self._last_commits))
            if now_ms - self._last_commits[producer_id].at_ms <= self._keep_ms:
                return
            del self._last_commits[producer_id]
