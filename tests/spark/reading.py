"""The values of a DataFrame of records."""

from __future__ import annotations

from pyspark.sql import DataFrame


def values(frame: DataFrame) -> list[str | None]:
    """Return the values as text, in the order of partition and offset."""
    rows = frame.selectExpr("partition", "offset", "cast(value as string) value").collect()
    return [row.value for row in sorted(rows, key=lambda row: (row.partition, row.offset))]
