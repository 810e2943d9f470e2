"""The options of the `odradek` data source, with the names and meanings of Spark's Kafka source.

`option_table` declares the options; this module parses them. Spark hands over a map of strings with
case-insensitive names. Every error names the option and says what is allowed; unknown options are
errors.

If the start is given in several ways, the precedence is Spark's: `startingTimestamp`, then
`startingOffsetsByTimestamp`, then `startingOffsets`; likewise for the end.

`kafka.` before the name of any client setting gives it to the consumers of a source, or to the
producers of a sink, and to the admin clients of both:

    .option("kafka.metadata.max.age.ms", "60000")   .option("kafka.linger.ms", "20")

Names and values are checked on the driver, where the options are parsed. A setting that would break
a pipeline is refused with the alternative.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from pyspark.sql.types import StructType

from odradek.config.client import AdminConfig, ClientConfig, ClientSettings
from odradek.config.consumer import ConsumerConfig
from odradek.config.producer import MAX_IDEMPOTENT_IN_FLIGHT, ProducerConfig
from odradek.config.setting import ConfigError
from odradek.model.topics import TopicPartition
from odradek.spark.java_regex import compile_java
from odradek.spark.json.schema import SchemaError, parse_schema
from odradek.spark.offsets import EARLIEST, LATEST, parse_json
from odradek.spark.option_table import (
    FIXED,
    MAX_PARTITION_FETCH_BYTES,
    PREFIX,
    option_names,
    unknown_option,
)

DEFAULT_LEDGER = "odradek-spark-ledger"
EXACTLY_ONCE_OPTIONS = (
    "transactionalIdPrefix",
    "batchId",
    "ledgerTopic",
    "ledgerStartsAt",
    "kafka.transaction.timeout.ms",
)
MAX_PREFIX = 200

COMPRESSION_TYPES = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class Subscription:
    """The partitions to read: exactly one of the three is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assignment: tuple[TopicPartition, ...] = ()

    def may_have(self, topics: Set[str]) -> bool:
        """True if these could be all topics of the subscription."""
        if self.pattern is not None:
            pattern = compile_java(self.pattern)
            return all(pattern.search(topic) for topic in topics)
        if self.assignment:
            return topics == {partition.topic for partition in self.assignment}
        return topics == set(self.topics)

    def wants(self, partition: TopicPartition) -> bool:
        if self.pattern is not None:
            return compile_java(self.pattern).search(partition.topic) is not None
        return partition in self.assignment or partition.topic in self.topics

    def describe(self) -> str:
        if self.pattern is not None:
            return f"subscribePattern {self.pattern}"
        if self.assignment:
            return "assign " + ", ".join(map(str, self.assignment))
        return "subscribe " + ", ".join(self.topics)


@dataclass(frozen=True, slots=True)
class OffsetLimit:
    """The start or the end of a read: exactly one of the fields after `option` is set."""

    option: str
    timestamp: int | None = None
    timestamps: Mapping[TopicPartition, int] | None = None
    offsets: Mapping[TopicPartition, int] | None = None
    all_at: int | None = None


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """The options that reads and writes share: how to reach the cluster."""

    bootstrap_servers: str
    client_id: str = "odradek-spark"
    request_timeout_ms: int = ClientConfig.request_timeout_ms.default
    api_timeout_ms: int = AdminConfig.default_api_timeout_ms.default
    settings: Pairs = ()
    """Further settings, by Kafka's names."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of a reader; picklable, since it travels to the workers."""

    client: ClientOptions
    subscription: Subscription
    starting: OffsetLimit
    ending: OffsetLimit
    max_offsets_per_trigger: int = 0
    min_offsets_per_trigger: int = 0
    max_trigger_delay_ms: int = 900_000
    max_timestamp_span_ms: int = 0
    min_partitions: int = 0
    max_records_per_partition: int = 0
    fail_on_data_loss: bool = True
    include_headers: bool = False
    filter_pushdown: bool = False
    read_committed: bool = False
    timestamp_strategy: str = "error"
    checkpoint_location: str | None = None
    group_id: str | None = None
    group_id_prefix: str | None = None
    columns: tuple[str, ...] = ()
    """The selected columns; empty: all."""
    value_schema: StructType | None = None
    """The schema of the values, if they are decoded."""
    fetch_max_bytes: int = ConsumerConfig.fetch_max_bytes.default
    max_partition_fetch_bytes: int = MAX_PARTITION_FETCH_BYTES


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of a writer; picklable."""

    client: ClientOptions
    topic: str | None = None
    compression: str = "none"
    batch_size: int | None = None
    """None: by the number of partitions, see `producers`."""
    keyless: bool = False
    """True if no row has a key or a partition."""
    delivery_timeout_ms: int = ProducerConfig.delivery_timeout_ms.default
    idempotence: bool = True
    replay_headers: bool = False
    exactly_once: bool = False
    transactional_id_prefix: str | None = None
    """None: from the id of the streaming query."""
    batch_id: int | None = None
    """The number of a batch write; None in a stream, whose micro-batches have numbers."""
    ledger_topic: str = DEFAULT_LEDGER
    ledger_starts_at: int = 0
    transaction_timeout_ms: int | None = None
    """None: the longest that the brokers allow."""
    max_in_flight: int = MAX_IDEMPOTENT_IN_FLIGHT

    def for_columns(self, names: Sequence[str]) -> WriteOptions:
        """Return the options of a write of rows with these columns."""
        return replace(self, keyless="key" not in names and "partition" not in names)

    def of_clients(self) -> WriteOptions:
        """Return the options by which a process keeps its clients: without those of one write."""
        return replace(
            self,
            topic=None,
            keyless=False,
            replay_headers=False,
            transactional_id_prefix=None,
            batch_id=None,
            ledger_starts_at=0,
        )


def read_options(given: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """Parse the options of a batch or stream read. Raises `ValueError` naming the option."""
    options = OptionReader(given)
    isolation = options.choice(
        "kafka.isolation.level", "read_uncommitted", ("read_uncommitted", "read_committed")
    )
    return ReadOptions(
        client=client_options(options, ConsumerConfig),
        subscription=subscription(options),
        starting=starting_limit(options, streaming),
        ending=ending_limit(options, streaming),
        max_offsets_per_trigger=options.integer("maxOffsetsPerTrigger", 0, 1),
        min_offsets_per_trigger=options.integer("minOffsetsPerTrigger", 0, 1),
        max_trigger_delay_ms=options.duration_ms("maxTriggerDelay", 900_000),
        max_timestamp_span_ms=options.duration_ms("maxTimestampSpanPerTrigger", 0),
        min_partitions=options.integer("minPartitions", 0, 1),
        max_records_per_partition=options.integer("maxRecordsPerPartition", 0, 1),
        fail_on_data_loss=options.boolean("failOnDataLoss", True),
        include_headers=options.boolean("includeHeaders", False),
        filter_pushdown=options.boolean("filterPushdown", False),
        read_committed=isolation == "read_committed",
        timestamp_strategy=options.choice(
            "startingOffsetsByTimestampStrategy", "error", ("error", "latest")
        ),
        checkpoint_location=options.text("checkpointLocation"),
        group_id=options.text("kafka.group.id"),
        group_id_prefix=options.text("groupIdPrefix"),
        columns=columns(options),
        value_schema=value_schema(options),
        fetch_max_bytes=options.integer(
            "kafka.fetch.max.bytes", ConsumerConfig.fetch_max_bytes.default, 1
        ),
        max_partition_fetch_bytes=options.integer(
            "kafka.max.partition.fetch.bytes", MAX_PARTITION_FETCH_BYTES, 1
        ),
    )


def write_options(given: Mapping[str, str], *, streaming: bool) -> WriteOptions:
    """Parse the options of a batch or stream write. Raises `ValueError` naming the option."""
    options = OptionReader(given)
    options.choice("kafka.acks", "all", ("all", "-1"))
    delivery = options.choice("delivery", "at_least_once", ("at_least_once", "exactly_once"))
    exactly_once = delivery == "exactly_once"
    check_delivery(options, exactly_once, streaming)
    numbered = exactly_once and not streaming
    idempotence = options.boolean("kafka.enable.idempotence", True)
    return WriteOptions(
        client=client_options(options, ProducerConfig),
        topic=options.text("topic"),
        compression=options.choice("kafka.compression.type", "none", COMPRESSION_TYPES),
        batch_size=options.optional_integer("kafka.batch.size", 1),
        delivery_timeout_ms=options.integer(
            "kafka.delivery.timeout.ms", ProducerConfig.delivery_timeout_ms.default, 1
        ),
        idempotence=idempotence,
        replay_headers=options.boolean("replayHeaders", False),
        exactly_once=exactly_once,
        transactional_id_prefix=options.text("transactionalIdPrefix"),
        batch_id=options.integer("batchId", 0) if numbered else None,
        ledger_topic=options.text("ledgerTopic") or DEFAULT_LEDGER,
        ledger_starts_at=options.integer("ledgerStartsAt", 0),
        transaction_timeout_ms=options.optional_integer("kafka.transaction.timeout.ms", 1),
        max_in_flight=options.integer(
            "kafka.max.in.flight.requests.per.connection",
            MAX_IDEMPOTENT_IN_FLIGHT if idempotence else 1,
            1,
            MAX_IDEMPOTENT_IN_FLIGHT,
        ),
    )


def check_delivery(options: OptionReader, exactly_once: bool, streaming: bool) -> None:
    """Raise `ValueError` for options that do not fit how rows are delivered."""
    if not exactly_once:
        for name in EXACTLY_ONCE_OPTIONS:
            if options.text(name) is not None:
                raise ValueError(f"option {name} needs delivery=exactly_once")
        return
    if not options.boolean("kafka.enable.idempotence", True):
        raise ValueError("delivery=exactly_once needs kafka.enable.idempotence=true")
    if streaming and options.text("batchId") is not None:
        raise ValueError("batchId is for batch writes; Spark numbers the micro-batches of a stream")
    if not streaming:
        for name in ("transactionalIdPrefix", "batchId"):
            if options.text(name) is None:
                raise ValueError(
                    f"delivery=exactly_once of a batch write needs {name}: the prefix names what "
                    "writes (a job, or one save of a foreachBatch function), the batch id is the "
                    "same number when the same rows are written again, and a higher one for the "
                    "next rows: .option('transactionalIdPrefix', 'nightly').option('batchId', 20)"
                )
    prefix = options.text("transactionalIdPrefix")
    if prefix is not None and not is_prefix(prefix):
        raise ValueError(
            f"transactionalIdPrefix {prefix!r} cannot be used: it is 1 to {MAX_PREFIX} printable "
            "characters, and does not end in two numbers with dots, as the ids of tasks do"
        )


def is_prefix(text: str) -> bool:
    """True for a prefix from which no other prefix's ids can be made."""
    is_plain = 0 < len(text) <= MAX_PREFIX and text.isprintable()
    return is_plain and re.search(r"\.\d+\.\d+$", text) is None


def client_options(options: OptionReader, kind: type[ClientSettings]) -> ClientOptions:
    servers = options.text("kafka.bootstrap.servers")
    if not servers:
        raise ValueError(
            "option kafka.bootstrap.servers is missing, for example localhost:9092. (Spark drops "
            "the OPTIONS of a CREATE TABLE. What to do: CREATE TEMPORARY VIEW ... USING odradek "
            "OPTIONS (...), or options with the query: SELECT ... FROM table WITH "
            "(`kafka.bootstrap.servers` = '...', subscribe = '...'))"
        )
    return ClientOptions(
        bootstrap_servers=servers,
        client_id=options.text("kafka.client.id") or "odradek-spark",
        request_timeout_ms=options.integer(
            "kafka.request.timeout.ms", ClientConfig.request_timeout_ms.default, 1
        ),
        api_timeout_ms=options.integer(
            "kafka.default.api.timeout.ms", AdminConfig.default_api_timeout_ms.default, 1
        ),
        settings=client_settings(options.given, kind),
    )


def subscription(options: OptionReader) -> Subscription:
    named = [n for n in ("subscribe", "subscribePattern", "assign") if options.text(n)]
    if len(named) != 1:
        given = ", ".join(named) or "none"
        raise ValueError(
            f"give exactly one of subscribe, subscribePattern, assign (given: {given})"
        )
    text = options.text(named[0]) or ""
    if named[0] == "subscribePattern":
        try:
            compile_java(text)
        except ValueError as error:
            raise ValueError(
                f"subscribePattern {text!r} is no regular expression: {error}"
            ) from None
        return Subscription(pattern=text)
    if named[0] == "subscribe":
        topics = tuple(sorted({t.strip() for t in text.split(",") if t.strip()}))
        if not topics:
            raise ValueError("subscribe names no topic")
        return Subscription(topics=topics)
    return Subscription(assignment=assignment(text))


def columns(options: OptionReader) -> tuple[str, ...]:
    """Return the names of the selected columns; empty: all."""
    text = options.text("columns")
    if text is None:
        return ()
    names = tuple(name.strip() for name in text.split(","))
    if "" in names or len(set(names)) < len(names):
        raise ValueError(f"columns must be names with commas, each once, not {text!r}")
    return names


def value_schema(options: OptionReader) -> StructType | None:
    """Return the schema by which values are decoded; None if they are not."""
    form, text = options.text("valueFormat"), options.text("valueSchema")
    if form is None:
        if text is not None:
            raise ValueError("valueSchema needs valueFormat=json")
        return None
    options.choice("valueFormat", "json", ("json",))
    if text is None:
        raise ValueError(
            "valueFormat=json needs valueSchema, the fields of the values: a int, b array<string>"
        )
    try:
        return parse_schema(text)
    except SchemaError as error:
        raise ValueError(f"valueSchema {text!r} cannot be used: {error}") from None


def assignment(text: str) -> tuple[TopicPartition, ...]:
    example = 'assign must be JSON like {"topic": [0, 1]}'
    try:
        shaped = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{example}: {error}") from None
    if not isinstance(shaped, dict) or not all(isinstance(p, list) for p in shaped.values()):
        raise ValueError(example)
    chosen = {TopicPartition(t, p) for t, partitions in shaped.items() for p in partitions}
    if not chosen or not all(isinstance(p.partition, int) and p.partition >= 0 for p in chosen):
        raise ValueError(example)
    return tuple(sorted(chosen))


def starting_limit(options: OptionReader, streaming: bool) -> OffsetLimit:
    default = LATEST if streaming else EARLIEST
    limit = offset_limit(
        options, "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets", default
    )
    if not streaming and (limit.all_at == LATEST or LATEST in values(limit.offsets)):
        raise ValueError(
            "startingOffsets of a batch read cannot be latest (-1): nothing is after it"
        )
    return limit


def ending_limit(options: OptionReader, streaming: bool) -> OffsetLimit:
    limit = offset_limit(
        options, "endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets", LATEST
    )
    if streaming and any(
        options.text(n) for n in ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
    ):
        raise ValueError(f"{limit.option} is for batch reads; a stream has no end")
    if limit.all_at == EARLIEST or EARLIEST in values(limit.offsets):
        raise ValueError("endingOffsets cannot be earliest (-2): nothing is before it")
    return limit


def offset_limit(
    options: OptionReader, by_timestamp: str, by_timestamps: str, by_offsets: str, default: int
) -> OffsetLimit:
    """Return the limit of the given option with the highest precedence."""
    if options.text(by_timestamp) is not None:
        return OffsetLimit(by_timestamp, timestamp=options.integer(by_timestamp, 0))
    text = options.text(by_timestamps)
    if text is not None:
        timestamps = parse_json(text, by_timestamps)
        if any(t < 0 for t in timestamps.values()):
            raise ValueError(f"{by_timestamps} has a negative timestamp")
        return OffsetLimit(by_timestamps, timestamps=timestamps)
    text = options.text(by_offsets)
    named = {"earliest": EARLIEST, "latest": LATEST}
    if text is None:
        return OffsetLimit(by_offsets, all_at=default)
    if text.strip().lower() in named:
        return OffsetLimit(by_offsets, all_at=named[text.strip().lower()])
    if not text.strip().startswith("{"):
        raise ValueError(
            f'{by_offsets} must be earliest, latest or JSON like {{"topic": {{"0": 23}}}}, '
            f"not {text!r}"
        )
    offsets = parse_json(text, by_offsets)
    if any(o < EARLIEST for o in offsets.values()):
        raise ValueError(f"{by_offsets} has an offset below -2")
    return OffsetLimit(by_offsets, offsets=offsets)


def values(offsets: Mapping[TopicPartition, int] | None) -> list[int]:
    return list(offsets.values()) if offsets else []


def missing_partitions(limit: OffsetLimit, partitions: Iterable[TopicPartition]) -> str | None:
    """Return an error message if an option lists other partitions than those read; else None.

    As in Spark, offsets and timestamps per partition must name every partition read and no other.
    """
    listed = limit.offsets if limit.offsets is not None else limit.timestamps
    if listed is None:
        return None
    wanted = set(partitions)
    lacking, strange = sorted(wanted - set(listed)), sorted(set(listed) - wanted)
    if not lacking and not strange:
        return None
    parts = [f"it lacks {', '.join(map(str, lacking))}"] if lacking else []
    parts += [f"it has {', '.join(map(str, strange))}, which is not read"] if strange else []
    return f"{limit.option} must name exactly the partitions read: {' and '.join(parts)}"


UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class OptionReader:
    """Reads typed options from Spark's string map; errors name the option."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self.given = {name.lower(): value for name, value in given.items()}
        refused = unknown_option(given)
        if refused is not None:
            raise ValueError(refused)

    def text(self, name: str) -> str | None:
        return self.given.get(name.lower())

    def integer(self, name: str, default: int, minimum: int = 0, maximum: int | None = None) -> int:
        text = self.text(name)
        if text is None:
            return default
        try:
            value = int(text)
        except ValueError:
            value = minimum - 1
        if value < minimum:
            raise ValueError(f"{name} must be a whole number of at least {minimum}, not {text!r}")
        if maximum is not None and value > maximum:
            raise ValueError(f"{name} must be a whole number of at most {maximum}, not {text!r}")
        return value

    def optional_integer(self, name: str, minimum: int) -> int | None:
        """Return None if the option is not given."""
        return None if self.text(name) is None else self.integer(name, minimum, minimum)

    def boolean(self, name: str, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise ValueError(f"{name} must be true or false, not {text!r}")
        return text.lower() == "true"

    def duration_ms(self, name: str, default: int) -> int:
        """Parse "500", "500ms", "10s", "15m", "24h" or "30d" to milliseconds."""
        text = self.text(name)
        if text is None:
            return default
        found = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
        unit = found.group(2) or "ms" if found else ""
        if found is None or unit not in UNITS_MS:
            raise ValueError(
                f"{name} must be a duration such as 500ms, 10s, 15m or 1d, not {text!r}"
            )
        return int(found.group(1)) * UNITS_MS[unit]

    def choice(self, name: str, default: str, allowed: tuple[str, ...]) -> str:
        value = (self.text(name) or default).lower()
        if value not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
        return value


log = logging.getLogger(__name__)

Pairs = tuple[tuple[str, str], ...]
"""Settings by Kafka's names: hashable and picklable."""


def client_settings(given: Mapping[str, str], kind: type[ClientSettings]) -> Pairs:
    """Return the client settings among the options. Raises `ValueError` naming the option."""
    found: dict[str, str] = {}
    idle: list[str] = []
    for option, value in given.items():
        if not option.startswith(PREFIX) or option in option_names():
            continue
        try:
            alias = kind.resolve(option.removeprefix(PREFIX), value)
        except ConfigError as error:
            raise ValueError(f"option {option}: {error}") from None
        if alias is None:
            idle.append(option)
        elif alias.name in FIXED:
            raise ValueError(f"option {option} cannot be given: {FIXED[alias.name]}")
        elif PREFIX + alias.name in option_names():
            raise ValueError(f"option {option} is written {PREFIX}{alias.name} here")
        else:
            found[alias.name] = alias.value(value)
    if idle:
        log.warning("without effect here: %s", ", ".join(sorted(idle)))
    try:
        kind.load(found)
    except ConfigError as error:
        raise ValueError(f"{PREFIX}…: {error}") from None
    return tuple(sorted(found.items()))


def settings_for(settings: Pairs, kind: type[ClientSettings]) -> dict[str, str]:
    """Return the settings that another kind of client has too."""
    return {name: value for name, value in settings if name in kind.declared}
