"""The data source `odradek`: the class behind `format("odradek")`.

    from odradek.spark import register
    register(spark)
    spark.read.format("odradek").option("kafka.bootstrap.servers", "localhost:9092")
        .option("subscribe", "flights").load()

Options and columns are those of Spark's own Kafka source (see `options` and `arrow`), so a job
changes over by changing the name of the format. The name `kafka` itself is reserved by Spark.

This class only parses options and returns readers and writers: Spark pickles it and creates it
again in every process. Each of these processes plans, reads or writes, and imports only what that
needs: the clients alone take a quarter of a second.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType
from pyspark.sql.utils import is_remote

from odradek.spark.bare_worker import VersionCheckedPickle
from odradek.spark.frozen_modules import freeze_loaded_modules
from odradek.spark.options import OptionReader, columns, read_options, value_schema, write_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odradek.spark.reader import BatchReader
    from odradek.spark.stream_reader import StreamReader
    from odradek.spark.writer import BatchWriter, StreamWriter

SCHEMA_OPTIONS = ("columns", "includeheaders", "valueformat", "valueschema")


class OdradekSource(VersionCheckedPickle, DataSource):
    """The data source for batches and streams, reads and writes."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self.options = dict(options.items())
        freeze_loaded_modules()

    @classmethod
    def name(cls) -> str:
        return "odradek"

    def schema(self) -> StructType:
        from odradek.spark.arrow import spark_schema

        given = {k.lower(): v for k, v in self.options.items() if k.lower() in SCHEMA_OPTIONS}
        options = OptionReader(given)
        include = options.boolean("includeHeaders", False)
        return spark_schema(include, value_schema(options), columns(options))

    def reader(self, schema: StructType) -> BatchReader:
        from odradek.spark.arrow import check_given_schema
        from odradek.spark.reader import BatchReader

        check_given_schema(schema, self.schema())
        return BatchReader(read_options(self.options, streaming=False))

    def streamReader(self, schema: StructType) -> StreamReader:
        from odradek.spark.arrow import check_given_schema
        from odradek.spark.stream_reader import StreamReader

        check_given_schema(schema, self.schema())
        return StreamReader(read_options(self.options, streaming=True))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        from odradek.spark.writer import BatchWriter

        if overwrite:
            raise ValueError('a topic cannot be overwritten: use mode("append")')
        return BatchWriter(write_options(self.options, streaming=False), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        from odradek.spark.writer import StreamWriter

        if overwrite:
            raise ValueError("a topic cannot be overwritten: use output mode append or update")
        return StreamWriter(write_options(self.options, streaming=True), schema)


SET_BY_STREAMS = (
    "SPARK_LOCAL_DIRS",
    "SPARK_AUTH_SOCKET_TIMEOUT",
    "SPARK_BUFFER_SIZE",
    "SPARK_PYTHON_RUNTIME",
)
"""The environment variables that Spark's `PythonStreamingSourceRunner` sets for a data source: in a
`HashMap` that all queries of a session share, without a lock."""


def register(spark: SparkSession) -> None:
    """Make `format("odradek")` known to a session. May be called again."""
    if not is_remote():
        # Two queries that start at once and both add new keys can leave the map with a wrong size:
        # from then on no task of either can be deserialized. Replacing existing keys is harmless.
        environment = spark.sparkContext.environment
        for name in SET_BY_STREAMS:
            environment.setdefault(name, "")
    spark.dataSource.register(OdradekSource)
