"""A Spark session on a cluster; the driver is this process (client mode) or a Spark Connect server.

    from odradek.spark import cluster_session
    spark = cluster_session("spark://master:7077", archive="environment.tar.gz")
    spark = cluster_session("sc://server:15002", archive="environment.tar.gz")

Not much of `local_session` is right on a cluster. What holds everywhere is in `settings`; nothing
is bound to loopback, and checkpoints go through Hadoop's own file contexts, which fence two queries
on one checkpoint from each other.

Spark runs one path of Python for two things: planning, beside the driver, and reading and writing,
in the executors. So a path into the executors' archive (`./environment/bin/python`) has to lead to
a Python from the driver's working directory too, or each `load()` fails with "Cannot run program".
`link_environment` sees to it: a link `environment` to the environment of this interpreter.

A Connect server gives each session a directory of its own, beside the driver and in each executor,
and runs the session's Python there. The archive is an artifact of the session: the server unpacks
it in all these directories, where batches are planned and run. Streams are not: the server has to
have the archive too (docs/spark/cluster.md), and `PYTHON` as its `PYSPARK_PYTHON`.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from odradek.spark.java import java_home
from odradek.spark.session import settings_everywhere
from odradek.spark.source import register

ENVIRONMENT = "environment"
PYTHON = f"./{ENVIRONMENT}/bin/python"
CONNECT = "sc://"


class ClusterSetupError(RuntimeError):
    """The session cannot be set up as asked; the text says what to do."""


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
    """A session of a Spark Connect server. What cannot be changed in a server that runs is the
    server's to set."""
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
    """An absolute path, or a URL as it is. Raises `ClusterSetupError` where there is no file."""
    text = os.fspath(archive)
    if "://" in text:
        return text
    if not Path(text).is_file():
        raise ClusterSetupError(f"there is no archive {text}: `odradek spark pack -o {text}`")
    return str(Path(text).absolute())


def link_environment(directory: Path) -> None:
    """Make `PYTHON` lead to a Python from `directory`: the environment that is there already (an
    unpacked archive, an earlier link), else a link to this one. Raises `ClusterSetupError`."""
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
