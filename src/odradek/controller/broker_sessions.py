"""Sessions of brokers with the active controller: who was heard from, and until when it counts.

A session ends `broker.session.timeout.ms` after the last heartbeat; after the end of the broker's
connection, already `DISCONNECTED_MS` later. That is faster than Kafka, and as safe: no decision
trusts a session, all of them trust epochs. A heartbeat over another connection keeps the session.

Sessions are not in the log. A new controller gives each broker a whole session, which is inherited
until the broker is heard from. Meanwhile a node that cannot be reached counts as disconnected: the
controller before, mostly, which is gone. Time is an argument.
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.controller.image import MetadataImage

DISCONNECTED_MS = 500


@dataclass(slots=True)
class BrokerSession:
    """The session of one incarnation.

    `is_inherited`: the controller before heard from the broker, this one has not yet.
    `metadata_offset`: how far the broker has replayed the metadata. In a controlled shutdown,
    `shutdown_pass` is the number of the pass that moves its leaderships, and `shutdown_offset` the
    offset of its last record, once it has ended: the other brokers must have replayed that.
    """

    epoch: int
    heard_ms: int
    disconnected_ms: int | None = None
    is_inherited: bool = False
    metadata_offset: int = -1
    shutdown_pass: int | None = None
    shutdown_offset: int | None = None


class BrokerSessions:
    """The sessions of all brokers, fenced ones too."""

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._sessions: dict[int, BrokerSession] = {}

    def heard(self, broker_id: int, epoch: int, now_ms: int) -> BrokerSession:
        """Note a sign of life of an incarnation, the first one, too; return its session."""
        session = self._sessions.get(broker_id)
        if session is None or session.epoch != epoch:
            session = self._sessions[broker_id] = BrokerSession(epoch, now_ms)
        session.heard_ms = now_ms
        session.disconnected_ms = None
        session.is_inherited = False
        return session

    def inherit(self, broker_id: int, epoch: int, now_ms: int) -> BrokerSession:
        """Give a whole session to an incarnation that the controller before has unfenced."""
        session = self.heard(broker_id, epoch, now_ms)
        session.is_inherited = True
        return session

    def disconnected(self, broker_id: int, now_ms: int) -> None:
        """Note that the connection on which the broker sent its heartbeats has ended."""
        session = self._sessions.get(broker_id)
        if session is not None and session.disconnected_ms is None:
            session.disconnected_ms = now_ms

    def unreachable(self, broker_id: int, now_ms: int) -> None:
        """Note that a node does not take connections: counts if it was not heard from yet."""
        session = self._sessions.get(broker_id)
        if session is not None and session.is_inherited:
            self.disconnected(broker_id, now_ms)

    def replayed(self, broker_id: int, offset: int) -> None:
        """Note that a broker has replayed the metadata up to `offset`."""
        session = self._sessions.get(broker_id)
        if session is not None:
            session.metadata_offset = max(session.metadata_offset, offset)

    def is_silent(self, broker_id: int) -> bool:
        """True if the broker has no connection to this controller, as far as known."""
        session = self._sessions.get(broker_id)
        return session is None or session.is_inherited or session.disconnected_ms is not None

    def end(self, broker_id: int) -> None:
        """End the session of a broker that stops or is registered anew."""
        self._sessions.pop(broker_id, None)

    def is_valid(self, broker_id: int, epoch: int, now_ms: int) -> bool:
        """True if this incarnation has a session."""
        session = self._sessions.get(broker_id)
        return session is not None and session.epoch == epoch and self._end_ms(session) > now_ms

    def _end_ms(self, session: BrokerSession) -> int:
        end_ms = session.heard_ms + self.timeout_ms
        if session.disconnected_ms is None:
            return end_ms
        return min(end_ms, session.disconnected_ms + DISCONNECTED_MS)

    def next_end_ms(self) -> int | None:
        """Return when the next session ends, if nothing is heard; None without sessions."""
        return min(map(self._end_ms, self._sessions.values()), default=None)

    def pop_expired(self, now_ms: int) -> tuple[int, int] | None:
        """Remove one session that has ended; return its broker's id and epoch."""
        for broker_id, session in self._sessions.items():
            if self._end_ms(session) <= now_ms:
                del self._sessions[broker_id]
                return broker_id, session.epoch
        return None

    def lowest_active_offset(self, image: MetadataImage) -> int | None:
        """Return how far all active brokers have replayed the metadata; None without any."""
        return min(
            (
                -1
                if (session := self._sessions.get(broker.id)) is None
                else session.metadata_offset
                for broker in image.brokers.values()
                if broker.active
            ),
            default=None,
        )
