"""Spark sessions with the `odradek` data source: on this machine, or on a cluster.

`local_session` finds Java (`odradek.spark.java`), makes Spark's Python workers use this
interpreter, binds Spark to loopback, and registers the `odradek` data source. It sets these for
speed:

- `spark.python.unix.domain.socket.enabled`: the TCP path to Python workers loses about 40 ms a task
  because Nagle's algorithm meets delayed acknowledgements (`settings_everywhere`: a worker is on
  the host of its executor, also on a cluster);
- `checkpointFileManagerClass` = the plain file-system one: the default forks processes for each
  checkpoint file (about 40 ms a micro-batch). It checks and renames, so it does not fence two
  queries on one checkpoint from each other: right for one machine, not for a cluster, and only set
  here;
- `spark.sql.python.filterPushdown.enabled`: without it the option `filterPushdown` of a batch read
  would do nothing (`odradek.spark.pushdown`);
- Spark's Python processes are forked from one that has imported what they need (`fork_server`);
- `-XX:-DontCompileHugeMethods`: Spark makes one method of a whole stage. By default the JVM does
  not compile methods above 8,000 bytes; they run ten times slower;
- `arrow.enable_unsafe_memory_access`, `arrow.enable_null_check_for_get`: Arrow's Java library
  checks the bounds of each value that it reads, and whether it is null, which Spark has checked
  before;
- the archive of Spark's classes, if `odradek spark prepare` has made it (`class_archive`);
- few shuffle partitions: each is a task of about 19 ms, and the number is fixed in a query's
  checkpoint.

`cluster_session` makes a session on a cluster; the driver is this process (client mode) or a Spark
Connect server:

    spark = cluster_session("spark://master:7077", archive="environment.tar.gz")
    spark = cluster_session("sc://server:15002", archive="environment.tar.gz")

Few settings of `local_session` are right on a cluster; `settings_everywhere` has those that are.
Nothing is bound to loopback, and checkpoints go through Hadoop's own file contexts, which fence two
queries on one checkpoint from each other.

Spark uses one path of Python for planning, beside the driver, and for reading and writing, in the
executors. So a path into the executors' archive (`./environment/bin/python`) must lead to a Python
from the driver's working directory too, or each `load()` fails with "Cannot run program".
`link_environment` makes a link `environment` to the environment of this interpreter.

A Connect server gives each session a directory of its own, beside the driver and in each executor,
and runs the session's Python there. The archive is an artifact of the session: the server unpacks
it in all these directories, where batches are planned and run. Streams are not: the server must
have the archive too (docs/spark/cluster.md), and `PYTHON` as its `PYSPARK_PYTHON`.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from odradek.spark import fork_server
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
"""See the module's docstring."""


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

    `memory` is the heap of the JVM ("1g"). `quick_start` is for jobs of seconds: the JVM compiles
    faster and optimizes less, which halves the processor time of a first query and costs about a
    third of the speed of long ones. `log_file` gets the stderr of Spark and its workers. `config`
    adds or overrides Spark settings. An active session of this process is returned as Spark does,
    with the settings changed that can still change. Raises `JavaNotFound`, and `ValueError` for a
    master that is not local.
    """
    if not master.startswith("local"):
        raise ValueError(
            f"local_session is for masters on this machine, such as local[2], not {master}: "
            "use odradek.spark.cluster_session"
        )
    prepare_environment()
    if SparkContext._active_spark_context is not None or os.name != "posix":
        python = sys.executable
    else:
        python = str(fork_server.python_of_server())
    settings = local_settings(shuffle_partitions, memory, ui, quick_start)
    settings.update(config or {})
    builder = SparkSession.builder.appName(app_name).master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    with fork_server.spark_starts(python, then=sys.executable):
        if log_file is not None and SparkContext._active_spark_context is None:
            start_context(app_name, master, settings, log_file)
        spark = builder.getOrCreate()
    register(spark)
    return spark


def start_context(
    app_name: str, master: str, settings: Mapping[str, str], log_file: Path
) -> SparkContext:
    """Start a Spark context whose JVM and workers write their stderr to a file.

    Their messages mean nothing to a user: for example tracebacks of idle workers at the end of a
    session. The workers inherit the JVM's stderr.
    """
    conf = SparkConf().setAppName(app_name).setMaster(master).setAll(list(settings.items()))
    with log_file.open("ab") as log:
        gateway = launch_gateway(conf, {"stderr": log})  # type: ignore[no-untyped-call]
    return SparkContext(conf=conf, gateway=gateway)


def prepare_environment() -> None:
    """Set the environment that the JVM and the Python workers inherit. The user's Java is used if
    it works."""
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["SPARK_HOME"] = str(spark_home())
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def local_settings(
    shuffle_partitions: int, memory: str, ui: bool, quick_start: bool
) -> dict[str, str]:
    """Return the Spark settings of a local session, by name."""
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
        # Sets the log level from the start; `spark.log.level` in `config` changes it.
        "spark.driver.extraJavaOptions": options,
        "spark.ui.enabled": str(ui).lower(),
        "spark.sql.shuffle.partitions": str(shuffle_partitions),
        "spark.sql.streaming.checkpointFileManagerClass": FILE_MANAGER,
    }


def settings_everywhere() -> dict[str, str]:
    """Return the Spark settings that are right on a cluster and on one machine."""
    return {
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
    }


ENVIRONMENT = "environment"
PYTHON = f"./{ENVIRONMENT}/bin/python"
CONNECT = "sc://"


class ClusterSetupError(RuntimeError):
    """The session cannot be set up; the message says what to do."""


def cluster_session(
    master: str,
    app_name: str = "odradek",
    *,
    archive: str | os.PathLike[str] | None = None,
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session whose executors run on the cluster of `master` (`spark://`, `yarn`, `k8s://`, or
    `sc://` for Spark Connect), with the `odradek` data source registered.

    `archive` is what `odradek spark pack` wrote, as a path or a URL that Spark can fetch: executors
    then run the Python in there. Without it they run `PYSPARK_PYTHON`, and where that is not set
    the path of this interpreter, which then has to be on every host. `config` adds or overrides
    Spark settings. Raises `ClusterSetupError`, `JavaNotFound`.
    """
    if master.startswith("local"):
        raise ClusterSetupError(f"{master} is no cluster: use odradek.spark.local_session")
    if master.startswith(CONNECT):
        return connect_session(master, app_name, archive, config or {})
    settings = settings_everywhere()
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if archive is not None:
        archives = "spark.yarn.dist.archives" if master == "yarn" else "spark.archives"
        settings[archives] = f"{located(archive)}#{ENVIRONMENT}"
        link_environment(Path.cwd())
        os.environ["PYSPARK_PYTHON"] = PYTHON
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings.update(config or {})
    builder = SparkSession.builder.appName(app_name).master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark


def connect_session(
    remote: str,
    app_name: str,
    archive: str | os.PathLike[str] | None,
    config: Mapping[str, str],
) -> SparkSession:
    """Return a session of a Spark Connect server. Settings that cannot change in a running server
    must be set there."""
    if importlib.util.find_spec("grpc") is None:
        raise ClusterSetupError("Spark Connect needs its client: pip install 'pyspark[connect]'")
    spark = SparkSession.builder.remote(remote).appName(app_name).getOrCreate()
    settings = {"spark.sql.session.timeZone": "UTC"}
    if archive is not None:
        spark.addArtifacts(f"{located(archive)}#{ENVIRONMENT}", archive=True)
    for name, value in {**settings, **config}.items():
        spark.conf.set(name, value)
    register(spark)
    return spark


def located(archive: str | os.PathLike[str]) -> str:
    """Return an absolute path, or a URL as it is. Raises `ClusterSetupError` without a file."""
    text = os.fspath(archive)
    if "://" in text:
        return text
    if not Path(text).is_file():
        raise ClusterSetupError(f"there is no archive {text}: `odradek spark pack -o {text}`")
    return str(Path(text).absolute())


def link_environment(directory: Path) -> None:
    """Make `PYTHON` a path to a Python from `directory`: an existing environment (an unpacked
    archive, an earlier link), else a link to this one. Raises `ClusterSetupError`."""
    link = directory / ENVIRONMENT
    if not (link / "bin" / "python").exists():
        try:
            link.symlink_to(sys.prefix, target_is_directory=True)
        except OSError as error:
            raise ClusterSetupError(
                f"{link} should lead to a Python environment, for planning beside the driver, and "
                f"cannot be linked to {sys.prefix} ({error.strerror}). What to do: start the "
                "driver in another working directory, or unpack the archive there"
            ) from None
    if not (link / "bin" / "python").exists():
        link.unlink()
        raise ClusterSetupError(
            f"{sys.prefix} has no bin/python to plan with beside the driver. What to do: run the "
            f"driver in a virtual environment, or unpack the archive into {link}"
        )
