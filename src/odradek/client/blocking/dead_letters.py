"""A blocking consumer's producer of dead letters: see `client.consumer.dead_letters`."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from odradek.client.producer.delivery import FutureRecordMetadata

if TYPE_CHECKING:
    from odradek.client.blocking.producer import Producer


class BlockingOffice:
    """Coroutines of this never suspend: they block."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._producer: Producer[Any, Any] | None = None

    async def enqueue(self, topic: str, value: Any, **fields: Any) -> FutureRecordMetadata:
        if self._producer is None:
            from odradek.client.blocking.producer import Producer  # Most consumers need none.

            self._producer = Producer(self._settings)
        return self._producer.send(topic, value, **fields)

    async def wait(self, sent: FutureRecordMetadata, timeout_s: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            sent.exception(timeout_s)

    async def close(self, timeout_s: float | None) -> None:
        if self._producer is not None:
            self._producer.close(timeout_s)
