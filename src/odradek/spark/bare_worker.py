"""Functions that run in Python workers without Odradek: they are pickled by value.

Spark pickles readers and writers into its tasks. A class of an installed package is pickled by
name, so a worker without that package fails inside PySpark with a traceback of cloudpickle.
`VersionCheckedPickle` objects are pickled as bytes and the function `load`, which needs only
Python's own library: its error names the host, the Python and the missing package. `probe` is
pickled in the same way, to report the packages of a worker (`odradek.spark.workers`).

These functions import inside their bodies, because their module does not exist where they run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from pyspark import cloudpickle

from odradek import __version__


def load(version: str, payload: bytes) -> Any:
    """Return the object that `VersionCheckedPickle` pickled. Raises `RuntimeError` if this worker
    lacks a package or has another version of Odradek."""
    import pickle
    import socket
    import sys

    python = (
        f"Python {sys.version_info[0]}.{sys.version_info[1]} ({sys.executable}) on host "
        f"{socket.gethostname()}"
    )
    cure = (
        "What to do: give the executors an environment made by `odradek spark pack`; "
        "`odradek spark check` shows what each host has"
    )
    try:
        import odradek

        there = odradek.__version__
        if there == version:
            kind, state = pickle.loads(payload)
            made = kind.__new__(kind)
            made.__dict__.update(state)
            return made
    except ImportError as missing:
        problem = f"Odradek {version} cannot run in {python}: {missing}"
    else:
        problem = f"{python} has Odradek {there}, the driver has {version}"
    raise RuntimeError(f"{problem}. {cure}")


class VersionCheckedPickle:
    """Base of classes that are unpickled by `load`. Their state is their `__dict__`."""

    def __reduce__(self) -> tuple[Callable[[str, bytes], Any], tuple[str, bytes]]:
        state: bytes = cloudpickle.dumps((type(self), self.__dict__))  # type: ignore[no-untyped-call]
        return load, (__version__, state)


def probe(brokers: str | None, seconds: float) -> str:
    """Return the packages of this worker as a JSON object. Takes at least `seconds`, so that the
    tasks of a job spread over all free slots."""
    import importlib
    import json
    import platform
    import socket
    import sys
    import time

    begun = time.monotonic()
    found = {
        "host": socket.gethostname(),
        "executable": sys.executable,
        "python": platform.python_version(),
    }
    for name in ("odradek", "pyspark", "pyarrow", "numpy"):
        try:
            found[name] = importlib.import_module(name).__version__
        except ImportError as missing:
            found[name] = f"missing: {missing}"
    try:
        from odradek import Admin, leaves

        importlib.import_module("odradek.spark.source")
        found["leaves"] = leaves.mode()
        if brokers:
            with Admin(brokers=brokers, default_api_timeout_ms=10_000) as admin:
                for node in admin.cluster().nodes:
                    socket.create_connection((node.host, node.port), 5).close()
            found["brokers"] = "reached"
    except ImportError as missing:
        if not found["odradek"].startswith("missing"):
            found["odradek"] = f"missing: {missing}"
    except Exception as error:  # Any error means that they cannot be reached.
        found["brokers"] = f"not reached: {error}"
    time.sleep(max(0.0, seconds - (time.monotonic() - begun)))
    return json.dumps(found)


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
