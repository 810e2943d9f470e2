"""Readers and writers unpickled on workers without Odradek, or with another version of it."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import pytest
from pyspark import cloudpickle

import odradek
from odradek.spark.bare_worker import load
from odradek.spark.options import read_options
from odradek.spark.reader import BatchReader
from odradek.spark.workers import Worker, reason_of

READER = BatchReader(
    read_options({"kafka.bootstrap.servers": "b:9092", "subscribe": "t"}, streaming=False)
)


def test_a_reader_is_pickled_with_its_options() -> None:
    arrived = pickle.loads(cloudpickle.dumps(READER))
    assert type(arrived) is BatchReader
    assert arrived.options == READER.options


def test_unpickling_without_odradek_names_the_host_and_the_python() -> None:
    """In an isolated interpreter with only PySpark's pickle, as on an executor without Odradek."""
    program = (
        "import sys, pickle, importlib.util\n"
        f"sys.path.insert(0, {str(cloudpickle.__path__[0])!r})\n"
        "import cloudpickle\n"
        "import types\n"
        "pyspark = types.ModuleType('pyspark'); pyspark.__path__ = []\n"
        "sys.modules['pyspark'] = pyspark\n"
        "sys.modules['pyspark.cloudpickle'] = cloudpickle\n"
        "sys.modules['pyspark.cloudpickle.cloudpickle'] = cloudpickle\n"
        "pickle.loads(sys.stdin.buffer.read())\n"
    )
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program],
        input=cloudpickle.dumps(READER),
        capture_output=True,
        check=False,
    )
    said = ran.stderr.decode().strip().splitlines()[-1]
    assert said.startswith(f"RuntimeError: Odradek {odradek.__version__} cannot run in Python 3.")
    assert "No module named 'odradek'" in said
    assert "odradek spark pack" in said


def test_unpickling_with_another_version_of_odradek_names_both_versions() -> None:
    with pytest.raises(RuntimeError, match=r"has Odradek .*, the driver has 99\.0\. What to do"):
        load("99.0", b"")


def worker(**found: Any) -> Worker:
    there = {"odradek": odradek.__version__, "pyspark": "4.3.0", "pyarrow": "20", "numpy": "2"}
    return Worker(host="h", executable="p", python="3.11.7", **{**there, **found})


def test_a_worker_lists_its_problems() -> None:
    assert worker(brokers="reached").problems == []
    assert worker(pyarrow="missing: No module named 'pyarrow'").problems == [
        "pyarrow is missing: No module named 'pyarrow'"
    ]
    assert worker(odradek="0.0.1").problems == [
        f"odradek is 0.0.1, the driver has {odradek.__version__}"
    ]
    assert worker(brokers="not reached: refused").problems == ["brokers not reached: refused"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
            "pyspark.errors.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has "
            "different version: 3.10 than that in driver: 3.11.\n",
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.10 than that in "
            "driver: 3.11.",
        ),
        (
            "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
            '  File "x.py", line 1\nRuntimeError: no\n\nJVM stacktrace:\n  at org.apache.spark',
            "RuntimeError: no",
        ),
        ("", "Exception"),
    ],
)
def test_the_reason_of_a_failed_job_is_the_line_with_the_cause(text: str, reason: str) -> None:
    assert reason_of(Exception(text)) == reason
