"""The page of the options of the Spark source and sink, rendered from their table."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.spark.option_table import FIXED, OPTIONS, PREFIX, WITHOUT_EFFECT, Use

REPLAY = """## Rows that are written twice

The sink writes at least once: a task that is run again (a retry, speculation, a micro-batch that is
replayed after a restart) writes its rows again. `replayHeaders` adds these headers to each record,
behind those of the row, as UTF-8 text:

| header | |
|---|---|
| `odradek.query.id` | The streaming query, the same after a restart. Of a batch write: the job. |
| `odradek.batch.id` | The micro-batch. Of a batch write: null. |
| `odradek.task` | The partition id of the Spark task. |
| `odradek.sequence` | The number of the row within the task, from 0. |

Records with the same four are the same row, as long as the plan is deterministic: a task that is
run again has to get the same rows in the same order. What was read from topics, filtered and mapped
comes so. What comes out of a shuffle (`groupBy`, `join`, `repartition`) may come in another order,
unless it is then sorted within its partitions by something that no two rows share. In
`foreachBatch` each `save()` is a job of its own, with another id when the micro-batch is replayed.

The four are the last headers of a record, so this drops the copies:

```python
from pyspark.sql import functions as F

rows = spark.read.format("odradek").option("kafka.bootstrap.servers", "localhost:9092")
rows = rows.option("subscribe", "flights").option("includeHeaders", True).load()
once = rows.withColumn("row_id", F.slice("headers", -4, 4)).dropDuplicates(["row_id"])
```

If the topic has records without them too, keep those apart first: the four are there where
`F.try_element_at("headers", F.lit(-1))["key"]` is `odradek.sequence`. A stream has to remember what
it has seen: `withWatermark("timestamp", "1 hour")` and `dropDuplicatesWithinWatermark(["row_id"])`
bound that to the time in which a replay may come.
"""

BESIDE = """\
## Beside options

**Filters** of a batch read on `topic`, `partition` and `offset`, and lower bounds of `timestamp`, \
narrow what is fetched if the option `filterPushdown` and Spark's setting \
`spark.sql.python.filterPushdown.enabled` are true (`local_session` sets the latter; Spark's \
default is false). Times need not be in order in a log, so an upper bound narrows nothing: where \
they are, `endingTimestamp` does. **The option is for DataFrames that are scanned once.** PySpark \
4.2 and 4.3 keep with a Python source's DataFrame what a filter left to read, and read no more in \
a later query without that filter, or on the other side of a union or join. Such uses need a \
`load()` of their own.

**Schemas** are the source's: `spark.read.schema(...)` may give the same one, and no other.

**Columns** that a record does not have are ignored by the sink, with a warning that names them. \
`key`, `value`, `topic`, `partition` and `headers` are found under exactly these names.

**SQL**: `CREATE TEMPORARY VIEW v USING odradek OPTIONS (...)` is read, and written to by \
`INSERT INTO v (key, value) ...`. Spark drops the options of a `CREATE TABLE t USING odradek`: \
they are given with each query, `SELECT * FROM t WITH (...)` and `INSERT INTO t WITH (...) ...`.

**Checkpoints** of Spark's own `kafka` source go on under `odradek`, and back.
"""


def page() -> str:
    """The reference page, in Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "# Options of the Spark source and sink\n"
    yield "<!-- Rendered from the code: `make reference` writes this page again. -->\n"
    yield (
        'Of `spark.read`, `readStream`, `write` and `writeStream` with `format("odradek")`: named '
        "and meant as in Spark's own Kafka source, in any case of letters. Durations are written "
        "`500ms`, `10s`, `15m`, `24h`, `30d`. An option that is not here is an error with the "
        "nearest name. One for another use may be given all the same, so that one mapping serves "
        "several; it does nothing.\n"
    )
    yield (
        "`kafka.` before any other [setting of the clients](client-settings.md) gives it to the "
        "consumers of the source, or to the producers of the sink. Not those that source and sink "
        "decide themselves:\n"
    )
    yield "\n".join(f"- `{PREFIX}{name}`: {why}" for name, why in FIXED.items()) + "\n"
    yield from _decoding()
    for use in Use:
        yield f"## {use.value}\n"
        yield "| option | default | |"
        yield "|---|---|---|"
        for option in OPTIONS:
            if option.use is use:
                default = "" if option.default is None else f"`{option.default}`"
                yield f"| `{option.name}` | {default} | {option.doc} |"
        yield ""
    yield REPLAY
    yield "## Known, and without effect\n"
    yield ", ".join(f"`{name}`" for name in sorted(WITHOUT_EFFECT)) + "\n"
    yield BESIDE


def _decoding() -> Iterator[str]:
    yield "## Values as typed columns\n"
    yield (
        "```python\n"
        "orders = (\n"
        '    spark.read.format("odradek")\n'
        '    .option("kafka.bootstrap.servers", "127.0.0.1:9092")\n'
        '    .option("subscribe", "orders")\n'
        '    .option("valueFormat", "json")\n'
        '    .option("valueSchema", "id bigint, customer string, items array<struct<sku: string, '
        'n: int>>")\n'
        "    .load()\n"
        ")\n"
        'orders.where("error is null").select("data.*")\n'
        "```\n"
    )
    yield (
        "The workers read JSON straight into Arrow columns, a batch of records at a time. Two "
        "columns come behind `timestampType`, before `headers`: `data`, a struct of valueSchema "
        "whose fields can all be null, and `error`, null where the value was decoded as it is, "
        "else why it was not: the field and the reason, or where the text is broken. What was cut "
        "off or has one wrong field does not end the query.\n"
    )
    yield (
        "`data` is what `from_json(cast(value as string), valueSchema)` gives with its default "
        "options: a field of the wrong type is null and the others stay; a broken text gives "
        "nulls; no value, or an empty one, is a null struct. A field `_corrupt_record string` "
        "gets the text of what has an error. Types that can be decoded: `boolean`, whole "
        "numbers, `float`, `double`, `decimal`, `string`, `binary` (Base64), `date`, "
        "`timestamp`, `timestamp_ntz`, `struct`, `array`, and `map` with strings as keys; "
        "`timestamp` has a time zone, whatever "
        "`spark.sql.timestampType` says.\n"
    )
    yield (
        "- A timestamp without a zone is in `spark.sql.session.timeZone`; where the session does "
        "not set it, in the zone of the machine that reads.\n"
        "- Records that are not of the schema (a string for a number, a number for a string, "
        "single quotes, broken ones) are decoded one by one, exactly as Spark does and many times "
        "slower than the others. So is every record of a schema with a `map`: use `from_json` for "
        "such.\n"
        "- Numbers with a fraction where valueSchema has `string` are written as Java 19 and later "
        "write them; older ones sometimes have a digit more.\n"
    )
