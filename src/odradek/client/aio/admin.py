"""The admin client that is awaited.

    async with Admin(brokers="localhost:9092") as admin:
        await admin.create_topic("orders", partitions=3)
        print(await admin.topics())

Its calls are those of `client.admin`. Each ends when it is done, or after `default.api.timeout.ms`.
Any number of calls may be in progress.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, Unpack

from odradek.client.admin.admin import AdminCalls
from odradek.client.aio.client import Client
from odradek.client.api_methods import AwaitedMethod, Steps
from odradek.client.engine import Engine
from odradek.client.metrics.metric import Metrics
from odradek.client.metrics.network_table import admin_metrics
from odradek.config.client import AdminConfig, merge_settings
from odradek.config.keywords import AdminKeywords

R = TypeVar("R")


class Admin(Client):
    """Administers the cluster at `brokers` (or `bootstrap.servers` in `config` or keywords).

    Settings may be given by any of their names: see `AdminConfig`. Raises `ConfigError`; calls
    raise kinds of `KafkaError`.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        /,
        *,
        brokers: str | Sequence[str] | None = None,
        **settings: Unpack[AdminKeywords],
    ) -> None:
        self.config = AdminConfig.load(merge_settings(config, brokers, settings))
        super().__init__(
            "odradek-admin",
            lambda loop: Engine(loop.environment.env, loop.environment.timer, self.config),
        )

    async def _run_call(self, make: Callable[[AdminCalls], Steps[R]]) -> R:
        calls = AdminCalls(self._started, self.config.default_api_timeout_ms)
        return await self._wait(lambda _: calls.with_time_limit(make(calls)))

    topics = AwaitedMethod(AdminCalls.topics)
    topic = AwaitedMethod(AdminCalls.topic)
    describe_topics = AwaitedMethod(AdminCalls.describe_topics)
    create_topic = AwaitedMethod(AdminCalls.create_topic)
    create_topics_many = AwaitedMethod(AdminCalls.create_topics_many)
    delete_topic = AwaitedMethod(AdminCalls.delete_topic)
    delete_topics_many = AwaitedMethod(AdminCalls.delete_topics_many)
    create_partitions = AwaitedMethod(AdminCalls.create_partitions)

    describe_config = AwaitedMethod(AdminCalls.describe_config)
    set_config = AwaitedMethod(AdminCalls.set_config)

    partitions_of = AwaitedMethod(AdminCalls.partitions_of)
    list_offsets = AwaitedMethod(AdminCalls.list_offsets)
    beginning_offsets = AwaitedMethod(AdminCalls.beginning_offsets)
    end_offsets = AwaitedMethod(AdminCalls.end_offsets)
    delete_records = AwaitedMethod(AdminCalls.delete_records)

    groups = AwaitedMethod(AdminCalls.groups)
    group = AwaitedMethod(AdminCalls.group)
    describe_groups = AwaitedMethod(AdminCalls.describe_groups)
    delete_group = AwaitedMethod(AdminCalls.delete_group)
    delete_groups_many = AwaitedMethod(AdminCalls.delete_groups_many)
    group_offsets = AwaitedMethod(AdminCalls.group_offsets)
    alter_group_offsets = AwaitedMethod(AdminCalls.alter_group_offsets)
    delete_group_offsets = AwaitedMethod(AdminCalls.delete_group_offsets)
    lag = AwaitedMethod(AdminCalls.lag)
    seek_group = AwaitedMethod(AdminCalls.seek_group)

    list_transactions = AwaitedMethod(AdminCalls.list_transactions)
    describe_transactions = AwaitedMethod(AdminCalls.describe_transactions)
    describe_producers = AwaitedMethod(AdminCalls.describe_producers)
    hanging_transactions = AwaitedMethod(AdminCalls.hanging_transactions)
    fence_producers = AwaitedMethod(AdminCalls.fence_producers)
    end_transaction = AwaitedMethod(AdminCalls.end_transaction)
    abort_transaction = AwaitedMethod(AdminCalls.abort_transaction)

    cluster = AwaitedMethod(AdminCalls.cluster)
    log_dirs = AwaitedMethod(AdminCalls.log_dirs)
    quorum = AwaitedMethod(AdminCalls.quorum)
    remove_voter = AwaitedMethod(AdminCalls.remove_voter)
    unregister_broker = AwaitedMethod(AdminCalls.unregister_broker)
    reassignments = AwaitedMethod(AdminCalls.reassignments)
    alter_reassignments = AwaitedMethod(AdminCalls.alter_reassignments)
    elect_leaders = AwaitedMethod(AdminCalls.elect_leaders)
    describe_waiting = AwaitedMethod(AdminCalls.describe_waiting)
    describe_metrics = AwaitedMethod(AdminCalls.describe_metrics)

    def metrics(self) -> Metrics:
        """Return the metrics by the names of Kafka's admin client: see `client.metrics`. Any
        thread."""
        self._check_running()
        return admin_metrics(self._started)
