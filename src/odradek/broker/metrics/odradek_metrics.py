"""Odradek's own metrics, `odradek_*`: of the broker as a whole, in base units."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from odradek import leaves
from odradek.broker.metrics.metric import PAUSE, Sample, Value, counter, gauge, one
from odradek.coordinator.group.classic_group import GroupState
from odradek.model.version import VERSION

if TYPE_CHECKING:
    from odradek.broker.metrics.metric import Scrape
    from odradek.coordinator.group.classic_group import ClassicGroup
    from odradek.network.connection import NetworkCounters
    from odradek.timing import DelayedOperationPurgatory

# -- how the rows are read -------------------------------------------------------------------------


def build_info(scrape: Scrape) -> Iterator[Sample]:
    form, _, reason = leaves.mode().partition(" ")
    yield (VERSION, form, reason.strip("()")), 1


def of_sockets(value: Callable[[NetworkCounters], int]) -> Callable[[Scrape], Iterator[Sample]]:
    """Read a counter of the network."""
    return one(lambda scrape: value(scrape.node.sockets.counters))


def purgatories(scrape: Scrape) -> list[DelayedOperationPurgatory]:
    replicas, broker = scrape.node.replicas, scrape.node.broker
    return [
        replicas.produce_purgatory,
        replicas.fetch_purgatory,
        replicas.delete_records_purgatory,
        replicas.list_offsets_purgatory,
        broker.commit_purgatory,
    ]


def of_purgatories(
    value: Callable[[DelayedOperationPurgatory], Value],
) -> Callable[[Scrape], Iterator[Sample]]:
    """Read a value of each purgatory."""

    def read(scrape: Scrape) -> Iterator[Sample]:
        for purgatory in purgatories(scrape):
            yield (purgatory.name,), value(purgatory)

    return read


def wheel_buckets(scrape: Scrape) -> Iterator[Sample]:
    wheel, level = scrape.node.timer.timing_wheel, 1
    while True:
        used = sum(not bucket.is_empty for bucket in wheel.buckets)
        yield (str(level), str(wheel.tick_ms / 1000)), used
        if wheel.overflow_wheel is None:
            return
        wheel, level = wheel.overflow_wheel, level + 1


def groups_of(scrape: Scrape) -> Iterator[ClassicGroup]:
    """The groups of all shards that are active here."""
    for shard in list(scrape.node.groups.runtime.state_machines()):
        yield from list(shard.groups)


def groups_by_state(scrape: Scrape) -> Iterator[Sample]:
    states: Counter[GroupState] = Counter()
    for group in groups_of(scrape):
        states[group.state] += 1
        yield PAUSE
    for state in GroupState:
        yield (state.value,), states[state]


def group_members(scrape: Scrape) -> Iterator[Sample]:
    members = 0
    for group in groups_of(scrape):
        members += len(group.members)
        yield PAUSE
    yield (), members


# -- the rows --------------------------------------------------------------------------------------

BROKER = (
    gauge(
        "odradek_build_info",
        "1",
        "1; the labels say which version runs and if its hot modules are compiled.",
        build_info,
        ("version", "leaves", "reason"),
    ),
    gauge(
        "odradek_partitions",
        "partitions",
        "Partitions of this broker.",
        one(lambda scrape: len(scrape.node.replicas.by_name)),
    ),
    gauge(
        "odradek_topics",
        "topics",
        "Topics of the cluster.",
        one(lambda scrape: len(scrape.node.broker.image.topics)),
    ),
)

NETWORK = (
    gauge(
        "odradek_connections",
        "connections",
        "Open connections of clients.",
        one(lambda scrape: len(scrape.node.sockets.connections)),
    ),
    counter(
        "odradek_connections_accepted_total",
        "connections",
        "Connections accepted.",
        of_sockets(lambda counters: counters.connections_accepted),
    ),
    counter(
        "odradek_connections_refused_total",
        "connections",
        "Connections closed at once because of a limit on connections.",
        of_sockets(lambda counters: counters.connections_refused),
    ),
    counter(
        "odradek_requests_received_total",
        "requests",
        "Requests received, of all APIs, those that are not served included.",
        of_sockets(lambda counters: counters.requests),
    ),
    counter(
        "odradek_received_bytes_total",
        "bytes",
        "Bytes received from clients.",
        of_sockets(lambda counters: counters.bytes_in),
    ),
    counter(
        "odradek_sent_bytes_total",
        "bytes",
        "Bytes sent to clients.",
        of_sockets(lambda counters: counters.bytes_out),
    ),
)

WAITING = (
    gauge(
        "odradek_timer_tasks",
        "tasks",
        "Tasks in the timing wheels.",
        one(lambda scrape: scrape.node.timer.size),
    ),
    gauge(
        "odradek_timer_wheel_buckets",
        "buckets",
        "Buckets of a level of the timing wheels that hold a task.",
        wheel_buckets,
        ("level", "tick_seconds"),
    ),
    gauge(
        "odradek_purgatory_operations",
        "operations",
        "Delayed operations that wait in a purgatory.",
        of_purgatories(lambda purgatory: purgatory.num_delayed),
        ("operation",),
    ),
    gauge(
        "odradek_purgatory_watched",
        "entries",
        "Entries in the watch lists of a purgatory, completed ones included until purged.",
        of_purgatories(lambda purgatory: purgatory.watched),
        ("operation",),
    ),
)

GROUPS = (
    gauge("odradek_groups", "groups", "Consumer groups by state.", groups_by_state, ("state",)),
    gauge("odradek_group_members", "members", "Members of all consumer groups.", group_members),
)

ROWS = (*BROKER, *NETWORK, *WAITING, *GROUPS)
