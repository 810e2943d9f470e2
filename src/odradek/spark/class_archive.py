"""An archive of the classes that Spark loads, with which its JVM starts in half the time.

A session and its first query load some 20,000 classes out of 280 jars, and the JVM parses and
verifies each of them, seven seconds of processor time. A dynamic class-data-sharing archive (JEP
350) has them ready to be mapped. `make_archive` runs a few small queries, batch and stream, and has
the JVM write the archive at its exit. `odradek spark prepare` calls it; `local_session` uses the
archive where there is one.

An archive is good for one Java, one Spark and one set of jars, which are in its name; the JVM
ignores one that does not fit. It lies in the cache directory and takes about 200 MB. Each virtual
environment has its own jars, and so its own archive: the `KEPT` that were used last stay.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from odradek.spark.home import spark_home
from odradek.spark.java import cache_directory, java_home

LAYOUT = 1
"""A version number: raised when the training run loads other classes."""
KEPT = 3
EXIT_TIMEOUT_SECONDS = 120
QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
"""The JVM must not warn users of an archive that does not fit, for example for another class path.
"""


class ArchiveFailed(RuntimeError):
    """The archive was not made; the message has the output of the JVM or the training run."""


def archive_path() -> Path:
    """Return the path of the archive for this Java and this Spark. Raises `JavaNotFound`."""
    jars = spark_home() / "jars"
    java = (java_home() / "bin" / "java").resolve()
    changed = [f"{path.resolve()} {path.stat().st_mtime_ns}" for path in (java, jars)]
    digest = hashlib.sha256(f"{LAYOUT} {changed}".encode()).hexdigest()[:12]
    return cache_directory() / f"spark-classes-{digest}.jsa"


def archive_options() -> list[str]:
    """Return the JVM's options for the archive; empty without an archive."""
    path = archive_path()
    try:
        os.utime(path)
    except FileNotFoundError:
        return []
    except PermissionError:
        pass  # Another user's: usable, but this use is not noted.
    return [f"-XX:SharedArchiveFile={path}", *QUIET]


def make_archive() -> Path:
    """Return the path of the archive; or make it. Raises `ArchiveFailed`, `JavaNotFound`."""
    path = archive_path()
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}.draft")
    command = [sys.executable, "-m", "odradek.spark.class_archive", str(draft)]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if not draft.exists():
            said = (ran.stderr or ran.stdout).strip()[-2000:] or "nothing"
            raise ArchiveFailed(f"Java wrote no archive of Spark's classes; it said: {said}")
        draft.rename(path)
    finally:
        draft.unlink(missing_ok=True)
    remove_unused(path.parent)
    return path


def remove_unused(directory: Path) -> None:
    """Remove all archives but those used last. A JVM that runs keeps the file that it has mapped;
    the next session without one only starts more slowly."""
    archives = sorted(directory.glob("spark-classes-*.jsa"), key=last_used_ns)
    for path in archives[:-KEPT]:
        path.unlink(missing_ok=True)


def last_used_ns(archive: Path) -> int:
    """When it was used, or 0 if another process has removed it."""
    try:
        return archive.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def main() -> None:
    """Run the training: `python -m odradek.spark.class_archive DRAFT`."""
    from odradek.spark.training import train

    train(Path(sys.argv[1]), EXIT_TIMEOUT_SECONDS)


if __name__ == "__main__":
    main()
