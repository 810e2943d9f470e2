"""Calls of an engine as methods to be awaited: see `client.blocking.calls`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import update_wrapper
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from odradek.client.called import called
from odradek.client.waiter import Waiter

P = ParamSpec("P")
R = TypeVar("R")

Steps = Coroutine[Waiter[Any], None, R]


class Asking(Protocol):
    """A face: it knows the object whose calls these are, and how to wait for one."""

    @property
    def _calls(self) -> Any: ...

    async def _ask(self, make: Callable[[], Steps[R]]) -> R: ...


class Awaited(Generic[P, R]):
    """One call."""

    def __init__(self, call: Callable[Concatenate[Any, P], Steps[R]]) -> None:
        async def awaited(face: Asking, *args: P.args, **kwargs: P.kwargs) -> R:
            return await face._ask(lambda: called(face, call, face._calls, *args, **kwargs))

        self._function = update_wrapper(awaited, call)
        self.__doc__ = call.__doc__

    @overload
    def __get__(self, instance: None, owner: type[object]) -> Callable[..., Any]: ...
    @overload
    def __get__(
        self, instance: Any, owner: type[object]
    ) -> Callable[P, Coroutine[Any, Any, R]]: ...
    def __get__(self, instance: Any, owner: type[object]) -> Callable[..., Any]:
        return self._function if instance is None else MethodType(self._function, instance)
