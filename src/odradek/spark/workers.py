"""The Python workers of a cluster: a small job reports what each has, before a query fails.

    from odradek.spark import check_workers
    for worker in check_workers(spark, brokers="broker:9092"):
        print(worker.host, worker.problems or "ready")

The job is a plain Python UDF, so it also runs through Spark Connect, and in workers without Arrow
or Odradek. PySpark refuses to run in a worker whose Python has another minor version than the
driver's; `check_workers` then raises PySpark's error (`reason_of` is its line with the cause).

`odradek spark check` prints the same as a table. `ask` makes a session for it; each failure on the
way becomes one sentence (`CheckFailed`): nothing listens at the master's address, no executor takes
a task in time, Spark cannot start Python on an executor, PySpark refuses its Python.
"""

from __future__ import annotations

import json
import re
import socket
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import resources

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, udf

from odradek import __version__
from odradek.spark.bare_worker import probe
from odradek.spark.java import JavaNotFound
from odradek.spark.session import CONNECT, ClusterSetupError, cluster_session

TASKS = 16
TASK_SECONDS = 0.25
PYSPARK_CONDITION = re.compile(r"\[[A-Z][A-Z0-9_.]+\] .*")
"""`[PYTHON_VERSION_MISMATCH] Python in worker has ...`"""


@dataclass(frozen=True, slots=True)
class Worker:
    """A Python interpreter on a host, with its packages. A package that cannot be imported is
    `missing: ...`."""

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
    """The number of tasks of the check that it ran."""

    @property
    def problems(self) -> list[str]:
        """The reasons why the data source cannot run there; empty if it can."""
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
    """Return the workers of a session, by host. Runs `tasks` tasks of a quarter of a second; an
    executor that gets none of them is not listed. With `brokers` each worker also connects to all
    brokers of that cluster, at their advertised addresses."""
    asked = udf(lambda _: probe(brokers, TASK_SECONDS), "string", useArrow=False)
    rows = spark.range(0, tasks, 1, tasks).select(asked(col("id")).alias("answer")).collect()
    answers = Counter(row.answer for row in rows)
    workers = [Worker(**json.loads(answer), tasks=count) for answer, count in answers.items()]
    return sorted(workers, key=lambda worker: (worker.host, worker.executable))


def reason_of(error: Exception) -> str:
    """Return the line with the cause of a failed Spark job: PySpark's error condition, else the
    last line of a worker's traceback."""
    text = str(error)
    condition = PYSPARK_CONDITION.search(text)
    if condition is not None:
        return condition.group()
    lines = [line.strip() for line in text.partition("\nJVM stacktrace")[0].splitlines()]
    lines = [line for line in lines if line and not line.startswith(("at ", "SQLSTATE"))]
    return lines[-1] if lines else type(error).__name__


CONNECT_SECONDS = 5
STANDALONE = "spark://"
CONNECT_PORT = 15002


class CheckFailed(RuntimeError):
    """The workers could not be checked; the message says why and what to do."""


def check_cluster(
    *,
    master: str,
    archive: str | None,
    brokers: str | None,
    config: Mapping[str, str],
    within_s: float,
) -> list[Worker]:
    """Open a session and check its workers. Raises `CheckFailed`."""
    try:
        spark = open_session(master, archive, config)
    except (ClusterSetupError, JavaNotFound) as error:
        raise CheckFailed(str(error)) from error
    except (PySparkException, Py4JError) as error:
        raise CheckFailed(reason_of(error)) from error
    threads = ThreadPoolExecutor(1)
    asked = threads.submit(check_workers, spark, brokers)
    try:
        return asked.result(within_s)
    except TimeoutError:
        raise CheckFailed(
            f"no answer within {within_s:g} s: are there free cores and memory for an executor? "
            "See the log of the master, and --conf spark.cores.max and spark.executor.memory"
        ) from None
    except (PySparkException, Py4JError) as error:
        raise CheckFailed(f"{reason_of(error)}\nWhat to do: odradek spark pack") from error
    finally:
        spark.stop()
        threads.shutdown(wait=False)


def open_session(master: str, archive: str | None, config: Mapping[str, str]) -> SparkSession:
    """Open a session with little output."""
    if master.startswith((STANDALONE, CONNECT)) and not any(map(listens, addresses(master))):
        raise CheckFailed(f"nothing listens at {master}: compare the address in the master's log")
    logging = resources.files("odradek.spark") / "log4j2.properties"
    quiet = {
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{logging}",
        "spark.ui.enabled": "false",
    }
    settings = dict(config) if master.startswith(CONNECT) else {**quiet, **config}
    return cluster_session(master, "odradek spark check", archive=archive, config=settings)


def addresses(master: str) -> list[tuple[str, int]]:
    """Parse `spark://a:7077,b:7077` or `sc://a:15002/;token=x`, whose port may be left out.
    Raises `CheckFailed`."""
    scheme, _, rest = master.partition("://")
    found = []
    for address in rest.partition("/")[0].split(","):
        host, _, port = address.rpartition(":")
        if port.isdigit() and host:
            found.append((host, int(port)))
        elif scheme == "sc" and address:
            found.append((address, CONNECT_PORT))
        else:
            raise CheckFailed(f"{master}: write {scheme}://HOST:PORT")
    return found


def listens(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, CONNECT_SECONDS).close()
    except OSError:
        return False
    return True
