"""A producer's engine in simulated time, as an application's thread calls it.

    application: send ──► taken in at once, or it waits for metadata and memory ──► a future
                 wait ──► a waiter, made on the engine's thread ──► its result

It is wired as in the blocking and the asyncio API; `SimApplication` delays each step between the
application and the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from odradek.client.engine import Engine
from odradek.client.producer.arguments import producer_arguments
from odradek.client.producer.futures import CoroutineWait, FutureRecordMetadata
from odradek.client.producer.producer_batch import DeliveryCallback
from odradek.client.producer.producer_core import ProducerCore
from odradek.client.producer.send_path import SendPath, SerializedRecord
from odradek.client.transaction import TRANSACTION_VERSION
from odradek.client.waiter import Waiter
from odradek.testing.client_process import ClientProcess
from odradek.testing.engines.application import SimApplication
from odradek.testing.history import Header
from odradek.testing.scripted import raise_bug

T = TypeVar("T")

NEWEST_EPOCH = 1 << 62


class EngineProducer:
    """One producer of an application. `settings`: what its constructor gets."""

    def __init__(
        self, side: ClientProcess, application: SimApplication, settings: Mapping[str, Any]
    ) -> None:
        self._side = side
        self._application = application
        made = producer_arguments(settings, None, None, None, "block", {})
        self.engine: Engine = made.engine(side.env, side.timer, raise_bug)
        self.core = ProducerCore(self.engine, made.settings, CoroutineWait())
        self._send_path = SendPath(self.core.router, made.key, made.value, side.env.clock)
        self._waking = False

    def agree_on(self, transaction_version: int) -> None:
        """Let the producer take this for the cluster's `transaction.version`, whatever it is."""
        client = self.engine.client
        client.features, client.features_epoch = (
            {TRANSACTION_VERSION: transaction_version},
            NEWEST_EPOCH,
        )

    def start(self) -> None:
        """Begin to connect and to send. Within an event of the process."""
        self.engine.start()
        self.core.start(self._wake)

    def _wake(self) -> None:
        if not self._waking:
            self._waking = True
            self._application.post(self._run_sender)

    def _run_sender(self) -> None:
        self._waking = False
        self.core.sender.run_soon()

    async def wait(self, make: Callable[[], Waiter[T]]) -> T:
        """Make a waiter on the engine's thread; return its result, or raise its error."""
        return await self._application.wait(make)

    async def send(
        self,
        topic: str,
        value: bytes,
        *,
        key: bytes | None = None,
        headers: tuple[Header, ...] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        callback: DeliveryCallback | None = None,
    ) -> FutureRecordMetadata:
        """Queue a record, and return its future. Raises why it cannot be queued."""
        taken = self._send_path.send(topic, value, key, headers, partition, timestamp_ms, callback)
        if isinstance(taken, SerializedRecord):
            return await self.send_later(taken)
        return taken

    async def send_later(self, record: SerializedRecord) -> FutureRecordMetadata:
        """Queue a serialized record as soon as there is room."""
        waiter = await self._application.until(lambda: self.core.send_later(record).waiter)
        return waiter.result()
