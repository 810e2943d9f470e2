"""The process that Spark's Python workers are forked from, with everything imported already.

Spark starts a daemon per session (`spark.python.daemon.module`) and has it fork a worker for each
task that finds none idle. PySpark's own daemon imports nothing before it forks, so every worker
imports PySpark, Arrow and the data source for itself: about a second each, and 60 MiB that they do
not share. This one imports them first, and is PySpark's daemon otherwise.

A process must not be forked while it has other threads: none of these modules starts one when it is
imported, once numpy's linear algebra is told to use the calling thread alone, as Spark tells it in
executors too.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import threading

PRELOADED = (
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
    "pyarrow",
    "pyarrow.compute",
    "pandas",
    "odradek.spark.source",
    "odradek.spark.reader",
    "odradek.spark.stream_reader",
    "odradek.spark.writer",
    "odradek.spark.json.columns",
)


def preload() -> None:
    """Import what workers need; the collector will not touch, and so copy, its pages in them."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in PRELOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def main() -> None:
    preload()
    if threading.active_count() > 1:
        print("odradek: the Python daemon has threads before it forks", file=sys.stderr)
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
