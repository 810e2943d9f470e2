"""The data source `odradek` with a version of PySpark that it does not work with.

Spark finds it by its name, so `format("odradek")` says what is wrong; without it Spark would say
that there is no such data source. It needs what every version with Python data sources has (4.0).
"""

from __future__ import annotations

from collections.abc import MutableMapping

import pyspark
from pyspark.sql.datasource import DataSource

from odradek.spark.versions import refusal


class UnsupportedVersion(DataSource):
    """Refuses to be used."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        raise RuntimeError(refusal(pyspark.__version__))

    @classmethod
    def name(cls) -> str:
        return "odradek"
