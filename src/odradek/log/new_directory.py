"""A data directory's place on the disk: made durably, and taken away if nothing came of it.

A start that fails (the port is taken, say) leaves the disk as it found it: the directory it made,
with those above that were missing, and what it put into one that was there and empty. A directory
that had anything in it is somebody's, and is left as it is, with whatever was added.
"""

from __future__ import annotations

from contextlib import suppress

from odradek.model.env import Disk


class NewDirectory:
    """`make`, then `claim` once nobody else can use it; `discard` undoes both."""

    def __init__(self, disk: Disk, path: str, lock_file: str) -> None:
        self._disk = disk
        self._path = path
        self._lock_file = lock_file
        self._made: list[str] = []
        """Directories that were missing, the innermost first."""
        self._own = False
        """Whether all that is in it came from here."""

    def make(self, identity_file: str) -> None:
        """Make it, and durable its name and those of the directories it is in.

        Which of those are new nobody knows after a start that was cut short, so until there is an
        identity, which comes later, all of them are synced. One that may not be read is older.
        """
        above = [self._path, *ancestors(self._path)]
        self._made = [path for path in above if not self._disk.exists(path)]
        self._disk.make_directory(self._path)
        if self._disk.exists(f"{self._path}/{identity_file}"):
            return
        for path in above[1:]:
            with suppress(PermissionError):
                self._disk.sync_directory(path)

    def claim(self) -> None:
        """The lock is held: what is in it now was there before."""
        self._own = set(self._disk.list(self._path)) <= {self._lock_file}

    def discard(self) -> None:
        """Take away what came from here. Call it while the lock is still held.

        What cannot be taken away stays: why the start failed is what matters to whoever asked.
        """
        with suppress(OSError):
            if self._own:
                self._empty()
            for path in self._made:
                if self._disk.list(path):
                    break
                self._disk.remove_tree(path)

    def _empty(self) -> None:
        """The lock goes last, so that another start finds a directory in use, or none."""
        names = self._disk.list(self._path)
        for name in sorted(names, key=lambda name: name == self._lock_file):
            path = f"{self._path}/{name}"
            try:
                self._disk.remove_tree(path)
            except OSError:
                self._disk.remove(path)


def ancestors(path: str) -> list[str]:
    """The directories it is in, the nearest first; `.` and `/` are the last ones."""
    found = []
    above = path.rstrip("/")
    while above:
        above = above.rpartition("/")[0]
        found.append(above or ("/" if path.startswith("/") else "."))
    return found
