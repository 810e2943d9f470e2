"""Awaiting a batch in asyncio: what `await` on a record's future comes to."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

from odradek.client.producer.delivery import ProduceRequestResult


def until_done(result: ProduceRequestResult) -> Generator[Any, None, None]:
    """Until the batch is done, by whatever thread."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    result.add_callback(lambda: loop.call_soon_threadsafe(settle, future))
    return future.__await__()


def settle(future: asyncio.Future[None]) -> None:
    """Done, unless who waited was cancelled."""
    if not future.done():
        future.set_result(None)


class AwaitedFace:
    """How an awaited producer's futures wait: only awaited, and done by the loop's own thread."""

    def wait(self, result: ProduceRequestResult, timeout_s: float | None) -> bool:
        raise RuntimeError("nothing may block in an event loop: await the future")

    def until_done(self, result: ProduceRequestResult) -> Generator[Any, None, None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        result.add_callback(lambda: settle(future))
        return future.__await__()
