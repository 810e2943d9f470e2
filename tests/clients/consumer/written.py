"""Types and settings of the records that consumer tests read."""

from __future__ import annotations

from collections.abc import Callable

LONG_S = 60.0
"""The patience for an expected event on a busy machine."""
T0 = 1_700_000_000_000
A_BATCH = 10_000
"""A small `prefetch.max.bytes`: the fetcher must wait until the application makes room."""

NewTopic = Callable[..., str]
Produce = Callable[..., None]
