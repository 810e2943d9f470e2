"""The process from which Spark forks its Python workers, and what keeps those workers fast.

Spark starts a daemon per session (`spark.python.daemon.module`) and has it fork a worker for each
task that finds none idle. PySpark's own daemon imports nothing before it forks, so every worker
imports PySpark, Arrow and the data source for itself: about a second each, and 60 MiB that they do
not share. This daemon imports them first, and is PySpark's daemon otherwise.

A process must not be forked while it has other threads. None of these modules starts a thread when
it is imported, once numpy's linear algebra and the allocator that comes with Arrow are told not to
(`WITHOUT_THREADS`).

A worker that is used again runs a full garbage collection after every task, and so do the processes
that plan a write and commit it: four in a micro-batch of two tasks. Each collection looks at every
object of every loaded module, which takes tens of milliseconds, more than a short micro-batch
otherwise needs. Modules stay loaded, so `freeze_loaded_modules` takes them out of the collector's
sight.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys

_frozen: tuple[int, int] | None = None
"""The process id and the number of modules of the last freeze."""


def freeze_loaded_modules() -> None:
    """Freeze all current objects in a worker, at first and when modules were loaded since.

    Does nothing in other processes and in workers for a single task: `SPARK_REUSE_WORKER` is set
    only in workers that are used again.
    """
    global _frozen
    loaded = (os.getpid(), len(sys.modules))
    if "SPARK_REUSE_WORKER" not in os.environ or _frozen == loaded:
        return
    _frozen = loaded
    gc.collect()  # Garbage that is frozen would never be freed.
    gc.freeze()


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
"""Environment variables that the libraries read when they are loaded."""


def preload() -> None:
    """Import what workers need, and freeze it, so that collections do not copy its pages."""
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
