"""Arrow arrays of decoded columns: no object per value, and of byte strings one copy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from odradek.protocol.record_columns import BinaryColumn, Piece

INT64_BYTES = 8


def fixed_array(data: bytes, kind: pa.DataType) -> pa.Array:
    """Values of 8 bytes, none of them null."""
    return pa.Array.from_buffers(kind, len(data) // INT64_BYTES, [None, pa.py_buffer(data)])


def binary_array(column: BinaryColumn, kind: pa.DataType) -> pa.Array:
    """Byte strings."""
    chunks = [gathered(piece, kind) for piece in column.pieces()]
    if len(chunks) == 1:
        array = chunks[0]
    else:
        array = pa.concat_arrays(chunks) if chunks else pa.array([], kind)
    if column.null_count == 0:
        return array
    _, offsets, data = array.buffers()
    validity = pa.py_buffer(column.validity())
    return pa.Array.from_buffers(kind, len(array), [validity, offsets, data], column.null_count)


def gathered(piece: Piece, kind: pa.DataType) -> pa.Array:
    """The values of a piece, one behind the other.

    As an array, its buffer is values and gaps in turn, every second one of which is kept.
    """
    length = 2 * piece.count - 1
    buffers = [None, pa.py_buffer(piece.edges), pa.py_buffer(piece.data)]
    values_and_gaps = pa.Array.from_buffers(kind, length, buffers)
    every_second = pa.py_buffer(b"\x55" * (length // 8 + 1))
    return values_and_gaps.filter(pa.Array.from_buffers(pa.bool_(), length, [None, every_second]))


def text_array(column: BinaryColumn) -> pa.Array:
    """Texts. What is not UTF-8 gets replacement characters, as everywhere in clients."""
    array = binary_array(column, pa.string())
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        texts = binary_array(column, pa.binary()).to_pylist()
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
