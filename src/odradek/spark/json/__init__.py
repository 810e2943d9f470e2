"""JSON values as typed columns, with the results of Spark's `from_json`.

    schema       parses the DDL string of `valueSchema` to a Spark type, without a JVM
    columns      decodes a batch of values to Arrow columns: with msgspec where its result is
                 certain, else record by record
    records      converts one record as Spark's `JacksonParser` does, with partial results and
                 errors
    tokens       the tokens of a text as Jackson reads them, also of malformed text
    times        parses timestamps and dates

Spark's parser is a table of converters over Jackson's stream of tokens, and the result for a
damaged record depends on the position of that stream after an error. So `tokens` and `records`
follow those two step by step; `columns` uses them only for records that msgspec refuses or reads
otherwise.

Tests: unit/spark/test_json_columns.py, spark/test_value_format.py
"""
