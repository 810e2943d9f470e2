"""Metrics of the broker's process, by the names that Prometheus' client libraries give them.

The values of one scrape are from one reading. A simulated broker has no process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from odradek.broker.metrics.metric import NO_LABELS, PAUSE, Read, Sample, counter, gauge
from odradek.network.process_usage import open_descriptors

if TYPE_CHECKING:
    from odradek.broker.metrics.scrape import Scrape
    from odradek.network.process_usage import ProcessUsage


def of_process(value: Callable[[ProcessUsage], float | int | None]) -> Read:
    """Read a value of the process, if it is known on this system."""

    def read(scrape: Scrape) -> Iterator[Sample]:
        usage = scrape.process_usage()
        found = None if usage is None else value(usage)
        if found is not None:
            yield NO_LABELS, found

    return read


def descriptors(scrape: Scrape) -> Iterator[Sample]:
    if scrape.node.usage is not None:
        for count in open_descriptors():
            yield PAUSE if count is None else (NO_LABELS, count)


ROWS = (
    counter(
        "process_cpu_seconds_total",
        "seconds",
        "Processor time of the broker's process.",
        of_process(lambda usage: usage.cpu_seconds),
    ),
    gauge(
        "process_start_time_seconds",
        "seconds",
        "Start of the process, since the Unix epoch.",
        of_process(lambda usage: usage.start_time_seconds),
    ),
    gauge(
        "process_resident_memory_bytes",
        "bytes",
        "Memory of the process that is in RAM.",
        of_process(lambda usage: usage.resident_bytes),
    ),
    gauge(
        "process_virtual_memory_bytes",
        "bytes",
        "Address space of the process.",
        of_process(lambda usage: usage.virtual_bytes),
    ),
    gauge(
        "process_open_fds",
        "descriptors",
        "Open descriptors: connections, files of logs, the listener.",
        descriptors,
    ),
    gauge(
        "process_max_fds",
        "descriptors",
        "The limit on open descriptors.",
        of_process(lambda usage: usage.max_descriptors),
    ),
    gauge(
        "process_threads",
        "threads",
        "Threads of the process: the broker's own and its workers.",
        of_process(lambda usage: usage.threads),
    ),
)
