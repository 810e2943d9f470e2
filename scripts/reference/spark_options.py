"""The page of the options of the Spark source and sink, rendered from their table."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.spark.option_table import FIXED, OPTIONS, PREFIX, WITHOUT_EFFECT, OptionUse

INTRODUCTION = """\
# Options of the Spark source and sink

<!-- Rendered from the code: `make reference` writes this page again. -->

These are options of `spark.read`, `readStream`, `write` and `writeStream` with
`format("odradek")`. Names and meanings are those of Spark's own Kafka source; case does not
matter. Durations are written `500ms`, `10s`, `15m`, `24h` or `30d`. An option that is not on this
page is an error, whose message has the most similar name. An option for another use has no
effect, so that one mapping can serve several uses.

`kafka.` before any other [setting of the clients](client-settings.md) passes it to the consumers
of the source or the producers of the sink. `kafka.security.protocol` can only be `PLAINTEXT` so
far. Source and sink set these settings themselves:
"""
DECODING = """\
## Values as typed columns

```python
orders = (
    spark.read.format("odradek")
    .option("kafka.bootstrap.servers", "127.0.0.1:9092")
    .option("subscribe", "orders")
    .option("valueFormat", "json")
    .option("valueSchema", "id bigint, customer string, items array<struct<sku: string, n: int>>")
    .load()
)
orders.where("error is null").select("data.*")
```

The workers decode JSON directly into Arrow columns, one batch of records at a time. Two columns
follow `timestampType`, before `headers`. `data` is a struct of valueSchema, whose fields can all
be null. `error` is null if the value was decoded completely; else it has the field and the reason,
or the position where the JSON is invalid, or the byte that is not UTF-8. A truncated value or a
wrong field does not end the query. A field that the value does not have is null and no error.

`data` is the result of `from_json(cast(value as string), valueSchema)` with its default options: a
field of the wrong type is null and the other fields keep their values; invalid JSON gives nulls; a
null or empty value gives a null struct; bytes that are not UTF-8 become U+FFFD. A field
`_corrupt_record string` gets the text of a value with an error. These types can be decoded:
`boolean`, whole numbers, `float`, `double`, `decimal`, `string`, `binary` (Base64), `date`,
`timestamp`, `timestamp_ntz`, `struct`, `array`, and `map` with strings as keys. `timestamp` has a
time zone, whatever `spark.sql.timestampType` says.

- A timestamp without a zone is in `spark.sql.session.timeZone` or, if the session does not set
  it, in the zone of the machine that reads.
- Values that do not match the schema (a string for a number, a number for a string, single
  quotes, invalid JSON) are decoded one by one, exactly as Spark does and many times slower than the
  others. So is every value if the schema has a `map`: use `from_json` instead.
- Numbers with a fraction for a `string` field are formatted as by Java 19 and later; older
  versions sometimes write one more digit.
"""
EXACTLY_ONCE = """\
## Exactly once

With `delivery` set to `exactly_once` readers of committed records get each row once, whatever is
killed. A stream needs nothing else. A batch write, also one in `foreachBatch`, says
`transactionalIdPrefix` and `batchId`. See [Writing exactly once](../spark/exactly-once.md): what
readers see, how long a query that is dead holds them up, and the ways out of errors.
"""
REPLAY = """\
## Rows that are written twice

With `at_least_once` rows may be written twice: a task that runs again (a retry, speculation, a
micro-batch that is replayed after a restart) writes its rows again. `replayHeaders` adds these
headers to each record, after those of the row, as UTF-8 text:

| header | |
|---|---|
| `odradek.query.id` | The streaming query; the same after a restart. Of a batch write: the job. |
| `odradek.batch.id` | The micro-batch. Of a batch write: null. |
| `odradek.task` | The partition id of the Spark task. |
| `odradek.sequence` | The number of the row within the task, from 0. |

Records with the same four headers are the same row if the plan is deterministic: a task that runs
again must get the same rows in the same order. Rows that were read from topics, filtered and mapped
have that order. After a shuffle (`groupBy`, `join`, `repartition`) the order may differ, unless the
rows are sorted within each partition by a unique key. In `foreachBatch` each `save()` is a job of
its own, with another id when the micro-batch is replayed.

The four are the last headers of a record, so this drops the copies:

```python
from pyspark.sql import functions as F

rows = spark.read.format("odradek").option("kafka.bootstrap.servers", "localhost:9092")
rows = rows.option("subscribe", "flights").option("includeHeaders", True).load()
once = rows.withColumn("row_id", F.slice("headers", -4, 4)).dropDuplicates(["row_id"])
```

If the topic also has records without these headers, separate them first: a record has the headers
if `F.try_element_at("headers", F.lit(-1))["key"]` is `odradek.sequence`. A stream must remember the
ids that it has seen: `withWatermark("timestamp", "1 hour")` and
`dropDuplicatesWithinWatermark(["row_id"])` limit them to the time in which a replay can happen.
"""
BESIDE = """\
## Beside options

**Filters** of a batch read on `topic`, `partition` and `offset`, and lower bounds of `timestamp`,
reduce the records that are fetched if the option `filterPushdown` and Spark's setting
`spark.sql.python.filterPushdown.enabled` are true (`local_session` sets the latter; Spark's
default is false). Upper bounds of `timestamp` do not, because timestamps need not be in order in a
log; if they are, use `endingTimestamp`. **Use the option only for DataFrames that are scanned
once.** PySpark 4.2 and 4.3 store the filtered read in the DataFrame of a Python source. A later
query without the filter, or the other side of a union or join, then lacks rows. Give each of them
a `load()` of its own.

**A DataFrame or view** of a batch read shows the topic as of its first query, whatever was written
since: PySpark plans a Python source once and keeps the plan with the DataFrame. Spark's own source
reads to the present end each time. Call `load()` again, or create the view again, to see what came
since.

**Trigger once**: a stream whose beginning can move (`latest`, timestamps, `earliest` of a topic
that was trimmed) reads nothing in its first run with `trigger(once=True)`, because the first
micro-batch only stores where the stream begins. Use `trigger(availableNow=True)`, or give the
reader the option `checkpointLocation`.

**Schemas** are those of the source: `spark.read.schema(...)` accepts only the same schema.

**Columns** that a record does not have are ignored by the sink, with a warning that names them.
The columns `key`, `value`, `topic`, `partition` and `headers` must have exactly these names.

**SQL**: a view of `CREATE TEMPORARY VIEW v USING odradek OPTIONS (...)` can be read, and written
to by `INSERT INTO v (key, value) ...`. Spark drops the options of `CREATE TABLE t USING odradek`:
give them in each query, `SELECT * FROM t WITH (...)` and `INSERT INTO t WITH (...) ...`.

**Checkpoints** of Spark's own `kafka` source continue under `odradek`, and the other way round.
"""


def page() -> str:
    """The page as Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield INTRODUCTION
    yield "\n".join(f"- `{PREFIX}{name}`: {reason}" for name, reason in FIXED.items()) + "\n"
    yield DECODING
    for use in OptionUse:
        yield f"## {use.value}\n"
        yield "| option | default | |"
        yield "|---|---|---|"
        for option in OPTIONS:
            if option.use is use:
                default = "" if option.default is None else f"`{option.default}`"
                yield f"| `{option.name}` | {default} | {option.doc} |"
        yield ""
    yield EXACTLY_ONCE
    yield REPLAY
    yield "## Known, without effect\n"
    yield ", ".join(f"`{name}`" for name in sorted(WITHOUT_EFFECT)) + "\n"
    yield BESIDE
