"""Metric: one row of the table of metrics, and what reading it yields.

A row's `read` yields samples: the values of its labels, in the order of `labels`, and a number or a
`Histogram`. A label with the value "" is left out, as Prometheus treats it: a family may have
samples per topic and one for all topics, as Kafka's have. Rows of single partitions yield columns,
samples of some hundred partitions at once: there are so many that a step for each would be most of
the work.

`read` may take long in total (100,000 partitions), never between two results: it yields `PAUSE`
while it works without one, so that its caller can give other requests a turn. Meanwhile partitions,
groups and connections come and go. So it walks copies of such collections, made by the `Scrape`
that it gets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.model.histogram import Histogram

if TYPE_CHECKING:
    from odradek.broker.metrics.scrape import Scrape


class Kind(StrEnum):
    """Prometheus' types. A summary is a histogram that is shown by quantiles."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"


class MetricsPage(StrEnum):
    """The page that shows a row: one for the broker and its topics, one for single partitions."""

    BROKER = "metrics"
    PARTITIONS = "metrics/partitions"


Value = int | float | Histogram
LabelValues = tuple[str | int, ...]
Sample = tuple[LabelValues, Value] | None
"""The values of the labels and the value; None is a pause."""

PAUSE: Final[Sample] = None
NO_LABELS: Final[tuple[str, ...]] = ()

PartitionKey = tuple[str, int]
"""The name of a topic and the number of a partition; a `TopicPartition` is one."""


class PartitionKeys(list[PartitionKey]):
    """Partitions of which several rows have a column, and what their lines have in common."""

    __slots__ = ("lines",)

    def __init__(self, keys: Iterable[PartitionKey]) -> None:
        super().__init__(keys)
        self.lines = ""
        """For the writer of the page: the lines of any column, but for names and values."""


class SampleColumn(NamedTuple):
    """One sample of each of many partitions. The last labels of its row are topic and partition."""

    partitions: PartitionKeys
    values: Sequence[int]
    common: tuple[str, ...] = ()
    """The values of the labels before those two."""

    def samples(self) -> list[tuple[LabelValues, Value]]:
        """The same as single samples."""
        common = self.common
        return [
            ((*common, *partition), value) for partition, value in zip(self.partitions, self.values)
        ]


Found = Sample | SampleColumn
ReadSamples = Callable[["Scrape"], Iterator[Sample]]
Read = Callable[["Scrape"], Iterator[Found]]


@dataclass(frozen=True, slots=True)
class Buckets:
    """The buckets of a `Histogram` that are shown: upper bounds 2^first, up to 2^last.

    `scale` converts the histogram's values to the unit of the metric.
    """

    first: int
    last: int
    step: int
    scale: float

    def exponents(self) -> range:
        return range(self.first, self.last + 1, self.step)


TIMES: Final = Buckets(first=14, last=36, step=1, scale=1e-9)
"""Buckets of nanoseconds: 16 us to 69 s, each twice the one before."""
SIZES: Final = Buckets(first=6, last=28, step=2, scale=1)
"""Buckets of bytes: 64 to 256 MiB, each four times the one before."""
MILLISECONDS: Final = Buckets(first=0, last=20, step=1, scale=1e-6)
"""For summaries in milliseconds, of nanoseconds."""

QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
"""The quantiles of a summary: those that Kafka's histograms have."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the table.

    `unit` is the base unit (seconds, bytes, ratio), or what is counted. `buckets` is set for
    histograms and summaries.
    """

    name: str
    kind: Kind
    unit: str
    labels: tuple[str, ...]
    help: str
    read: Read
    view: MetricsPage = MetricsPage.BROKER
    buckets: Buckets | None = None

    @property
    def sample_names(self) -> tuple[str, ...]:
        """The names that its samples have in a query."""
        if self.kind is Kind.HISTOGRAM:
            return tuple(self.name + suffix for suffix in ("_bucket", "_sum", "_count"))
        if self.kind is Kind.SUMMARY:
            return (self.name, self.name + "_sum", self.name + "_count")
        return (self.name,)

    @property
    def sample_labels(self) -> tuple[str, ...]:
        """The labels that its samples have in a query, those of histograms included."""
        added = {Kind.HISTOGRAM: ("le",), Kind.SUMMARY: ("quantile",)}
        return (*self.labels, *added.get(self.kind, ()))


def gauge(
    name: str, unit: str, help_text: str, read: Read, labels: tuple[str, ...] = NO_LABELS
) -> Metric:
    """A row whose value goes up and down."""
    return Metric(name, Kind.GAUGE, unit, labels, help_text, read)


def counter(
    name: str, unit: str, help_text: str, read: Read, labels: tuple[str, ...] = NO_LABELS
) -> Metric:
    """A row whose value only grows while the process lives."""
    return Metric(name, Kind.COUNTER, unit, labels, help_text, read)


def histogram(
    name: str,
    unit: str,
    help_text: str,
    read: Read,
    labels: tuple[str, ...] = NO_LABELS,
    buckets: Buckets = TIMES,
) -> Metric:
    """A row whose value is a `Histogram`."""
    return Metric(name, Kind.HISTOGRAM, unit, labels, help_text, read, buckets=buckets)


def one(value: Callable[[Scrape], Value]) -> ReadSamples:
    """Read one value without labels."""

    def read(scrape: Scrape) -> Iterator[Sample]:
        yield NO_LABELS, value(scrape)

    return read


def known(value: Callable[[Scrape], Value | None]) -> ReadSamples:
    """Read one value without labels; no sample while it is unknown (None)."""

    def read(scrape: Scrape) -> Iterator[Sample]:
        found = value(scrape)
        if found is not None:
            yield NO_LABELS, found

    return read
