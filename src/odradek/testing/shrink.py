"""Shrinking a failed run: leave out parts of its plan as long as it fails in the same way.

A plan has optional parts with names: faults, clients, changes, machines' fates (`parts_of`). A
run that keeps only some of them is another run of the same seed. `shrink` leaves out halves, then
quarters and so on, down to single parts (delta debugging), and returns the smallest run that fails
like the first one. What is left is what a reader has to understand.

Two failures are the same if their first violations, or their exceptions, differ in numbers and
names of records only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
NUMBERS = re.compile(r"b?'[^']*'|\"[^\"]*\"|[0-9a-f]{8,}|\d+|#\d+")


def failure_kind(text: str) -> str:
    """Return a violation or exception without numbers and quoted values."""
    return NUMBERS.sub("_", text)


def shrink(
    parts: Sequence[str],
    run: Callable[[Sequence[str]], T],
    fails: Callable[[T], bool],
    most_runs: int,
) -> tuple[list[str], T | None, int]:
    """Return a small list of parts whose run still fails, its result (None: that with all parts),
    and the number of runs. `most_runs` bounds the work.
    """
    left, smallest, runs, pieces = list(parts), None, 0, 2
    while left and runs < most_runs:
        size = max(1, -(-len(left) // pieces))
        chunks = [left[at : at + size] for at in range(0, len(left), size)]
        shorter = None
        for chunk in chunks:
            if runs >= most_runs:
                break
            rest = [part for part in left if part not in chunk]
            runs += 1
            result = run(rest)
            if fails(result):
                shorter, smallest = rest, result
                break
        if shorter is not None:
            left, pieces = shorter, max(2, pieces - 1)
        elif size == 1:
            break
        else:
            pieces = min(len(left), 2 * pieces)
    return left, smallest, runs
