"""What the Python workers of a cluster have: a small job asks each of them, before a query fails.

    from odradek.spark import check_workers
    for worker in check_workers(spark, brokers="broker:9092"):
        print(worker.host, worker.problems or "ready")

`odradek spark check` prints the same as a table. It goes by way of a plain Python UDF, so it also
runs through Spark Connect, and in workers without Arrow or Odradek.

A worker whose Python is of another minor version than the driver's answers nothing: PySpark itself
refuses to run there, and `check_workers` raises what it says (`reason_of` is the line that counts).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, udf

from odradek import __version__
from odradek.spark.bare_worker import probe

TASKS = 16
TASK_SECONDS = 0.25
PYSPARK_CONDITION = re.compile(r"\[[A-Z][A-Z0-9_.]+\] .*")
"""`[PYTHON_VERSION_MISMATCH] Python in worker has ...`"""


@dataclass(frozen=True, slots=True)
class Worker:
    """An interpreter on a host, as its own answer describes it. `missing: ...` stands where
    something cannot be imported."""

    host: str
    executable: str
    python: str
    odradek: str
    pyspark: str
    pyarrow: str
    numpy: str
    leaves: str = ""
    brokers: str = ""
    tasks: int = 0
    """How many tasks of the check it ran."""

    @property
    def problems(self) -> list[str]:
        """What keeps the data source from running there; empty if nothing does."""
        found = [
            f"{name} is {value}"
            for name, value in (
                ("odradek", self.odradek),
                ("pyspark", self.pyspark),
                ("pyarrow", self.pyarrow),
                ("numpy", self.numpy),
            )
            if value.startswith("missing")
        ]
        if not self.odradek.startswith("missing") and self.odradek != __version__:
            found.append(f"odradek is {self.odradek}, the driver has {__version__}")
        if self.brokers.startswith("not reached"):
            found.append(f"brokers {self.brokers}")
        return found


def check_workers(
    spark: SparkSession, brokers: str | None = None, tasks: int = TASKS
) -> list[Worker]:
    """What each interpreter says of itself, by host. Runs `tasks` tasks of a quarter of a second:
    an executor that is given none of them is not seen. With `brokers` each worker also connects to
    all brokers of that cluster, at the addresses that they advertise."""
    asked = udf(lambda _: probe(brokers, TASK_SECONDS), "string", useArrow=False)
    rows = spark.range(0, tasks, 1, tasks).select(asked(col("id")).alias("answer")).collect()
    answers = Counter(row.answer for row in rows)
    workers = [Worker(**json.loads(answer), tasks=count) for answer, count in answers.items()]
    return sorted(workers, key=lambda worker: (worker.host, worker.executable))


def reason_of(error: Exception) -> str:
    """The line that counts of what a failed Spark job says: PySpark's own condition, else the last
    line of a worker's traceback."""
    text = str(error)
    condition = PYSPARK_CONDITION.search(text)
    if condition is not None:
        return condition.group()
    said = [line.strip() for line in text.partition("\nJVM stacktrace")[0].splitlines()]
    said = [line for line in said if line and not line.startswith(("at ", "SQLSTATE"))]
    return said[-1] if said else type(error).__name__
