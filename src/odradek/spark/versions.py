"""The versions of PySpark that the source and sink work with, and what is said with any other.

Python data sources are a young interface of Spark: what is asked of a reader and a writer, and in
which process, changes with its minor versions. Those below are the ones the tests run with.
"""

from __future__ import annotations

import re

SUPPORTED = ((4, 2), (4, 3))


def refusal(version: str) -> str | None:
    """What is wrong with a version of PySpark, and what to do; None if it is supported."""
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is not None and (int(found[1]), int(found[2])) in SUPPORTED:
        return None
    names = " and ".join(f"{major}.{minor}" for major, minor in SUPPORTED)
    newest = "{}.{}".format(*SUPPORTED[-1])
    return (
        f"the odradek data source works with PySpark {names}, and this is PySpark {version}. "
        f"What to do: pip install 'pyspark=={newest}.*', where the driver runs and on the cluster"
    )
