"""What a producer's constructor is given, in either face, as what the core needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from odradek.client.engine import Engine
from odradek.client.errors import ConfigError
from odradek.client.producer.settings import (
    AccumulatorSettings,
    Partitioner,
    ProducerSettings,
    SenderSettings,
)
from odradek.client.serializers import Serializer, serializer
from odradek.config.client import aliased_argument, merge_settings, take_arguments
from odradek.config.producer import ProducerConfig
from odradek.model.env import Env
from odradek.protocol.compression import CompressionType
from odradek.timing.timer import SystemTimer

ON_FULL = ("block", "raise")
TAKEN = ("key", "value", "key_serializer", "value_serializer", "on_full", "partitioner")
"""What is no setting; nor is a partitioner that is a function."""


class AwaitedProducerConfig(ProducerConfig):
    """Settings of a producer in coroutines."""

    arguments: ClassVar[tuple[str, ...]] = tuple(
        each for each in ProducerConfig.arguments if each != "on_full"
    )


class ProducerArguments(NamedTuple):
    """Settings, serializers, and what to do when the buffer is full."""

    config: ProducerConfig
    settings: ProducerSettings
    key: Serializer
    value: Serializer
    blocks: bool

    def engine(
        self,
        env: Env,
        timer: SystemTimer,
        on_bug: Callable[[str, Exception], None] | None = None,
    ) -> Engine:
        """The engine of such a producer."""
        config = self.config
        return Engine(
            env,
            timer,
            config,
            max_in_flight=config.max_in_flight_requests_per_connection,
            allow_auto_topic_creation=True,
            topic_idle_ms=config.metadata_max_idle_ms,
            on_bug=on_bug,
        )


def producer_arguments(
    config: Mapping[str, Any] | None,
    brokers: str | Sequence[str] | None,
    key: Any,
    value: Any,
    on_full: str | None,
    settings: Mapping[str, Any],
) -> ProducerArguments:
    """`on_full` is None for a producer that never blocks. Raises `ConfigError`."""
    given = merge_settings(config, brokers, settings)
    given |= {name: said for name, said in (("key", key), ("value", value)) if said is not None}
    if on_full not in (None, "block"):  # Which is as if it were not said.
        given["on_full"] = on_full
    own = take_arguments(TAKEN, given)
    if on_full is None and "on_full" in own:
        raise ConfigError(
            "on_full is for the producer that blocks: here `send` awaits room, and `send_nowait` "
            "raises BufferFull"
        )
    when_full = own.get("on_full", "block")
    if when_full not in ON_FULL:
        raise ConfigError(f"on_full is {when_full!r}: it is 'block' or 'raise'")
    partitioner = own.get("partitioner")
    if not callable(partitioner):
        given["partitioner"], partitioner = partitioner, None
    loaded = (AwaitedProducerConfig if on_full is None else ProducerConfig).load(given)
    return ProducerArguments(
        loaded,
        producer_settings(loaded, partitioner),
        serializer("key", aliased_argument("key", "key_serializer", own)),
        serializer("value", aliased_argument("value", "value_serializer", own)),
        when_full == "block",
    )


def producer_settings(
    config: ProducerConfig, partitioner: Partitioner | None = None
) -> ProducerSettings:
    """What the configuration says to each part."""
    return ProducerSettings(
        AccumulatorSettings(
            batch_bytes=config.batch_size,
            linger_ms=config.linger_ms,
            delivery_timeout_ms=config.delivery_limit_ms,
            codec=CompressionType[config.compression_type.upper()],
            level=config.compression_level,
            adaptive=config.partitioner_adaptive_partitioning_enable,
            availability_timeout_ms=config.partitioner_availability_timeout_ms,
        ),
        SenderSettings(
            acks=config.required_acks,
            max_in_flight=config.max_in_flight_requests_per_connection,
            max_request_bytes=config.max_request_size,
            request_timeout_ms=config.request_timeout_ms,
            retries=config.retries,
        ),
        buffer_bytes=config.buffer_memory,
        max_block_ms=config.max_block_ms,
        idempotence=config.idempotent,
        ignore_keys=config.partitioner_ignore_keys,
        partitioner=partitioner,
    )
