"""The admin client that blocks.

    with Admin(brokers="localhost:9092") as admin:
        admin.create_topic("orders", partitions=3)
        print(admin.topics())

Its calls are those of `client.admin`, each blocking until it is done or `default.api.timeout.ms`
are over. They may be made from any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, Unpack

from odradek.client.admin.admin import AdminCalls
from odradek.client.api_methods import Blocking, Steps
from odradek.client.blocking.client import Client
from odradek.client.engine import Engine
from odradek.config.client import AdminConfig, merge_settings
from odradek.config.keywords import AdminKeywords

R = TypeVar("R")


class Admin(Client):
    """Administers the cluster at `brokers` (or `bootstrap.servers` in `config` or keywords).

    Settings by any of their names, see `AdminConfig`. Raises `ConfigError`; calls raise kinds of
    `KafkaError`.
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
            lambda thread: Engine(thread.machine.env, thread.machine.timer, self.config),
        )
        self._calls = AdminCalls(self._engine, self.config.default_api_timeout_ms)

    def _ask(self, make: Callable[[], Steps[R]]) -> R:
        return self._wait(lambda: self._calls.limited(make()))

    topics = Blocking(AdminCalls.topics)
    topic = Blocking(AdminCalls.topic)
    describe_topics = Blocking(AdminCalls.describe_topics)
    create_topic = Blocking(AdminCalls.create_topic)
    create_topics_many = Blocking(AdminCalls.create_topics_many)
    delete_topic = Blocking(AdminCalls.delete_topic)
    delete_topics_many = Blocking(AdminCalls.delete_topics_many)
    create_partitions = Blocking(AdminCalls.create_partitions)

    describe_config = Blocking(AdminCalls.describe_config)
    set_config = Blocking(AdminCalls.set_config)

    partitions_of = Blocking(AdminCalls.partitions_of)
    list_offsets = Blocking(AdminCalls.list_offsets)
    beginning_offsets = Blocking(AdminCalls.beginning_offsets)
    end_offsets = Blocking(AdminCalls.end_offsets)
    delete_records = Blocking(AdminCalls.delete_records)

    groups = Blocking(AdminCalls.groups)
    group = Blocking(AdminCalls.group)
    describe_groups = Blocking(AdminCalls.describe_groups)
    delete_group = Blocking(AdminCalls.delete_group)
    delete_groups_many = Blocking(AdminCalls.delete_groups_many)
    group_offsets = Blocking(AdminCalls.group_offsets)
    alter_group_offsets = Blocking(AdminCalls.alter_group_offsets)
    delete_group_offsets = Blocking(AdminCalls.delete_group_offsets)
    lag = Blocking(AdminCalls.lag)
    seek_group = Blocking(AdminCalls.seek_group)

    cluster = Blocking(AdminCalls.cluster)
    log_dirs = Blocking(AdminCalls.log_dirs)
