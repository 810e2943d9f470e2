"""The future of a record with `asyncio.wait` and callbacks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from librt.threading import Lock

from odradek.client.aio.engine_loop import AsyncioWait
from odradek.client.producer.futures import FutureRecordMetadata, ProduceRequestResult


def batch_of(count: int) -> tuple[ProduceRequestResult, list[FutureRecordMetadata]]:
    result = ProduceRequestResult("t", 0, AsyncioWait(), Lock())
    return result, [FutureRecordMetadata(result, index, 0) for index in range(count)]


def as_futures(made: list[FutureRecordMetadata]) -> list[Any]:
    """Return the future as one of asyncio's classes, for its type hints."""
    return [*made]


def written(result: ProduceRequestResult) -> None:
    result.complete(100, -1)
    result.finish()


def test_a_removed_callback_is_not_called() -> None:
    result, (first, second) = batch_of(2)
    called: list[str] = []

    def tell(future: FutureRecordMetadata) -> None:
        called.append(f"told of {future.index}")

    def ask(future: FutureRecordMetadata) -> None:
        called.append(f"asked of {future.index}")

    for future in (first, first, second):
        future.add_done_callback(tell)
    first.add_done_callback(ask)
    result.add_callback(lambda: called.append("of all"))
    assert first.remove_done_callback(tell) == 2  # As asyncio's: all that are the same.
    assert first.remove_done_callback(tell) == 0
    written(result)
    assert called == ["told of 1", "asked of 0", "of all"]
    assert first.remove_done_callback(ask) == 0


@pytest.mark.parametrize("when", [asyncio.ALL_COMPLETED, asyncio.FIRST_COMPLETED])
def test_asyncio_wait_accepts_record_futures(when: str) -> None:
    async def wait() -> list[int]:
        result, futures = batch_of(3)
        asyncio.get_running_loop().call_soon(written, result)
        done, pending = await asyncio.wait(as_futures(futures), return_when=when)
        assert not pending
        return sorted(future.result(0).offset for future in done)

    assert asyncio.run(wait()) == [100, 101, 102]


def test_asyncio_wait_returns_pending_record_futures_after_its_timeout() -> None:
    async def wait() -> None:
        result, futures = batch_of(2)
        done, pending = await asyncio.wait(as_futures(futures), timeout=0)
        assert not done and pending == set(futures)
        written(result)  # Nobody waits any more, and nobody is called.

    asyncio.run(wait())
