"""The data source, with workers that die or fail half way through their first task (`test_stream`
and `test_write` use it). The option `marker` names the file that says it has happened."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from pyspark import cloudpickle

from odradek.spark.connections import admin_of
from odradek.spark.options import read_options, write_options
from odradek.spark.source import OdradekSource
from odradek.spark.stream_reader import StreamReader
from odradek.spark.writer import BatchWriter, StreamWriter

# Workers cannot import the tests: the classes travel with the task.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

FIRST = 10


class FailedHalfWay(Exception):
    pass


def killed():
    os.kill(os.getpid(), signal.SIGKILL)


def failed():
    raise FailedHalfWay("once")


ENDS = {"killed": killed, "failed": failed}


class KilledReader(StreamReader):
    """Dies once, after its first Arrow batch."""

    def __init__(self, options, marker):
        super().__init__(options)
        self.marker = marker

    def read(self, partition):
        for batch in super().read(partition):
            yield batch.slice(0, FIRST)
            if not Path(self.marker).exists():
                Path(self.marker).touch()
                killed()
            yield batch.slice(FIRST)


class EndsHalfWay:
    """The rows of a task; ends the task once, when its first rows are in the topic."""

    def __init__(self, options, marker, end):
        self.options = options
        self.marker = marker
        self.end = end

    def __call__(self, batches):
        for batch in batches:
            yield batch.slice(0, FIRST)
            if not Path(self.marker).exists():
                self.await_records()
                Path(self.marker).touch()
                ENDS[self.end]()
            yield batch.slice(FIRST)

    def await_records(self):
        admin = admin_of(self.options.client)
        partitions = admin.partitions_of([self.options.topic])
        while not any(admin.end_offsets(partitions).values()):
            time.sleep(0.01)


class KilledStreamWriter(StreamWriter):
    def __init__(self, options, schema, half_way):
        super().__init__(options, schema)
        self.half_way = half_way

    def write(self, iterator):
        return super().write(self.half_way(iterator))


class KilledBatchWriter(BatchWriter):
    def __init__(self, options, schema, half_way):
        super().__init__(options, schema)
        self.half_way = half_way

    def write(self, iterator):
        return super().write(self.half_way(iterator))


class KilledOnce(OdradekSource):
    @classmethod
    def name(cls):
        return "killed-once"

    def streamReader(self, schema):
        given = dict(self.options)
        marker = given.pop("marker")
        return KilledReader(read_options(given, streaming=True), marker)

    def writer(self, schema, overwrite):
        return KilledBatchWriter(*self.writing(schema, streaming=False))

    def streamWriter(self, schema, overwrite):
        return KilledStreamWriter(*self.writing(schema, streaming=True))

    def writing(self, schema, *, streaming):
        given = dict(self.options)
        marker, end = given.pop("marker"), given.pop("end")
        options = write_options(given, streaming=streaming)
        return options, schema, EndsHalfWay(options, marker, end)
