"""The identity of a data directory, and a new directory until it has one.

**Identity.** `meta.properties` is Kafka's, without the date in its second line:

    #
    cluster.id=Lbb1xuqcTUyKnq1VgYwvBQ
    directory.id=0yJqkpEvTzuW2dNrLV8pLg
    node.id=1
    version=1

A directory with an unreadable or foreign identity is refused. It is never taken over, and nothing
in it is removed as an orphan.

**New directories.** A start that fails (because the port is in use, for example) removes the
directories that it made and the files that it put into an empty directory. A directory that had
other files in it is left as it is.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from odradek.model.env import Disk
from odradek.model.topics import uuid_from_text, uuid_text

META_FILE = "meta.properties"


class WrongDirectory(Exception):
    """The data directory belongs to another node or cluster, or has no readable identity."""


@dataclass(slots=True, frozen=True)
class MetaProperties:
    """The identity of a data directory: the contents of `meta.properties`."""

    cluster_id: str
    node_id: int
    directory_id: UUID

    def encode(self) -> bytes:
        return (
            f"#\ncluster.id={self.cluster_id}\ndirectory.id={uuid_text(self.directory_id)}\n"
            f"node.id={self.node_id}\nversion=1\n"
        ).encode()


def read_meta_properties(disk: Disk, directory: str) -> MetaProperties | None:
    """Return the identity of `directory`, or None if it has none. Raises `WrongDirectory`."""
    path = f"{directory}/{META_FILE}"
    if not disk.exists(path):
        return None
    lines = disk.read_file(path).decode("utf-8", "replace").splitlines()
    values = dict(
        line.partition("=")[::2] for line in lines if "=" in line and not line.startswith("#")
    )
    try:
        if values["version"] != "1":
            raise ValueError(f"version {values['version']}")
        return MetaProperties(
            values["cluster.id"], int(values["node.id"]), uuid_from_text(values["directory.id"])
        )
    except (KeyError, ValueError) as error:
        raise WrongDirectory(
            f"{path} cannot be read ({error}); restore it from a backup, or write it again with "
            "cluster.id, node.id, directory.id and version=1"
        ) from error


class NewDirectory:
    """Makes a data directory, and removes it again if the start fails.

    Call `make`, then `claim` once the lock is held; `discard` undoes both.
    """

    def __init__(self, disk: Disk, path: str, lock_file: str) -> None:
        self._disk = disk
        self._path = path
        self._lock_file = lock_file
        self._made: list[str] = []
        """Directories that did not exist, the innermost first."""
        self._own = False
        """True if this process made everything in the directory."""

    def make(self, identity_file: str) -> None:
        """Make the directory and sync all directories above it.

        After a start that crashed it is unknown which of them are new, so all of them are synced
        until the directory has an identity, which is written later. A directory above that this
        process may not read is not new.
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
        """Find out, with the lock held, if the directory was empty."""
        self._own = set(self._disk.list(self._path)) <= {self._lock_file}

    def discard(self) -> None:
        """Remove the files that this process made. The lock must still be held.

        Errors are ignored, so that the caller sees why the start failed.
        """
        with suppress(OSError):
            if self._own:
                self._empty()
            for path in self._made:
                if self._disk.list(path):
                    break
                self._disk.remove_tree(path)

    def _empty(self) -> None:
        """Remove the lock file last, so that another start finds a used directory, or none."""
        names = self._disk.list(self._path)
        for name in sorted(names, key=lambda name: name == self._lock_file):
            path = f"{self._path}/{name}"
            try:
                self._disk.remove_tree(path)
            except OSError:
                self._disk.remove(path)


def ancestors(path: str) -> list[str]:
    """Return the directories above `path`, the nearest first, up to `.` or `/`."""
    found = []
    above = path.rstrip("/")
    while above:
        above = above.rpartition("/")[0]
        found.append(above or ("/" if path.startswith("/") else "."))
    return found
