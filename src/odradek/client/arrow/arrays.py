"""Arrow arrays around finished buffers: no copy, no object per value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from odradek.protocol.record_columns import BinaryBuffers

INT64_BYTES = 8


def fixed_array(data: bytes, kind: pa.DataType) -> pa.Array:
    """Values of 8 bytes, none of them null."""
    return pa.Array.from_buffers(kind, len(data) // INT64_BYTES, [None, pa.py_buffer(data)])


def binary_array(buffers: BinaryBuffers, kind: pa.DataType) -> pa.Array:
    """Byte strings."""
    validity = pa.py_buffer(buffers.validity) if buffers.null_count else None
    return pa.Array.from_buffers(
        kind,
        buffers.count,
        [validity, pa.py_buffer(buffers.offsets), pa.py_buffer(buffers.data)],
        buffers.null_count,
    )


def text_array(buffers: BinaryBuffers) -> pa.Array:
    """Texts. What is not UTF-8 gets replacement characters, as everywhere in clients."""
    array = binary_array(buffers, pa.string())
    if buffers.data.isascii():
        return array
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        texts = binary_array(buffers, pa.binary()).to_pylist()
        return pa.array(
            [None if text is None else text.decode("utf-8", "replace") for text in texts],
            pa.string(),
        )
    return array


def repeated(runs: Iterable[tuple[int, int]], kind: pa.DataType) -> pa.Array:
    """Integers, each as often as it says."""
    size = kind.bit_width // 8
    data = b"".join(value.to_bytes(size, "little", signed=True) * count for value, count in runs)
    return pa.Array.from_buffers(kind, len(data) // size, [None, pa.py_buffer(data)])


def header_lists(
    kind: pa.ListType, offsets: bytes, keys: pa.Array, values: pa.Array, validity: Any = None
) -> pa.Array:
    """Lists of headers of records."""
    structs = pa.Array.from_buffers(kind.value_type, len(keys), [None], children=[keys, values])
    count = len(offsets) // 4 - 1
    return pa.Array.from_buffers(kind, count, [validity, pa.py_buffer(offsets)], children=[structs])
