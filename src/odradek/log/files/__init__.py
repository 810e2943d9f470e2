"""The real disk: the only package of the broker that makes file system calls.

`local_disk` has the `Disk` of `model.env` on Linux and macOS and limits the open descriptors,
`local_file` has its `File`.

**Threads.** Files belong to the owner thread. A worker may use a file only while it is pinned (a
flush pins the files that it syncs, a recovery those that it reads), since only the owner thread
closes cold descriptors. A worker may exceed the limit by one; the owner thread then closes others.
The lock guards the set of open files, never a system call on the hot path.

**Closing a descriptor with unsynced bytes** is safe: Linux reports a later write-back error to the
next descriptor opened on the file, so the `sync` that follows still fails.

Not here: the meaning of a failure (`log.fence`) and the file formats (`log.segment`, `log.index`,
`log.checkpoints`).

Tests: unit/log/test_local_disk.py, clients/test_descriptors.py
"""

from odradek.log.files.local_disk import LocalDisk, descriptor_budget
from odradek.log.files.local_file import LocalFile, sync_descriptor

__all__ = ["LocalDisk", "LocalFile", "descriptor_budget", "sync_descriptor"]
