"""An awaited consumer's producer of dead letters: see `client.consumer.dead_letters`."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from odradek.client.errors import KafkaError
from odradek.client.producer.delivery import FutureRecordMetadata

if TYPE_CHECKING:
    from odradek.client.aio.producer import Producer


class AwaitedOffice:
    """In the consumer's loop."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._producer: Producer[Any, Any] | None = None

    async def enqueue(self, topic: str, value: Any, **fields: Any) -> FutureRecordMetadata:
        if self._producer is None:
            from odradek.client.aio.producer import Producer  # Most consumers need none.

            self._producer = await Producer(self._settings).start()
        return await self._producer.enqueue(topic, value, **fields)

    async def wait(self, sent: FutureRecordMetadata, timeout_s: float | None) -> None:
        with contextlib.suppress(TimeoutError, KafkaError):
            async with asyncio.timeout(timeout_s):
                await sent

    async def close(self, timeout_s: float | None) -> None:
        if self._producer is not None:
            await self._producer.close(timeout_s)
