"""Arrow in and out of the clients, without a Python object per record.

`arrays` wraps what `protocol.record_columns` decoded, `reading` is the consumer's side. Only this
package of the clients knows pyarrow (the extra `odradek[arrow]`), and imports it when Arrow is
first asked for. What leaves it has `__arrow_c_stream__` or `__arrow_c_array__`, so polars, DuckDB,
pandas and others take it without an adapter.
"""

try:
    import pyarrow as pyarrow
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "Arrow in and out of the clients needs pyarrow: pip install 'odradek[arrow]'",
        name=error.name,
    ) from None
