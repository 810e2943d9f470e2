"""The process that Spark's Python workers are forked from, with everything imported already.

Spark starts a daemon per session (`spark.python.daemon.module`) and has it fork a worker for each
task that finds none idle. PySpark's own daemon imports nothing before it forks, so every worker
imports PySpark, Arrow and the data source for itself: about a second each, and 60 MiB that they do
not share. This one imports them first, and is PySpark's daemon otherwise.

A process must not be forked while it has other threads. None of these modules starts one when it
is imported, once numpy's linear algebra and the allocator that comes with Arrow are told to do
without (`WITHOUT_THREADS`).
"""

from __future__ import annotations

import gc
import importlib
import os

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


WITHOUT_THREADS = {
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
"""Environment variables that libraries read when they are loaded."""


def preload() -> None:
    """Import what workers need; the collector will not touch, and so copy, its pages in them."""
    for name, value in WITHOUT_THREADS.items():
        os.environ.setdefault(name, value)
    for name in PRELOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def main() -> None:
    preload()
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
