"""A scrape: reading the rows of the table, some samples at a time, on the owner thread.

    for metric, samples in read_metrics(node, View.BROKER):
        ...                      # at most SAMPLES_PER_SLICE samples; then others may have a turn

Samples of one metric follow each other and may come in several pieces; an empty piece is a pause.
Between two pieces the caller should return to the loop (`call_soon`): a piece is about a third of a
millisecond, all partitions of a large broker are seconds. The values of one scrape are therefore
not of one instant. Nothing is kept but the list of the partitions and totals of topics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from odradek.broker.metrics.metric import Metric, Sample, Scrape, Value, View
from odradek.broker.metrics.table import METRICS

if TYPE_CHECKING:
    from odradek.broker.node import Node

SAMPLES_PER_SLICE: Final = 200
"""Samples read before others may have a turn, pauses included."""


def read_metrics(
    node: Node, view: View, metrics: Sequence[Metric] = METRICS
) -> Iterator[tuple[Metric, list[tuple[Sequence[str], Value]]]]:
    """Yield the metrics of a view with their present values, in pieces: see the module."""
    scrape = Scrape(node)
    for metric in metrics:
        if metric.view is not view:
            continue
        for piece in pieces(metric.read(scrape)):
            yield metric, piece


def pieces(samples: Iterator[Sample]) -> Iterator[list[tuple[Sequence[str], Value]]]:
    """Yield the samples in lists; at least one list, which may be empty."""
    piece: list[tuple[Sequence[str], Value]] = []
    looked_at = 0
    for sample in samples:
        looked_at += 1
        if sample is not None:
            piece.append(sample)
        if looked_at >= SAMPLES_PER_SLICE:
            yield piece
            piece, looked_at = [], 0
    yield piece
