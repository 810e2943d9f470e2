"""Arrow data in and out of the clients, without a Python object per record.

`record_batches` makes Arrow batches of consumed records, `json_values` makes columns of their JSON
values, `arrays` makes both from buffers, `arrow_input` makes records to send of Arrow data. Only
this package of the clients uses pyarrow (the extra `odradek[arrow]`), and imports it when Arrow is
first used. All results have `__arrow_c_stream__` or `__arrow_c_array__`, so polars, DuckDB, pandas
and others take them without an adapter.

Tests: unit/client/test_json_values.py, clients
"""

try:
    import pyarrow as pyarrow
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "Arrow in and out of the clients needs pyarrow: pip install 'odradek[arrow]'",
        name=error.name,
    ) from None
