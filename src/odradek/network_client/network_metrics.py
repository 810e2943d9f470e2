"""Metrics of connections: bytes, requests and responses of one node, and of all nodes together.

    Channel ─ bytes of each read and write ─► NodeMetrics ─ with each request and response ─► the
    NodeConnection ─ requests, responses ───►             whole: the same of all nodes

A channel knows no time, so it only adds to two numbers; they are recorded when a write is complete
or a response has arrived. A node that left the cluster keeps its share in the whole. Owner thread,
except for reading. Compiled, as it is used for each request.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from odradek.model.sampled_stat import SampledStat


@final
class NodeMetrics:
    """The traffic with one node; without `whole`, that with all nodes."""

    def __init__(self, whole: NodeMetrics | None) -> None:
        self.read_bytes: i64 = 0
        """Bytes read and not recorded yet."""
        self.written_bytes: i64 = 0
        """Bytes written and not recorded yet."""
        self.incoming = SampledStat()
        """Bytes read, by arrival of responses."""
        self.outgoing = SampledStat()
        """Bytes written, by completed writes."""
        self.requests = SampledStat()
        """Sizes of the requests, in bytes."""
        self.responses = SampledStat()
        self.request_latency = SampledStat()
        """From sending a Produce or Fetch request to its response, in ms."""
        self.connections_created = SampledStat()
        self.connections_closed = SampledStat()
        self._whole = whole

    def record_traffic(self, now_ms: i64) -> None:
        """Record the bytes read and written since the last call."""
        read, written = self.read_bytes, self.written_bytes
        if read:
            self.read_bytes = 0
            self.incoming.record(read, now_ms)
        if written:
            self.written_bytes = 0
            self.outgoing.record(written, now_ms)
        whole = self._whole
        if whole is not None:
            if read:
                whole.incoming.record(read, now_ms)
            if written:
                whole.outgoing.record(written, now_ms)

    def request_sent(self, size: i64, now_ms: i64) -> None:
        """A request of `size` bytes was given to the connection."""
        self.requests.record(size, now_ms)
        if self._whole is not None:
            self._whole.requests.record(size, now_ms)

    def response_received(self, now_ms: i64) -> None:
        """A response has arrived."""
        self.responses.record(1, now_ms)
        if self._whole is not None:
            self._whole.responses.record(1, now_ms)
        if self.read_bytes:
            self.record_traffic(now_ms)

    def connection_created(self, now_ms: i64) -> None:
        """A transport to the node was connected."""
        self.connections_created.record(1, now_ms)
        if self._whole is not None:
            self._whole.connections_created.record(1, now_ms)

    def connection_closed(self, now_ms: i64) -> None:
        """A connected transport was closed, by either side."""
        self.record_traffic(now_ms)
        self.connections_closed.record(1, now_ms)
        if self._whole is not None:
            self._whole.connections_closed.record(1, now_ms)

    @property
    def connection_count(self) -> int:
        """The connections that are open."""
        return self.connections_created.count - self.connections_closed.count

    @property
    def io_count(self) -> int:
        """The number of reads and writes."""
        return self.incoming.count + self.outgoing.count

    def io_rate(self, now_ms: i64) -> float:
        """Return the number of reads and writes per second."""
        return self.incoming.count_rate(now_ms) + self.outgoing.count_rate(now_ms)
