"""Polls descriptors: epoll itself, or the standard library's selectors with epoll's methods.

`select.epoll` returns plain `(descriptor, mask)` pairs. The `SelectorKey` objects that `selectors`
puts around them would cost half of what the reactor spends on a small request. So epoll is used
directly where it exists; elsewhere `selectors` (kqueue on macOS and the BSDs, poll, select) is
adapted to it.
"""

from __future__ import annotations

import select
import selectors
from collections.abc import Callable
from typing import Protocol

READ = 0x001
WRITE = 0x004


class Poller(Protocol):
    """The part of `select.epoll` that the reactor uses. Level-triggered."""

    def register(self, fd: int, eventmask: int, /) -> None: ...

    def modify(self, fd: int, eventmask: int, /) -> None: ...

    def unregister(self, fd: int, /) -> None: ...

    def poll(self, timeout: float, /) -> list[tuple[int, int]]:
        """Wait up to `timeout` seconds, without limit if negative; return descriptors and masks."""
        ...

    def fileno(self) -> int:
        """Return a descriptor that is readable when `poll` has something to return.

        Raises `OSError` where the system has none.
        """
        ...

    def close(self) -> None: ...


class Watchable(Protocol):
    """Anything with a descriptor."""

    def fileno(self) -> int: ...

    def close(self) -> None: ...


class DescriptorWatcher(Protocol):
    """The methods of the reactor that a listener and a connector use."""

    def watch(
        self, subject: Watchable, readable: Callable[[], None], writable: Callable[[], None]
    ) -> None: ...

    def set_mask(self, subject: Watchable, mask: int) -> None: ...

    def unwatch(self, subject: Watchable) -> None: ...


class SelectorPoller:
    """A selector of the standard library with epoll's methods."""

    def __init__(self, selector: selectors.BaseSelector | None = None) -> None:
        self._selector = selector or selectors.DefaultSelector()
        self._silent: set[int] = set()

    def register(self, fd: int, eventmask: int, /) -> None:
        events = _events(eventmask)
        if events:
            self._selector.register(fd, events)
        else:
            self._silent.add(fd)

    def modify(self, fd: int, eventmask: int, /) -> None:
        self.unregister(fd)
        self.register(fd, eventmask)

    def unregister(self, fd: int, /) -> None:
        if fd in self._silent:
            self._silent.discard(fd)
        else:
            self._selector.unregister(fd)

    def poll(self, timeout: float, /) -> list[tuple[int, int]]:
        ready = self._selector.select(None if timeout < 0 else timeout)
        return [(key.fd, _mask(events)) for key, events in ready]

    def fileno(self) -> int:
        descriptor = getattr(self._selector, "fileno", None)
        if descriptor is None:
            raise OSError(f"{type(self._selector).__name__} has no descriptor to wait on")
        return int(descriptor())

    def close(self) -> None:
        self._selector.close()


def _events(mask: int) -> int:
    read = selectors.EVENT_READ if mask & READ else 0
    write = selectors.EVENT_WRITE if mask & WRITE else 0
    return read | write


def _mask(events: int) -> int:
    read = READ if events & selectors.EVENT_READ else 0
    write = WRITE if events & selectors.EVENT_WRITE else 0
    return read | write


def default_poller() -> Poller:
    """Return the fastest poller of this system."""
    if hasattr(select, "epoll"):
        return select.epoll()
    return SelectorPoller()
