"""Kafka's own metrics that have a meaning here, by the names that boards for Kafka query.

The names are those that the Prometheus JMX exporter makes with Strimzi's rules, and those of
kafka_exporter (Grafana's board 7589). Boards and alerts written for them show this broker without a
change; `NOT_SERVED` lists what they query and this broker has not, each with its reason.

The module is as long as Kafka's list: a row for each name, in the groups of Kafka's own beans.

Every value is computed from this broker's state, also where one node leaves little to compute: a
partition with one replica is never under-replicated. As in Kafka, in-sync replicas are counted by
the broker that leads the partition, so that sums over brokers are right. Samples of a partition or
topic of the cluster (kafka_exporter's, which runs once for all brokers) come from its leader only;
those of a partition without a leader from the active controller (`Scrape.teller`).

`request="Fetch"` has the sums of `FetchConsumer` and `FetchFollower`, which are also the fetches of
the metadata log. Quantiles are of all requests since the start; Kafka's weigh the last minutes.
Times are in milliseconds, as in Kafka.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from odradek.broker.metrics.metric import (
    MILLISECONDS,
    NO_LABELS,
    PAUSE,
    SIZES,
    Buckets,
    Found,
    Kind,
    Metric,
    MetricsPage,
    PartitionKeys,
    Read,
    ReadSamples,
    Sample,
    SampleColumn,
    counter,
    gauge,
    one,
)
from odradek.broker.metrics.odradek_metrics import (
    error_name,
    of_all_topics,
)
from odradek.broker.metrics.partition_metrics import LABELS, of_open_logs, of_served
from odradek.broker.metrics.process_metrics import of_process
from odradek.broker.metrics.scrape import ClusterTotals, TopicTotals
from odradek.broker.request_metrics import FETCH_FOLLOWER, ApiMetrics
from odradek.coordinator.group.classic_group import GroupState
from odradek.coordinator.group.heartbeat import HEARTBEAT
from odradek.coordinator.group.rebalance import JOIN, SYNC
from odradek.model.histogram import Histogram
from odradek.network.loop_load import LoopLoad
from odradek.timing import DelayedOperationPurgatory

if TYPE_CHECKING:
    from odradek.broker.metrics.scrape import Scrape
    from odradek.controller.image import PartitionRegistration
    from odradek.network.server import SocketServer

FETCH = "Fetch"
CONSUMERS_FETCH = "FetchConsumer"
ONE_PROCESSOR = "0"
"""The network processor: the loop is the only one."""
RUNNING, STOPPING = 3, 6
"""Kafka's states of a broker."""

# -- how the rows are read -------------------------------------------------------------------------


def summary(
    name: str,
    unit: str,
    help_text: str,
    read: Read,
    labels: tuple[str, ...] = (),
    buckets: Buckets = MILLISECONDS,
) -> Metric:
    """A row that is shown by quantiles, as the exporter shows Kafka's histograms."""
    return Metric(name, Kind.SUMMARY, unit, labels, help_text, read, buckets=buckets)


def of_topics(value: Callable[[TopicTotals], int]) -> Read:
    """Read a sum over all topics, without label, and one of each topic that is shown."""

    def read(scrape: Scrape) -> Iterator[Sample]:
        yield from scrape.count_topics()
        yield ("",), value(scrape.all_topics)
        for topic, totals in scrape.topics.items():
            yield (topic,), value(totals)

    return read


def of_requests(value: Callable[[ApiMetrics], Histogram]) -> Read:
    """Read a histogram of each API that was ever asked for."""

    def read(scrape: Scrape) -> Iterator[Sample]:
        for name, parts in named_requests(scrape):
            found = Histogram()
            for part in parts:
                found = found.plus(value(part))
            if found.count:
                yield (name,), found

    return read


def named_requests(scrape: Scrape) -> Iterator[tuple[str, list[ApiMetrics]]]:
    """Yield the names of requests, each with the counts that it has the sums of: Kafka has fetches
    of consumers, those of followers, and both.
    """
    counted = scrape.node.broker.request_metrics
    for metrics in counted.by_key.values():
        if metrics.name == FETCH:
            yield CONSUMERS_FETCH, [metrics]
            yield FETCH_FOLLOWER, [counted.fetch_follower]
            yield FETCH, [metrics, counted.fetch_follower]
        else:
            yield metrics.name, [metrics]


def requests(scrape: Scrape) -> Iterator[Sample]:
    for name, parts in named_requests(scrape):
        if count := sum(part.request_bytes.count for part in parts):
            yield (name,), count


def request_errors(scrape: Scrape) -> Iterator[Sample]:
    for name, parts in named_requests(scrape):
        counts: Counter[int] = Counter()
        for part in parts:
            counts.update(part.errors)
        for code, count in counts.items():
            yield (name, error_name(code)), count


def purgatory_sizes(value: Callable[[DelayedOperationPurgatory], int]) -> Read:
    """Read the purgatories; rebalances and sessions are kept by keyed timers instead."""

    def read(scrape: Scrape) -> Iterator[Sample]:
        node = scrape.node
        replicas, timers = node.replicas, node.timer.counters
        followers = node.broker.follower_fetches
        of_followers = 0 if followers is None else value(followers.purgatory)
        yield (replicas.produce_purgatory.name,), value(replicas.produce_purgatory)
        yield (FETCH,), value(replicas.fetch_purgatory) + of_followers
        yield (replicas.delete_records_purgatory.name,), value(replicas.delete_records_purgatory)
        for name, kinds in (("Rebalance", (JOIN, SYNC)), ("Heartbeat", (HEARTBEAT,))):
            yield (name,), sum(timers[kind].count for kind in kinds if kind in timers)

    return read


def expired_fetches(scrape: Scrape) -> Iterator[Sample]:
    followers = scrape.node.broker.follower_fetches
    yield ("consumer",), scrape.node.replicas.fetch_purgatory.expired
    yield ("follower",), 0 if followers is None else followers.purgatory.expired


def of_cluster(value: Callable[[ClusterTotals], int]) -> Read:
    """Read a count of the cluster's partitions."""

    def read(scrape: Scrape) -> Iterator[Sample]:
        yield from scrape.count_cluster()
        yield NO_LABELS, value(scrape.cluster)

    return read


def idle(value: Callable[[LoopLoad, int], float]) -> Read:
    """Read the share of time that the loop slept; a simulated broker has no loop."""

    def read(scrape: Scrape) -> Iterator[Sample]:
        load = scrape.node.loop_load
        if load is not None:
            stopwatch = scrape.node.broker.request_metrics.stopwatch
            yield NO_LABELS, value(load, stopwatch.last_ns)

    return read


def of_listeners(value: Callable[[SocketServer], int]) -> ReadSamples:
    """Read a value of each listener."""

    def read(scrape: Scrape) -> Iterator[Sample]:
        for listener, sockets in scrape.node.servers:
            yield (listener, ONE_PROCESSOR), value(sockets)

    return read


def groups_in(state: GroupState) -> Read:
    """Read the number of groups in a state."""

    def read(scrape: Scrape) -> Iterator[Sample]:
        yield from scrape.count_groups()
        yield NO_LABELS, scrape.all_groups.by_state[state]

    return read


def group_count(scrape: Scrape) -> Iterator[Sample]:
    yield from scrape.count_groups()
    yield NO_LABELS, scrape.all_groups.groups


def log_directory_offline(scrape: Scrape) -> Iterator[Sample]:
    yield (scrape.node.broker.log_directory_path,), int(scrape.node.replicas.directory_failed)


def is_active_controller(scrape: Scrape) -> bool:
    """True if this broker decides on the cluster's metadata, and its disk takes the records."""
    metadata = scrape.node.metadata
    return metadata.controller.is_active and metadata.failure is None


def current_leader(scrape: Scrape) -> int:
    """The id of the quorum's leader; -1 if none is known."""
    leader_id = scrape.node.metadata.raft.core.leader_id
    return -1 if leader_id is None else leader_id


def current_vote(scrape: Scrape) -> int:
    voted = scrape.node.metadata.raft.core.election.voted
    return -1 if voted is None else voted.id


def raft_state(scrape: Scrape) -> Iterator[Sample]:
    metadata = scrape.node.metadata
    core = metadata.raft.core
    if metadata.failure is None:
        name = type(core.role).__name__.lower()
        yield ("observer" if name == "follower" and not core.is_voter else name,), 1


def partitions_by_topic(scrape: Scrape) -> Iterator[Sample]:
    """Read the partitions of each topic of which this broker tells the first one."""
    tells = scrape.teller()
    for topic in scrape.shown_topics():
        if tells(topic.partitions[0]):
            yield (topic.name,), len(topic.partitions)


def of_registrations(values: Callable[[list[PartitionRegistration]], list[int]]) -> Read:
    """Read a value of each partition that this broker tells; `values` has those of some."""

    def read(scrape: Scrape) -> Iterator[Found]:
        for keys, registrations in scrape.told_registrations():
            yield SampleColumn(keys, values(registrations))

    return read


def replica_counts(registrations: list[PartitionRegistration]) -> list[int]:
    return [len(each.replicas) for each in registrations]


def in_sync_counts(registrations: list[PartitionRegistration]) -> list[int]:
    return [len(each.isr) for each in registrations]


def under_replicated(registrations: list[PartitionRegistration]) -> list[int]:
    return [int(len(each.isr) < len(each.replicas)) for each in registrations]


def of_min_isr(value: Callable[[int, int], int]) -> Read:
    """Compare the in-sync replicas of each partition with those that it must have."""

    def read(scrape: Scrape) -> Iterator[Found]:
        for keys, registrations in scrape.told_registrations():
            of_topic = {topic: scrape.min_isr(topic) for topic in {topic for topic, _ in keys}}
            wanted = [of_topic[topic] for topic, _ in keys]
            least = map(min, wanted, replica_counts(registrations))
            yield SampleColumn(keys, list(map(value, in_sync_counts(registrations), least)))

    return read


def consumer_group_members(scrape: Scrape) -> Iterator[Sample]:
    for _, group in scrape.shown_groups():
        yield (group.id,), len(group.members)


ValueOfCommitted = Callable[[int, int | None], int | None]
"""A value of the committed offset of a partition and of its end, which may not be known."""


def consumer_group_sums(value: ValueOfCommitted) -> Read:
    """Sum a value of a group's partitions of a topic; none of a topic with one that is not known:
    a sum without it would be wrong.
    """

    def read(scrape: Scrape) -> Iterator[Sample]:
        for shard, group in scrape.shown_groups():
            sums: dict[str, int | None] = {}
            for offsets in scrape.committed_offsets(shard, group.id):
                for (topic, _), offset, end in offsets:
                    total, added = sums.get(topic, 0), value(offset, end)
                    sums[topic] = None if total is None or added is None else total + added
                yield PAUSE
            for topic, total in sums.items():
                if total is not None:
                    yield (group.id, topic), total

    return read


def consumer_group_offsets(value: ValueOfCommitted) -> Read:
    """Read a value of each partition of each group, where it is known."""

    def read(scrape: Scrape) -> Iterator[Found]:
        for shard in scrape.shards():
            for group_id in shard.offsets.groups():
                for offsets in scrape.committed_offsets(shard, group_id):
                    values = {key: value(offset, end) for key, offset, end in offsets}
                    known = {key: each for key, each in values.items() if each is not None}
                    yield SampleColumn(PartitionKeys(known), list(known.values()), (group_id,))

    return read


def committed(offset: int, end: int | None) -> int | None:
    return offset


def lag(offset: int, end: int | None) -> int | None:
    return None if end is None else max(0, end - offset)


def per_partition(
    name: str,
    unit: str,
    help_text: str,
    read: Read,
    labels: tuple[str, ...] = LABELS,
) -> Metric:
    """A gauge of single partitions."""
    return Metric(name, Kind.GAUGE, unit, labels, help_text, read, MetricsPage.PARTITIONS)


# -- the rows --------------------------------------------------------------------------------------

TOPIC_LABEL = ("topic",)
BROKER_TOPIC_METRICS = tuple(
    counter(f"kafka_server_brokertopicmetrics_{name}_total", unit, help_text, read, TOPIC_LABEL)
    for name, unit, help_text, read in (
        (
            "messagesin",
            "records",
            "Records appended, counted by their leaders; without topic: to all topics.",
            of_topics(lambda totals: totals.counts.appended_records),
        ),
        (
            "bytesin",
            "bytes",
            "Bytes appended, counted by their leaders; without topic: to all topics.",
            of_topics(lambda totals: totals.counts.appended_bytes),
        ),
        (
            "bytesout",
            "bytes",
            "Bytes of records sent to consumers; without topic: of all topics.",
            of_topics(lambda totals: totals.counts.fetched_bytes),
        ),
        (
            "totalproducerequests",
            "appends",
            "Appends of produces to a partition; without topic: of all topics.",
            of_topics(lambda totals: totals.counts.produces),
        ),
        (
            "failedproducerequests",
            "appends",
            "Those of them that failed, invalid records included.",
            of_topics(lambda totals: totals.counts.failed_produces),
        ),
        (
            "totalfetchrequests",
            "reads",
            "Reads of fetches of a partition; without topic: of all topics.",
            of_topics(lambda totals: totals.counts.fetches),
        ),
        (
            "failedfetchrequests",
            "reads",
            "Those of them that failed.",
            of_topics(lambda totals: totals.counts.failed_fetches),
        ),
    )
)

REPLICATION = (
    counter(
        "kafka_server_brokertopicmetrics_replicationbytesin_total",
        "bytes",
        "Bytes that this broker has appended as a follower.",
        of_all_topics(lambda totals: totals.counts.bytes_from_leaders),
    ),
    counter(
        "kafka_server_brokertopicmetrics_replicationbytesout_total",
        "bytes",
        "Bytes of records sent to followers.",
        of_all_topics(lambda totals: totals.counts.bytes_to_followers),
    ),
)

REQUEST_LABEL = ("request",)
REQUESTS = (
    counter(
        "kafka_network_requestmetrics_requests_total",
        "requests",
        "Requests received.",
        requests,
        REQUEST_LABEL,
    ),
    counter(
        "kafka_network_requestmetrics_errors_total",
        "errors",
        "Error codes in responses.",
        request_errors,
        ("request", "error"),
    ),
    summary(
        "kafka_network_requestmetrics_totaltimems",
        "milliseconds",
        "Time until a response was ready.",
        of_requests(lambda metrics: metrics.total),
        REQUEST_LABEL,
    ),
    summary(
        "kafka_network_requestmetrics_localtimems",
        "milliseconds",
        "Time of the broker's thread for a request.",
        of_requests(lambda metrics: metrics.handling),
        REQUEST_LABEL,
    ),
    summary(
        "kafka_network_requestmetrics_remotetimems",
        "milliseconds",
        "Time for which requests waited that could not be answered at once.",
        of_requests(lambda metrics: metrics.delayed),
        REQUEST_LABEL,
    ),
    summary(
        "kafka_network_requestmetrics_requestbytes",
        "bytes",
        "Size of requests.",
        of_requests(lambda metrics: metrics.request_bytes),
        REQUEST_LABEL,
        SIZES,
    ),
)

LISTENER_LABELS = ("listener", "networkProcessor")
NETWORK = (
    gauge(
        "kafka_server_socket_server_metrics_connection_count",
        "connections",
        "Open connections.",
        of_listeners(lambda sockets: len(sockets.connections)),
        LISTENER_LABELS,
    ),
    counter(
        "kafka_server_socket_server_metrics_connection_creation_total",
        "connections",
        "Connections accepted.",
        of_listeners(lambda sockets: sockets.counters.connections_accepted),
        LISTENER_LABELS,
    ),
    counter(
        "kafka_server_socket_server_metrics_connection_close_total",
        "connections",
        "Connections closed.",
        of_listeners(lambda sockets: sockets.counters.connections_closed),
        LISTENER_LABELS,
    ),
    counter(
        "kafka_server_socket_server_metrics_incoming_byte_total",
        "bytes",
        "Bytes received.",
        of_listeners(lambda sockets: sockets.counters.bytes_in),
        LISTENER_LABELS,
    ),
    counter(
        "kafka_server_socket_server_metrics_outgoing_byte_total",
        "bytes",
        "Bytes sent.",
        of_listeners(lambda sockets: sockets.counters.bytes_out),
        LISTENER_LABELS,
    ),
    gauge(
        "kafka_network_socketserver_networkprocessoravgidle_percent",
        "ratio",
        "Share of the last half minute that the broker's loop slept.",
        idle(lambda load, now_ns: load.idle_share(now_ns)),
    ),
    gauge(
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
        "ratio",
        "Share of the time since the start that the broker's loop slept.",
        idle(lambda load, now_ns: load.mean_idle_share(now_ns)),
    ),
)

OPERATION_LABEL = ("delayedOperation",)
PURGATORIES = (
    gauge(
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        "entries",
        "Entries in the watch lists of a purgatory; of rebalances and heartbeats the timers.",
        purgatory_sizes(lambda purgatory: purgatory.watched),
        OPERATION_LABEL,
    ),
    gauge(
        "kafka_server_delayedoperationpurgatory_numdelayedoperations",
        "operations",
        "Operations that wait in a purgatory; of rebalances and heartbeats the timers.",
        purgatory_sizes(lambda purgatory: purgatory.num_delayed),
        OPERATION_LABEL,
    ),
    counter(
        "kafka_server_delayedproducemetrics_expires_total",
        "operations",
        "Produces that waited until their deadline.",
        one(lambda scrape: scrape.node.replicas.produce_purgatory.expired),
    ),
    counter(
        "kafka_server_delayedfetchmetrics_expires_total",
        "operations",
        "Fetches that waited until their deadline.",
        expired_fetches,
        ("fetcherType",),
    ),
    gauge(
        "kafka_server_fetchsessioncache_numincrementalfetchsessions",
        "sessions",
        "Incremental fetch sessions.",
        one(lambda scrape: len(scrape.node.broker.fetch_sessions.sessions)),
    ),
)

REPLICAS = (
    gauge(
        "kafka_server_replicamanager_leadercount",
        "partitions",
        "Partitions that this broker leads and serves.",
        of_all_topics(lambda totals: totals.leading),
    ),
    gauge(
        "kafka_server_replicamanager_partitioncount",
        "partitions",
        "Partitions of this broker.",
        one(lambda scrape: len(scrape.node.replicas.by_name)),
    ),
    gauge(
        "kafka_server_replicamanager_offlinereplicacount",
        "partitions",
        "Partitions of this broker whose log cannot be used.",
        of_all_topics(lambda totals: totals.offline),
    ),
    gauge(
        "kafka_server_replicamanager_underreplicatedpartitions",
        "partitions",
        "Partitions that this broker leads with fewer in-sync replicas than replicas.",
        of_cluster(lambda totals: totals.under_replicated),
    ),
    gauge(
        "kafka_server_replicamanager_underminisrpartitioncount",
        "partitions",
        "Partitions that this broker leads with fewer in-sync replicas than min.insync.replicas.",
        of_cluster(lambda totals: totals.under_min_isr),
    ),
    gauge(
        "kafka_server_replicamanager_atminisrpartitioncount",
        "partitions",
        "Partitions that this broker leads with as many in-sync replicas as min.insync.replicas, "
        "at most all replicas.",
        of_cluster(lambda totals: totals.at_min_isr),
    ),
)

CONTROLLER = (
    gauge(
        "kafka_controller_kafkacontroller_activecontrollercount",
        "controllers",
        "1 while this broker is the active controller.",
        one(lambda scrape: int(is_active_controller(scrape))),
    ),
    gauge(
        "kafka_controller_kafkacontroller_activebrokercount",
        "brokers",
        "Brokers that are registered and not fenced.",
        one(lambda scrape: len(scrape.node.broker.alive_brokers())),
    ),
    gauge(
        "kafka_controller_kafkacontroller_fencedbrokercount",
        "brokers",
        "Brokers that are registered and fenced.",
        one(lambda scrape: sum(each.fenced for each in scrape.node.broker.image.brokers.values())),
    ),
    gauge(
        "kafka_controller_kafkacontroller_globaltopiccount",
        "topics",
        "Topics of the cluster.",
        one(lambda scrape: len(scrape.node.broker.image.topics)),
    ),
    gauge(
        "kafka_controller_kafkacontroller_globalpartitioncount",
        "partitions",
        "Partitions of the cluster.",
        of_cluster(lambda totals: totals.partitions),
    ),
    gauge(
        "kafka_controller_kafkacontroller_offlinepartitionscount",
        "partitions",
        "Partitions without a leader that can serve them.",
        of_cluster(lambda totals: totals.offline),
    ),
    gauge(
        "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
        "partitions",
        "Partitions that another replica than their first one leads.",
        of_cluster(lambda totals: totals.not_preferred),
    ),
    counter(
        "kafka_controller_controllerstats_uncleanleaderelections_total",
        "elections",
        "Elections by this broker, as the active controller, of a leader that may not have all "
        "committed records.",
        one(lambda scrape: scrape.node.metadata.controller.unclean_elections),
    ),
    gauge(
        "kafka_controller_kafkacontroller_lastcommittedrecordoffset",
        "offset",
        "The last committed offset of the cluster's metadata.",
        one(lambda scrape: scrape.node.metadata.committed_offset - 1),
    ),
    gauge(
        "kafka_server_raftmetrics_current_leader",
        "id",
        "The id of the node that leads the metadata's quorum; -1 if none is known.",
        one(current_leader),
    ),
    gauge(
        "kafka_server_raftmetrics_current_vote",
        "id",
        "The id of the node for which this one has voted in the present epoch; -1 if for none.",
        one(current_vote),
    ),
    gauge(
        "kafka_server_raftmetrics_current_state",
        "1",
        "1 with the state of this broker in the metadata's quorum.",
        raft_state,
        ("current_state",),
    ),
    gauge(
        "kafka_server_raftmetrics_current_epoch",
        "epoch",
        "The epoch of the metadata log.",
        one(lambda scrape: scrape.node.metadata.epoch),
    ),
    gauge(
        "kafka_server_raftmetrics_high_watermark",
        "offset",
        "The offset up to which the metadata is committed.",
        one(lambda scrape: scrape.node.metadata.committed_offset),
    ),
    gauge(
        "kafka_server_raftmetrics_log_end_offset",
        "offset",
        "The offset that the next record of the metadata gets.",
        one(lambda scrape: scrape.node.metadata.end_offset),
    ),
    gauge(
        "kafka_server_kafkaserver_brokerstate",
        "state",
        "3: the broker runs; 6: it stops.",
        one(lambda scrape: STOPPING if scrape.node.is_stopping else RUNNING),
    ),
)

GROUP_MANAGER = "kafka_coordinator_group_groupmetadatamanager_"
GROUPS = (
    gauge(f"{GROUP_MANAGER}numgroups", "groups", "Groups.", group_count),
    *(
        gauge(
            f"{GROUP_MANAGER}numgroups{state.value.lower()}",
            "groups",
            f"Groups in the state {state.value}.",
            groups_in(state),
        )
        for state in GroupState
    ),
)

LOGS = (
    gauge(
        "kafka_log_logmanager_offlinelogdirectorycount",
        "directories",
        "1 once the data directory has failed.",
        one(lambda scrape: int(scrape.node.replicas.directory_failed)),
    ),
    gauge(
        "kafka_log_logmanager_logdirectoryoffline",
        "boolean",
        "1 once this data directory has failed.",
        log_directory_offline,
        ("logDirectory",),
    ),
    summary(
        "kafka_log_logflushstats_logflushrateandtimems",
        "milliseconds",
        "Time of a flush of a log.",
        one(lambda scrape: scrape.node.replicas.flusher.flush_times),
    ),
    gauge(
        "kafka_server_kafkaserver_linux_disk_read_bytes",
        "bytes",
        "Bytes that storage devices read for the process.",
        of_process(lambda usage: usage.disk_read_bytes),
    ),
    gauge(
        "kafka_server_kafkaserver_linux_disk_write_bytes",
        "bytes",
        "Bytes that the process had written to storage devices.",
        of_process(lambda usage: usage.disk_write_bytes),
    ),
)

GROUP_TOPIC = ("consumergroup", "topic")
EXPORTER = (
    gauge(
        "kafka_brokers",
        "brokers",
        "Brokers that are registered and not fenced.",
        one(lambda scrape: len(scrape.node.broker.alive_brokers())),
    ),
    gauge(
        "kafka_topic_partitions",
        "partitions",
        "Partitions of a topic.",
        partitions_by_topic,
        TOPIC_LABEL,
    ),
    gauge(
        "kafka_consumergroup_members",
        "members",
        "Members of a consumer group.",
        consumer_group_members,
        ("consumergroup",),
    ),
    gauge(
        "kafka_consumergroup_current_offset_sum",
        "offsets",
        "Sum of a group's committed offsets of a topic.",
        consumer_group_sums(committed),
        GROUP_TOPIC,
    ),
    gauge(
        "kafka_consumergroup_lag_sum",
        "records",
        "Sum over a topic's partitions of the offsets that a group has yet to commit; none while "
        "the end of one of them is not known.",
        consumer_group_sums(lag),
        GROUP_TOPIC,
    ),
)

PARTITIONS = (
    per_partition(
        "kafka_log_log_size",
        "bytes",
        "Bytes of the log's segments.",
        of_open_logs(lambda partitions: [each.log.segments.size for each in partitions]),
    ),
    per_partition(
        "kafka_log_log_numlogsegments",
        "segments",
        "Segments of the log.",
        of_open_logs(lambda partitions: [len(each.log.segments) for each in partitions]),
    ),
    per_partition(
        "kafka_log_log_logstartoffset",
        "offset",
        "The first offset that can be read.",
        of_open_logs(lambda partitions: [each.log.log_start_offset for each in partitions]),
    ),
    per_partition(
        "kafka_log_log_logendoffset",
        "offset",
        "The offset that the next record gets.",
        of_open_logs(lambda partitions: [each.log.log_end_offset for each in partitions]),
    ),
    per_partition(
        "kafka_cluster_partition_replicascount",
        "replicas",
        "Replicas.",
        of_registrations(replica_counts),
    ),
    per_partition(
        "kafka_cluster_partition_insyncreplicascount",
        "replicas",
        "In-sync replicas.",
        of_registrations(in_sync_counts),
    ),
    per_partition(
        "kafka_cluster_partition_underreplicated",
        "boolean",
        "1 if a replica is not in sync.",
        of_registrations(under_replicated),
    ),
    per_partition(
        "kafka_cluster_partition_underminisr",
        "boolean",
        "1 if fewer replicas are in sync than min.insync.replicas, at most all replicas.",
        of_min_isr(lambda in_sync, least: int(in_sync < least)),
    ),
    per_partition(
        "kafka_cluster_partition_atminisr",
        "boolean",
        "1 if as many replicas are in sync as min.insync.replicas, at most all replicas.",
        of_min_isr(lambda in_sync, least: int(in_sync == least)),
    ),
    per_partition(
        "kafka_topic_partition_current_offset",
        "offset",
        "The offset up to which consumers read.",
        of_served(lambda partitions: [each.high_watermark for each in partitions]),
    ),
    per_partition(
        "kafka_topic_partition_oldest_offset",
        "offset",
        "The first offset that can be read.",
        of_served(lambda partitions: [each.log.log_start_offset for each in partitions]),
    ),
    per_partition(
        "kafka_topic_partition_leader",
        "id",
        "The id of the broker that leads the partition.",
        of_registrations(lambda registrations: [each.leader for each in registrations]),
    ),
    per_partition(
        "kafka_topic_partition_leader_is_preferred",
        "boolean",
        "1 if the first replica leads.",
        of_registrations(
            lambda registrations: [int(each.leader == each.replicas[0]) for each in registrations]
        ),
    ),
    per_partition(
        "kafka_topic_partition_replicas",
        "replicas",
        "Replicas.",
        of_registrations(replica_counts),
    ),
    per_partition(
        "kafka_topic_partition_in_sync_replica",
        "replicas",
        "In-sync replicas.",
        of_registrations(in_sync_counts),
    ),
    per_partition(
        "kafka_topic_partition_under_replicated_partition",
        "boolean",
        "1 if a replica is not in sync.",
        of_registrations(under_replicated),
    ),
    per_partition(
        "kafka_consumergroup_current_offset",
        "offset",
        "The offset that a group has committed.",
        consumer_group_offsets(committed),
        (*GROUP_TOPIC, "partition"),
    ),
    per_partition(
        "kafka_consumergroup_lag",
        "records",
        "The offsets between a group's committed one and the end for consumers, where that is "
        "known.",
        consumer_group_offsets(lag),
        (*GROUP_TOPIC, "partition"),
    ),
)

ROWS = (
    *BROKER_TOPIC_METRICS,
    *REPLICATION,
    *REQUESTS,
    *NETWORK,
    *PURGATORIES,
    *REPLICAS,
    *CONTROLLER,
    *GROUPS,
    *LOGS,
    *EXPORTER,
    *PARTITIONS,
)

NO_JVM = "of a Java process: this broker has none; see the process_* metrics"
OF_KUBERNETES = "of Kubernetes, not of a broker"
OF_CLUSTER_BYTES = (
    "not apart from other traffic between nodes: see odradek_received_bytes_total and "
    'odradek_sent_bytes_total with listener="CLUSTER"'
)
OF_CLUSTER_REQUESTS = (
    "see kafka_network_requestmetrics_requests_total with FetchFollower, Vote, BeginQuorumEpoch, "
    "EndQuorumEpoch and FetchSnapshot"
)
NOT_SERVED: dict[str, str] = {
    "container_cpu_usage_seconds_total": OF_KUBERNETES,
    "container_last_seen": OF_KUBERNETES,
    "container_memory_usage_bytes": OF_KUBERNETES,
    "jvm_gc_collection_seconds_count": NO_JVM,
    "jvm_gc_collection_seconds_sum": NO_JVM,
    "jvm_memory_bytes_used": NO_JVM,
    "jvm_memory_used_bytes": NO_JVM,
    "jvm_threads_current": NO_JVM,
    "kafka_server_raftchannelmetrics_incoming_byte_total": OF_CLUSTER_BYTES,
    "kafka_server_raftchannelmetrics_outgoing_byte_total": OF_CLUSTER_BYTES,
    "kafka_server_raftchannelmetrics_request_total": OF_CLUSTER_REQUESTS,
    "kafka_server_raftchannelmetrics_response_total": OF_CLUSTER_REQUESTS,
    "kafka_server_raftmetrics_append_records_rate": "a rate by Kafka's own clock: query "
    "rate(kafka_server_raftmetrics_log_end_offset)",
    "kafka_server_raftmetrics_commit_latency_avg": "an average by Kafka's own clock: see "
    "odradek_flush_seconds, of which a commit is one",
    "kafka_server_raftmetrics_fetch_records_rate": "a rate by Kafka's own clock: query "
    "rate(kafka_server_raftmetrics_log_end_offset) of a follower",
    "kubelet_volume_stats_available_bytes": "of Kubernetes: see odradek_data_volume_free_bytes",
    "kubelet_volume_stats_capacity_bytes": "of Kubernetes: see odradek_data_volume_size_bytes",
}
"""Names that boards for Kafka query and this broker does not have, each with the reason."""
