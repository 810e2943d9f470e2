"""What runs in Python workers that may have no Odradek: functions that travel by value.

Spark pickles readers and writers into its tasks. A class of an installed package travels as its
name, so a worker without that package fails while it unpickles, somewhere inside PySpark, and the
user meets a traceback of cloudpickle. `Shipped` objects travel as bytes and the function `load`,
which needs nothing but Python's own library: it says on which host which Python lacks what.
`probe` travels in the same way, to say what a worker has (`odradek.spark.workers`).

These functions import inside their bodies: there is no module around them where they run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from pyspark import cloudpickle

from odradek import __version__


def load(version: str, payload: bytes) -> Any:
    """The object that `Shipped` pickled. Raises `RuntimeError` where this worker has not what it
    takes."""
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


class Shipped:
    """Makes objects of a class travel by `load`. Their state is their `__dict__`."""

    def __reduce__(self) -> tuple[Callable[[str, bytes], Any], tuple[str, bytes]]:
        state: bytes = cloudpickle.dumps((type(self), self.__dict__))  # type: ignore[no-untyped-call]
        return load, (__version__, state)


def probe(brokers: str | None, seconds: float) -> str:
    """What this worker has, as a JSON object. Takes so long that tasks of one job spread over all
    free slots."""
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
    except Exception as error:  # Whatever it is, it is what is wrong with reaching them.
        found["brokers"] = f"not reached: {error}"
    time.sleep(max(0.0, seconds - (time.monotonic() - begun)))
    return json.dumps(found)


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
