"""Reading the rows of the table, some samples at a time, on the owner thread.

    for piece in read_metrics(node, View.BROKER):
        piece.metric, piece.samples          # at most SLICE of work; then others may have a turn

Samples of one metric follow each other and may come in several pieces; a piece without samples is a
pause. The caller should return to the loop (`call_soon`) whenever the pieces since the last turn
have cost `SLICE`, which is about a third of a millisecond: all partitions of a large broker are
seconds. The values of one scrape are therefore not of one instant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.broker.metrics.metric import LabelValues, Metric, Sample, Value, View
from odradek.broker.metrics.scrape import Scrape
from odradek.broker.metrics.table import METRICS

if TYPE_CHECKING:
    from odradek.broker.node import Node

SLICE: Final = 300
"""Samples read before others may have a turn, pauses included."""
HISTOGRAM_COST: Final = 25
"""A histogram is about as much work as so many numbers."""


class Piece(NamedTuple):
    """Some samples of one metric: the values of the labels, and the value."""

    metric: Metric
    samples: list[tuple[LabelValues, Value]]
    cost: int
    """The work that it was, in samples."""


def read_metrics(node: Node, view: View, metrics: Sequence[Metric] = METRICS) -> Iterator[Piece]:
    """Yield the metrics of a view with their present values; each in one piece or several."""
    scrape = Scrape(node)
    for metric in metrics:
        if metric.view is view:
            yield from pieces(metric, metric.read(scrape))


def pieces(metric: Metric, samples: Iterator[Sample]) -> Iterator[Piece]:
    """Yield the samples of a metric in pieces, at least one."""
    each = 1 if metric.buckets is None else HISTOGRAM_COST
    most = SLICE // each
    while True:
        taken = list(islice(samples, most))
        yield Piece(metric, [sample for sample in taken if sample is not None], len(taken) * each)
        if len(taken) < most:
            return
