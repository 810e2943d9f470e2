"""Arrow arrays made of Python's values or numpy's, by their buffers.

`pa.array` imports pandas, where that is installed, to know what it is given: half a second and 50
MiB, which no process should pay that only reads and writes records.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import pyarrow as pa


def strings(values: Sequence[bytes | None], kind: pa.DataType) -> pa.Array:
    """Return a short array of binary or string (in UTF-8); None is null."""
    valid = sum(1 << index for index, value in enumerate(values) if value is not None)
    texts = [value or b"" for value in values]
    edges = struct.pack(f"={len(values) + 1}i", 0, *accumulate(map(len, texts)))
    buffers = [valid.to_bytes(len(values) // 8 + 1, "little"), edges, b"".join(texts)]
    return pa.Array.from_buffers(kind, len(values), [pa.py_buffer(each) for each in buffers])


def numbers(values: Any, kind: pa.DataType) -> pa.Array:
    """Return a numpy array of the same width as an array, without nulls and without a copy."""
    assert values.dtype.itemsize * 8 == kind.bit_width, f"{values.dtype} is not {kind}"
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])
