"""The process Spark forks its Python workers from, made quiet about sessions that stop.

A worker that waits for work when the JVM goes tries to tell the JVM so; over Unix sockets that
fails, and PySpark's daemon prints a traceback for each such worker, at the end of every session.
Nobody is left to be told and nothing is wrong: here it just ends.

Named by `spark.python.daemon.module`; started as `python -m odradek.spark.daemon WORKER_MODULE`.
"""

from __future__ import annotations

import os
from typing import Any

from pyspark import daemon

pyspark_worker = daemon.worker


def worker(sock: Any, authenticated: bool) -> int:
    """One connection's work; see `pyspark.daemon.worker`."""
    try:
        code: int = pyspark_worker(sock, authenticated)
    except BrokenPipeError:
        os._exit(1)
    return code


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
