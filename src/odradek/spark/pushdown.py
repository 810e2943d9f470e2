"""Filters on topic, partition, offset and timestamp, which reduce what a batch read fetches.

    column      filters                            what they narrow
    topic       =, <=>, <, <=, >, >=, IN, NOT      the topics read
    partition   =, <=>, <, <=, >, >=, IN, NOT      the partitions read
    offset      =, <=>, <, <=, >, >=, IN           where ranges start and end
    timestamp   =, <=>, >, >=, IN                  where ranges start

Several filters are one conjunction. Spark applies all of them to the rows once more, so
`ReadFilters` only has to keep every record that matches: `IN` on offsets becomes the range between
its ends.

A lower bound on timestamps is resolved by the broker: every record before the first one that is
young enough is too old, in whatever order timestamps are. An upper bound is not used. Behind the
first record that is too young there may be others that match (producers choose CreateTime, and the
clock of LogAppendTime may be set back), and the broker returns only the *first* record of an age.
If times are in order, use `endingTimestamp`.

Spark passes filters if `spark.sql.python.filterPushdown.enabled` is true (`local_session` sets it;
the default is false). They are used only with the option `filterPushdown`: PySpark 4.2 and 4.3 keep
the plan with the DataFrame's source. After `frame.where("offset > 9")`, a query over `frame` itself
would get the narrowed plan, without asking this source, and lack rows; so would the other side of a
union. Only the user knows that a frame is scanned once.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
)

from odradek.model.topics import TopicPartition
from odradek.spark.offsets import Offsets
from odradek.spark.topics import NO_OFFSET, Topics

Comparison = (
    EqualTo | EqualNullSafe | In | LessThan | LessThanOrEqual | GreaterThan | GreaterThanOrEqual
)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MICROSECOND = datetime.timedelta(microseconds=1)


@dataclass
class ReadFilters:
    """The filters that Spark pushed down to a batch read, and the ranges that they leave."""

    filters: list[Filter] = field(default_factory=list)

    def of_column(self, name: str) -> Iterator[Filter]:
        """Return the filters on one column, with `NOT` moved into the comparison where possible."""
        for each in self.filters:
            inner = each.child if isinstance(each, Not) else each
            if getattr(inner, "attribute", None) == (name,):
                yield opposite_of(inner) if isinstance(each, Not) else each

    def reads(self, partition: TopicPartition) -> bool:
        """False if no record of the partition matches."""
        return all(
            may_match(each, actual)
            for name, actual in (("topic", partition.topic), ("partition", partition.partition))
            for each in self.of_column(name)
        )

    def by_position(self, start: Offsets, end: Offsets) -> tuple[Offsets, Offsets]:
        """Return starts and ends without the offsets and partitions that cannot match."""
        first, last = bounds(self.of_column("offset"))
        starts: Offsets = {}
        ends: Offsets = {}
        for partition in start:
            low = start[partition] if first is None else max(first, start[partition])
            high = end[partition] if last is None else min(last + 1, end[partition])
            narrowed = (low, high) != (start[partition], end[partition])
            if self.reads(partition) and not (narrowed and low >= high):
                starts[partition], ends[partition] = low, high
        return starts, ends

    def by_time(self, topics: Topics, start: Offsets, end: Offsets) -> Offsets:
        """Return starts without the records that are too old. `end` must be resolved before the
        broker is asked: if nothing was young enough, younger records may arrive since."""
        oldest_us, _ = bounds(self.of_column("timestamp"))
        # Kafka has milliseconds, and negative ones have another meaning in ListOffsets.
        oldest_ms = 0 if oldest_us is None else -(-oldest_us // 1000)
        asked = [p for p in start if start[p] < end[p]]
        if oldest_ms <= 0 or not asked:
            return start
        found = topics.admin.list_offsets(dict.fromkeys(asked, oldest_ms))
        young = {p: end[p] if a.offset == NO_OFFSET else a.offset for p, a in found.items()}
        return {p: max(offset, young.get(p, offset)) for p, offset in start.items()}


class PushFilters:
    """`DataSourceReader.pushFilters` of a reader that also works where Spark pushes no filters.

    While `spark.sql.python.filterPushdown.enabled` is false, Spark refuses a reader that overrides
    this method (DATA_SOURCE_PUSHDOWN_DISABLED). It checks the function behind the bound method:
    `reader.pushFilters.__func__ is DataSourceReader.pushFilters`. A reader does not know the
    setting, so it cannot override the method only when it is allowed. Its attribute is therefore an
    object whose `__func__` says that it was not overridden. No filter is lost, since Spark applies
    all of them itself in any case.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, read_filters: ReadFilters) -> None:
        self.read_filters = read_filters

    def __call__(self, filters: list[Filter]) -> list[Filter]:
        """Keep the filters; return all of them, since Spark must apply them."""
        self.read_filters.filters = list(filters)
        return filters


def opposite_of(filter_: Filter) -> Filter:
    """Return the negation of a filter on a column without nulls."""
    match filter_:
        case LessThan(column, value):
            return GreaterThanOrEqual(column, value)
        case LessThanOrEqual(column, value):
            return GreaterThan(column, value)
        case GreaterThan(column, value):
            return LessThanOrEqual(column, value)
        case GreaterThanOrEqual(column, value):
            return LessThan(column, value)
    return Not(filter_)


def may_match(filter_: Filter, actual: str | int) -> bool:
    """False if a column with this value in every row fails the filter."""
    if isinstance(filter_, Not):
        inner = filter_.child
        if isinstance(inner, EqualTo | EqualNullSafe):
            return bool(inner.value != actual)
        return not (isinstance(inner, In) and actual in inner.value)
    if isinstance(filter_, In):
        return actual in filter_.value
    if not isinstance(filter_, Comparison) or type(filter_.value) is not type(actual):
        return True
    return compare(filter_, actual)


def compare(filter_: Filter, actual: str | int) -> bool:
    """True if a comparison holds."""
    match filter_:
        case EqualTo(_, value) | EqualNullSafe(_, value):
            return bool(actual == value)
        case LessThan(_, value):
            return bool(actual < value)
        case LessThanOrEqual(_, value):
            return bool(actual <= value)
        case GreaterThan(_, value):
            return bool(actual > value)
        case GreaterThanOrEqual(_, value):
            return bool(actual >= value)
    return True


def bounds(filters: Iterator[Filter]) -> tuple[int | None, int | None]:
    """Return the least and the greatest number (both included) that may pass all filters; None: no
    bound. Times are microseconds since 1970."""
    least: list[int] = []
    greatest: list[int] = []
    for each in filters:
        given = each.value if isinstance(each, In) else (getattr(each, "value", None),)
        numbers = whole_numbers(given)
        if not numbers:
            continue
        match each:
            case EqualTo() | EqualNullSafe() | In():
                least.append(min(numbers))
                greatest.append(max(numbers))
            case GreaterThan():
                least.append(numbers[0] + 1)
            case GreaterThanOrEqual():
                least.append(numbers[0])
            case LessThan():
                greatest.append(numbers[0] - 1)
            case LessThanOrEqual():
                greatest.append(numbers[0])
    return max(least, default=None), min(greatest, default=None)


def whole_numbers(values: Sequence[object]) -> list[int]:
    """Return the values as numbers, without nulls (no row equals null); empty if one has another
    type."""
    numbers: list[int] = []
    for value in values:
        if isinstance(value, datetime.datetime) and value.tzinfo is not None:
            numbers.append((value - EPOCH) // MICROSECOND)
        elif isinstance(value, int):
            numbers.append(value)
        elif value is not None:
            return []
    return numbers
