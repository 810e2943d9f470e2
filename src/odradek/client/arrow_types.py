"""Arrow objects in the signatures of clients, as protocols, since pyarrow has no type hints.

The objects are pyarrow's `RecordBatch`, `Table` and `Schema`, with all their methods. This
module is outside of the package `arrow`, because importing that needs pyarrow.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol


class ArrowSchema(Protocol):
    """Anything that exports an Arrow schema: pyarrow's, nanoarrow's, polars'."""

    def __arrow_c_schema__(self) -> object: ...


class ArrowBatch(Protocol):
    """A `pyarrow.RecordBatch`."""

    @property
    def num_rows(self) -> int: ...

    @property
    def num_columns(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

    @property
    def schema(self) -> Any: ...

    def __len__(self) -> int: ...

    def __getitem__(self, key: Any, /) -> Any: ...

    def column(self, i: int | str) -> Any: ...

    def to_pylist(self) -> list[dict[str, Any]]: ...

    def to_pandas(self) -> Any: ...

    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...


class ArrowTable(Protocol):
    """A `pyarrow.Table`."""

    @property
    def num_rows(self) -> int: ...

    @property
    def schema(self) -> Any: ...

    def __len__(self) -> int: ...

    def __getitem__(self, key: Any, /) -> Any: ...

    def column(self, i: int | str) -> Any: ...

    def to_pylist(self) -> list[dict[str, Any]]: ...

    def to_pandas(self) -> Any: ...

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


Decode = Literal["json"] | ArrowSchema
"""The fields of the columns that `arrow` makes of JSON values: those of the first records, or
these."""
