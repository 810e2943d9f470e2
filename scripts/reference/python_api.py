"""The page of the Python API, rendered from the classes of the clients.

Signatures, types and sentences are those of the code. Methods of the clients are read from the
classes themselves, and the values that calls take and return from the sources (`python_source`).
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from typing import Any

import odradek
from odradek.client import errors
from odradek.client.admin.configs import Resource
from odradek.client.admin.results import (
    Cluster,
    ConfigEntry,
    Group,
    GroupDescription,
    Lag,
    LogDirectory,
    Member,
    Move,
    NewTopic,
    Partition,
    SeekPlan,
    Source,
    Topic,
)
from odradek.client.aio.admin import Admin as AwaitedAdmin
from odradek.client.aio.consumer import Consumer as AwaitedConsumer
from odradek.client.aio.producer import Producer as AwaitedProducer
from odradek.client.arrow.reading import ArrowBatches
from odradek.client.blocking.admin import Admin
from odradek.client.blocking.consumer import Consumer
from odradek.client.blocking.producer import Producer
from odradek.client.blocking.table import read
from odradek.client.cluster_image import Node
from odradek.client.consumer.application import dead_letters
from odradek.client.consumer.application.calls import OffsetAndTimestamp, Watermarks
from odradek.client.consumer.batch import Batch, OffsetAndMetadata
from odradek.client.consumer.record import Record, TimestampType
from odradek.client.list_offsets import ListedOffset
from odradek.client.producer.deliveries import DeliveredRange, Deliveries
from odradek.client.producer.delivery import Delivery, FutureRecordMetadata
from odradek.model.topics import TopicPartition
from scripts.reference.python_source import (
    class_docstring,
    class_tree,
    constructor,
    example,
    is_public,
    member_table,
    table_cell,
    tree_of,
    type_alias,
)

CLIENTS: tuple[tuple[type[Any], type[Any]], ...] = (
    (Producer, AwaitedProducer),
    (Consumer, AwaitedConsumer),
    (Admin, AwaitedAdmin),
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
    LogDirectory,
    Cluster,
    Node,
    ListedOffset,
)
PLAIN_BASES = frozenset({"Generic", "Protocol", "NamedTuple", "Enum", "IntEnum"})
"""Base classes that the page does not mention."""
INTRODUCTION = """\
# The Python API

<!-- Rendered from the code: `make reference` writes this page again. -->

`from odradek import Producer, Consumer, Admin` for programs with threads; `odradek.aio` has the
same names, with the same methods to be awaited, and `async with` and `async for` in the place of
`with` and `for`. Settings are given as keywords or as a mapping, by
[any of their names](client-settings.md).
"""

BROKER = "odradek.testing.broker"
PLACES = {
    "ProducerConfig": "[settings](client-settings.md#producer)",
    "ConsumerConfig": "[settings](client-settings.md#consumer)",
    "AdminConfig": "[settings](client-settings.md)",
    "client.serializers": "[keys and values](#keys-and-values)",
    "client.deserializers": "[keys and values](#keys-and-values)",
    "dead_letters": "below",
    "consumer.metrics": "[metrics](#metrics)",
    "producer.metrics": "[metrics](#metrics)",
    "RebalanceListener": "[arguments](#arguments)",
}
"""Where the page has what docstrings refer to."""
ARGUMENTS = (
    ("headers", "odradek.client.producer.intake", "Headers", "In a sequence names may repeat."),
    ("key=, value=", "", "", "See [keys and values](#keys-and-values)."),
    (
        "timestamp",
        "",
        "datetime | int",
        "An int is milliseconds since 1970; a `datetime` without a zone is local time.",
    ),
    ("timeout, max_wait", "", "float", "Seconds; below 0, or infinity: for ever."),
    (
        "partition of a consumer or admin",
        "odradek.client.partition_arguments",
        "PartitionLike",
        "Or anything with `topic` and `partition`, such as a record; several as any iterable.",
    ),
    (
        "something by partition",
        "odradek.client.partition_arguments",
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
        "None: all that was handed out. By partition: the offset of the next record to read; so "
        "too the offset of a partition that has one, as confluent-kafka's do.",
    ),
    ("OffsetLike", "odradek.client.consumer.arguments", "OffsetLike", ""),
)
"""What arguments are called, where the name of their type is written, and what else to say."""


def page() -> str:
    """The whole page, with the place on it for what a docstring refers to by its module."""
    text = "\n".join(_lines())
    for name, place in PLACES.items():
        text = text.replace(f"`{name}`", place)
    return text


def _lines() -> Iterator[str]:
    yield INTRODUCTION
    for blocking, awaited in CLIENTS:
        yield f"## {blocking.__name__}\n"
        yield from example(blocking.__module__)
        yield f"`{call(blocking.__name__, blocking)}`\n"
        yield paragraphs(blocking) + "\n"
        yield from methods_of(blocking)
        other = [name for name in public(awaited) if differs(name, blocking, awaited)]
        if other:
            yield "In `odradek.aio`, otherwise than above:\n"
            yield from table(awaited, other)
        lacking = [f"`{name}`" for name in public(blocking) if not hasattr(awaited, name)]
        if lacking:
            yield f"Not in `odradek.aio`: {', '.join(lacking)}.\n"
    yield "## Keys and values\n"
    yield "What a producer makes of them, as `key=` and `value=`:\n"
    yield from example("odradek.client.serializers")
    yield "And a consumer:\n"
    yield from example("odradek.client.deserializers")
    yield "Where that cannot be done, `on_decode_error` says what becomes of the record:\n"
    yield from example("odradek.client.consumer.arguments", "on_decode_error")
    about = [part for part in (dead_letters.__doc__ or "").split("\n\n") if part[:1] != " "]
    yield "\n\n".join(about[1:-1]) + "\n"
    yield "## read\n"
    yield f"`odradek.{call('read', read)}`\n"
    yield paragraphs(read) + "\n"
    yield from arguments()
    yield "## What they give and take\n"
    yield "Of those that `odradek` does not have itself, programs need the names for types only.\n"
    yield from values()
    yield "## A broker in the process\n"
    yield from example(BROKER)
    yield f"`{constructor(BROKER, 'Broker')}`\n"
    yield class_docstring(BROKER, "Broker") + "\n"
    yield "## Errors\n"
    yield (
        "In `odradek.errors`. All but `ConfigError` are kinds of `KafkaError`, and have `code` (of "
        "the protocol, or None), `name`, `retriable`, `fatal` (this client cannot go on) and "
        "`requires_abort` (nor can the open transaction).\n"
    )
    yield "| error | |"
    yield "|---|---|"
    named = {name: getattr(errors, name) for name in errors.__all__}
    for name, kind in sorted(named.items()):
        if isinstance(kind, type):
            yield f"| `{name}` | {table_cell(kind.__doc__)} |"
    yield ""


def arguments() -> Iterator[str]:
    """The forms of arguments, and what is measured."""
    yield "## Arguments\n"
    yield "| | | |"
    yield "|---|---|---|"
    for name, module, kind, text in ARGUMENTS:
        shown = type_alias(module, kind) if module else kind
        yield f"| `{name}` | {table_cell(f'`{shown}`' if shown else '')} | {table_cell(text)} |"
    yield "\nAt a rebalance:\n"
    yield from example("odradek.client.consumer.group.rebalance")
    yield "## Metrics\n"
    for title, module in (("Producer", "producer"), ("Consumer", "consumer")):
        about = ast.get_docstring(tree_of(f"odradek.client.{module}.metrics")) or ""
        told = " ".join(" ".join(about.split("\n\n")[:2]).replace("(`SampledStat`)", "").split())
        yield f"{title}: {told.replace(' .', '.')}\n"


def methods_of(kind: type[Any]) -> Iterator[str]:
    """The methods and attributes of a class."""
    yield from table(kind, public(kind))


def table(kind: type[Any], names: Any) -> Iterator[str]:
    """Some of them."""
    yield "| | |"
    yield "|---|---|"
    for name in names:
        found = getattr(kind, name)
        shown = call(name, found) if callable(found) else name
        yield f"| `{table_cell(shown)}` | {table_cell(found.__doc__)} |"
    yield ""


def public(kind: type[Any]) -> list[str]:
    """The names that are for users, in the order in which they are written down."""
    ordered: dict[str, None] = {}
    for base in kind.__mro__:
        if base.__module__.startswith("odradek."):
            ordered.update(dict.fromkeys(vars(base)))
    return [name for name in ordered if is_public(name)]


def differs(name: str, blocking: type[Any], awaited: type[Any]) -> bool:
    """Whether a method is not the same in both faces, but for being awaited."""
    if not hasattr(blocking, name):
        return True
    first, second = (inspect.signature(getattr(face, name)) for face in (blocking, awaited))
    if first.parameters != second.parameters:
        return True
    given = [str(each.return_annotation).removeprefix("Async") for each in (first, second)]
    return given[0] != given[1]


def call(name: str, function: Any) -> str:
    """A call without annotations, and what it gives."""
    signature = inspect.signature(function)
    plain = [
        each.replace(annotation=inspect.Parameter.empty)
        for each in signature.parameters.values()
        if each.name != "self"
    ]
    shown = str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))
    if "**of" in shown:
        shown = shown.replace("**of", " | ".join(f"{each}=…" for each in Resource.__annotations__))
    gives = signature.return_annotation
    if isinstance(function, type) or gives in (inspect.Signature.empty, "None", None):
        return f"{name}{shown}"
    return f"{name}{shown} -> {gives}"


def paragraphs(thing: Any) -> str:
    """A docstring on one line."""
    return " ".join((thing.__doc__ or "").split())


def values() -> Iterator[str]:
    """The classes of values that calls take and return."""
    for kind in VALUES:
        yield from value(kind)


def value(kind: type[Any]) -> Iterator[str]:
    """A class of values: where to import it from, its attributes and its methods."""
    module, name = kind.__module__, kind.__name__
    written = class_tree(module, name)
    package = "odradek" if name in odradek.__all__ else module
    bases = [ast.unparse(base) for base in written.bases]
    kinds = [f"A `{each}`." for each in bases if each.partition("[")[0] not in PLAIN_BASES]
    yield f"### {name}\n"
    yield (
        " ".join([f"`from {package} import {name}`.", *kinds, class_docstring(module, name)]) + "\n"
    )
    yield from member_table(written)
