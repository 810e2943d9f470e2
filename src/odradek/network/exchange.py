"""A request and its answer, and who answers it: what the broker sees of the network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from odradek.network.output import OutputQueue, Part, release_all

if TYPE_CHECKING:
    from odradek.network.connection import Connection


class Handler(Protocol):
    """What is done with requests. Called on the owner thread."""

    def received(self, exchange: Exchange) -> None:
        """A request. Raises `ProtocolError` to have the connection closed with that reason."""
        ...

    def connected(self, connection: Connection) -> None: ...

    def disconnected(self, connection: Connection) -> None:
        """Once for each `connected`; the exchanges in progress will never be sent."""
        ...


class Exchange:
    """One request and its answer, which is exactly one of `respond`, `no_response` and
    `close_connection`, now or later.
    """

    __slots__ = ("_answer", "abandoned", "behind", "connection", "frame")

    def __init__(self, connection: Connection, frame: bytes) -> None:
        self.connection = connection
        self.frame = frame
        """The request without its length; empty once it is not needed any more."""
        self.abandoned: Callable[[], None] | None = None
        """Called after the event in which the connection ended, if this was not answered by then:
        what waits to answer it need not wait any longer.
        """
        self.behind: Exchange | None = None
        """The next one of the connection, while both are in progress."""
        self._answer: Sequence[Part] | None = None

    @property
    def peer(self) -> tuple[str, int]:
        """Address and port of the client."""
        return self.connection.peer

    @property
    def answered(self) -> bool:
        return self._answer is not None

    def respond(self, parts: Sequence[Part]) -> None:
        """The whole response, its length included. File slices are released when they are sent, or
        cannot be.
        """
        assert self._answer is None, "answered twice"
        self._answer = parts
        # What waited knows the way here: without this, each would keep the other, and the request,
        # until the collector comes by.
        self.abandoned = None
        self.frame = b""
        self.connection._answered(self, parts)

    def no_response(self) -> None:
        """Done, and the client expects nothing (`acks=0`)."""
        self.respond(())

    def close_connection(self, reason: str) -> None:
        """The client sent what it must not. Older answers that are ready are sent if the transport
        takes them.
        """
        self.connection.close_violation(reason)


class InProgress:
    """The exchanges of one connection, oldest first: those that are not answered, and those whose
    answers wait for them.

    They are linked to each other, not held in a list: one is there most often, and a connection
    that has no list has less to be fetched into the processor's caches when its request comes.
    """

    __slots__ = ("_count", "_newest", "_oldest")

    def __init__(self) -> None:
        self._count = 0
        self._oldest: Exchange | None = None
        self._newest: Exchange | None = None

    def __len__(self) -> int:
        return self._count

    def append(self, exchange: Exchange) -> None:
        """The newest."""
        if self._newest is None:
            self._oldest = exchange
        else:
            self._newest.behind = exchange
        self._newest = exchange
        self._count += 1

    def answered(self, exchange: Exchange, answer: Sequence[Part], output: OutputQueue) -> bool:
        """Queue an answer and those behind it; False if an older exchange has none."""
        if self._oldest is not exchange:
            return False
        following = self._take_oldest(exchange)
        output.append(answer)
        while following is not None and (behind := following._answer) is not None:
            following = self._take_oldest(following)
            output.append(behind)
        return True

    def _take_oldest(self, oldest: Exchange) -> Exchange | None:
        """Let it go; the one that is the oldest now."""
        following = oldest.behind
        oldest.behind = None
        self._oldest = following
        self._count -= 1
        if following is None:
            self._newest = None
        return following

    def abandon(self, call_soon: Callable[[Callable[[], None]], None]) -> None:
        """None of them will be sent: release their files, and tell what waits to answer."""
        exchange = self._oldest
        while exchange is not None:
            release_all(exchange._answer or ())
            if exchange.abandoned is not None and not exchange.answered:
                call_soon(exchange.abandoned)
            exchange = self._take_oldest(exchange)
