"""Odradek's own metrics, `odradek_*`: of the broker as a whole and of its topics, in base units.

The functions that read come first, then the rows. The module is as long as the list: one table,
whose page readers search by name, is easier to keep free of doubles than one for each package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from odradek import leaves
from odradek.broker.metrics.metric import (
    NO_LABELS,
    PAUSE,
    SIZES,
    Read,
    ReadSamples,
    Sample,
    Value,
    counter,
    gauge,
    histogram,
    known,
    one,
)
from odradek.broker.metrics.scrape import GROUPS_SHOWN, TOPICS_SHOWN, Scrape, TopicTotals
from odradek.broker.request_metrics import OTHER, ApiMetrics
from odradek.config.addresses import CLUSTER
from odradek.coordinator.group.classic_group import GroupState
from odradek.coordinator.group.heartbeat import HEARTBEAT
from odradek.coordinator.group.rebalance import JOIN, SYNC
from odradek.coordinator.transaction.transaction_counters import TransactionCounters
from odradek.coordinator.transaction.transaction_state import KEPT
from odradek.model.errors import ErrorCode
from odradek.model.histogram import Histogram
from odradek.model.version import VERSION
from odradek.network.connection import CONNECTION
from odradek.protocol.api_keys import MESSAGES

if TYPE_CHECKING:
    from odradek.network.connection import NetworkCounters
    from odradek.network.loop_load import LoopLoad
    from odradek.timing import DelayedOperationPurgatory

NANOSECONDS = 1e-9
LISTENER = ("listener",)

# -- how the rows are read -------------------------------------------------------------------------


def build_info(scrape: Scrape) -> Iterator[Sample]:
    form, _, reason = leaves.mode().partition(" ")
    yield (VERSION, form, reason.strip("()")), 1


def of_apis(value: Callable[[ApiMetrics], Histogram]) -> Read:
    """Read a histogram of each API that was ever asked for."""

    def read(scrape: Scrape) -> Iterator[Sample]:
        for metrics in scrape.node.broker.request_metrics.each():
            found = value(metrics)
            if found.count:
                yield (metrics.name,), found

    return read


def errors(scrape: Scrape) -> Iterator[Sample]:
    for metrics in scrape.node.broker.request_metrics.each():
        for code, count in list(metrics.errors.items()):
            yield (metrics.name, error_name(code)), count


def error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def unserved(scrape: Scrape) -> Iterator[Sample]:
    """Read the requests that are not served: by name if there is such an API in a version."""
    kinds = scrape.node.broker.request_metrics.unserved
    for kind, count in list(kinds.items()):
        key, version = kind
        if kind == OTHER:
            yield ("other", ""), count
        else:
            name = MESSAGES[key].name if key in MESSAGES else str(key)
            yield (name, str(version)), count


def of_sockets(value: Callable[[NetworkCounters], int]) -> ReadSamples:
    """Read a counter of the network by listener."""

    def read(scrape: Scrape) -> Iterator[Sample]:
        for listener, sockets in scrape.node.servers:
            yield (listener,), value(sockets.counters)

    return read


def connection_count(scrape: Scrape) -> Iterator[Sample]:
    for listener, sockets in scrape.node.servers:
        yield (listener,), len(sockets.connections)


def connections_closed(scrape: Scrape) -> Iterator[Sample]:
    for listener, sockets in scrape.node.servers:
        yield from closed_by_reason(listener, sockets.counters)


def closed_by_reason(listener: str, counters: NetworkCounters) -> Iterator[Sample]:
    by_reason = {
        "client": counters.client_closed,
        "idle": counters.idle_closed,
        "no_request": counters.silent_closed,
        "stalled": counters.stalled_closed,
        "invalid_request": counters.violations,
        "connection_error": counters.failed,
        "bug": counters.bugs,
    }
    for reason, count in by_reason.items():
        yield (listener, reason), count
    yield (listener, "broker"), max(0, counters.connections_closed - sum(by_reason.values()))


def of_loop(value: Callable[[LoopLoad], Value]) -> Read:
    """Read a value of the loop; a simulated broker has none."""

    def read(scrape: Scrape) -> Iterator[Sample]:
        if scrape.node.loop_load is not None:
            yield NO_LABELS, value(scrape.node.loop_load)

    return read


def of_purgatories(value: Callable[[DelayedOperationPurgatory], Value]) -> Read:
    """Read a value of each purgatory."""

    def read(scrape: Scrape) -> Iterator[Sample]:
        for purgatory in scrape.node.broker.purgatories():
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


def wheel_tasks(scrape: Scrape) -> Iterator[Sample]:
    wheel, level = scrape.node.timer.timing_wheel, 1
    while True:
        tasks = sum(bucket.count for bucket in wheel.buckets)
        yield (str(level), str(wheel.tick_ms / 1000)), tasks
        if wheel.overflow_wheel is None:
            return
        wheel, level = wheel.overflow_wheel, level + 1


def timer_tasks(scrape: Scrape) -> Iterator[Sample]:
    """Read the tasks by kind; those without a kind are periodic work and delayed operations."""
    timer, named = scrape.node.timer, 0
    for kind, counted in timer.counters.items():
        named += counted.count
        yield (kind,), counted.count
    operations = sum(purgatory.num_delayed for purgatory in scrape.node.broker.purgatories())
    yield ("operation",), operations
    yield ("other",), max(0, timer.size - named - operations)


def groups_by_state(scrape: Scrape) -> Iterator[Sample]:
    yield from scrape.count_groups()
    for state in GroupState:
        yield (state.value,), scrape.all_groups.by_state[state]


def group_members(scrape: Scrape) -> Iterator[Sample]:
    yield from scrape.count_groups()
    yield NO_LABELS, scrape.all_groups.members


def groups_not_shown(scrape: Scrape) -> Iterator[Sample]:
    yield from scrape.count_groups()
    yield NO_LABELS, max(0, scrape.all_groups.groups - GROUPS_SHOWN)


def group_transitions(scrape: Scrape) -> Iterator[Sample]:
    counts = scrape.node.groups.transitions.by_state
    for state in GroupState:
        yield (state.value,), counts.get(state.value, 0)


def transactional_ids(scrape: Scrape) -> Iterator[Sample]:
    coordinator = scrape.node.broker.transactions_in_use
    counts = {} if coordinator is None else coordinator.states()
    for state in KEPT:
        yield (state.text,), counts.get(state, 0)


def transactions_ended(scrape: Scrape) -> Iterator[Sample]:
    coordinator = scrape.node.broker.transactions_in_use
    counters = TransactionCounters() if coordinator is None else coordinator.counters
    yield ("committed",), counters.committed
    yield ("aborted",), counters.aborted


def transaction_timeouts(scrape: Scrape) -> int:
    coordinator = scrape.node.broker.transactions_in_use
    return 0 if coordinator is None else coordinator.counters.timed_out


def ending_transactions(scrape: Scrape) -> int:
    coordinator = scrape.node.broker.transactions_in_use
    return 0 if coordinator is None else coordinator.markers.open_ends


def rebalances(scrape: Scrape) -> int:
    state = GroupState.PREPARING_REBALANCE.value
    return scrape.node.groups.transitions.by_state.get(state, 0)


def committed_offsets(scrape: Scrape) -> Iterator[Sample]:
    total = 0
    for shard in scrape.shards():
        for group_id in shard.offsets.groups():
            total += sum(len(each) for each in shard.offsets.of_group(group_id).values())
            yield PAUSE
    yield NO_LABELS, total


def of_topics(value: Callable[[TopicTotals], int]) -> Read:
    """Read a sum of each topic that is shown."""

    def read(scrape: Scrape) -> Iterator[Sample]:
        yield from scrape.count_topics()
        for topic, totals in scrape.topics.items():
            yield (topic,), value(totals)

    return read


def of_all_topics(value: Callable[[TopicTotals], int]) -> Read:
    """Read a sum over all partitions, deleted ones included."""

    def read(scrape: Scrape) -> Iterator[Sample]:
        yield from scrape.count_topics()
        yield NO_LABELS, value(scrape.all_topics)

    return read


def topics_not_shown(scrape: Scrape) -> Iterator[Sample]:
    yield from scrape.count_topics()
    yield NO_LABELS, len(scrape.topics_not_shown)


def none_below_0(value: int) -> int | None:
    return None if value < 0 else value


# -- the rows --------------------------------------------------------------------------------------

BROKER = (
    gauge(
        "odradek_build_info",
        "1",
        "1; the labels say which version runs, if its hot modules are compiled, and if not, why.",
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
        "odradek_offline_partitions",
        "partitions",
        "Partitions of this broker whose log cannot be used: the data directory failed, or files "
        "are damaged.",
        of_all_topics(lambda totals: totals.offline),
    ),
    gauge(
        "odradek_topics",
        "topics",
        "Topics of the cluster.",
        one(lambda scrape: len(scrape.node.broker.image.topics)),
    ),
    gauge(
        "odradek_topics_without_series",
        "topics",
        f"Topics without series of their own, because more than {TOPICS_SHOWN:,} have some; the "
        "sums over all topics include them.",
        topics_not_shown,
    ),
)

REQUESTS = (
    histogram(
        "odradek_request_handling_seconds",
        "seconds",
        "Time of the broker's thread for a request: receiving, decoding and handling it, and "
        "sending the response before it.",
        of_apis(lambda metrics: metrics.handling),
        ("api",),
    ),
    histogram(
        "odradek_request_delayed_seconds",
        "seconds",
        "Time for which requests waited that could not be answered at once: a produce for the "
        "disk, a fetch for records, a join for the other members.",
        of_apis(lambda metrics: metrics.delayed),
        ("api",),
    ),
    histogram(
        "odradek_request_seconds",
        "seconds",
        "Time from receiving a request until its response was ready.",
        of_apis(lambda metrics: metrics.total),
        ("api",),
    ),
    histogram(
        "odradek_request_size_bytes",
        "bytes",
        "Size of requests, with their length and header.",
        of_apis(lambda metrics: metrics.request_bytes),
        ("api",),
        SIZES,
    ),
    histogram(
        "odradek_response_size_bytes",
        "bytes",
        "Size of responses, without their length and header.",
        of_apis(lambda metrics: metrics.response_bytes),
        ("api",),
        SIZES,
    ),
    counter(
        "odradek_request_errors_total",
        "errors",
        "Error codes in responses: one for each partition, group or other part that has one.",
        errors,
        ("api", "error"),
    ),
    counter(
        "odradek_unserved_requests_total",
        "requests",
        "Requests whose API or version is not served; each closed its connection. An API that is "
        "not known is given by its key.",
        unserved,
        ("api", "version"),
    ),
)

NETWORK = (
    gauge(
        "odradek_connections",
        "connections",
        f"Open connections; of other nodes on the listener `{CLUSTER}`.",
        connection_count,
        LISTENER,
    ),
    counter(
        "odradek_connections_accepted_total",
        "connections",
        "Connections accepted.",
        of_sockets(lambda counters: counters.connections_accepted),
        LISTENER,
    ),
    counter(
        "odradek_connections_refused_total",
        "connections",
        "Connections closed at once because of a limit on connections.",
        of_sockets(lambda counters: counters.connections_refused),
        LISTENER,
    ),
    counter(
        "odradek_connections_closed_total",
        "connections",
        "Connections closed, by reason: `broker` is a stop, or a limit on memory.",
        connections_closed,
        (*LISTENER, "reason"),
    ),
    counter(
        "odradek_requests_received_total",
        "requests",
        "Requests received, of all APIs, those that are not served included.",
        of_sockets(lambda counters: counters.requests),
        LISTENER,
    ),
    counter(
        "odradek_received_bytes_total",
        "bytes",
        "Bytes received from clients, or other nodes.",
        of_sockets(lambda counters: counters.bytes_in),
        LISTENER,
    ),
    counter(
        "odradek_sent_bytes_total",
        "bytes",
        "Bytes sent to clients, or other nodes.",
        of_sockets(lambda counters: counters.bytes_out),
        LISTENER,
    ),
    counter(
        "odradek_bugs_total",
        "exceptions",
        "Exceptions in handlers of requests that should not happen; each is in the log.",
        of_sockets(lambda counters: counters.bugs),
        LISTENER,
    ),
)

LOOP = (
    histogram(
        "odradek_loop_turn_seconds",
        "seconds",
        "Turns of the broker's loop: what becomes ready during one waits for its end. The sum is "
        "the time that the broker's thread was busy.",
        of_loop(lambda load: load.turns),
    ),
    histogram(
        "odradek_loop_lag_seconds",
        "seconds",
        "How late the loop ran the timers that were due, counted from the earliest of them.",
        of_loop(lambda load: load.timer_lag),
    ),
)

WAITING = (
    gauge(
        "odradek_timer_tasks",
        "tasks",
        f"Tasks in the timing wheels by kind: `{JOIN}` and `{SYNC}` of rebalances, "
        f"`{HEARTBEAT}` (sessions of members), `{CONNECTION}`, `operation` (delayed operations).",
        timer_tasks,
        ("kind",),
    ),
    gauge(
        "odradek_timer_wheel_tasks",
        "tasks",
        "Tasks on a level of the timing wheels.",
        wheel_tasks,
        ("level", "tick_seconds"),
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
    gauge(
        "odradek_purgatory_watched_keys",
        "keys",
        "Keys that the operations of a purgatory watch.",
        of_purgatories(lambda purgatory: purgatory.watched_keys),
        ("operation",),
    ),
    counter(
        "odradek_purgatory_completed_total",
        "operations",
        "Operations that waited and were completed before their deadline.",
        of_purgatories(lambda purgatory: purgatory.completed),
        ("operation",),
    ),
    counter(
        "odradek_purgatory_expired_total",
        "operations",
        "Operations that waited until their deadline.",
        of_purgatories(lambda purgatory: purgatory.expired),
        ("operation",),
    ),
    gauge(
        "odradek_fetch_sessions",
        "sessions",
        "Incremental fetch sessions.",
        one(lambda scrape: len(scrape.node.broker.fetch_sessions.sessions)),
    ),
)

GROUPS = (
    gauge("odradek_groups", "groups", "Consumer groups by state.", groups_by_state, ("state",)),
    gauge(
        "odradek_groups_without_series",
        "groups",
        f"Groups without series of their own, because more than {GROUPS_SHOWN:,} have some; the "
        "counts of groups and members include them.",
        groups_not_shown,
    ),
    gauge("odradek_group_members", "members", "Members of all consumer groups.", group_members),
    gauge(
        "odradek_committed_offsets",
        "offsets",
        "Offsets that groups have committed and that are kept, one for each partition.",
        committed_offsets,
    ),
    counter(
        "odradek_group_rebalances_total",
        "rebalances",
        "Rebalances of consumer groups that began.",
        one(rebalances),
    ),
    counter(
        "odradek_group_transitions_total",
        "transitions",
        "Changes of the state of consumer groups, by the state they led to.",
        group_transitions,
        ("state",),
    ),
)

TRANSACTIONS = (
    gauge(
        "odradek_transactional_ids",
        "ids",
        "Transactional ids that this broker coordinates, by state.",
        transactional_ids,
        ("state",),
    ),
    counter(
        "odradek_transactions_ended_total",
        "transactions",
        "Transactions whose markers are all written, by result.",
        transactions_ended,
        ("result",),
    ),
    counter(
        "odradek_transaction_timeouts_total",
        "transactions",
        "Transactions that were aborted because they were open for longer than their timeout.",
        one(transaction_timeouts),
    ),
    gauge(
        "odradek_transactions_ending",
        "transactions",
        "Transactions whose outcome is decided and whose markers are not all written.",
        one(ending_transactions),
    ),
    counter(
        "odradek_hanging_transactions_aborted_total",
        "transactions",
        "Transactions in partitions led here that no coordinator knew, and that were aborted.",
        one(lambda scrape: scrape.node.broker.hanging_transactions.aborted),
    ),
)

TOPICS = (
    counter(
        "odradek_appended_records_total",
        "records",
        "Records appended to all partitions, each counted by its leader.",
        of_all_topics(lambda totals: totals.counts.appended_records),
    ),
    counter(
        "odradek_appended_bytes_total",
        "bytes",
        "Bytes appended to all partitions, counted by their leaders.",
        of_all_topics(lambda totals: totals.counts.appended_bytes),
    ),
    counter(
        "odradek_fetched_bytes_total",
        "bytes",
        "Bytes of records in the responses to fetches of consumers.",
        of_all_topics(lambda totals: totals.counts.fetched_bytes),
    ),
    counter(
        "odradek_replication_received_bytes_total",
        "bytes",
        "Bytes that this broker has appended as a follower.",
        of_all_topics(lambda totals: totals.counts.bytes_from_leaders),
    ),
    counter(
        "odradek_replication_sent_bytes_total",
        "bytes",
        "Bytes of records in the responses to fetches of followers.",
        of_all_topics(lambda totals: totals.counts.bytes_to_followers),
    ),
    gauge(
        "odradek_log_size_bytes",
        "bytes",
        "Bytes of the segments of all logs.",
        of_all_topics(lambda totals: totals.size_bytes),
    ),
    gauge(
        "odradek_log_segments",
        "segments",
        "Segments of all logs.",
        of_all_topics(lambda totals: totals.segments),
    ),
    counter(
        "odradek_topic_appended_records_total",
        "records",
        "Records appended to a topic, each counted by its leader.",
        of_topics(lambda totals: totals.counts.appended_records),
        ("topic",),
    ),
    counter(
        "odradek_topic_appended_bytes_total",
        "bytes",
        "Bytes appended to a topic, counted by its leaders.",
        of_topics(lambda totals: totals.counts.appended_bytes),
        ("topic",),
    ),
    counter(
        "odradek_topic_fetched_bytes_total",
        "bytes",
        "Bytes of a topic's records in the responses to fetches of consumers.",
        of_topics(lambda totals: totals.counts.fetched_bytes),
        ("topic",),
    ),
    gauge(
        "odradek_topic_log_size_bytes",
        "bytes",
        "Bytes of the segments of a topic's logs.",
        of_topics(lambda totals: totals.size_bytes),
        ("topic",),
    ),
)

LOGS = (
    histogram(
        "odradek_flush_seconds",
        "seconds",
        "Time of a flush of a log, from its request to a worker until its end is handled.",
        one(lambda scrape: scrape.node.replicas.flusher.flush_times),
    ),
    counter(
        "odradek_flushed_bytes_total",
        "bytes",
        "Bytes that flushes have made durable.",
        one(lambda scrape: scrape.node.replicas.flusher.flushed_bytes),
    ),
    counter(
        "odradek_flush_failures_total",
        "flushes",
        "Flushes that failed; after one, nothing is acknowledged until a restart.",
        one(lambda scrape: scrape.node.replicas.flusher.failed_flushes),
    ),
    gauge(
        "odradek_flushes_in_progress",
        "flushes",
        "Flushes under way on workers.",
        one(lambda scrape: scrape.node.replicas.flusher.in_flight),
    ),
    gauge(
        "odradek_flushes_waiting",
        "partitions",
        "Partitions that wait for their next flush to begin.",
        one(lambda scrape: scrape.node.replicas.flusher.waiting),
    ),
    gauge(
        "odradek_data_directory_failed",
        "boolean",
        "1 once a write or flush has failed: every partition is offline until a restart.",
        one(lambda scrape: int(scrape.node.replicas.directory_failed)),
    ),
    gauge(
        "odradek_data_volume_free_bytes",
        "bytes",
        "Free bytes of the data directory's volume.",
        known(lambda scrape: none_below_0(scrape.node.broker.disk_space()[0])),
    ),
    gauge(
        "odradek_data_volume_size_bytes",
        "bytes",
        "Size of the data directory's volume.",
        known(lambda scrape: none_below_0(scrape.node.broker.disk_space()[1])),
    ),
    counter(
        "odradek_recovery_scanned_bytes_total",
        "bytes",
        "Bytes of logs that were read and checked when the logs were opened.",
        one(lambda scrape: scrape.node.directory.recovery.scanned_bytes),
    ),
    counter(
        "odradek_recovery_truncated_bytes_total",
        "bytes",
        "Bytes of torn tails that were removed when the logs were opened.",
        one(lambda scrape: scrape.node.directory.recovery.truncated_bytes),
    ),
    counter(
        "odradek_retention_deleted_segments_total",
        "segments",
        "Segments that retention deleted.",
        one(lambda scrape: scrape.node.housekeeping.deleted_segments),
    ),
    counter(
        "odradek_retention_deleted_bytes_total",
        "bytes",
        "Bytes of the segments that retention deleted.",
        one(lambda scrape: scrape.node.housekeeping.deleted_bytes),
    ),
    counter(
        "odradek_compaction_passes_total",
        "passes",
        "Compactions of a log that reached their end.",
        one(lambda scrape: scrape.node.housekeeping.cleaner.passes),
    ),
    counter(
        "odradek_compaction_read_bytes_total",
        "bytes",
        "Bytes that these compactions read.",
        one(lambda scrape: scrape.node.housekeeping.cleaner.bytes_read),
    ),
    counter(
        "odradek_compaction_written_bytes_total",
        "bytes",
        "Bytes that these compactions wrote.",
        one(lambda scrape: scrape.node.housekeeping.cleaner.bytes_written),
    ),
    gauge(
        "odradek_compaction_in_progress",
        "boolean",
        "1 while a log is being compacted.",
        one(lambda scrape: int(scrape.node.housekeeping.cleaner.is_cleaning)),
    ),
    gauge(
        "odradek_uncleanable_logs",
        "logs",
        "Logs with unexpected content, which are not compacted until a restart.",
        one(lambda scrape: scrape.node.housekeeping.cleaner.uncleanable),
    ),
)

METADATA = (
    gauge(
        "odradek_metadata_end_offset",
        "offset",
        "The offset that the next record of the cluster's metadata gets.",
        one(lambda scrape: scrape.node.metadata.end_offset),
    ),
    gauge(
        "odradek_metadata_committed_offset",
        "offset",
        "The offset up to which the cluster's metadata is committed.",
        one(lambda scrape: scrape.node.metadata.committed_offset),
    ),
    gauge(
        "odradek_metadata_failed",
        "boolean",
        "1 once the metadata could not be written: it does not change until a restart.",
        one(lambda scrape: int(scrape.node.metadata.failure is not None)),
    ),
    gauge(
        "odradek_brokers",
        "brokers",
        "Brokers that are registered in the cluster and not fenced.",
        one(lambda scrape: len(scrape.node.broker.alive_brokers())),
    ),
    gauge(
        "odradek_background_work",
        "jobs",
        "Blocking work that was given to workers and has not ended.",
        one(lambda scrape: scrape.node.background.in_progress),
    ),
)

ROWS = (
    *BROKER,
    *REQUESTS,
    *NETWORK,
    *LOOP,
    *WAITING,
    *GROUPS,
    *TRANSACTIONS,
    *TOPICS,
    *LOGS,
    *METADATA,
)
