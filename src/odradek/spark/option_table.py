"""All options of the data source `odradek`, as a table: what exists, what it means, its default.

Names and meanings are those of Spark's own Kafka source; Spark hands them over in lower case. What
the table does not have is refused with the nearest name it has: an option that does nothing is
worse than an error. (Further names with `kafka.` are `client_settings`.) A test holds the page to
the table, and the table to what `options` asks for.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from enum import Enum
from typing import Any, NamedTuple

from odradek.config.client import AdminConfig, ClientConfig
from odradek.config.consumer import ConsumerConfig
from odradek.config.producer import ProducerConfig
from odradek.config.setting import Setting


class Use(Enum):
    """What an option is for."""

    ALL = "All"
    READ = "To read"
    STREAM = "To read a stream"
    WRITE = "To write"


class Option(NamedTuple):
    """One option. `default` as it is written; None: it has to be said, or is not there."""

    name: str
    use: Use
    default: str | None
    doc: str


def default_of(setting: Setting[Any]) -> str | None:
    """The default of a client's setting as text."""
    return setting.text(setting.default)


OPTIONS: tuple[Option, ...] = (
    Option(
        "kafka.bootstrap.servers",
        Use.ALL,
        None,
        "Where the cluster is: host:port, several with commas. Has to be given.",
    ),
    Option("kafka.client.id", Use.ALL, "odradek-spark", "What brokers are told about who asks."),
    Option(
        "kafka.request.timeout.ms",
        Use.ALL,
        default_of(ClientConfig.request_timeout_ms),
        "How long one request may take.",
    ),
    Option(
        "kafka.default.api.timeout.ms",
        Use.ALL,
        default_of(AdminConfig.default_api_timeout_ms),
        "How long something is tried again that fails with errors that may pass.",
    ),
    Option(
        "subscribe", Use.READ, None, "Topics by name, with commas. Exactly one of the three ways."
    ),
    Option(
        "subscribePattern",
        Use.READ,
        None,
        "Topics by a regular expression of Java's, looked for anywhere in their names. It never "
        "finds topics of the broker's own (`__consumer_offsets`).",
    ),
    Option("assign", Use.READ, None, 'Exactly these partitions: `{"topic": [0, 1]}`.'),
    Option(
        "startingTimestamp",
        Use.READ,
        None,
        "Begin, in all partitions, at the first record that is not older: milliseconds since 1970. "
        "Stronger than the next two.",
    ),
    Option(
        "startingOffsetsByTimestamp",
        Use.READ,
        None,
        'The same by partition: `{"topic": {"0": 1700000000000}}`. Stronger than startingOffsets.',
    ),
    Option(
        "startingOffsets",
        Use.READ,
        None,
        'Begin at `earliest` (the default of a batch), `latest` (of a stream), or at `{"topic": '
        '{"0": 23, "1": -2}}`, where -2 is earliest and -1 latest. A stream that goes on begins '
        "where its checkpoint says.",
    ),
    Option("endingTimestamp", Use.READ, None, "End there. Of batches, as the next two."),
    Option("endingOffsetsByTimestamp", Use.READ, None, "The same by partition."),
    Option("endingOffsets", Use.READ, None, "End at `latest` (the default), or at those offsets."),
    Option(
        "startingOffsetsByTimestampStrategy",
        Use.READ,
        "error",
        "Where no record is that young: `error`, or `latest`.",
    ),
    Option(
        "minPartitions",
        Use.READ,
        "0",
        "About how many tasks, of equal numbers of records: small topic partitions share one, "
        "large ones are split. 0: small ones share a task up to 50,000 records, a larger one has "
        "its own. Spark's own source has at least one task for each partition.",
    ),
    Option(
        "maxRecordsPerPartition",
        Use.READ,
        "0",
        "The most records of one task; 0: no such limit. It holds with `minPartitions` too.",
    ),
    Option(
        "failOnDataLoss",
        Use.READ,
        "true",
        "Fail when records that were to be read are gone; false: go on with what there is.",
    ),
    Option(
        "filterPushdown",
        Use.READ,
        "false",
        "Let filters of a batch read narrow what is fetched. For DataFrames that are scanned once: "
        "other scans would lack rows, see below.",
    ),
    Option("includeHeaders", Use.READ, "false", "Whether there is a column of headers."),
    Option(
        "columns",
        Use.READ,
        None,
        "Only these columns, with commas, in this order: what a job does not use need not travel "
        "to the JVM. Spark tells Python sources nothing of the columns that a query uses.",
    ),
    Option(
        "valueFormat",
        Use.READ,
        None,
        "`json`: values are decoded into the columns `data` and `error`, see below.",
    ),
    Option(
        "valueSchema",
        Use.READ,
        None,
        "With valueFormat: the fields of a value, as `from_json` takes them: "
        "`a int, b struct<c: string>, d array<double>`, or the JSON of a schema.",
    ),
    Option(
        "kafka.isolation.level",
        Use.READ,
        "read_uncommitted",
        "`read_committed` leaves out what transactions did not commit.",
    ),
    Option(
        "kafka.fetch.max.bytes",
        Use.READ,
        default_of(ConsumerConfig.fetch_max_bytes),
        "The most bytes of one answer, unless its first batch is larger.",
    ),
    Option(
        "kafka.max.partition.fetch.bytes", Use.READ, "4194304", "The same of one topic partition."
    ),
    Option(
        "maxOffsetsPerTrigger",
        Use.STREAM,
        "0",
        "The most records of a micro-batch, of all partitions together; 0: no such limit.",
    ),
    Option(
        "minOffsetsPerTrigger", Use.STREAM, "0", "Wait until there are so many records for one."
    ),
    Option("maxTriggerDelay", Use.STREAM, "15m", "But no longer than this."),
    Option(
        "maxTimestampSpanPerTrigger",
        Use.STREAM,
        "0",
        "Cut each micro-batch at one record time in all partitions, so that they stay together: "
        "the most time it spans. Spark's own source has no such option.",
    ),
    Option(
        "checkpointLocation",
        Use.STREAM,
        None,
        "The query's checkpoint. Given to the source too, it keeps there where the stream began, "
        "on any file system that `pyarrow.fs` knows. Without it a stream whose beginning can move "
        "(`latest`, timestamps) has a first micro-batch that reads nothing, and Spark's own "
        "checkpoint keeps where it began.",
    ),
    Option(
        "kafka.group.id",
        Use.STREAM,
        None,
        "A consumer group for which the progress of the query is committed, so that displays of "
        "lag show it. Its checkpoint says where it goes on, not the group.",
    ),
    Option(
        "groupIdPrefix",
        Use.STREAM,
        None,
        "The same with a name made of this and a digest of `checkpointLocation`, or else of what "
        "is read.",
    ),
    Option("topic", Use.WRITE, None, "Where rows go; without it a column `topic` says it."),
    Option(
        "replayHeaders",
        Use.WRITE,
        "false",
        "Give each record headers by which the copies of a row can be told that a task writes "
        "which is run again: see [below](#rows-that-are-written-twice).",
    ),
    Option(
        "kafka.compression.type",
        Use.WRITE,
        "none",
        "`none`, `gzip`, `snappy`, `lz4` or `zstd`.",
    ),
    Option("kafka.batch.size", Use.WRITE, "262144", "Bytes of records at which a batch is full."),
    Option(
        "kafka.delivery.timeout.ms",
        Use.WRITE,
        default_of(ProducerConfig.delivery_timeout_ms),
        "How long a record may take to be stored.",
    ),
    Option(
        "kafka.enable.idempotence",
        Use.WRITE,
        "true",
        "A request that has to be sent again is not stored twice.",
    ),
    Option("kafka.acks", Use.WRITE, "all", "`all`, and nothing else: a row counts when stored."),
)

SPARKS_OWN = (
    "queryName",
    "asyncProgressTrackingEnabled",
    "asyncProgressTrackingCheckpointIntervalMs",
)
"""What Spark hands to sources and sinks although it is meant for itself."""

WITHOUT_EFFECT = (
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
"""Of Spark's own Kafka source, for what there is none of here; jobs that have them work."""

NO_GROUP = "where a query stands is in its checkpoint, and its tasks read without a group"
FIXED = {
    "allow.auto.create.topics": "a topic that is read has to be there",
    "auto.offset.reset": "say startingOffsets, and failOnDataLoss",
    "enable.auto.commit": NO_GROUP,
    "group.instance.id": NO_GROUP,
    "max.in.flight.requests.per.connection": "it follows from kafka.enable.idempotence",
}
"""Settings of the clients that the source and the sink decide, and why."""

PREFIX = "kafka."
KNOWN = {name.lower(): name for name in (*(o.name for o in OPTIONS), *SPARKS_OWN, *WITHOUT_EFFECT)}


def refusal(given: Iterable[str]) -> str | None:
    """What is wrong with these names of options, in any case; None if they are all known, or of
    clients."""
    for name in sorted(given):
        if name.lower() not in KNOWN and not name.lower().startswith(PREFIX):
            near = get_close_matches(name.lower(), KNOWN, n=1)
            meant = f"did you mean {KNOWN[near[0]]}?" if near else f"it has {', '.join(names())}"
            return f"the odradek source has no option {name!r}; {meant}"
    return None


def names() -> list[str]:
    """All that do something."""
    return [option.name for option in OPTIONS]
