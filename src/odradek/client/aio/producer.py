"""The producer that is awaited.

    async with Producer(brokers="localhost:9092", value="json") as producer:
        delivery = await producer.send("orders", {"id": 7}, key="7")
        future = await producer.enqueue("orders", {"id": 8})     # many of these make full batches
        await future

The same engine as the blocking producer's, in the running loop: no thread, no lock that anybody
waits for. `send` awaits the acknowledgement, `enqueue` only room in the buffer, `send_nowait`
nothing. Callbacks run in the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from odradek.client.aio.awaiting import AwaitedFace
from odradek.client.aio.engine_loop import EngineLoop
from odradek.client.aio.sending import Sending
from odradek.client.engine import Engine
from odradek.client.errors import ClientClosed
from odradek.client.producer.arguments import producer_arguments
from odradek.client.producer.intake import Intake
from odradek.client.producer.producer import ProducerCore
from odradek.client.serializers import AnySerializer, SerializerLike
from odradek.client.timeouts import milliseconds_of
from odradek.config.keywords import ProducerKeywords

K = TypeVar("K")
V = TypeVar("V")

END_TIMEOUT_S = 30.0
"""How long leaving an `async with` block by an exception waits for deliveries."""


class Producer(Sending[K, V]):
    """Sends records to the cluster at `brokers` (or `bootstrap.servers`).

    Takes what the blocking `Producer` takes; there is no `on_full`, since it is for the caller to
    choose between `enqueue` and `send_nowait`. Raises `ConfigError`.
    """

    @overload
    def __init__(
        self: Producer[bytes | str, bytes | str],
        config: Mapping[str, Any] | None = None,
        /,
        *,
        brokers: str | Sequence[str] | None = None,
        **settings: Unpack[ProducerKeywords],
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[bytes | str, V],
        config: Mapping[str, Any] | None = None,
        /,
        *,
        value: SerializerLike[V],
        brokers: str | Sequence[str] | None = None,
        **settings: Unpack[ProducerKeywords],
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[K, bytes | str],
        config: Mapping[str, Any] | None = None,
        /,
        *,
        key: SerializerLike[K],
        brokers: str | Sequence[str] | None = None,
        **settings: Unpack[ProducerKeywords],
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[K, V],
        config: Mapping[str, Any] | None = None,
        /,
        *,
        key: SerializerLike[K],
        value: SerializerLike[V],
        brokers: str | Sequence[str] | None = None,
        **settings: Unpack[ProducerKeywords],
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[Any, Any],
        config: Mapping[str, Any] | None = None,
        /,
        *,
        key: AnySerializer | None = None,
        value: AnySerializer | None = None,
        key_serializer: AnySerializer | None = None,
        value_serializer: AnySerializer | None = None,
        brokers: str | Sequence[str] | None = None,
        **settings: Unpack[ProducerKeywords],
    ) -> None: ...
    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        /,
        *,
        key: Any = None,
        value: Any = None,
        brokers: str | Sequence[str] | None = None,
        **settings: Any,
    ) -> None:
        made = producer_arguments(config, brokers, key, value, None, settings)
        self.config = made.config
        self._intake = None
        self._woken = False

        def make_engine(loop: EngineLoop) -> Engine:
            engine = made.engine(loop.machine.env, loop.machine.timer)
            self._core = ProducerCore(engine, made.settings, AwaitedFace())
            self._intake = Intake(self._core.routing, made.key, made.value, engine.env.clock)
            return engine

        super().__init__("odradek-producer", make_engine)

    async def start(self) -> Self:
        """Begin, in the loop that runs now; `async with` does it."""
        await super().start()
        self._call_soon = asyncio.get_running_loop().call_soon
        loop = self._loop
        assert loop is not None
        loop.run(lambda: self._core.start(self._wake))
        return self

    def _wake(self) -> None:
        """There may be something to send: see to it as soon as the caller gives way."""
        if not self._woken:
            self._woken = True
            self._call_soon(self._turn)

    def _turn(self) -> None:
        self._woken = False
        if self._loop is not None and self._loop.running:
            self._loop.run(self._core.sender.run)

    # The way out.

    async def flush(self, timeout: float | None = None) -> int:
        """Send what is queued without lingering, and wait until all of it is delivered or failed,
        up to `timeout` seconds; how many records are not yet."""
        return await self._wait(lambda _: self._core.flush(milliseconds_of(timeout)))

    def __len__(self) -> int:
        """Records whose outcome is open."""
        return 0 if self._intake is None else self._core.accumulator.incomplete_records

    def __bool__(self) -> bool:
        return True

    # Looking.

    async def partitions_for(self, topic: str) -> list[int]:
        """The partitions of a topic. Raises as `send` does."""
        return await self._wait(lambda _: self._core.partitions_for(topic))

    def metrics(self) -> dict[str, float]:
        """What there is to watch, by the names of Kafka's producer."""
        self._check_running()
        return self._core.snapshot()

    # The end.

    async def close(self, timeout: float | None = None) -> None:
        """Deliver what was sent and end; after `timeout` seconds, or when this is cancelled, give
        up the rest. More than once does no harm."""
        try:
            if self._loop is not None and self._loop.running:
                with contextlib.suppress(ClientClosed):
                    await self._wait(lambda _: self._core.close(milliseconds_of(timeout)))
        finally:
            await super().close()

    def _end(self) -> None:
        self._core.break_off()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close(None if error is None else END_TIMEOUT_S)
