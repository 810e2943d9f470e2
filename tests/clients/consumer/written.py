"""What is written for a consumer to read, and the types of who makes it."""

from __future__ import annotations

from collections.abc import Callable

LONG_S = 60.0
"""For what will happen: a busy machine may take its time."""
T0 = 1_700_000_000_000
A_BATCH = 10_000
"""As `prefetch.max.bytes`: the fetcher has to wait for the application, which makes room."""

NewTopic = Callable[..., str]
Produce = Callable[..., None]
