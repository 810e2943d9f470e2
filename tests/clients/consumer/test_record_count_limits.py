"""The number of records a call may return: invalid numbers are refused, in both APIs.

With fewer than one a call would return at once each time, and an iteration would spin.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

import odradek.aio
from odradek.client.blocking.consumer import Consumer

NOWHERE = "127.0.0.1:1"
"""No broker is contacted."""

REFUSED: list[tuple[str, dict[str, int], str]] = [
    ("consume", {"num_messages": -1}, "num_messages cannot be -1.*give 0 or more"),
    ("batches", {"max_records": -3}, "max_records cannot be -3.*give 1 or more"),
    ("batches", {"max_records": 0}, "max_records cannot be 0.*give 1 or more"),
    ("arrow", {"max_rows": -1}, "max_rows cannot be -1.*give 1 or more"),
    ("arrow", {"max_rows": 0}, "max_rows cannot be 0.*give 1 or more"),
    ("arrow", {"max_bytes": 0}, "max_bytes cannot be 0.*give 1 or more"),
]


@pytest.mark.parametrize(("name", "given", "why"), REFUSED)
def test_the_blocking_consumer_refuses_an_invalid_number_of_records(
    name: str, given: dict[str, int], why: str
) -> None:
    with Consumer(brokers=NOWHERE) as consumer:
        call: Callable[..., Any] = getattr(consumer, name)
        with pytest.raises(ValueError, match=why):
            next(call(**given))


async def first_of(made: Coroutine[Any, Any, Any] | AsyncIterator[Any]) -> None:
    await (made if isinstance(made, Coroutine) else anext(made))


@pytest.mark.parametrize(("name", "given", "why"), REFUSED)
def test_the_asyncio_consumer_refuses_an_invalid_number_of_records(
    name: str, given: dict[str, int], why: str
) -> None:
    async def ask() -> None:
        async with odradek.aio.Consumer(brokers=NOWHERE) as consumer:
            call: Callable[..., Any] = getattr(consumer, name)
            with pytest.raises(ValueError, match=why):
                await first_of(call(**given))

    asyncio.run(ask())


def test_consume_of_0_records_returns_none() -> None:
    with Consumer(brokers=NOWHERE) as consumer:
        assert consumer.consume(0) == []
