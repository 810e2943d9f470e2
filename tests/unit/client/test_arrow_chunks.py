"""Values gathered from a received buffer into an Arrow array."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from odradek.client.arrow.record_batches import chunk_array
from odradek.protocol.record_columns import BinaryChunk

VALUES = [b"one", b"", b"three" * 100, b"4"]


@pytest.mark.parametrize("before", [0, 5, 10_000])
@pytest.mark.parametrize("after", [0, 5, 400, 10_000])
@pytest.mark.parametrize("gap", [0, 7, 300])
def test_a_chunk_anywhere_in_its_buffer_becomes_its_values(
    before: int, after: int, gap: int
) -> None:
    data, edges = bytearray(before), []
    for value in VALUES:
        edges += [len(data), len(data) + len(value)]
        data += value + bytes(gap)
    del data[edges[-1] :]
    data += bytes(after)
    chunk = BinaryChunk(bytes(data), struct.pack(f"<{len(edges)}i", *edges))
    array = chunk_array(chunk, pa.binary())
    array.validate(full=True)
    assert array.to_pylist() == VALUES
