"""The loop that every administrative call runs in.

    attempt ─► value
       ▲   └─► KafkaError ─► not retriable: raised
       └── back-off, metadata update if the error requires one ◄── retriable

It ends after `default.api.timeout.ms`, with an `ApiTimeout` that names the last error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from odradek.client.arguments import text_of
from odradek.client.engine import Engine
from odradek.client.errors import ApiTimeout, KafkaError, UnknownTopicOrPartition, error_for
from odradek.client.find_coordinator import GROUP, located
from odradek.client.metadata.cluster_image import ClusterImage
from odradek.client.waiter import Waiter, gather, spawn
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.network_client.api_versions import RequestBuilder
from odradek.protocol.api.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

T = TypeVar("T")
R = TypeVar("R")

NOT_THERE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
"""Retriable for a producer, whose topic may be new; raised to an administrator."""
PROPAGATION_MS = 5_000
"""The longest wait for brokers whose metadata is behind that of the controller."""


class Calls:
    """The common parts of all calls. An object runs one call, whose last error it keeps."""

    def __init__(self, engine: Engine, api_timeout_ms: int) -> None:
        self.engine = engine
        self.api_timeout_ms = api_timeout_ms
        self.last_error: KafkaError | None = None
        """The last error that an attempt was repeated for; None if an attempt succeeded since."""
        self._deadline_ms: int | None = None

    def with_time_limit(self, call: Coroutine[Waiter[Any], None, T]) -> Waiter[T]:
        """Run a call with the time limit `default.api.timeout.ms`."""
        name = getattr(call, "__name__", "the call")
        self._deadline_ms = self.engine.now_ms + self.api_timeout_ms

        def late() -> KafkaError:
            last = self.engine.metadata.last_error or self.last_error
            text = f"{name}: no answer within {self.api_timeout_ms} ms (default.api.timeout.ms)"
            return ApiTimeout(f"{text}; last error: {last}" if last else text)

        return self.engine.within(self.api_timeout_ms, spawn(call), late)

    async def retry(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `attempt`, which is repeated while it raises retriable errors."""
        attempts = 0
        while True:
            try:
                found = await attempt()
            except KafkaError as error:
                if not error.retriable or error.code in NOT_THERE or error.fatal:
                    raise
                self.last_error = error
                if error.refresh_metadata:
                    self.engine.metadata.request_update()
            else:
                self.last_error = None
                return found
            await self.engine.sleep(self.engine.backoff.backoff_ms(attempts))
            attempts += 1

    def call(self, node_id: int, request: Any, response_type: type[R]) -> Waiter[R]:
        """Send a request; see `Engine.call`. If the time of the whole call ends before the answer
        comes, the connection is closed, as in Java: later calls would wait behind that answer.
        """
        return self.engine.call(node_id, request, response_type, self._request_timeout_ms())

    def _request_timeout_ms(self) -> int:
        timeout_ms = self.engine.config.request_timeout_ms
        if self._deadline_ms is None:
            return timeout_ms
        return min(timeout_ms, max(1, self._deadline_ms - self.engine.now_ms))

    async def ask_any(self, request: Any, response_type: type[R]) -> R:
        """Send a request that any broker can answer. One attempt."""
        return await self.call(await self.engine.any_node(), request, response_type)

    async def ask_controller(self, request: Any, response_type: type[R]) -> R:
        """Send a request to the controller; to any broker, which forwards it, if none is known."""
        image = await self.engine.cluster_image()
        known = image.controller_id in image.nodes
        node_id = image.controller_id if known else await self.engine.any_node()
        return await self.call(node_id, request, response_type)

    async def ask_coordinator(
        self, group_id: str, request: Any | RequestBuilder, response_type: type[R]
    ) -> R:
        """Send a request to the group's coordinator. One attempt. Raises `TypeError` for an id that
        is not text."""
        key, name = text_of("group", group_id), f"group {group_id}"
        _, answer = await self.ask_coordinator_of(key, GROUP, name, request, response_type)
        return answer

    async def ask_coordinator_of(
        self,
        key: str,
        key_type: int,
        name: str,
        request: Any | RequestBuilder,
        response_type: type[R],
    ) -> tuple[int, R]:
        """Send a request to the coordinator of a key, which `name` calls for errors; return its
        broker's id too. One attempt."""
        found = await located(self.engine, key, key_type, self._request_timeout_ms())
        raise_for_code(found.error, f"finding the coordinator of {name}", found.broker_text)
        return found.broker_id, await self.call(found.node_id, request, response_type)

    async def ask_each(
        self, requests: Mapping[int, Any], response_type: type[R]
    ) -> list[tuple[int, R]]:
        """Send one request to each of several nodes, all at once. Raises the first error."""
        waiters = [
            (node_id, self.call(node_id, request, response_type))
            for node_id, request in requests.items()
        ]
        return [(node_id, await waiter) for node_id, waiter in waiters]

    async def named_brokers(self, broker_ids: int | Collection[int] | None, what: str) -> list[int]:
        """Return the ids of these brokers (None: all), sorted. Raises for one that does not
        exist."""
        if broker_ids is None:
            return sorted((await self.engine.fresh_image()).nodes)
        wanted = [broker_ids] if isinstance(broker_ids, int) else list(broker_ids)
        image = await self.engine.cluster_image()
        if not image.nodes.keys() >= set(wanted):
            image = await self.engine.fresh_image()  # One of them may be new.
        for broker_id in wanted:
            check_broker(image, broker_id, f"{what} of broker {broker_id!r}")
        return sorted(wanted)

    # Present topics and leaders.

    async def describe_metadata(self, names: Collection[str] | None) -> MetadataResponse:
        """Return metadata of the cluster and of these topics (None: all), from one broker."""
        return await self.ask_any(metadata_request(names), MetadataResponse)

    async def listed_by_brokers(self, sizes: Mapping[str, int]) -> None:
        """Wait until each broker lists these topics with at least so many partitions.

        The controller answers as soon as a change is committed, and each broker applies it a moment
        later. A broker that does not answer, or is more than `PROPAGATION_MS` behind, is left out.
        """
        if not sizes:
            return
        nodes = (await self.engine.cluster_image()).nodes
        waiters = [spawn(self._listed_by(node_id, sizes)) for node_id in nodes]
        for waiter in waiters:
            self.engine.within(PROPAGATION_MS, waiter, lambda: ApiTimeout("metadata is behind"))
        await gather(waiters)

    async def _listed_by(self, node_id: int, sizes: Mapping[str, int]) -> None:
        attempts = 0
        while True:
            answer = await self.call(node_id, metadata_request(sizes), MetadataResponse)
            if not any(
                topic.error_code in NOT_THERE
                or (not topic.error_code and len(topic.partitions) < sizes[topic.name or ""])
                for topic in answer.topics
            ):
                return
            await self.engine.sleep(self.engine.backoff.backoff_ms(attempts))
            attempts += 1

    async def existing_topics(self, names: Collection[str]) -> dict[str, MetadataResponseTopic]:
        """Return metadata of these topics. Raises for the first that does not exist."""
        found = await self.find_topics(names)
        for name in sorted(names):
            if name not in found:
                raise_for_code(NOT_THERE[0], f"topic {name}")
        return {name: found[name] for name in names}

    async def find_topics(self, names: Collection[str]) -> dict[str, MetadataResponseTopic]:
        """Return metadata of those of these topics that exist."""
        answer = await self.describe_metadata(names)
        found = {}
        for topic in answer.topics:
            if topic.name is not None and topic.error_code not in NOT_THERE:
                raise_for_code(topic.error_code, f"topic {topic.name}")
                found[topic.name] = topic
        return found

    async def by_leader(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[int, list[TopicPartition]]:
        """Return partitions by leader. Raises for a partition that does not exist or has no leader
        now."""
        wanted = sorted(partitions)
        topics = await self.existing_topics({partition.topic for partition in wanted})
        leaders = {
            TopicPartition(name, each.partition_index): each
            for name, topic in topics.items()
            for each in topic.partitions
        }
        groups: dict[int, list[TopicPartition]] = {}
        for partition in wanted:
            info = leaders.get(partition)
            if info is None:
                count = len(topics[partition.topic].partitions)
                raise UnknownTopicOrPartition(
                    f"partition {partition}: the topic has partitions 0 to {count - 1}. "
                    "What to do: choose one of those."
                )
            raise_for_code(info.error_code, f"partition {partition}", harmless=REPLICAS_MISSING)
            if info.leader_id < 0:
                raise_for_code(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {partition}")
            groups.setdefault(info.leader_id, []).append(partition)
        return groups


def metadata_request(names: Collection[str] | None) -> MetadataRequest:
    """Return a request for metadata of these topics (None: all) that creates none."""
    wanted = None if names is None else [MetadataRequestTopic(name=n) for n in sorted(names)]
    return MetadataRequest(topics=wanted, allow_auto_topic_creation=False)


REPLICAS_MISSING = (ErrorCode.REPLICA_NOT_AVAILABLE,)
"""Errors with which the leader is still available."""


def check_broker(image: ClusterImage, broker_id: int, what: str) -> None:
    """Raise for a broker that the cluster does not have, instead of retrying until the timeout."""
    if broker_id not in image.nodes:
        known = ", ".join(str(node_id) for node_id in sorted(image.nodes))
        raise UnknownTopicOrPartition(
            f"{what}: the cluster has brokers {known}. What to do: choose one of those."
        )


def raise_for_code(
    code: int, what: str, broker_text: str | None = None, harmless: Collection[int] = ()
) -> None:
    """Raise the error of a code, unless it is NONE or one of `harmless`."""
    if code != ErrorCode.NONE and code not in harmless:
        raise error_for(code, what, broker_text)


def error_of_code(code: int, what: str, broker_text: str | None = None) -> KafkaError | None:
    """Return the error of a code; None for NONE."""
    return None if code == ErrorCode.NONE else error_for(code, what, broker_text)
