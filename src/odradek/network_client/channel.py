"""Channel: one connection to one node, as frames in and parts out.

    send(parts) ─► output queue ─► transport ─► drained: all bytes were taken
    transport ─► framing ─► received(frame), in order
    end of stream, an error, an invalid length ─► closed(reason), once, perhaps from `send`

It knows neither requests nor time. Bytes are written at once, as far as the transport takes them,
and the rest when it takes more. The batches of a produce request are sent without a copy, and a
response arrives as one `bytes` object; a large one without a copy, if the system holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from odradek.model.env import Network, Transport
from odradek.network.framing import RECEIVE_WHOLE_BYTES, FrameError, Framing
from odradek.network.output import BLOCKED, DONE, OutputQueue, Part
from odradek.network_client.network_metrics import NodeMetrics

MAX_RESPONSE_BYTES = 256 * 1024 * 1024
"""More than any sensible response; far less than the length that other protocols' bytes spell."""

SHARE_BYTES: Final = 1 << 62


class Channel:
    """A connected transport; open until `close` is called, or it calls `closed`."""

    __slots__ = (
        "_closed",
        "_drained",
        "_framing",
        "_low_water_mark",
        "_metrics",
        "_network",
        "_output",
        "_received",
        "_transport",
        "blocked",
        "open",
    )

    def __init__(
        self,
        network: Network,
        transport: Transport,
        received: Callable[[bytes], None],
        closed: Callable[[str], None],
        metrics: NodeMetrics,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        self._network = network
        self._transport = transport
        self._received = received
        self._closed = closed
        self._metrics = metrics
        self._drained: Callable[[], None] | None = None
        self._framing = Framing(max_response_bytes, RECEIVE_WHOLE_BYTES)
        self._low_water_mark = 1
        self._output = OutputQueue()
        self.blocked = False
        """The transport took only a part of the output."""
        self.open = True
        network.register(transport, self._readable, self._writable)

    @property
    def peer(self) -> tuple[str, int]:
        """Address and port of the node."""
        return self._transport.peer

    @property
    def queued_bytes(self) -> int:
        """Bytes that were not written yet."""
        return self._output.queued_bytes

    def hand_over(
        self,
        received: Callable[[bytes], None],
        drained: Callable[[], None],
        closed: Callable[[str], None],
    ) -> None:
        """Replace the callbacks of the handshake by those of the connection."""
        self._received, self._drained, self._closed = received, drained, closed

    def send(self, parts: Sequence[Part]) -> int:
        """Queue a frame and write as much as the transport takes; return the frame's size."""
        output = self._output
        before = output.queued_bytes
        output.append(parts)
        size = output.queued_bytes - before
        if not self.blocked:
            self._flush()
        return size

    def close(self) -> None:
        """Close the transport; `closed` is not called."""
        if self.open:
            self.open = False
            self._network.unregister(self._transport)
            self._transport.close()
            self._output.discard()

    def _flush(self) -> None:
        before = self._output.queued_bytes
        try:
            ended = self._output.flush(self._transport, SHARE_BYTES)
        except OSError as error:
            self._fail(f"sending failed: {error}")
            return
        self._metrics.written_bytes += before - self._output.queued_bytes
        blocked = ended == BLOCKED
        if blocked is not self.blocked:
            self.blocked = blocked
            self._network.set_interest(self._transport, read=True, write=blocked)
        if ended == DONE and self._drained is not None:
            self._drained()

    def _writable(self) -> None:
        if self.open and self._output.queued_bytes:
            self._flush()

    def _readable(self) -> None:
        framing = self._framing
        try:
            data = self._transport.receive(framing.receive_bytes)
        except OSError as error:
            self._fail(f"receiving failed: {error}")
            return
        if not data:
            if data is not None:
                self._fail("the broker closed the connection")
            return
        self._metrics.read_bytes += len(data)
        framing.feed(data)
        try:
            frame = framing.next_frame()
            while frame is not None:
                self._received(frame)
                if not self.open:
                    return
                frame = framing.next_frame()
        except FrameError as error:
            self._fail(
                f"the bytes received are no Kafka response ({error}): is this port a TLS listener?"
            )
            return
        if framing.low_water_mark != self._low_water_mark:
            self._set_low_water_mark(framing.low_water_mark)

    def _set_low_water_mark(self, count: int) -> None:
        """Set the transport's mark. Without a mark that high, the frame is received in pieces."""
        granted = self._transport.set_low_water_mark(count)
        if granted < count:
            self._framing.lower_whole_bytes(granted)
            count = self._transport.set_low_water_mark(1)
        self._low_water_mark = count

    def _fail(self, reason: str) -> None:
        if self.open:
            self.close()
            self._closed(reason)
