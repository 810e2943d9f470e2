"""The page of the Python API, rendered from the classes of the clients.

Signatures, types and sentences are those of the code. Methods of the clients are read from the
classes themselves, and the values that calls take and return from the sources (`python_source`).
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import odradek
from odradek.client import errors
from odradek.client.admin.configs import Resource
from odradek.client.admin.results import (
    BrokerMetric,
    BrokerMetricSample,
    Cluster,
    ConfigEntry,
    Group,
    GroupDescription,
    GroupTransition,
    Lag,
    LogDirectory,
    LogSegment,
    Member,
    MetricHistogram,
    Move,
    NewTopic,
    OpenProducer,
    Partition,
    PartitionEnds,
    PartitionProducer,
    Quorum,
    QuorumReplica,
    Reassignment,
    SeekPlan,
    Source,
    Topic,
    Transaction,
    TransactionDescription,
    WaitingReport,
    WaitingRequest,
    WheelLevel,
)
from odradek.client.aio.admin import Admin as AsyncAdmin
from odradek.client.aio.consumer import Consumer as AsyncConsumer
from odradek.client.aio.producer import Producer as AsyncProducer
from odradek.client.arrow.record_batches import ArrowBatches
from odradek.client.blocking.admin import Admin
from odradek.client.blocking.consumer import Consumer
from odradek.client.blocking.process import process
from odradek.client.blocking.producer import Producer
from odradek.client.blocking.read import read
from odradek.client.consumer.application.calls import OffsetAndTimestamp, Watermarks
from odradek.client.consumer.assignor.partition_assignor import ConsumerGroupMetadata
from odradek.client.consumer.batch import Batch, OffsetAndMetadata
from odradek.client.consumer.group.rebalance import RebalanceListener
from odradek.client.consumer.record import Record, TimestampType
from odradek.client.interceptors import ConsumerInterceptor, ProducerInterceptor
from odradek.client.list_offsets import ListedOffset
from odradek.client.metrics.metric import Metric, Metrics, MetricTemplate, MetricType
from odradek.client.producer.futures import (
    DeliveredRange,
    Deliveries,
    Delivery,
    FutureRecordMetadata,
)
from odradek.client.producer.intercepted_send import ProducerRecord, ProducerRecords
from odradek.client.transaction import OpenTransaction
from odradek.model.node import Node
from odradek.model.topics import TopicPartition
from scripts.reference.python_source import (
    class_docstring,
    class_example,
    class_tree,
    constructor,
    example,
    is_public,
    member_table,
    table_cell,
    type_alias,
)

CLIENTS: tuple[tuple[type[Any], type[Any]], ...] = (
    (Producer, AsyncProducer),
    (Consumer, AsyncConsumer),
    (Admin, AsyncAdmin),
)
VALUES: tuple[type[Any], ...] = (
    TopicPartition,
    Record,
    TimestampType,
    Batch,
    OffsetAndMetadata,
    Watermarks,
    OffsetAndTimestamp,
    ArrowBatches,
    FutureRecordMetadata,
    Delivery,
    Deliveries,
    DeliveredRange,
    OpenTransaction,
    ConsumerGroupMetadata,
    ProducerRecord,
    ProducerRecords,
    NewTopic,
    Topic,
    Partition,
    ConfigEntry,
    Source,
    Group,
    GroupDescription,
    Member,
    Lag,
    SeekPlan,
    Move,
    Transaction,
    TransactionDescription,
    PartitionProducer,
    OpenProducer,
    LogDirectory,
    Cluster,
    Node,
    Reassignment,
    Quorum,
    QuorumReplica,
    WaitingReport,
    WaitingRequest,
    WheelLevel,
    GroupTransition,
    LogSegment,
    PartitionEnds,
    BrokerMetric,
    BrokerMetricSample,
    MetricHistogram,
    ListedOffset,
    Metrics,
    Metric,
    MetricTemplate,
    MetricType,
)
PLAIN_BASES = frozenset({"Generic", "Protocol", "NamedTuple", "Enum", "IntEnum"})
"""Base classes that the page does not mention."""
INTRODUCTION = """\
# The Python API

<!-- Rendered from the code: `make reference` writes this page again. -->

`from odradek import Producer, Consumer, Admin` gives clients for programs with threads.
`odradek.aio` has clients of the same names for asyncio: methods are awaited, and `async with` and
`async for` take the place of `with` and `for`. Settings are keywords or a mapping, by
[any of their names](client-settings.md).
"""
DEAD_LETTERS = """\
A dead letter is the record as it was stored: key, value, headers and timestamp (unless that is
before 1970). Further headers say where it was stored and why it could not be decoded, under the
names that Kafka Connect uses: `__connect.errors.topic`, `.partition`, `.offset`, `.stage`
(KEY_CONVERTER or VALUE_CONVERTER), `.exception.class.name` and `.exception.message`.

The consumer makes a producer for the first dead letter, with its own connection settings, and
closes it when it is closed. The producer has `default.api.timeout.ms` to find the topic, and as
long again to deliver; then a poll raises `DeadLetterFailed`. Until then polls return at their own
timeouts and take part in rebalances, but return no record behind the one at fault. Iterations over
Arrow batches wait for the dead letters of a batch before they return it.

The consumer's position never passes a dead letter that was not acknowledged, so none is lost. A
dead letter is written twice if the consumer ends between its acknowledgement and the next commit,
or if a rebalance makes it read an Arrow batch again.
The dead letters in progress are never more than the records that are decoded ahead, or the rows of
one Arrow batch.
"""
INTERCEPTORS = """\
An exception in an interceptor is logged, at most once in ten seconds for each method, and passed
over: the record goes on as the last interceptor left it that did not fail. The same holds for a
result of the wrong kind. Only KeyboardInterrupt and SystemExit are raised to the caller of `send`
or `poll`. A record that `send` refuses at once, because its headers, time or partition cannot be,
reaches no interceptor.

All records pass through the methods, so they must be fast, and must not wait for the client they
belong to. In `odradek.aio` they are plain functions too (coroutine functions are refused). They run
in the event loop and block it, with all its heartbeats, as long as they run: to do more, start a
task or give the work to a thread. Methods that are not overridden cost nothing.
"""
TRACING_SPANS = """\
Names and attributes are those of OpenTelemetry's semantic conventions for messaging and Kafka
(status: development). OpenTelemetry's own propagator writes and reads the context, by default as
W3C's headers `traceparent` and `tracestate`. A span ends with the error of its record: `error.type`
is Kafka's name of it. There are no spans of polls, because records are fetched and decoded before
the application asks for them; nor of rows of `Consumer.arrow`, whose headers are a column. Without
OpenTelemetry's SDK no header is added. Only `odradek.opentelemetry` imports OpenTelemetry.
"""
BLOCKED_LOOP = """\
The clients of `odradek.aio` run in the event loop, with no thread of their own. While the loop is
blocked (`time.sleep`, a long computation, a call that waits), they neither send nor receive, and a
consumer sends no heartbeats. What happens then depends on how long it is blocked:

- Up to `session.timeout.ms`: heartbeats are late. A rebalance of the group waits for this member.
- Longer: the group removes the member, and others get its partitions from the last committed
  offsets on. They read again what this member had read and not committed. When the loop goes on, a
  commit of these records fails with `CommitFailed` (`RebalanceInProgress`, if the consumer has
  begun to join again): nothing is committed over the work of others. The next poll calls `on_lost`
  for all partitions (`on_revoke`, if there is no `on_lost`), joins again and calls `on_assign`.
  With automatic commits the failure is logged instead of raised.
- Requests for which no answer was read within `request.timeout.ms` fail and are tried again where
  that is safe; a record fails after `delivery.timeout.ms`.

What to do: run blocking work in a thread, `await asyncio.to_thread(work, record)`, and heartbeats
go on; then only `max.poll.interval.ms` (five minutes) limits the time between two polls. Python
code that computes in a thread yields the interpreter every 5 ms; C code may not: use a process for
that. Or raise `session.timeout.ms` (45 seconds by default; brokers allow up to
`group.max.session.timeout.ms`): then a crashed member is noticed later too. The clients with
threads have no such limit: their heartbeats come from a thread of the client.
`asyncio.run(main(), debug=True)` logs what blocks the loop for more than 0.1 seconds.
"""

BROKER = "odradek.testing.broker"
TRACING = "odradek.opentelemetry"
LINKS = {
    "ProducerConfig": "[settings](client-settings.md#producer)",
    "ConsumerConfig": "[settings](client-settings.md#consumer)",
    "AdminConfig": "[settings](client-settings.md)",
    "client.serializers": "[keys and values](#keys-and-values)",
    "client.deserializers": "[keys and values](#keys-and-values)",
    "dead_letters": "below",
    "client.metrics": "[metrics](client-metrics.md)",
    "RebalanceListener": "[arguments](#arguments)",
}
"""By names of modules and classes in docstrings: the link that replaces them on the page."""
ARGUMENTS = (
    ("headers", "odradek.client.producer.send_path", "Headers", "In a sequence names may repeat."),
    ("key=, value=", "", "", "See [keys and values](#keys-and-values)."),
    (
        "timestamp",
        "",
        "datetime | int",
        "Milliseconds since 1970, or a `datetime`; without a zone it is local time.",
    ),
    ("timeout, max_wait", "", "float", "Seconds; negative or infinite: without a limit."),
    (
        "partition of a consumer or admin",
        "odradek.client.arguments",
        "PartitionLike",
        "Also any object with `topic` and `partition`, such as a record. Several: any iterable.",
    ),
    (
        "something by partition",
        "odradek.client.arguments",
        "ByPartition",
        "Such as the offsets of `commit` and `alter_group_offsets`.",
    ),
    (
        "on_delivery",
        "odradek.client.producer.producer_batch",
        "DeliveryCallback",
        "Called as `on_delivery(error, delivery)`; `error` is None where the record was written.",
    ),
    (
        "on_assign, on_revoke, on_lost",
        "odradek.client.consumer.group.rebalance",
        "RebalanceCallback",
        "Called as `on_assign(consumer, partitions)`; in `odradek.aio` they may be coroutines.",
    ),
    ("seek(to=)", "odradek.client.consumer.arguments", "Target", ""),
    (
        "commit(what)",
        "odradek.client.consumer.arguments",
        "Committable",
        "None: the positions of all returned records. By partition: the offset of the next record "
        "to read. The same holds for a partition that has an offset, as those of confluent-kafka.",
    ),
    ("OffsetLike", "odradek.client.consumer.arguments", "OffsetLike", ""),
)
"""Name of the argument, module and name of its type, and what else to say about it."""


def page() -> str:
    """The whole page as Markdown."""
    text = "\n".join(_lines())
    for name, link in LINKS.items():
        text = text.replace(f"`{name}`", link)
    return text


def _lines() -> Iterator[str]:
    yield INTRODUCTION
    for blocking, asynchronous in CLIENTS:
        yield f"## {blocking.__name__}\n"
        yield from example(blocking.__module__)
        yield f"`{call(blocking.__name__, blocking)}`\n"
        yield one_line(blocking.__doc__) + "\n"
        yield from method_table(blocking, public_names(blocking))
        other = [
            name for name in public_names(asynchronous) if differs(name, blocking, asynchronous)
        ]
        if other:
            yield "Different in `odradek.aio`:\n"
            yield from method_table(asynchronous, other)
        missing = [
            f"`{name}`" for name in public_names(blocking) if not hasattr(asynchronous, name)
        ]
        if missing:
            yield f"Not in `odradek.aio`: {', '.join(missing)}.\n"
    yield "## Keys and values\n"
    yield "How a producer serializes `key=` and `value=`:\n"
    yield from example("odradek.client.serializers")
    yield "How a consumer deserializes them:\n"
    yield from example("odradek.client.deserializers")
    yield "`on_decode_error` says what the consumer does with a record that it cannot decode:\n"
    yield from example("odradek.client.consumer.arguments", "on_decode_error")
    yield DEAD_LETTERS
    yield "## read\n"
    yield f"`odradek.{call('read', read)}`\n"
    yield one_line(read.__doc__) + "\n"
    yield "## process\n"
    yield f"`odradek.{call('process', process)}`\n"
    yield inspect.cleandoc(process.__doc__ or "") + "\n"
    yield from _arguments()
    yield "## Interceptors\n"
    yield "Objects that see every record on its way, as Kafka's interceptors do (KIP-42):\n"
    yield from example("odradek.client.interceptors")
    yield INTERCEPTORS
    for base in (ProducerInterceptor, ConsumerInterceptor):
        yield from _value(base)
    yield "## Tracing\n"
    yield "Spans of OpenTelemetry, with `pip install 'odradek[opentelemetry]'`:\n"
    yield from example(TRACING)
    yield TRACING_SPANS
    for name in ("TracingInterceptor", "ProcessTracer"):
        yield f"`{constructor(TRACING, name)}`\n"
        yield class_docstring(TRACING, name) + "\n"
    yield "## A blocked event loop\n"
    yield BLOCKED_LOOP
    yield "## Values that calls take and return\n"
    yield "Programs need the classes that are not imported from `odradek` only for type hints.\n"
    for kind in VALUES:
        yield from _value(kind)
    yield "## A broker in the process\n"
    yield from example(BROKER)
    yield f"`{constructor(BROKER, 'Broker')}`\n"
    yield class_docstring(BROKER, "Broker") + "\n"
    yield from _errors()
    yield ""


def _errors() -> Iterator[str]:
    yield "## Errors\n"
    yield (
        "All are in `odradek.errors`. All but `ConfigError` are subclasses of `KafkaError` and "
        "have `code` (of the protocol, or None), `name`, `retriable`, `fatal` (this client cannot "
        "continue) and `requires_abort` (the open transaction cannot continue).\n"
    )
    yield "| error | |"
    yield "|---|---|"
    for name in sorted(errors.__all__):
        kind = getattr(errors, name)
        if isinstance(kind, type):
            yield f"| `{name}` | {table_cell(kind.__doc__)} |"


def _arguments() -> Iterator[str]:
    yield "## Arguments\n"
    yield "| | | |"
    yield "|---|---|---|"
    for name, module, kind, text in ARGUMENTS:
        shown = type_alias(module, kind) if module else kind
        yield f"| `{name}` | {table_cell(f'`{shown}`' if shown else '')} | {table_cell(text)} |"
    yield "\nThe functions that are called in a rebalance:\n"
    yield from class_example(RebalanceListener)


def _value(kind: type[Any]) -> Iterator[str]:
    """A class of values: where to import it from, its attributes and its methods."""
    module, name = kind.__module__, kind.__name__
    written = class_tree(module, name)
    package = "odradek" if name in odradek.__all__ else module
    bases = [ast.unparse(base) for base in written.bases]
    kinds = [f"A `{each}`." for each in bases if each.partition("[")[0] not in PLAIN_BASES]
    about = [f"`from {package} import {name}`.", *kinds, class_docstring(module, name)]
    yield f"### {name}\n"
    yield " ".join(about) + "\n"
    yield from member_table(written)


def method_table(kind: type[Any], names: Sequence[str]) -> Iterator[str]:
    """These methods and attributes of a class as a Markdown table."""
    yield "| | |"
    yield "|---|---|"
    for name in names:
        member = getattr(kind, name)
        shown = call(name, member) if callable(member) else name
        yield f"| `{table_cell(shown)}` | {table_cell(member.__doc__)} |"
    yield ""


def public_names(kind: type[Any]) -> list[str]:
    """The public methods and attributes of a class, in the order of the sources."""
    ordered: dict[str, None] = {}
    for base in kind.__mro__:
        if base.__module__.startswith("odradek."):
            ordered.update(dict.fromkeys(vars(base)))
    return [name for name in ordered if is_public(name)]


def differs(name: str, blocking: type[Any], asynchronous: type[Any]) -> bool:
    """True if a method differs between the two clients in more than `async`."""
    if not hasattr(blocking, name):
        return True
    first, second = (inspect.signature(getattr(kind, name)) for kind in (blocking, asynchronous))
    if first.parameters != second.parameters:
        return True
    returns = [str(each.return_annotation).removeprefix("Async") for each in (first, second)]
    return returns[0] != returns[1]


def call(name: str, function: Any) -> str:
    """The signature of a call, without the types of its arguments."""
    signature = inspect.signature(function)
    plain = [
        each.replace(annotation=inspect.Parameter.empty)
        for each in signature.parameters.values()
        if each.name != "self"
    ]
    shown = str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))
    if "**of" in shown:
        shown = shown.replace("**of", " | ".join(f"{each}=…" for each in Resource.__annotations__))
    returns = signature.return_annotation
    if isinstance(function, type) or returns in (inspect.Signature.empty, "None", None):
        return f"{name}{shown}"
    return f"{name}{shown} -> {returns}"


def one_line(text: str | None) -> str:
    return " ".join((text or "").split())
