"""What Spark's Python workers keep from task to task, out of the garbage collector's sight.

A worker that is used again runs a full collection after every task, and so do the processes that
plan a write and commit it: four in a micro-batch of two tasks. Each looks at every object of every
module that is loaded, tens of milliseconds of a processor, which is more than a short micro-batch
needs otherwise. Modules stay for as long as the worker does, so there is nothing to find in them.
"""

from __future__ import annotations

import gc
import os
import sys

_frozen: tuple[int, int] | None = None
"""In which process, with how many modules."""


def freeze_what_is_loaded() -> None:
    """In a worker, at first and when modules were loaded since: let collections pass over all
    objects that there are now.

    Elsewhere, and in workers that serve one task only, nothing happens: the variable is what the
    worker goes by when it decides to be used again.
    """
    global _frozen
    loaded = (os.getpid(), len(sys.modules))
    if "SPARK_REUSE_WORKER" not in os.environ or _frozen == loaded:
        return
    _frozen = loaded
    gc.collect()  # What is garbage now would stay for ever.
    gc.freeze()
