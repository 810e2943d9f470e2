"""Engine: the parts that every client has: connections, metadata, timer, and ways to wait.

    API (thread, asyncio) ─► Env, SystemTimer ─► Engine ─┬─ NetworkClient ─► nodes
                                                         └─ Metadata ─► image

Producer, consumer and admin client are an engine with parts of their own. An engine runs on one
owner thread, by callbacks, and never blocks. `close` ends everything at once: unanswered requests
fail with `ClientClosed`. A client that ends gracefully (flush, leave the group) does so before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from odradek.client.arguments import checked_topic
from odradek.client.errors import ClientClosed, KafkaError, error_for
from odradek.client.metadata.cluster_image import ClusterImage, TopicInfo
from odradek.client.metadata.metadata import Metadata
from odradek.client.metadata.updater import MetadataUpdater
from odradek.client.waiter import Waiter, spawn
from odradek.config.addresses import parse_addresses
from odradek.config.client import ClientConfig
from odradek.config.producer import ProducerConfig
from odradek.model.env import Env
from odradek.network_client.backoff import ExponentialBackoff
from odradek.network_client.in_flight_requests import ClientRequest
from odradek.network_client.network_client import NetworkClient
from odradek.network_client.settings import NetworkClientSettings
from odradek.timing.timer import SystemTimer

R = TypeVar("R")


class Engine:
    """The engine of one client. Raises `ConfigError` if there is no bootstrap server."""

    def __init__(
        self,
        env: Env,
        timer: SystemTimer,
        config: ClientConfig,
        *,
        max_in_flight: int = 100,
        allow_auto_topic_creation: bool = False,
        topic_idle_ms: int = ProducerConfig.metadata_max_idle_ms.default,
        on_bug: Callable[[str, Exception], None] | None = None,
    ) -> None:
        self.env = env
        self.timer = timer
        self.config = config
        self.client = NetworkClient(
            env,
            timer,
            NetworkClientSettings.of_client(config, max_in_flight),
            on_bug=on_bug,
        )
        self.backoff = ExponentialBackoff(
            config.retry_backoff_ms, config.retry_backoff_max_ms, env.random
        )
        self.metadata = Metadata(env.clock, self.backoff, config.metadata_max_age_ms, topic_idle_ms)
        self.closed = False
        self._to_close: list[Engine] = []
        self._updater = MetadataUpdater(
            timer,
            config,
            self.client,
            self.metadata,
            parse_addresses(config.bootstrap_servers),
            allow_auto_topic_creation,
        )

    def start(self) -> None:
        """Begin to connect. Owner thread only, like all other methods."""
        self._updater.start()

    def close(self) -> None:
        """Close all connections at once, and fail what is open."""
        if not self.closed:
            self.closed = True
            self._updater.close()
            self.metadata.give_up(ClientClosed("the client was closed"))
            self.client.close()
            for other in self._to_close:
                other.close()

    def close_also(self, other: Engine) -> None:
        """Close another engine with this one."""
        self._to_close.append(other)

    @property
    def now_ms(self) -> int:
        """The monotonic time of the last wake-up, in ms."""
        return self.timer.now_ms

    # Requests.

    def call(
        self, node_id: int, request: Any, response_type: type[R], timeout_ms: int | None = None
    ) -> Waiter[R]:
        """Send a request (or a `RequestBuilder`). The waiter completes with the response, or fails
        with the `KafkaError` of the connection. Errors in the response are for the caller."""
        waiter: Waiter[R] = Waiter()

        def ended(call: ClientRequest) -> None:
            if call.error is not None:
                waiter.fail(call.error)
            else:
                waiter.complete(call.response)

        self.client.send(node_id, request, ended, timeout_ms=timeout_ms)
        return waiter

    async def any_node(self) -> int:
        """Return a node for a request that any node can answer, as soon as there is one."""
        while True:
            if self.metadata.fatal is not None:
                raise self.metadata.fatal
            node_id = self.client.least_loaded_node()
            if node_id is not None:
                return node_id
            await self.sleep(max(1, self.config.reconnect_backoff_ms))

    async def fresh_image(self) -> ClusterImage:
        """Return an image that is requested after this call."""
        return await self.metadata.newer_than(self.metadata.request_at_once())

    async def cluster_image(self) -> ClusterImage:
        """Return the present image, as soon as there is one."""
        return await self.metadata.newer_than(0)

    async def topic(self, name: str) -> TopicInfo:
        """Return a topic as soon as the cluster has it. Raises errors that are not retriable;
        retries all others without end, so give it a time limit (`within`)."""
        checked_topic(name)
        while True:
            image = self.metadata.image
            info = image.topics.get(name)
            if info is not None:
                if not info.error:
                    return info
                if not info.error.retriable:
                    raise error_for(info.error, f"topic {name}")
            self.metadata.add_topic(name)
            await self.metadata.newer_than(image.version)

    def wait_for_topic(self, name: str) -> Waiter[TopicInfo]:
        """Return a waiter for `topic`."""
        return spawn(self.topic(name))

    # Time.

    def sleep(self, delay_ms: int) -> Waiter[None]:
        """Return a waiter that completes after `delay_ms`; it fails if the engine is closed."""
        waiter: Waiter[None] = Waiter()
        if self.closed:
            waiter.fail(ClientClosed("the client was closed"))
        else:
            self.timer.call_later(delay_ms, lambda: waiter.complete(None))
        return waiter

    def within(
        self, timeout_ms: int, waiter: Waiter[R], late: Callable[[], KafkaError]
    ) -> Waiter[R]:
        """Give a waiter a time limit, after which it fails with the error that `late` makes; return
        the same waiter."""
        if not waiter.done:
            task = self.timer.call_later(timeout_ms, lambda: waiter.fail(late()))
            waiter.add_callback(lambda _: task.cancel())
        return waiter
