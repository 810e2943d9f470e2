"""A call by the name it has for who makes it.

The calls of a face are written in classes of their own, several to an engine (see
`client.blocking.calls`). Python tells of arguments that do not fit by the function's own name:

    ConfigCalls.describe_config() takes 1 ...  ─►  Admin.describe_config() takes 1 ...
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

R = TypeVar("R")


def called(face: object, call: Callable[..., R], calls: Any, *args: Any, **kwargs: Any) -> R:
    """What the call gives; a coroutine has not begun by then. Raises `TypeError` for arguments that
    do not fit, in the name of the face's method."""
    try:
        return call(calls, *args, **kwargs)
    except TypeError as error:
        text, inner = str(error), f"{call.__qualname__}()"
        if not text.startswith(inner):
            raise
        outer = f"{type(face).__name__}.{call.__name__}()"
        raise TypeError(outer + text.removeprefix(inner)) from None
