"""How long and from which seed: a few seconds with a fixed one, unless the environment says more.

    ODRADEK_FUZZ_SECONDS=600 ODRADEK_FUZZ_SEED=7 pytest -s tests/fuzz

A failure names the seed of the one input that caused it; the same seed makes the same input.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from random import Random

SECONDS = float(os.environ.get("ODRADEK_FUZZ_SECONDS", "0"))
SEED = int(os.environ.get("ODRADEK_FUZZ_SEED", "1"))


def seeds(count: int, stream: str) -> Iterator[tuple[str, Random]]:
    """(name, chance) per input: `count` of them, or as many as fit in the seconds asked for."""
    deadline = time.monotonic() + SECONDS
    number = 0
    while number < count or time.monotonic() < deadline:
        name = f"{stream}-{SEED}-{number}"
        yield name, Random(name)
        number += 1
    print(f"{stream}: {number} inputs from seed {SEED}")
