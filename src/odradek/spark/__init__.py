"""Pipelines on Apache Spark: a data source for topics, and sessions that need no setup.

    from odradek.spark import local_session
    spark = local_session()
    flights = spark.readStream.format("odradek").option(...).load()

On a cluster: `cluster_session`, and `check_workers` to check its workers.

Nothing of PySpark is imported before one of these names is used: finding a Java runtime (`python -m
odradek.spark.java`) must work without PySpark.

In reading order: `source` (the data source), `option_table`, `options`; `topics`, `offsets`,
`pushdown`, `reader`, `arrow` (batch reads; columns and size of Arrow batches); `stream_reader`,
`initial_offsets`, `alignment`, `progress_group` (streams); `writer`, `task_writer`,
`commit_protocol`, `exactly_once/` (writes); `connections`, `producers` (clients kept in worker
processes), `frozen_modules`, `freed_memory`, `worker_socket`;
`json/` (values as columns); `session`, `home`, `java`, `class_archive`, `training`, `fork_server`,
`launch` (sessions); `environment_archive`, `workers`, `bare_worker` (clusters); `java_regex`,
`versions`, `unsupported`.

Tests: unit/spark, spark, cluster, soak
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from odradek.spark.versions import refusal

if TYPE_CHECKING:
    from odradek.spark.session import cluster_session, local_session
    from odradek.spark.source import OdradekSource, register
    from odradek.spark.workers import check_workers

__all__ = ["OdradekSource", "check_workers", "cluster_session", "local_session", "register"]

LAZY = {
    "OdradekSource": "odradek.spark.source",
    "check_workers": "odradek.spark.workers",
    "cluster_session": "odradek.spark.session",
    "local_session": "odradek.spark.session",
    "register": "odradek.spark.source",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for package, shown in (("pyspark", "PySpark"), ("pyarrow", "PyArrow")):
        if importlib.util.find_spec(package) is None:
            raise ModuleNotFoundError(
                f"pipelines on Spark need {shown}: pip install 'odradek[spark]'", name=package
            )
    import pyspark

    refused = refusal(pyspark.__version__)
    if refused is not None:
        raise ImportError(refused)
    return getattr(importlib.import_module(LAZY[name]), name)
