"""The data source `odradek` for unsupported versions of PySpark: it fails with the reason.

Without it Spark would say that there is no data source `odradek`. It is apart from `versions`,
which must not import PySpark; it uses only what every version with Python data sources has (4.0).
"""

from __future__ import annotations

from collections.abc import MutableMapping

import pyspark
from pyspark.sql.datasource import DataSource

from odradek.spark.versions import refusal


class UnsupportedSparkVersion(DataSource):
    """A data source that raises `RuntimeError` with the supported versions."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        raise RuntimeError(refusal(pyspark.__version__))

    @classmethod
    def name(cls) -> str:
        return "odradek"
