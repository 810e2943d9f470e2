"""The data source, with a worker that dies the first time it reads (`test_stream` uses it)."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from pyspark import cloudpickle

from odradek.spark.options import read_options
from odradek.spark.source import OdradekSource
from odradek.spark.stream_reader import StreamReader

# Workers cannot import the tests: the classes travel with the task.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class KilledReader(StreamReader):
    """Dies after its first Arrow batch, once."""

    def __init__(self, options, marker):
        super().__init__(options)
        self.marker = marker

    def read(self, partition):
        for batch in super().read(partition):
            yield batch.slice(0, 10)
            if not Path(self.marker).exists():
                Path(self.marker).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch.slice(10)


class KilledOnce(OdradekSource):
    @classmethod
    def name(cls):
        return "killed-once"

    def streamReader(self, schema):
        given = dict(self.options)
        marker = given.pop("marker")
        return KilledReader(read_options(given, streaming=True), marker)
