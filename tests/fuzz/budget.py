"""The number and seeds of fuzzed inputs: a few seconds from a fixed seed, or as the environment
says.

    ODRADEK_FUZZ_SECONDS=600 ODRADEK_FUZZ_SEED=7 pytest -s tests/fuzz

A failure names the seed of its input; the same seed makes the same input.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from random import Random

SECONDS = float(os.environ.get("ODRADEK_FUZZ_SECONDS", "0"))
SEED = int(os.environ.get("ODRADEK_FUZZ_SEED", "1"))


def seeds(count: int, stream: str) -> Iterator[tuple[str, Random]]:
    """Yield (name, random) per input: `count` inputs, or as many as fit into the configured
    seconds.
    """
    deadline = time.monotonic() + SECONDS
    number = 0
    while number < count or time.monotonic() < deadline:
        name = f"{stream}-{SEED}-{number}"
        yield name, Random(name)
        number += 1
    print(f"{stream}: {number} inputs from seed {SEED}")
