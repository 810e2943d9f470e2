"""Metrics of the HTTP server itself, `odradek_http_*`; none if the broker serves no HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from odradek.broker.metrics.metric import NO_LABELS, Read, Sample, counter, gauge

if TYPE_CHECKING:
    from odradek.broker.metrics.scrape import Scrape
    from odradek.network.http_server import HttpServer


def of_http(value: Callable[[HttpServer], int]) -> Read:
    """Read a value of the HTTP server, if there is one."""

    def read(scrape: Scrape) -> Iterator[Sample]:
        server = scrape.node.http
        if server is not None:
            yield NO_LABELS, value(server)

    return read


ROWS = (
    gauge(
        "odradek_http_connections",
        "connections",
        "Open HTTP connections.",
        of_http(lambda server: len(server.connections)),
    ),
    counter(
        "odradek_http_connections_accepted_total",
        "connections",
        "HTTP connections accepted since the broker was ready.",
        of_http(lambda server: server.counters.connections_accepted),
    ),
    counter(
        "odradek_http_connections_refused_total",
        "connections",
        "HTTP connections answered with 503 because there were too many.",
        of_http(lambda server: server.counters.connections_refused),
    ),
    counter(
        "odradek_http_requests_total",
        "requests",
        "HTTP requests, whatever the answer.",
        of_http(lambda server: server.counters.requests),
    ),
    counter(
        "odradek_http_requests_refused_total",
        "requests",
        "HTTP requests answered with a status from 400, a health check that fails included.",
        of_http(lambda server: server.counters.refused),
    ),
    counter(
        "odradek_http_timeouts_total",
        "connections",
        "HTTP connections closed because a request or the taking of its answer was too slow.",
        of_http(lambda server: server.counters.timed_out),
    ),
    counter(
        "odradek_http_sent_bytes_total",
        "bytes",
        "Bytes sent to HTTP clients.",
        of_http(lambda server: server.counters.bytes_out),
    ),
)
