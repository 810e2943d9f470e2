"""The figures of `odradek top`: samples of a cluster, and the rows of its views. No I/O.

    Sample, Sample ─► figures ─► Figures: one table of `Row`s for each view

Rates are differences of two samples over the time between them, so the first sample has none. A
topic that was made again, or whose log was cut by retention, has no rate rather than a wrong one;
so has one whose partitions with a known end are others. `no_end` is how many have none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from odradek.client.admin.results import MetricHistogram, WaitingReport

Cell = str | int | float | None
LAG_SHARE = 0.99


class View(Enum):
    """The tables, in the order of their keys."""

    TOPICS = "topics"
    GROUPS = "groups"
    WAITING = "waiting"
    TIMERS = "timers"


@dataclass(frozen=True, slots=True)
class TopicSample:
    """A topic at one time."""

    partitions: int
    end: int
    """The sum of the high watermarks of its partitions, without those that are `unknown`."""
    size: int | None
    """The bytes of its logs, one replica of each; None if unknown."""
    identity: str = ""
    """Another one for a topic that was made again."""
    unknown: tuple[int, ...] = ()
    """The partitions whose high watermark is not known: they have no leader, or it is silent."""


@dataclass(frozen=True, slots=True)
class GroupSample:
    """A group at one time."""

    state: str
    members: int | None
    lag: int | None
    """The sum over the partitions with a committed offset; None if it has none, or if the end of
    one of them is not known.
    """
    committed: int | None
    """The sum of the committed offsets."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A cluster at one time, in seconds by any clock."""

    taken_s: float
    brokers: int
    topics: Mapping[str, TopicSample] = field(default_factory=dict)
    groups: Mapping[str, GroupSample] = field(default_factory=dict)
    waiting: Mapping[int, WaitingReport] | None = None
    """By broker; None if the brokers are not Odradek's."""
    loop_lag: Mapping[int, MetricHistogram] = field(default_factory=dict)
    """How late the brokers' loops ran their timers since they started, in seconds."""
    silent: tuple[int, ...] = ()
    """Brokers that did not answer: what only they know is missing."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a view: its name, which is its key in JSON, and how it is shown."""

    name: str
    key: str
    """The key that sorts by it; "" for none."""
    width: int
    descending: bool = False
    """True if the largest come first when one sorts by it."""
    unit: str = ""
    """`count`, `bytes`, `rate`, `byte rate`, `ms`; "" for text."""
    rare: bool = False
    """True if the screen has it only while a row has another value than 0."""


COLUMNS: dict[View, tuple[Column, ...]] = {
    View.TOPICS: (
        Column("topic", "n", 0),
        Column("messages_s", "m", 11, True, "rate"),
        Column("bytes_s", "b", 10, True, "byte rate"),
        Column("end", "e", 14, True, "count"),
        Column("size", "z", 9, True, "bytes"),
        Column("partitions", "p", 10, True, "count"),
        Column("no_end", "o", 7, True, "count", rare=True),
    ),
    View.GROUPS: (
        Column("group", "n", 0),
        Column("lag", "l", 13, True, "count"),
        Column("messages_s", "m", 11, True, "rate"),
        Column("members", "u", 7, True, "count"),
        Column("state", "t", 19),
    ),
    View.WAITING: (
        Column("for", "n", 0),
        Column("kind", "i", 13),
        Column("client", "c", 18),
        Column("waited_ms", "w", 10, True, "ms"),
        Column("left_ms", "l", 8, False, "ms"),
        Column("broker", "", 6, False, "id"),
    ),
    View.TIMERS: (
        Column("name", "n", 0),
        Column("timers", "t", 10, True, "count"),
        Column("buckets", "b", 8, True, "count"),
        Column("next_ms", "x", 12, False, "ms"),
        Column("broker", "", 6, False, "id"),
    ),
}
FIRST_SORT = {
    View.TOPICS: "messages_s",
    View.GROUPS: "lag",
    View.WAITING: "waited_ms",
    View.TIMERS: "name",
}

Row = tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Figures:
    """The rows of all views, with the totals for the head of the screen."""

    sample: Sample
    rows: Mapping[View, Sequence[Row]]
    messages_s: float | None
    """The rate of all topics."""
    counts: Mapping[View, int]
    """How many things each view is of; of requests and timers there may be more than rows."""
    loop_lag_s: float | None = None
    """99 of 100 timers since the last sample were less late, at the slowest broker."""


def figures(now: Sample, before: Sample | None) -> Figures:
    """Return the rows of a sample, with rates since the one before."""
    topics = [topic_row(name, now, before) for name in now.topics]
    rates = [row[1] for row in topics if isinstance(row[1], float)]
    waiting = now.waiting or {}
    rows: dict[View, Sequence[Row]] = {
        View.TOPICS: topics,
        View.GROUPS: [group_row(name, now, before) for name in now.groups],
        View.WAITING: [
            row for broker, each in waiting.items() for row in waiting_rows(broker, each)
        ],
        View.TIMERS: [row for broker, each in waiting.items() for row in timer_rows(broker, each)],
    }
    counts = {view: len(of_view) for view, of_view in rows.items()}
    counts[View.WAITING] = sum(sum(each.by_kind.values()) for each in waiting.values())
    counts[View.TIMERS] = sum(sum(each.timers.values()) for each in waiting.values())
    lags = [recent_lag_s(broker, now, before) for broker in now.loop_lag]
    lag_s = max((lag_s for lag_s in lags if lag_s is not None), default=None)
    return Figures(now, rows, sum(rates) if rates else None, counts, lag_s)


def recent_lag_s(broker: int, now: Sample, before: Sample | None) -> float | None:
    """Return a bound on how late 99 of 100 timers ran between two samples; None if none ran."""
    histogram = now.loop_lag[broker]
    old = None if before is None else before.loop_lag.get(broker)
    earlier = {} if old is None or old.count > histogram.count else dict(old.buckets)
    ran = histogram.count - (old.count if earlier and old is not None else 0)
    if before is None or ran == 0:
        return None
    for bound, count in histogram.buckets:
        if count - earlier.get(bound, 0) >= LAG_SHARE * ran:
            return bound
    return histogram.buckets[-1][0] if histogram.buckets else None


def topic_row(name: str, now: Sample, before: Sample | None) -> Row:
    topic = now.topics[name]
    old = None if before is None else before.topics.get(name)
    messages = rate = None
    if old is not None and before is not None and old.identity == topic.identity:
        if old.unknown == topic.unknown:
            messages = rate_of(topic.end, old.end, now.taken_s - before.taken_s)
        rate = rate_of(topic.size, old.size, now.taken_s - before.taken_s)
    unknown = len(topic.unknown)
    return (name, messages, rate, topic.end, topic.size, topic.partitions, unknown)


def group_row(name: str, now: Sample, before: Sample | None) -> Row:
    group = now.groups[name]
    old = None if before is None else before.groups.get(name)
    messages = None
    if old is not None and before is not None:
        messages = rate_of(group.committed, old.committed, now.taken_s - before.taken_s)
    return (name, group.lag, messages, group.members, group.state)


def rate_of(now: int | None, before: int | None, passed_s: float) -> float | None:
    """Return the growth a second; None if it is not known, also after a fall."""
    if now is None or before is None or now < before or passed_s <= 0:
        return None
    return (now - before) / passed_s


def waiting_rows(broker: int, waiting: WaitingReport) -> list[Row]:
    rows: list[Row] = []
    for each in waiting.operations:
        more = each.key_count - len(each.keys)
        keys = ", ".join(each.keys) + (f" +{more}" if more else "")
        client = each.client_id if each.client_id else f"{each.host}:{each.port}"
        rows.append((keys, each.kind, client, each.waited_ms, each.left_ms, broker))
    return rows


def timer_rows(broker: int, waiting: WaitingReport) -> list[Row]:
    """Return a row for each level of the wheel, then one for each kind of timer."""
    rows: list[Row] = []
    for number, level in enumerate(waiting.levels, 1):
        name = f"level {number}: {level.size} buckets of {level.tick_ms} ms"
        soonest = min((expires for expires, _ in level.buckets), default=None)
        rows.append((name, level.timers, len(level.buckets), soonest, broker))
    for kind, count in waiting.timers.items():
        rows.append((f"timers: {kind}", count, None, None, broker))
    return rows


def sorted_rows(rows: Sequence[Row], view: View, column: str, *, turned: bool) -> list[Row]:
    """Return the rows by a column, in its own order or `turned`; unknown values come last, and
    equal ones by name."""
    index = [each.name for each in COLUMNS[view]].index(column)
    known = sorted(
        (row for row in rows if row[index] is not None), key=lambda row: name_order(row[0])
    )
    unknown = sorted(
        (row for row in rows if row[index] is None), key=lambda row: name_order(row[0])
    )

    def value(row: Row) -> Any:
        return name_order(row[index]) if isinstance(row[index], str) else row[index]

    known.sort(key=value, reverse=COLUMNS[view][index].descending is not turned)
    return known + unknown


def name_order(name: Cell) -> tuple[str, str]:
    return str(name).lower(), str(name)


def matching_rows(rows: Sequence[Row], text: str) -> list[Row]:
    """Return the rows with a text cell that contains `text`, in any case."""
    wanted = text.lower()
    return [
        row for row in rows if any(isinstance(cell, str) and wanted in cell.lower() for cell in row)
    ]
