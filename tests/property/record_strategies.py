"""Hypothesis strategies for records and batches."""

from __future__ import annotations

from hypothesis import strategies as st

from odradek.protocol.compression import CompressionType
from odradek.protocol.record_batch_builder import build

Row = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]

T0 = 1_366_000_000_000

contents = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.text(max_size=12), contents), max_size=4)
timestamps = st.just(-1) | st.integers(T0 - 10**6, T0 + 10**6) | st.integers(0, 2**60)
rows: st.SearchStrategy[list[Row]] = st.lists(
    st.tuples(contents, contents, headers, timestamps), min_size=1, max_size=20
)
# The Python clients take a base timestamp of -1 for one that is not set yet.
timed_rows = rows.map(lambda content: [(k, v, h, max(at, 0)) for k, v, h, at in content])
codecs = st.sampled_from(CompressionType)


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """Return a valid batch, as a producer sends it."""
    return build(draw(rows), draw(codecs))
