"""Calls of an engine as methods that block.

    class Face(Client):
        position = Blocking(ConsumerCalls.position)

`ConsumerCalls.position` is a coroutine that awaits waiters; `Face.position` has its arguments, its
result and its documentation, and blocks until it is done. So a call is written once, and both faces
have it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import update_wrapper
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from odradek.client.called import called
from odradek.client.waiter import Waiter

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

Steps = Coroutine[Waiter[Any], None, R]


class Asking(Protocol):
    """A face: it knows the object whose calls these are, and how to wait for one."""

    @property
    def _calls(self) -> Any: ...

    def _ask(self, make: Callable[[], Steps[R]]) -> R: ...


class Blocking(Generic[P, R]):
    """One call."""

    def __init__(self, call: Callable[Concatenate[Any, P], Steps[R]]) -> None:
        def blocking(face: Asking, *args: P.args, **kwargs: P.kwargs) -> R:
            return face._ask(lambda: called(face, call, face._calls, *args, **kwargs))

        self._function = update_wrapper(blocking, call)
        self.__doc__ = call.__doc__

    @overload
    def __get__(self, instance: None, owner: type[object]) -> Callable[..., Any]: ...
    @overload
    def __get__(self, instance: Any, owner: type[object]) -> Callable[P, R]: ...
    def __get__(self, instance: Any, owner: type[object]) -> Callable[..., Any]:
        return self._function if instance is None else MethodType(self._function, instance)
