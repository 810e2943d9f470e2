"""A Spark home in which Python workers start in half the time.

PySpark installed by pip has its Python files twice: as a package, and once more in
`python/lib/pyspark.zip`, which Spark puts first on the path of every Python process that it starts.
The zip has no compiled files, so each process compiles some 400 modules from source: about 0.9 s of
processor time for each of the ten or so processes of a small streaming query.

`spark_home` makes a directory of links to everything in the installed PySpark except those zips.
Python processes then import the installed package, with its compiled files. The directory is made
once per PySpark, in the cache directory.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

from odradek.spark.java import cache_directory

LAYOUT = 1
"""A version number: raised when `make_home` changes its result."""


def spark_home() -> Path:
    """Return the home for the installed PySpark; `SPARK_HOME` if it is set."""
    given = os.environ.get("SPARK_HOME")
    if given:
        return Path(given)
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(
            "pipelines on Spark need PySpark: pip install 'odradek[spark]'", name="pyspark"
        )
    installed = Path(spec.origin).resolve().parent
    if not (installed / "python" / "lib").is_dir():
        return installed
    version = (installed / "version.py").read_text()
    identity = f"{LAYOUT} {installed} {version}"
    home = cache_directory() / f"spark-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"
    if not home.exists():
        make_home(installed, home)
    return home


def make_home(installed: Path, home: Path) -> None:
    """Link everything of `installed` but `python/lib`. Two processes may make it at once."""
    home.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=home.parent, prefix=".draft-"))
    try:
        os.chmod(draft, 0o755)
        link_entries(installed, draft, {"python"})
        (draft / "python").mkdir()
        link_entries(installed / "python", draft / "python", {"lib"})
        draft.rename(home)
    except OSError:
        shutil.rmtree(draft, ignore_errors=True)
        if not home.exists():
            raise


def link_entries(source: Path, target: Path, left_out: set[str]) -> None:
    for entry in source.iterdir():
        if entry.name not in left_out:
            (target / entry.name).symlink_to(entry)
