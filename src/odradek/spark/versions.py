"""The supported versions of PySpark. This module imports nothing of PySpark.

Python data sources are a young interface of Spark: the calls to readers and writers, and their
processes, change with minor versions. The supported versions are the tested ones.
"""

from __future__ import annotations

import re

SUPPORTED = ((4, 2), (4, 3))


def refusal(version: str) -> str | None:
    """Return an error message for an unsupported version of PySpark; None if it is supported."""
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is not None and (int(found[1]), int(found[2])) in SUPPORTED:
        return None
    names = " and ".join(f"{major}.{minor}" for major, minor in SUPPORTED)
    newest = "{}.{}".format(*SUPPORTED[-1])
    return (
        f"the odradek data source works with PySpark {names}, and this is PySpark {version}. "
        f"What to do: pip install 'pyspark=={newest}.*', where the driver runs and on the cluster"
    )
