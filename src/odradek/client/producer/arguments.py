"""The arguments of a producer's constructor, blocking or awaited, as settings and serializers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from odradek.client.engine import Engine
from odradek.client.errors import ConfigError
from odradek.client.interceptors import ProducerInterceptor, checked_interceptors
from odradek.client.producer.intercepted_send import InterceptedSendPath, ProducerInterceptors
from odradek.client.producer.send_path import RecordRouter, SendPath
from odradek.client.producer.settings import (
    AccumulatorSettings,
    Partitioner,
    ProducerSettings,
    SenderSettings,
)
from odradek.client.serializers import Serializer, serializer
from odradek.config.client import aliased_argument, merge_settings, take_arguments
from odradek.config.keywords import ProducerKeywords
from odradek.config.producer import ProducerConfig
from odradek.model.env import Clock, Env
from odradek.protocol.compression import CompressionType
from odradek.timing.timer import SystemTimer

ON_FULL = ("block", "raise")
EXTRA_ARGUMENTS = (
    "key",
    "value",
    "key_serializer",
    "value_serializer",
    "on_full",
    "partitioner",
    "interceptors",
)
"""Arguments that are no settings. A `partitioner` is one only if it is a function."""


class AwaitedProducerConfig(ProducerConfig):
    """The settings of the awaited producer: it has no `on_full`."""

    arguments: ClassVar[tuple[str, ...]] = tuple(
        each for each in ProducerConfig.arguments if each != "on_full"
    )


class ProducerOptions(ProducerKeywords, total=False):
    """The keywords of a producer, besides serializers."""

    interceptors: Sequence[ProducerInterceptor] | None


class ProducerArguments(NamedTuple):
    """Settings, serializers, whether `send` blocks while the buffer is full, and interceptors."""

    config: ProducerConfig
    settings: ProducerSettings
    key: Serializer
    value: Serializer
    blocks: bool
    interceptors: list[ProducerInterceptor]

    def chain(self, clock: Clock) -> ProducerInterceptors | None:
        """Return the interceptors as one; None if there is none."""
        return ProducerInterceptors(self.interceptors, clock) if self.interceptors else None

    def send_path(
        self, router: RecordRouter, chain: ProducerInterceptors | None, clock: Clock
    ) -> SendPath | InterceptedSendPath:
        """Return the path of this producer's records."""
        send_path = SendPath(router, self.key, self.value, clock)
        return send_path if chain is None else InterceptedSendPath(send_path, chain)

    def engine(
        self,
        env: Env,
        timer: SystemTimer,
        on_bug: Callable[[str, Exception], None] | None = None,
    ) -> Engine:
        """Return a new engine for this producer."""
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
    """Return the checked arguments. `on_full` is None for a producer that never blocks. Raises
    `ConfigError`."""
    given = merge_settings(config, brokers, settings)
    given |= {name: made for name, made in (("key", key), ("value", value)) if made is not None}
    if on_full not in (None, "block"):  # "block" is the default: `config` may say otherwise.
        given["on_full"] = on_full
    own = take_arguments(EXTRA_ARGUMENTS, given)
    if on_full is None and "on_full" in own:
        raise ConfigError(
            "on_full is a setting of the blocking producer. What to do: leave it out; here `send` "
            "awaits room, and `send_nowait` raises BufferFull"
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
        checked_interceptors(own.get("interceptors"), ProducerInterceptor),
    )


def producer_settings(
    config: ProducerConfig, partitioner: Partitioner | None = None
) -> ProducerSettings:
    """Return the settings of the producer's parts."""
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
        transactional_id=config.transactional_id,
        transaction_timeout_ms=config.transaction_timeout_ms,
    )
