"""Lets every Spark session know `format("odradek")` without a call to `register`.

At the first use of a data source's name Spark imports each top-level package called `pyspark_*` and
takes the `DefaultSource` it finds there. A package that fails to import would switch that search
off for all of them, so where Spark or Arrow is not complete this one is just empty. With a version
of PySpark that is not supported, the source it has says so when it is used.
"""

from __future__ import annotations

import contextlib

with contextlib.suppress(ImportError):
    import pyspark
    from pyspark.sql.datasource import DataSource

    from odradek.spark.versions import refusal

    DefaultSource: type[DataSource]
    if refusal(pyspark.__version__) is None:
        from odradek.spark.source import OdradekSource

        DefaultSource = OdradekSource
    else:
        from odradek.spark.unsupported import UnsupportedSparkVersion

        DefaultSource = UnsupportedSparkVersion

    __all__ = ["DefaultSource"]
