"""`odradek spark check`: a session on the cluster for as long as it takes to ask its workers.

What goes wrong on the way is what the check is for, so each failure becomes one sentence
(`NotAnswered`): nobody listens at the master's address, no executor takes a task in time, Spark
cannot start Python on an executor, PySpark refuses the Python that is there.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import resources

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from odradek.spark.cluster import CONNECT, ClusterSetupError, cluster_session
from odradek.spark.java import JavaNotFound
from odradek.spark.workers import Worker, check_workers, reason_of

CONNECT_SECONDS = 5
STANDALONE = "spark://"
CONNECT_PORT = 15002


class NotAnswered(RuntimeError):
    """The workers could not be asked; the text says why, and what to do."""


def ask(
    *,
    master: str,
    archive: str | None,
    brokers: str | None,
    config: Mapping[str, str],
    within_s: float,
) -> list[Worker]:
    """What each worker has. Raises `NotAnswered`."""
    try:
        spark = on_cluster(master, archive, config)
    except (ClusterSetupError, JavaNotFound) as error:
        raise NotAnswered(str(error)) from error
    except (PySparkException, Py4JError) as error:
        raise NotAnswered(reason_of(error)) from error
    threads = ThreadPoolExecutor(1)
    asked = threads.submit(check_workers, spark, brokers)
    try:
        return asked.result(within_s)
    except TimeoutError:
        raise NotAnswered(
            f"no answer within {within_s:g} s: are there free cores and memory for an executor? "
            "See the log of the master, and --conf spark.cores.max and spark.executor.memory"
        ) from None
    except (PySparkException, Py4JError) as error:
        raise NotAnswered(f"{reason_of(error)}\nWhat to do: odradek spark pack") from error
    finally:
        spark.stop()
        threads.shutdown(wait=False)


def on_cluster(master: str, archive: str | None, config: Mapping[str, str]) -> SparkSession:
    """A session of few words."""
    if master.startswith((STANDALONE, CONNECT)) and not any(map(listens, addresses(master))):
        raise NotAnswered(f"nobody listens at {master}: is that what the log there says?")
    logging = resources.files("odradek.spark") / "log4j2.properties"
    quiet = {
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{logging}",
        "spark.ui.enabled": "false",
    }
    settings = dict(config) if master.startswith(CONNECT) else {**quiet, **config}
    return cluster_session(master, "odradek spark check", archive=archive, config=settings)


def addresses(master: str) -> list[tuple[str, int]]:
    """Of `spark://a:7077,b:7077`, and of `sc://a:15002/;token=x`, where the port may be left out.
    Raises `NotAnswered`."""
    scheme, _, rest = master.partition("://")
    found = []
    for address in rest.partition("/")[0].split(","):
        host, _, port = address.rpartition(":")
        if port.isdigit() and host:
            found.append((host, int(port)))
        elif scheme == "sc" and address:
            found.append((address, CONNECT_PORT))
        else:
            raise NotAnswered(f"{master}: write {scheme}://HOST:PORT")
    return found


def listens(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, CONNECT_SECONDS).close()
    except OSError:
        return False
    return True
