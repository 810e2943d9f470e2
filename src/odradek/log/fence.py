"""Failures of a data directory or a partition, and the fence that stops writing after one.

`LogDirFailure`: a write or a sync that must not fail has failed. The whole data directory is
fenced: nothing is appended to it, and nothing more is reported durable in it, because after a
failed `fsync` the kernel may have dropped the pages that it could not write, and the next `fsync`
succeeds. Only a restart, which reads what is really on the disk, lifts the fence.

`LogDamaged`: durable bytes are lost or changed. One partition goes offline; its files are left as
they are.

A full disk is neither: the append fails with its `OSError`, nothing of it is in the log, and the
next one may succeed.
"""

from __future__ import annotations

import errno

from mypy_extensions import mypyc_attr

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
REFUSED_FOR_NOW = NO_ROOM | {errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.ENOMEM}


@mypyc_attr(native_class=False)
class LogDirFailure(OSError):
    """The data directory failed a write or a sync and is fenced."""

    def __init__(self, path: str, cause: OSError) -> None:
        super().__init__(
            cause.errno or errno.EIO, f"data directory is fenced until a restart: {cause}", path
        )
        self.cause = cause


class LogDamaged(Exception):
    """Durable bytes of a partition are damaged. The message says where, how and what to do."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(
            f"{path}: {what}. These bytes were durable, so the partition stays offline and its "
            "files are left as they are. Restore the file from a replica or a backup; or, to give "
            "up the records, move the partition's directory away and restart"
        )
        self.path = path
        self.what = what


class Fence:
    """Stops all writing to a data directory after its first failure.

    There is one per data directory, shared by its logs and its workers.
    """

    __slots__ = ("failure", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.failure: LogDirFailure | None = None

    def check(self) -> None:
        """Raise `LogDirFailure` if the directory has failed."""
        if self.failure is not None:
            raise self.failure

    def fail(self, cause: OSError) -> LogDirFailure:
        """Close the fence and return the failure to raise. From any thread."""
        if self.failure is None:
            self.failure = LogDirFailure(self.path, cause)
        return self.failure

    def classify(self, error: OSError) -> OSError:
        """Return the error to raise for a failed write.

        A full disk or a lack of descriptors may pass and is returned as it is; any other error
        fences the directory.
        """
        if error.errno in REFUSED_FOR_NOW:
            return error
        return self.fail(error)
