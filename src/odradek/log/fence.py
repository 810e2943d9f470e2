"""What stops writing: a failed directory, a damaged partition.

`LogDirFailure`: the disk refused a write or a sync that must not fail. The whole data directory is
fenced: nothing is appended to it and, above all, nothing more is called durable in it, for after a
failed `fsync` the kernel may have dropped the very pages it could not write, and the next `fsync`
succeeds. There is no way back but a restart, which reads what is really there.

`LogDamaged`: bytes that were durable are gone or changed. One partition goes offline; its files are
left exactly as they are.

A full disk is neither: the append that met it fails with its `OSError`, nothing of it is in the
log, and the next one may succeed.
"""

from __future__ import annotations

import errno

from mypy_extensions import mypyc_attr

REFUSED_FOR_NOW = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
)


@mypyc_attr(native_class=False)
class LogDirFailure(OSError):
    """A data directory that can no longer be trusted to keep what is written."""

    def __init__(self, path: str, cause: OSError) -> None:
        super().__init__(cause.errno or errno.EIO, f"data directory is fenced: {cause}", path)
        self.cause = cause


class LogDamaged(Exception):
    """Durable bytes of a partition are damaged: what, where, and what to do."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(
            f"{path}: {what}. These bytes were durable, so the partition stays offline and its "
            "files are left as they are. Restore the file from a replica or a backup; or, to give "
            "up the records, move the partition's directory away and restart"
        )
        self.path = path
        self.what = what


class Fence:
    """One per data directory, shared by its logs and its workers; closed by the first failure."""

    __slots__ = ("failure", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.failure: LogDirFailure | None = None

    def check(self) -> None:
        """Raise `LogDirFailure` if the directory has failed."""
        if self.failure is not None:
            raise self.failure

    def fail(self, cause: OSError) -> LogDirFailure:
        """Close the fence (from any thread); returns the failure to raise."""
        if self.failure is None:
            self.failure = LogDirFailure(self.path, cause)
        return self.failure

    def classify(self, error: OSError) -> OSError:
        """A failed append: the error to raise, which fences the directory unless it may pass."""
        if error.errno in REFUSED_FOR_NOW:
            return error
        return self.fail(error)
