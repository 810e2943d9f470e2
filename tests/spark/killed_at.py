"""The data source, whose processes end by SIGKILL at named points of a micro-batch, once at each
(`test_kills`). A point is passed for good once there is a file of its name in the directory that
the option `markers` names. The processes of the option `pids` are killed first: the JVM and the
driver, or a broker.

    initialOffset   the start is known, and not answered        the source's process
    latestOffset    a micro-batch is asked for                  the source's process
    partitions      it is in the offset log, and not planned    the source's process
    planning        the same, of one that reads something       the source's process
    planned         its tasks are planned, and not started      only those of `pids`
    read            half of it is read                          a worker
    unacknowledged  its rows are at hand, none is sent          a worker
    acknowledged    all are acknowledged, Spark is not told     a worker
    commit          all tasks are done, it is not committed     the sink's process on the driver
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from pyspark import cloudpickle

from odradek.spark.offsets import StreamOffset
from odradek.spark.options import read_options, write_options
from odradek.spark.source import OdradekSource
from odradek.spark.stream_reader import StreamReader
from odradek.spark.writer import StreamWriter

# Workers cannot import the tests: the classes travel with the task.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Points:
    """The points to die at: `names`, without those that have a marker already."""

    def __init__(self, markers: str, names: str, pids: str = "") -> None:
        self.markers = Path(markers)
        self.names = names.split(",")
        self.pids = [int(pid) for pid in pids.split(",") if pid]

    def at(self, name: str, *, alone: bool = False) -> None:
        """Kill the processes of `pids`, and this one unless it stays `alone`."""
        marker = self.markers / name
        if name in self.names and not marker.exists():
            marker.touch()
            for pid in self.pids if alone else (*self.pids, os.getpid()):
                os.kill(pid, signal.SIGKILL)


class KilledReader(StreamReader):
    def __init__(self, options, points):
        super().__init__(options)
        self.points = points

    def initialOffset(self):
        answer = super().initialOffset()
        self.points.at("initialOffset")
        return answer

    def latestOffset(self, start, limit):
        self.points.at("latestOffset")
        return super().latestOffset(start, limit)

    def partitions(self, start, end):
        self.points.at("partitions")
        if not StreamOffset.from_json(end, "the end offset").begins:
            self.points.at("planning")
        tasks = super().partitions(start, end)
        if tasks:
            self.points.at("planned", alone=True)
        return tasks

    def read(self, partition):
        for batch in super().read(partition):
            half = batch.num_rows // 2
            yield batch.slice(0, half)
            self.points.at("read")
            yield batch.slice(half)


class KilledWriter(StreamWriter):
    def __init__(self, options, schema, points):
        super().__init__(options, schema)
        self.points = points

    def write(self, iterator):
        written = super().write(self.at_hand(iterator))
        self.points.at("acknowledged")
        return written

    def at_hand(self, batches):
        for batch in batches:
            self.points.at("unacknowledged")
            yield batch

    def commit(self, messages, batchId):
        self.points.at("commit")
        super().commit(messages, batchId)


class KilledAt(OdradekSource):
    @classmethod
    def name(cls):
        return "killed-at"

    def streamReader(self, schema):
        points, given = self.points()
        return KilledReader(read_options(given, streaming=True), points)

    def streamWriter(self, schema, overwrite):
        points, given = self.points()
        return KilledWriter(write_options(given, streaming=True), schema, points)

    def points(self):
        given = dict(self.options)
        points = Points(given.pop("markers"), given.pop("points"), given.pop("pids", ""))
        return points, given
