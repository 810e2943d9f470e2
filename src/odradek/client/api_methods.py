"""Coroutines of an engine as methods of a client, that block or are awaited.

    class Consumer(Client):                                   # client.blocking
        position = BlockingMethod(ConsumerCalls.position)

`ConsumerCalls.position` is a coroutine that awaits waiters. `Consumer.position` has its arguments,
result and documentation, and blocks until it is done; with `AwaitedMethod` it is awaited. So each
call is written once for both clients.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import update_wrapper
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from odradek.client.waiter import Waiter

P = ParamSpec("P")
R = TypeVar("R")

Steps = Coroutine[Waiter[Any], None, R]


class BlockingApi(Protocol):
    """A blocking client: it gives `make` the object with the coroutines, and blocks until the one
    that was made is done."""

    def _run_call(self, make: Callable[[Any], Steps[R]]) -> R: ...


class BlockingMethod(Generic[P, R]):
    """A method of a client that runs a coroutine and blocks until it is done."""

    def __init__(self, call: Callable[Concatenate[Any, P], Steps[R]]) -> None:
        def blocking(client: BlockingApi, *args: P.args, **kwargs: P.kwargs) -> R:
            return client._run_call(
                lambda calls: call_as_method(client, call, calls, *args, **kwargs)
            )

        self._function = update_wrapper(blocking, call)
        self.__doc__ = call.__doc__

    @overload
    def __get__(self, instance: None, owner: type[object]) -> Callable[..., Any]: ...
    @overload
    def __get__(self, instance: Any, owner: type[object]) -> Callable[P, R]: ...
    def __get__(self, instance: Any, owner: type[object]) -> Callable[..., Any]:
        return self._function if instance is None else MethodType(self._function, instance)


def call_as_method(
    client: object, call: Callable[..., R], calls: Any, *args: Any, **kwargs: Any
) -> R:
    """Call the coroutine function `call` of `calls` as if it were a method of `client`; return the
    coroutine, which has not begun.

    Raises `TypeError` for arguments that do not fit, with the name of the client's method instead
    of that of `call`:

        ConfigCalls.describe_config() takes 1 ...  ─►  Admin.describe_config() takes 1 ...
    """
    try:
        return call(calls, *args, **kwargs)
    except TypeError as error:
        text, inner = str(error), f"{call.__qualname__}()"
        if not text.startswith(inner):
            raise
        outer = f"{type(client).__name__}.{call.__name__}()"
        raise TypeError(outer + text.removeprefix(inner)) from None


class AwaitedApi(Protocol):
    """An awaited client: it gives `make` the object with the coroutines, and awaits the one that
    was made."""

    async def _run_call(self, make: Callable[[Any], Steps[R]]) -> R: ...


class AwaitedMethod(Generic[P, R]):
    """A method of a client that runs a coroutine and is awaited."""

    def __init__(self, call: Callable[Concatenate[Any, P], Steps[R]]) -> None:
        async def awaited(client: AwaitedApi, *args: P.args, **kwargs: P.kwargs) -> R:
            return await client._run_call(
                lambda calls: call_as_method(client, call, calls, *args, **kwargs)
            )

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
