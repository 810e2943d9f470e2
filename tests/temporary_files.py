"""One directory for the temporary files of a test run and of all processes that it starts.

Python's `tempfile` uses it, and so does Spark: for its local directories, the artifacts of sessions
and the sockets of its workers, which stay wherever a Spark is killed. It is removed at the end. A
run that was killed leaves it to the next one, which removes every such directory that nobody has
locked. Pytest's own directories (`tmp_path`) are elsewhere: a failed test's stays until the next
run.
"""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import MutableMapping
from pathlib import Path
from typing import TextIO

PREFIX = "odradek-tests-"
LONGEST_ROOT = 24
"""Spark's names of sockets have 42 bytes and the paths of sockets at most 103, on macOS."""
JAVA_OPTIONS = "-Djava.io.tmpdir={directory} -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""For every virtual machine of a run; the last two are best where it lives for seconds.

They are not in a directory of Spark's settings: it would be on the class path, and archives of
classes are for the class path that they were made with.
"""


def temporary_root() -> Path:
    """Where temporary files of this user go; `/tmp` if the paths of sockets would be too long."""
    root = tempfile.gettempdir()
    return Path(root if len(root) <= LONGEST_ROOT else "/tmp")


class TemporaryFiles:
    """The directory, from the beginning to the end of a run."""

    def __init__(self, root: Path) -> None:
        for left in root.glob(f"{PREFIX}*"):
            remove_unless_locked(left)
        draft = Path(tempfile.mkdtemp(prefix=f".{PREFIX}", dir=root))
        self._lock = locked(draft)
        # Not before it is locked: a run that begins now would remove it.
        self.directory = draft.rename(root / draft.name[1:])

    def use(self, environment: MutableMapping[str, str]) -> None:
        """Make this process, if it is its environment, and those that it starts use it."""
        # Pytest's own directories: where they would be without this one.
        environment.setdefault("PYTEST_DEBUG_TEMPROOT", str(self.directory.parent))
        environment["TMPDIR"] = environment["SPARK_LOCAL_DIRS"] = str(self.directory)
        environment["JDK_JAVA_OPTIONS"] = JAVA_OPTIONS.format(directory=self.directory)
        tempfile.tempdir = None

    def remove(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()


def use_class_archive(environment: MutableMapping[str, str]) -> None:
    """Have every virtual machine that runs Spark map its classes from the archive, if there is one:
    executors and the servers of clusters too."""
    from odradek.spark.class_archive import archive_options

    options = [environment["JDK_JAVA_OPTIONS"], *archive_options()]
    environment["JDK_JAVA_OPTIONS"] = " ".join(options)


def locked(directory: Path) -> TextIO | None:
    """Lock a directory as long as this process lives; return None if another process has."""
    lock = (directory / ".lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock


def remove_unless_locked(directory: Path) -> None:
    try:
        lock = locked(directory)
    except OSError:  # Of another user, or being removed.
        return
    if lock is not None:
        shutil.rmtree(directory, ignore_errors=True)
        lock.close()
