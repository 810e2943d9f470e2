"""The table of all options of the data source `odradek`: names, meanings, defaults.

Names and meanings are those of Spark's own Kafka source; Spark hands them over in lower case. An
unknown option is refused with the nearest known name: an option without effect is worse than an
error. (Other names with `kafka.` are settings of the clients, see `options`.) Tests compare the
page of the documentation with the table, and the table with the options that `options` reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from enum import Enum
from typing import Any, NamedTuple

from odradek.config.client import AdminConfig, ClientConfig
from odradek.config.consumer import ConsumerConfig
from odradek.config.producer import MAX_IDEMPOTENT_IN_FLIGHT, ProducerConfig
from odradek.config.setting import Setting

MAX_PARTITION_FETCH_BYTES = 8 * 1024 * 1024
"""More than a consumer's own default: a task often reads one partition alone, and each answer costs
two threads a wake-up."""


class OptionUse(Enum):
    """The operations that take an option: reads, reads of a stream, writes, or all."""

    ALL = "All"
    READ = "To read"
    STREAM = "To read a stream"
    WRITE = "To write"


class Option(NamedTuple):
    """An option. `default` as it is written; None: required, or no default."""

    name: str
    use: OptionUse
    default: str | None
    doc: str


def default_of(setting: Setting[Any]) -> str | None:
    """The default of a client's setting as text."""
    return setting.text(setting.default)


OPTIONS: tuple[Option, ...] = (
    Option(
        "kafka.bootstrap.servers",
        OptionUse.ALL,
        None,
        "Where the cluster is: host:port, several with commas. Has to be given.",
    ),
    Option(
        "kafka.client.id",
        OptionUse.ALL,
        "odradek-spark",
        "The client ID in requests, which brokers log.",
    ),
    Option(
        "kafka.request.timeout.ms",
        OptionUse.ALL,
        default_of(ClientConfig.request_timeout_ms),
        "How long one request may take.",
    ),
    Option(
        "kafka.default.api.timeout.ms",
        OptionUse.ALL,
        default_of(AdminConfig.default_api_timeout_ms),
        "How long something is tried again that fails with errors that may pass.",
    ),
    Option(
        "subscribe",
        OptionUse.READ,
        None,
        "Topics by name, with commas. Exactly one of the three ways.",
    ),
    Option(
        "subscribePattern",
        OptionUse.READ,
        None,
        "Topics by a regular expression of Java's, looked for anywhere in their names. It never "
        "finds topics of the broker's own (`__consumer_offsets`).",
    ),
    Option("assign", OptionUse.READ, None, 'Exactly these partitions: `{"topic": [0, 1]}`.'),
    Option(
        "startingTimestamp",
        OptionUse.READ,
        None,
        "Begin, in all partitions, at the first record that is not older: milliseconds since 1970. "
        "Stronger than the next two.",
    ),
    Option(
        "startingOffsetsByTimestamp",
        OptionUse.READ,
        None,
        'The same by partition: `{"topic": {"0": 1700000000000}}`. Stronger than startingOffsets.',
    ),
    Option(
        "startingOffsets",
        OptionUse.READ,
        None,
        'Begin at `earliest` (the default of a batch), `latest` (of a stream), or at `{"topic": '
        '{"0": 23, "1": -2}}`, where -2 is earliest and -1 latest. A stream that goes on begins '
        "where its checkpoint says.",
    ),
    Option("endingTimestamp", OptionUse.READ, None, "End there. Of batches, as the next two."),
    Option("endingOffsetsByTimestamp", OptionUse.READ, None, "The same by partition."),
    Option(
        "endingOffsets", OptionUse.READ, None, "End at `latest` (the default), or at those offsets."
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        OptionUse.READ,
        "error",
        "Where no record is that young: `error`, or `latest`.",
    ),
    Option(
        "minPartitions",
        OptionUse.READ,
        "0",
        "About how many tasks, of equal numbers of records: small topic partitions share one, "
        "large ones are split. 0: small ones share a task up to 50,000 records, a larger one has "
        "its own. Spark's own source has at least one task for each partition.",
    ),
    Option(
        "maxRecordsPerPartition",
        OptionUse.READ,
        "0",
        "The most records of one task; 0: no such limit. It holds with `minPartitions` too.",
    ),
    Option(
        "failOnDataLoss",
        OptionUse.READ,
        "true",
        "Fail when records to be read no longer exist; false: continue with those that do.",
    ),
    Option(
        "filterPushdown",
        OptionUse.READ,
        "false",
        "Let filters of a batch read narrow what is fetched. For DataFrames that are scanned once: "
        "other scans would lack rows, see below.",
    ),
    Option("includeHeaders", OptionUse.READ, "false", "Whether there is a column of headers."),
    Option(
        "columns",
        OptionUse.READ,
        None,
        "Only these columns, with commas, in this order: what a job does not use need not travel "
        "to the JVM. Spark tells Python sources nothing of the columns that a query uses.",
    ),
    Option(
        "valueFormat",
        OptionUse.READ,
        None,
        "`json`: values are decoded into the columns `data` and `error`, see below.",
    ),
    Option(
        "valueSchema",
        OptionUse.READ,
        None,
        "With valueFormat: the fields of a value, as `from_json` takes them: "
        "`a int, b struct<c: string>, d array<double>`, or the JSON of a schema.",
    ),
    Option(
        "kafka.isolation.level",
        OptionUse.READ,
        "read_uncommitted",
        "`read_committed` leaves out what transactions did not commit.",
    ),
    Option(
        "kafka.fetch.max.bytes",
        OptionUse.READ,
        default_of(ConsumerConfig.fetch_max_bytes),
        "The most bytes of one answer, unless its first batch is larger.",
    ),
    Option(
        "kafka.max.partition.fetch.bytes",
        OptionUse.READ,
        str(MAX_PARTITION_FETCH_BYTES),
        "The same of one topic partition.",
    ),
    Option(
        "maxOffsetsPerTrigger",
        OptionUse.STREAM,
        "0",
        "The most records of a micro-batch, of all partitions together; 0: no such limit.",
    ),
    Option(
        "minOffsetsPerTrigger",
        OptionUse.STREAM,
        "0",
        "Wait until there are so many records for one.",
    ),
    Option("maxTriggerDelay", OptionUse.STREAM, "15m", "But no longer than this."),
    Option(
        "maxTimestampSpanPerTrigger",
        OptionUse.STREAM,
        "0",
        "Cut each micro-batch at one record time in all partitions, so that they stay together: "
        "the most time it spans. Spark's own source has no such option.",
    ),
    Option(
        "checkpointLocation",
        OptionUse.STREAM,
        None,
        "The query's checkpoint. Given to the source too, it keeps there where the stream began, "
        "on any file system that `pyarrow.fs` knows (a path without a scheme is on the driver's "
        "machine; Spark may mean another by it). Without it a stream whose beginning can move "
        "(`latest`, timestamps) has a first micro-batch that reads nothing, and Spark's own "
        "checkpoint keeps where it began.",
    ),
    Option(
        "kafka.group.id",
        OptionUse.STREAM,
        None,
        "A consumer group for which the progress of the query is committed, so that displays of "
        "lag show it. Its checkpoint says where it goes on, not the group. What a micro-batch read "
        "is committed when the next one is asked for, and not at all if the query is stopped "
        "before: the lag shown can be one micro-batch too high. With the trigger availableNow the "
        "last one is committed too.",
    ),
    Option(
        "groupIdPrefix",
        OptionUse.STREAM,
        None,
        "The same with a name made of this and a digest of the reader's `checkpointLocation`. "
        "Without that option it is a digest of what is read and from where: two queries over the "
        "same topics then have the same group.",
    ),
    Option("topic", OptionUse.WRITE, None, "Where rows go; without it a column `topic` says it."),
    Option(
        "delivery",
        OptionUse.WRITE,
        "at_least_once",
        "`at_least_once`, or `exactly_once`: rows are written in transactions, which the driver "
        "commits together, whatever is killed: see [below](#exactly-once).",
    ),
    Option(
        "transactionalIdPrefix",
        OptionUse.WRITE,
        None,
        "With exactly_once: the beginning of all transactional ids, and the key in the ledger. By "
        "default of a stream `odradek-spark-` and the id of the query, which its checkpoint keeps; "
        "a batch write has to say it.",
    ),
    Option(
        "batchId",
        OptionUse.WRITE,
        None,
        "With exactly_once, of a batch write: its number. The same when the same rows are written "
        "again, higher for the next ones. In `foreachBatch` the number of the micro-batch.",
    ),
    Option(
        "ledgerTopic",
        OptionUse.WRITE,
        "odradek-spark-ledger",
        "With exactly_once: the compacted topic of decisions, which is created if it is missing. "
        "Many queries can share it.",
    ),
    Option(
        "ledgerStartsAt",
        OptionUse.WRITE,
        "0",
        "With exactly_once: the batch from which on the ledger knows. Earlier ones count as "
        "written. The way out where the ledger and the checkpoint disagree, with another "
        "`transactionalIdPrefix` where the ledger is lost; and for a query that goes over from "
        "at_least_once, its next batch.",
    ),
    Option(
        "kafka.transaction.timeout.ms",
        OptionUse.WRITE,
        None,
        "With exactly_once: after how long the brokers abort what a driver that is gone left open. "
        "By default the most they allow, `transaction.max.timeout.ms`.",
    ),
    Option(
        "replayHeaders",
        OptionUse.WRITE,
        "false",
        "Give each record headers by which the copies of a row can be told that a task writes "
        "which is run again: see [below](#rows-that-are-written-twice).",
    ),
    Option(
        "kafka.compression.type",
        OptionUse.WRITE,
        "none",
        "`none`, `gzip`, `snappy`, `lz4` or `zstd`.",
    ),
    Option(
        "kafka.batch.size",
        OptionUse.WRITE,
        None,
        "Bytes of records at which a batch is full. By default 1,000,000. If rows have keys or "
        "partitions, and the batches of all partitions of `topic` would take more than half of "
        "`kafka.buffer.memory`, it is 250,000, 62,500 or 16,384; if a column names the topics, "
        "250,000. Best below the topic's `max.message.bytes`: larger batches are split.",
    ),
    Option(
        "kafka.delivery.timeout.ms",
        OptionUse.WRITE,
        default_of(ProducerConfig.delivery_timeout_ms),
        "How long a record may take to be stored.",
    ),
    Option(
        "kafka.enable.idempotence",
        OptionUse.WRITE,
        "true",
        "A request that has to be sent again is not stored twice.",
    ),
    Option(
        "kafka.max.in.flight.requests.per.connection",
        OptionUse.WRITE,
        str(MAX_IDEMPOTENT_IN_FLIGHT),
        "How many requests to one broker may be unanswered: 1 to 5. Without "
        "kafka.enable.idempotence the default is 1, which keeps rows in order when a request is "
        "sent again.",
    ),
    Option(
        "kafka.acks", OptionUse.WRITE, "all", "`all`, and nothing else: a row counts when stored."
    ),
)

SPARKS_OWN = (
    "queryName",
    "asyncProgressTrackingEnabled",
    "asyncProgressTrackingCheckpointIntervalMs",
)
"""Spark's own options, which it also hands to sources and sinks."""

WITHOUT_EFFECT = (
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
"""Options of Spark's own Kafka source without a counterpart here; they are accepted."""

NO_GROUP = "where a query stands is in its checkpoint, and its tasks read without a group"
FIXED = {
    "allow.auto.create.topics": "a topic that is read has to be there",
    "auto.offset.reset": "say startingOffsets, and failOnDataLoss",
    "enable.auto.commit": NO_GROUP,
    "group.instance.id": NO_GROUP,
    "transactional.id": "say delivery and transactionalIdPrefix",
}
"""Settings of the clients that the source and the sink set themselves, with the reason."""

PREFIX = "kafka."
KNOWN = {name.lower(): name for name in (*(o.name for o in OPTIONS), *SPARKS_OWN, *WITHOUT_EFFECT)}


def unknown_option(given: Iterable[str]) -> str | None:
    """Return an error message for the first unknown option, in any case of letters; None if all
    are known or settings of clients."""
    for name in sorted(given):
        if name.lower() not in KNOWN and not name.lower().startswith(PREFIX):
            near = get_close_matches(name.lower(), KNOWN, n=1)
            meant = (
                f"did you mean {KNOWN[near[0]]}?" if near else f"it has {', '.join(option_names())}"
            )
            return f"Odradek in Spark has no option {name!r}; {meant}"
    return None


def option_names() -> list[str]:
    """Return the names of all options that have an effect."""
    return [option.name for option in OPTIONS]
