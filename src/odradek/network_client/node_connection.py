"""NodeConnection: the connection to one node, and its requests from `send` to their end.

    send ─► pending ─► in flight ─► answered, in order
               │           │
               └───────────┴── the connection is lost: `error` for all of them, in order

A request is pending while the connection is not ready (it is opened for the request, after the
back-off), while the maximum of requests is in flight, and while the node throttles this client.
Metadata requests leave first: while metadata is old, others may go to the wrong node.

Everything has a deadline, and there is one alarm per connection. A request in flight without a
response in time ends the connection, because later responses could not be matched; a pending one
fails alone. A node that left the cluster, as a fenced broker does, gets a second for its answers:
one that lost its power would never give them. A connection that was not used for
`connections.max.idle.ms` is closed. No handler is called from within `send`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from odradek.config.addresses import address_text
from odradek.model.errors import ErrorCode, ProtocolError
from odradek.network_client.alarm import Alarm
from odradek.network_client.api_versions import NodeApiVersions
from odradek.network_client.channel import Channel
from odradek.network_client.connection_states import DISCONNECTED
from odradek.network_client.errors import (
    Disconnected,
    InvalidRequest,
    KafkaError,
    RequestTimeout,
    UnsupportedVersion,
)
from odradek.network_client.handshake import Handshake
from odradek.network_client.in_flight_requests import ClientRequest
from odradek.network_client.network_metrics import NodeMetrics
from odradek.protocol.frame import decode_response_header, request_parts

if TYPE_CHECKING:
    from odradek.network_client.network_client import NetworkClient


CORRELATION_MASK: Final = 0x7FFFFFFF
LEAVING_MS: Final = 1_000
"""How long a node that left the cluster may take for its answers."""


class NodeConnection:
    """The connection to a node, known by id and address. `NetworkClient` makes it."""

    def __init__(self, client: NetworkClient, node_id: int, name: str, host: str, port: int):
        self.node_id = node_id
        self.name = name
        self.host = host
        self.port = port
        self.ready = False
        """The node is connected and versions are negotiated."""
        self.ready_requested = False
        """Somebody waits for `node_ready`."""
        self.leaving = False
        """The node left the cluster: it is dropped when nothing is in flight."""
        self._leaving_until_ms = 0
        self.versions = NodeApiVersions()
        self.pending: deque[ClientRequest] = deque()
        self.metrics = NodeMetrics(client.metrics)
        self._client = client
        self._timer = client.timer
        self._states = client.states
        self._in_flight = client.in_flight
        self._channel: Channel | None = None
        self._handshake: Handshake | None = None
        self._has_transport = False
        self._active_ms = 0
        self._deadline_alarm = Alarm(client.timer, self._check_deadlines)
        self._retry_alarm = Alarm(client.timer, self._delay_over)  # When it ends.

    def __str__(self) -> str:
        return f"{self.name} ({address_text(self.host, self.port)})"

    # Sending.

    def can_send(self) -> bool:
        """True if a request would leave at once."""
        return (
            self.ready
            and not self.pending
            and self._in_flight.can_send_more(self.node_id)
            and self._states.is_ready(self.node_id, self._timer.now_ms)
        )

    def send(self, call: ClientRequest, first: bool) -> None:
        """Send a request now, or put it into `pending`, before all others if it is to be `first`;
        such a request is not refused."""
        if self.can_send():
            self._transmit(call)
        elif first:
            self.pending.appendleft(call)
            self._deadline_alarm.set_for(call.deadline_ms)
            self.connect_or_wait()
        elif len(self.pending) >= self._client.max_pending:
            text = f"{len(self.pending)} requests are already waiting for {self}"
            self._client.fail_soon(call, Disconnected(text))
        else:
            self.pending.append(call)
            self._deadline_alarm.set_for(call.deadline_ms)
            self.connect_or_wait()

    def _transmit(self, call: ClientRequest) -> None:
        try:
            codec, parts = self.versions.encode(call.request)
        except (UnsupportedVersion, InvalidRequest) as error:
            self._client.fail_soon(call, type(error)(f"{self}: {error}", error.code))
            return
        client, now_ms = self._client, self._timer.now_ms
        client.sent += 1
        call.codec = codec
        call.correlation_id = correlation_id = client.sent
        call.sent_ms = now_ms
        call.deadline_ms = deadline_ms = now_ms + call.timeout_ms
        self._in_flight.add(call)
        if deadline_ms < self._deadline_alarm.at_ms:
            self._deadline_alarm.set_for(deadline_ms)
        assert self._channel is not None
        wire_id = correlation_id & CORRELATION_MASK
        size = self._channel.send(
            request_parts(codec.api_key, codec.version, wire_id, client.client_id, parts)
        )
        self.metrics.request_sent(size, now_ms)

    def _send_pending(self) -> None:
        """Send pending requests as far as the limit in flight allows."""
        pending = self.pending
        while pending and self.ready and self._in_flight.can_send_more(self.node_id):
            now_ms = self._timer.now_ms
            delay_ms = self._states.throttle_delay_ms(self.node_id, now_ms)
            if delay_ms:
                self._retry_alarm.set_for(now_ms + delay_ms)
                return
            self._transmit(pending.popleft())

    # Connecting.

    def connect_or_wait(self) -> None:
        """Connect, now or after the back-off; or wait for the end of throttling."""
        now_ms = self._timer.now_ms
        if self.ready:
            delay_ms = self._states.throttle_delay_ms(self.node_id, now_ms)
        elif self._states.state(self.node_id) == DISCONNECTED:
            delay_ms = self._states.connection_delay_ms(self.node_id, now_ms)
            if not delay_ms:
                self._connect(now_ms)
        else:
            return
        if delay_ms:
            self._retry_alarm.set_for(now_ms + delay_ms)

    def _delay_over(self) -> None:
        if self.ready:
            self._send_pending()
            if self.can_send():
                self._client.connection_ready(self)
        elif self.ready_requested or self.pending:
            self.connect_or_wait()

    def _connect(self, now_ms: int) -> None:
        client = self._client
        setup_ms = self._states.connecting(self.node_id, (self.host, self.port), now_ms)
        self._handshake = Handshake(
            self,
            client.env.network,
            self._timer,
            client.client_id,
            client.api_versions_request(self.node_id),
            client.api_versions_version,
            client.request_timeout_ms,
            client.max_response_bytes,
            client.buffers,
        )
        self._handshake.begin(self.host, self.port, setup_ms)

    def connected(self) -> None:
        self._has_transport = True
        self.metrics.connection_created(self._timer.now_ms)
        self._states.checking_api_versions(self.node_id)

    def handshake_done(self, channel: Channel, versions: NodeApiVersions, version: int) -> None:
        self._handshake = None
        self._client.api_versions_version = version
        self.versions = versions
        self._client.features_seen(versions)
        self._channel = channel
        channel.hand_over(self._received, self._drained, self._channel_closed)
        self._active_ms = self._timer.now_ms
        self._states.ready(self.node_id)
        self.ready = True
        self._deadline_alarm.set_for(self._active_ms + self._client.max_idle_ms)
        self._send_pending()
        self._client.connection_ready(self)

    def handshake_failed(self, reason: str, code: ErrorCode) -> None:
        where = address_text(self.host, self.port)
        why = reason.removeprefix(f"cannot connect to {where}: ")
        self.disconnect(f"{self} cannot be used: {why}")
        if code == ErrorCode.REBOOTSTRAP_REQUIRED:
            self._client.rebootstrap_required()

    # Receiving.

    def _received(self, frame: bytes) -> None:
        call = self._in_flight.complete_next(self.node_id)
        if call is None:
            self.disconnect(f"{self} sent a response without a request")
            return
        codec = call.codec
        assert codec is not None
        self._active_ms = now_ms = self._timer.now_ms
        self.metrics.response_received(now_ms)
        try:
            found, position = decode_response_header(frame, codec.flexible_response)
            if found != call.correlation_id & CORRELATION_MASK:
                raise ProtocolError(f"it answers request {found}, which is not the oldest")
            response = codec.read(frame, position)
        except ProtocolError as violation:
            reason = f"{self} sent a response to {codec.name} that cannot be read: {violation}"
            self._client.finish(call, None, Disconnected(reason))
            self.disconnect(reason)
            return
        if codec.throttles and response.throttle_time_ms > 0:
            self._states.throttle(self.node_id, now_ms + response.throttle_time_ms)
        if self.pending:
            self._send_pending()
        self._client.finish(call, response, None)
        if self.leaving:
            self.leave()

    def _drained(self) -> None:
        self.metrics.record_traffic(self._timer.now_ms)
        if self._in_flight.has_unwritten(self.node_id):
            self._client.env.call_soon(self._complete_written)

    def _complete_written(self) -> None:
        if self._channel is not None and not self._channel.queued_bytes:
            for call in self._in_flight.written(self.node_id):
                self._client.finish(call, None, None)
            self._send_pending()

    # Deadlines.

    def _check_deadlines(self) -> None:
        """Handle the deadlines that have passed, and set the alarm for the next one."""
        now_ms = self._timer.now_ms
        if self._is_overdue(now_ms):
            self.disconnect(f"{self} left the cluster and did not answer")
            return
        earliest = self._in_flight.next_to_time_out(self.node_id)
        if earliest is not None and earliest.deadline_ms <= now_ms:
            self.disconnect(f"{self} did not answer within {earliest.timeout_ms} ms", earliest)
            return
        for call in [call for call in self.pending if call.deadline_ms <= now_ms]:
            self.pending.remove(call)
            text = f"no request could be sent to {self} within {call.timeout_ms} ms"
            self._client.finish(call, None, RequestTimeout(text))
        deadlines = [call.deadline_ms for call in self.pending]
        if earliest is not None:
            deadlines.append(earliest.deadline_ms)
        elif self.ready and not self.pending:
            deadlines.append(self._active_ms + self._client.max_idle_ms)
            if deadlines[0] <= now_ms:
                self.close()
                return
        if self.leaving and self._leaving_until_ms > now_ms:
            deadlines.append(self._leaving_until_ms)
        if deadlines:
            self._deadline_alarm.set_for(min(deadlines))

    def _is_overdue(self, now_ms: int) -> bool:
        """True if the node left the cluster and its time for answers is over. Bootstrap servers
        leave when the brokers' ids are known, and are brokers still."""
        return (
            self.leaving
            and self.node_id >= 0
            and now_ms >= self._leaving_until_ms
            and self._in_flight.count(self.node_id) > 0
        )

    # Closing.

    def _channel_closed(self, reason: str) -> None:
        """Disconnect after the current event: this may be called from within `send`."""
        channel = self._channel
        self.ready = False

        def tell() -> None:
            if self._channel is channel:
                self.disconnect(f"{self} disconnected: {reason}")

        self._client.env.call_soon(tell)

    def disconnect(self, reason: str, late: ClientRequest | None = None) -> None:
        """End a connection or attempt that failed; `late` is the request that timed out, if any."""
        if self._states.state(self.node_id) == DISCONNECTED:
            return
        self._states.disconnected(self.node_id, self._timer.now_ms)
        error = Disconnected(f"{reason}. What to do: {Disconnected.advice}")
        for call in self._release():
            self._client.finish(call, None, RequestTimeout(reason) if call is late else error)
        self._client.connection_lost(self, error)

    def move(self, host: str, port: int, *, now: bool) -> None:
        """Use another address from the next connection on; `now`: end the present one, and do not
        wait for the old address's back-off."""
        if now:
            self.disconnect(f"{self} moved to {address_text(host, port)}")
            self._states.forget(self.node_id)
        self.host, self.port = host, port
        if now and (self.pending or self.ready_requested):
            self.connect_or_wait()

    def close(self) -> None:
        """Close an idle connection. The next request opens another one."""
        self._states.closed(self.node_id)
        self._release()

    def leave(self) -> None:
        """Drop the node, which left the cluster, as soon as nothing is in flight."""
        if not self.leaving:
            self.leaving = True
            self._leaving_until_ms = self._timer.now_ms + LEAVING_MS
        if not self.pending and not self._in_flight.count(self.node_id):
            self._client.drop(self)
        elif self.node_id >= 0 and self._leaving_until_ms > self._timer.now_ms:
            self._deadline_alarm.set_for(self._leaving_until_ms)

    def abandon(self, error: KafkaError) -> None:
        """Close the connection permanently, and fail all requests."""
        for call in self._release():
            self._client.finish(call, None, error)

    def _release(self) -> list[ClientRequest]:
        """Release all resources; return the unanswered requests, in order."""
        self._retry_alarm.cancel()
        self._deadline_alarm.cancel()
        if self._handshake is not None:
            self._handshake.stop()
            self._handshake = None
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._has_transport:
            self._has_transport = False
            self.metrics.connection_closed(self._timer.now_ms)
        self.ready = self.ready_requested = False
        lost = [*self._in_flight.clear(self.node_id), *self.pending]
        self.pending.clear()
        return lost
