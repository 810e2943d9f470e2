"""The admin client that blocks.

    with Admin(brokers="localhost:9092") as admin:
        admin.create_topic("orders", partitions=3)
        print(admin.topics())

Its calls are those of `client.admin`. Each blocks until it is done, at most for
`default.api.timeout.ms`. Any number of threads may make them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, Unpack

from odradek.client.admin.admin import AdminCalls
from odradek.client.api_methods import BlockingMethod, Steps
from odradek.client.blocking.client import Client
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
            lambda thread: Engine(thread.environment.env, thread.environment.timer, self.config),
        )

    def _run_call(self, make: Callable[[AdminCalls], Steps[R]]) -> R:
        calls = self._new_calls()
        return self._wait(lambda: calls.with_time_limit(make(calls)))

    def _new_calls(self) -> AdminCalls:
        """Return the object for one call."""
        return AdminCalls(self._engine, self.config.default_api_timeout_ms)

    topics = BlockingMethod(AdminCalls.topics)
    topic = BlockingMethod(AdminCalls.topic)
    describe_topics = BlockingMethod(AdminCalls.describe_topics)
    create_topic = BlockingMethod(AdminCalls.create_topic)
    create_topics_many = BlockingMethod(AdminCalls.create_topics_many)
    delete_topic = BlockingMethod(AdminCalls.delete_topic)
    delete_topics_many = BlockingMethod(AdminCalls.delete_topics_many)
    create_partitions = BlockingMethod(AdminCalls.create_partitions)

    describe_config = BlockingMethod(AdminCalls.describe_config)
    set_config = BlockingMethod(AdminCalls.set_config)

    partitions_of = BlockingMethod(AdminCalls.partitions_of)
    list_offsets = BlockingMethod(AdminCalls.list_offsets)
    beginning_offsets = BlockingMethod(AdminCalls.beginning_offsets)
    end_offsets = BlockingMethod(AdminCalls.end_offsets)
    delete_records = BlockingMethod(AdminCalls.delete_records)

    groups = BlockingMethod(AdminCalls.groups)
    group = BlockingMethod(AdminCalls.group)
    describe_groups = BlockingMethod(AdminCalls.describe_groups)
    delete_group = BlockingMethod(AdminCalls.delete_group)
    delete_groups_many = BlockingMethod(AdminCalls.delete_groups_many)
    group_offsets = BlockingMethod(AdminCalls.group_offsets)
    alter_group_offsets = BlockingMethod(AdminCalls.alter_group_offsets)
    delete_group_offsets = BlockingMethod(AdminCalls.delete_group_offsets)
    lag = BlockingMethod(AdminCalls.lag)
    seek_group = BlockingMethod(AdminCalls.seek_group)

    list_transactions = BlockingMethod(AdminCalls.list_transactions)
    describe_transactions = BlockingMethod(AdminCalls.describe_transactions)
    describe_producers = BlockingMethod(AdminCalls.describe_producers)
    hanging_transactions = BlockingMethod(AdminCalls.hanging_transactions)
    fence_producers = BlockingMethod(AdminCalls.fence_producers)
    end_transaction = BlockingMethod(AdminCalls.end_transaction)
    abort_transaction = BlockingMethod(AdminCalls.abort_transaction)

    cluster = BlockingMethod(AdminCalls.cluster)
    log_dirs = BlockingMethod(AdminCalls.log_dirs)
    quorum = BlockingMethod(AdminCalls.quorum)
    remove_voter = BlockingMethod(AdminCalls.remove_voter)
    unregister_broker = BlockingMethod(AdminCalls.unregister_broker)
    reassignments = BlockingMethod(AdminCalls.reassignments)
    alter_reassignments = BlockingMethod(AdminCalls.alter_reassignments)
    elect_leaders = BlockingMethod(AdminCalls.elect_leaders)
    describe_waiting = BlockingMethod(AdminCalls.describe_waiting)
    describe_metrics = BlockingMethod(AdminCalls.describe_metrics)

    def metrics(self) -> Metrics:
        """Return the metrics by the names of Kafka's admin client: see `client.metrics`. Any
        thread."""
        self._check_open()
        return admin_metrics(self._engine)
