"""The file descriptors of this process: which files have one, and who gives his up.

When more than `max_open` are open, cold ones are closed, so 10,000 partitions live in 1,024
descriptors. Coldness is judged by the clock algorithm: a use sets a bit (no bookkeeping on the hot
path), the hand that looks for a victim clears it and takes the first file found without it. A
pinned file is never a victim. Only the owner thread closes cold descriptors.

A few descriptors are kept in reserve, for the process may run out of them: a flush on a worker must
sync a directory whoever took the last one, for what it may not fail at fences the data directory.
"""

from __future__ import annotations

import errno
import os
import resource
import sys
import threading

from odradek.log.files.local_file import LocalFile

DEFAULT_MAX_OPEN = 768
RESERVED_DESCRIPTORS = 4


class Descriptors:
    """Opens and closes for one `LocalDisk`."""

    def __init__(self, max_open: int = DEFAULT_MAX_OPEN) -> None:
        """`max_open`: descriptors kept for files; pinned ones may come on top."""
        assert max_open >= 1
        self.max_open = max_open
        self._files: dict[LocalFile, None] = {}
        self._lock = threading.Lock()
        self._owner = threading.get_ident()
        self._reserve: list[int] = []  # the first stays: it is what the others are copies of
        while len(self._reserve) <= RESERVED_DESCRIPTORS:
            self._reserve.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    def __del__(self) -> None:
        for descriptor in self._reserve:
            os.close(descriptor)

    def __len__(self) -> int:
        """Files that have one now."""
        return len(self._files)

    def own(self) -> None:
        """Make the calling thread the owner (the one that may close cold descriptors)."""
        self._owner = threading.get_ident()

    def opened(self, file: LocalFile) -> None:
        """Called by a file that opened its descriptor; closes cold ones above the limit."""
        with self._lock:
            self._files[file] = None
            if len(self._files) > self.max_open and threading.get_ident() == self._owner:
                self._evict(file)

    def open(self, path: str, flags: int) -> int:
        """Open a path; if the process is out of descriptors, at the price of cold files, or of the
        reserve.
        """
        while True:
            try:
                return os.open(path, flags, 0o600)
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._give_up_one():
                    raise

    def _give_up_one(self) -> bool:
        """Close the first file that may be closed (only the owner may), or one of the reserve."""
        with self._lock:
            if threading.get_ident() == self._owner:
                for file in self._files:
                    if file.evictable:
                        del self._files[file]
                        file.close_descriptor()
                        return True
            if len(self._reserve) > 1:
                os.close(self._reserve.pop())
                return True
        return False

    def done(self, descriptor: int) -> None:
        """Close what was open for a moment; or make up the reserve with it, before anybody else can
        have it.
        """
        with self._lock:
            if len(self._reserve) <= RESERVED_DESCRIPTORS:
                os.dup2(self._reserve[0], descriptor, inheritable=False)
                self._reserve.append(descriptor)
                return
        os.close(descriptor)

    def closed(self, file: LocalFile) -> None:
        with self._lock:
            self._files.pop(file, None)

    def _evict(self, newcomer: LocalFile) -> None:
        for _ in range(2 * len(self._files)):
            if len(self._files) <= self.max_open:
                return
            file = next(iter(self._files))
            del self._files[file]
            if file is newcomer or file.used or not file.evictable:
                file.used = False
                self._files[file] = None
            else:
                file.close_descriptor()
        newcomer.used = True


def descriptor_budget(share: float = 0.5) -> int:
    """How many descriptors files may have: a share of the process's limit, at least 16."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft > sys.maxsize:
        soft = 1 << 16
    return max(16, int(soft * share))
