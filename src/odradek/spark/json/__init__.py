"""JSON values as typed columns, with the results of Spark's `from_json`.

    schema       the DDL string of `valueSchema` as a Spark type, without a JVM
    columns      a batch of values to Arrow columns: at once where the text leaves no doubt, else
                 record by record
    records      one record as Spark's `JacksonParser` converts it: partial results, and why
    tokens       the tokens of one text as Jackson reads them, where it is broken too
    times        texts as timestamps and dates

Spark's parser is a table of converters over Jackson's stream of tokens, and what a damaged record
becomes follows from where that stream stands after an error. So `tokens` and `records` follow those
two step by step; `columns` hands them only what Arrow's reader does not take, or takes otherwise.
"""
