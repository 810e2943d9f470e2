"""A Spark driver that kills its JVM and itself while a micro-batch is in the offset log and not in
the commit log (`test_kills` starts it).

Arguments: broker, topic, directory, the batch to die in (-1: none). The values of each finished
micro-batch are in a file of its number.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from odradek.spark import local_session
from spark.reading import values


def main(bootstrap: str, topic: str, directory: Path, deadly: int) -> None:
    spark = local_session("killed", quick_start=True)

    def each(frame, batch_id):
        found = values(frame)
        if batch_id == deadly:
            for pid in (spark._sc._gateway.proc.pid, os.getpid()):  # type: ignore[union-attr]
                os.kill(pid, signal.SIGKILL)
        (directory / f"{batch_id}.json").write_text(json.dumps(found))

    reader = spark.readStream.format("odradek").option("kafka.bootstrap.servers", bootstrap)
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
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
