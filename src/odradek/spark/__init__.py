"""Pipelines on Apache Spark: a data source for topics, and a local session that needs no setting
up.

    from odradek.spark import local_session
    spark = local_session()
    flights = spark.readStream.format("odradek").option(...).load()

Nothing of PySpark is imported before one of these names is used: finding a Java runtime (`python -m
odradek.spark.java`) must work where there is no PySpark yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.spark.session import local_session
    from odradek.spark.source import OdradekSource, register

__all__ = ["OdradekSource", "local_session", "register"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        import pyspark as pyspark
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "pipelines on Spark need PySpark: pip install 'odradek[spark]'", name=error.name
        ) from None
    if name == "local_session":
        from odradek.spark.session import local_session

        return local_session
    from odradek.spark import source

    return getattr(source, name)
