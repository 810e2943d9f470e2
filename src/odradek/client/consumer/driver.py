"""Driver: what the two faces of a consumer differ in, for what is written once for both.

Its methods are coroutines. The blocking face's never suspend: they block. The asyncio one's are
awaited.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Driver(Protocol):
    """What the faces differ in."""

    @property
    def running(self) -> bool:
        """Whether the engine is still there."""
        ...

    def time(self) -> float:
        """Seconds of a monotonic clock."""
        ...

    def signal(self) -> None:
        """Wake the application. From any thread."""
        ...

    def clear(self) -> None:
        """Forget signals given before."""
        ...

    async def sleep(self, timeout_s: float | None) -> None:
        """Until there is a signal, or time is over."""
        ...

    async def call(self, action: Callable[[], T]) -> T:
        """Do something on the engine's thread."""
        ...

    async def call_back(self, callback: Callable[..., Any], *arguments: Any) -> None:
        """Call a function of the application's."""
        ...
