"""A local Spark session with the settings a streaming job over Odradek wants, and nothing for the
user to set.

`local_session` finds Java (`odradek.spark.java`), makes Spark's Python workers use this very
interpreter, binds Spark to loopback, and registers the `odradek` data source. What it sets for
speed, with the reason:

- `spark.python.unix.domain.socket.enabled`: the TCP path to Python workers loses about 40 ms a task
  to Nagle's algorithm meeting delayed acknowledgements (`settings_everywhere`: a worker is on the
  host of its executor, also on a cluster);
- `checkpointFileManagerClass` = the plain file-system one: the default forks processes for each
  checkpoint file (about 40 ms a micro-batch). It checks and renames, so two queries on one
  checkpoint are not fenced from each other: right for one machine, not for a cluster, and only set
  here;
- `spark.sql.python.filterPushdown.enabled`: without it the option `filterPushdown` of a batch read
  would do nothing (`odradek.spark.pushdown`);
- `spark.python.daemon.module`: Python workers are forked from a process that has imported what they
  need (`worker_daemon`);
- `-XX:-DontCompileHugeMethods`: Spark makes one method of a whole stage, and the JVM interprets
  those above 8,000 bytes for ever, ten times slower, unless told otherwise;
- `arrow.enable_unsafe_memory_access`, `arrow.enable_null_check_for_get`: Arrow's Java library
  checks the bounds of each value that it reads, and whether it is null, which Spark has asked
  before;
- the archive of Spark's classes, where `odradek spark prepare` has made it (`class_archive`);
- few shuffle partitions: each is a task of about 19 ms, and the number is frozen in a query's
  checkpoint.

A session on a cluster is `odradek.spark.cluster_session`, or one that the user builds with
`SparkSession.builder`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from odradek.spark.class_archive import archive_options
from odradek.spark.home import spark_home
from odradek.spark.java import java_home
from odradek.spark.source import register

FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)

JVM_OPTIONS = (
    "-XX:-DontCompileHugeMethods",
    "-Darrow.enable_unsafe_memory_access=true",
    "-Darrow.enable_null_check_for_get=false",
)
"""See above."""


def local_session(
    app_name: str = "odradek",
    *,
    master: str = "local[2]",
    shuffle_partitions: int = 2,
    memory: str = "1g",
    ui: bool = False,
    quick_start: bool = False,
    log_file: Path | None = None,
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """A Spark session in this process with the `odradek` data source registered.

    `memory` is the heap of the JVM ("1g"). `quick_start` is for jobs of seconds: it compiles
    quickly instead of well, which halves the processor time of a first query and costs about a
    third of the speed of long ones. `log_file` takes what Spark and its workers say on stderr.
    `config` adds or overrides Spark settings. An active session of this process is returned as
    Spark does, with the settings that can still change changed. Raises `JavaNotFound`, and
    `ValueError` for a master that is not local.
    """
    if not master.startswith("local"):
        raise ValueError(
            f"local_session is for masters on this machine, such as local[2], not {master}: "
            "use odradek.spark.cluster_session"
        )
    prepare_environment()
    settings = local_settings(shuffle_partitions, memory, ui, quick_start)
    settings.update(config or {})
    builder = SparkSession.builder.appName(app_name).master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    if log_file is not None and SparkContext._active_spark_context is None:
        start_context(app_name, master, settings, log_file)
    spark = builder.getOrCreate()
    register(spark)
    return spark


def start_context(
    app_name: str, master: str, settings: Mapping[str, str], log_file: Path
) -> SparkContext:
    """A Spark context whose JVM, with all that it starts, writes its talk to a file.

    Spark and its workers say things on stderr that mean nothing to a user, tracebacks of idle
    workers at the end of a session among them, and the workers inherit the JVM's.
    """
    conf = SparkConf().setAppName(app_name).setMaster(master).setAll(list(settings.items()))
    with log_file.open("ab") as log:
        gateway = launch_gateway(conf, {"stderr": log})  # type: ignore[no-untyped-call]
    return SparkContext(conf=conf, gateway=gateway)


def prepare_environment() -> None:
    """What the JVM and the Python workers inherit; only Java is taken from the user where it is
    good."""
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["SPARK_HOME"] = str(spark_home())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def local_settings(
    shuffle_partitions: int, memory: str, ui: bool, quick_start: bool
) -> dict[str, str]:
    """The Spark settings of a local session, by name."""
    logging = resources.files("odradek.spark") / "log4j2.properties"
    options = " ".join(
        [f"-Dlog4j2.configurationFile=file:{logging}", *JVM_OPTIONS, *archive_options()]
    )
    if quick_start:
        options += " -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    return settings_everywhere() | {
        "spark.driver.memory": memory,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        # Quiet from the first line on; `spark.log.level` in `config` changes it.
        "spark.driver.extraJavaOptions": options,
        "spark.ui.enabled": str(ui).lower(),
        "spark.sql.shuffle.partitions": str(shuffle_partitions),
        "spark.sql.streaming.checkpointFileManagerClass": FILE_MANAGER,
        "spark.python.daemon.module": "odradek.spark.worker_daemon",
    }


def settings_everywhere() -> dict[str, str]:
    """The Spark settings that are as right on a cluster as on one machine."""
    return {
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
    }
