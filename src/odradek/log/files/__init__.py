"""The real disk: the only package of the broker that makes a file system call.

`LocalDisk` and `LocalFile` are the `Disk` and `File` of `model.env` on Linux and macOS;
`Descriptors` shares out what the process has of file descriptors.

**Threads.** Files belong to the owner thread. A worker may use a file only while it is pinned (a
flush pins what it syncs, a recovery what it reads), since only the owner thread closes cold
descriptors; a worker that opens one more than the limit leaves it to the owner to come back below.
The lock guards the set of open files, never a system call on the hot path.

**Closing a descriptor with unsynced bytes** is safe: Linux reports a later write-back error to the
next descriptor opened on the file, so the `sync` that follows still fails.

Not here: what a failure means (see `fence`), what is written (see `segment`, `index`,
`checkpoints`).
"""

from odradek.log.files.local_disk import LocalDisk, descriptor_budget
from odradek.log.files.local_file import LocalFile

__all__ = ["LocalDisk", "LocalFile", "descriptor_budget"]
