"""Clients register their metrics while they live, and neither before nor after, in both APIs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import odradek
from odradek.errors import ClientClosed

NOWHERE = "127.0.0.1:1"


@pytest.mark.parametrize("kind", [odradek.Producer, odradek.Consumer])
def test_a_blocking_client_has_metrics_until_it_is_closed(kind: Callable[..., Any]) -> None:
    client = kind(brokers=NOWHERE)
    assert client.metrics()
    client.close(0)
    with pytest.raises(ClientClosed):
        client.metrics()


@pytest.mark.parametrize("kind", [odradek.aio.Producer, odradek.aio.Consumer])
def test_an_asyncio_client_has_metrics_from_start_to_close(kind: Callable[..., Any]) -> None:
    async def live() -> None:
        client = kind(brokers=NOWHERE)
        with pytest.raises(ClientClosed, match="was not started"):
            client.metrics()
        await client.start()
        assert client.metrics()
        await client.close(0)
        with pytest.raises(ClientClosed, match="is closed"):
            client.metrics()

    asyncio.run(live())
