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
SPARK_DEFAULTS = """\
spark.driver.defaultJavaOptions {options}
spark.executor.defaultJavaOptions {options}
"""
JAVA_OPTIONS = "-Djava.io.tmpdir={directory} -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Also what is best for virtual machines that live for seconds."""


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
        environment["SPARK_CONF_DIR"] = str(self.directory / "spark-conf")
        tempfile.tempdir = None
        (self.directory / "spark-conf").mkdir()
        options = JAVA_OPTIONS.format(directory=self.directory)
        defaults = SPARK_DEFAULTS.format(options=options)
        (self.directory / "spark-conf" / "spark-defaults.conf").write_text(defaults)

    def remove(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()


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
