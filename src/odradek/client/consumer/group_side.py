"""The group's side of a consumer: a `ConsumerGroup` if it has a group, else what stands there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from odradek.client.consumer.assignor.partition_assignor import PartitionAssignor
from odradek.client.consumer.consumer_coordinator import ConsumerCoordinator
from odradek.client.consumer.consumer_group import ConsumerGroup
from odradek.client.consumer.group_config import GroupConfig
from odradek.client.consumer.no_group import NoGroup
from odradek.client.consumer.subscription_state import SubscriptionState
from odradek.client.engine import Engine
from odradek.config.consumer import ConsumerConfig


def group_of(
    engine: Engine,
    config: ConsumerConfig,
    subscriptions: SubscriptionState,
    strategy: Sequence[PartitionAssignor],
    wanted: Callable[[], object],
) -> ConsumerGroup | NoGroup:
    """The group's side of a consumer."""
    if config.group_id is None:
        return NoGroup(engine, subscriptions, config.exclude_internal_topics, wanted)
    settings = GroupConfig(
        group_id=config.group_id,
        group_instance_id=config.group_instance_id,
        session_timeout_ms=config.session_timeout_ms,
        heartbeat_interval_ms=config.heartbeat_interval_ms,
        max_poll_interval_ms=config.max_poll_interval_ms,
        enable_auto_commit=config.enable_auto_commit,
        auto_commit_interval_ms=config.auto_commit_interval_ms,
        retry_backoff_ms=config.retry_backoff_ms,
        retry_backoff_max_ms=config.retry_backoff_max_ms,
        request_timeout_ms=config.request_timeout_ms,
        exclude_internal_topics=config.exclude_internal_topics,
        client_rack=config.client_rack or None,
    )
    coordinator = ConsumerCoordinator(
        settings,
        subscriptions,
        strategy,
        engine.env.random,
        engine.now_ms,
    )
    return ConsumerGroup(engine, coordinator, wanted)
