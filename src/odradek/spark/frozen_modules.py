"""Takes the loaded modules of a Spark worker out of the sight of Python's garbage collector.

A worker that is used again runs a full garbage collection after every task, and so do the processes
that plan a write and commit it: four in a micro-batch of two tasks. Each collection looks at every
object of every loaded module, which takes tens of milliseconds, more than a short micro-batch
otherwise needs. Modules stay loaded, so they need not be looked at.
"""

from __future__ import annotations

import gc
import os
import sys

_frozen: tuple[int, int] | None = None
"""The process id and the number of modules of the last freeze."""


def freeze_loaded_modules() -> None:
    """Freeze all current objects in a worker, at first and when modules were loaded since.

    Does nothing in other processes and in workers for a single task: `SPARK_REUSE_WORKER` is set
    only in workers that are used again.
    """
    global _frozen
    loaded = (os.getpid(), len(sys.modules))
    if "SPARK_REUSE_WORKER" not in os.environ or _frozen == loaded:
        return
    _frozen = loaded
    gc.collect()  # Garbage that is frozen would never be freed.
    gc.freeze()
