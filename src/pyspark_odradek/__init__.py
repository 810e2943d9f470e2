"""Lets every Spark session know `format("odradek")` without a call to `register`.

At the first use of a data source's name Spark imports each top-level package called `pyspark_*` and
takes the `DefaultSource` it finds there. A package that fails to import would switch that search
off for all of them, so where Spark or Arrow is not complete this one is just empty.
"""

from __future__ import annotations

import contextlib

with contextlib.suppress(ImportError):
    from odradek.spark.source import OdradekSource as DefaultSource

    __all__ = ["DefaultSource"]
