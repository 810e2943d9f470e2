"""A Spark driver whose JVM and Python are killed together, at one point of a micro-batch
(`test_kills` starts it).

Arguments: broker, topic, directory, the point: one of `killed_at`, or `each` (a micro-batch is
read and nothing is done with it), or `written` (its output is there, it is not in the commit log);
or none of these. The values of each micro-batch are in a file of its number.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from odradek.spark import local_session
from spark.killed_at import KilledAt, Points
from spark.reading import values


def main(bootstrap: str, topic: str, directory: Path, point: str) -> None:
    spark = local_session("killed", quick_start=True)
    spark.dataSource.register(KilledAt)
    pids = f"{spark._sc._gateway.proc.pid},{os.getpid()}"  # type: ignore[union-attr]
    markers = directory / "markers"
    markers.mkdir(exist_ok=True)
    points = Points(str(markers), point, pids)

    def each(frame, batch_id):
        found = values(frame)
        points.at("each")
        (directory / f"{batch_id}.json").write_text(json.dumps(found))
        points.at("written")

    reader = spark.readStream.format("killed-at").option("kafka.bootstrap.servers", bootstrap)
    reader = reader.options(markers=str(markers), points=point, pids=pids)
    query = (
        reader.options(subscribe=topic, startingOffsets="latest")
        .load()
        .writeStream.foreachBatch(each)
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])
