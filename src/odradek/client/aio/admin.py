"""The admin client that is awaited.

    async with Admin(brokers="localhost:9092") as admin:
        await admin.create_topic("orders", partitions=3)
        print(await admin.topics())

Its calls are those of `client.admin`, each over when it is done or `default.api.timeout.ms` are
over; any number may be under way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, Unpack

from odradek.client.admin.admin import AdminCalls
from odradek.client.aio.client import Client
from odradek.client.api_methods import Awaited, Steps
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
            lambda loop: Engine(loop.machine.env, loop.machine.timer, self.config),
        )

    @property
    def _calls(self) -> AdminCalls:
        return AdminCalls(self._started, self.config.default_api_timeout_ms)

    async def _ask(self, make: Callable[[], Steps[R]]) -> R:
        return await self._wait(lambda _: self._calls.limited(make()))

    topics = Awaited(AdminCalls.topics)
    topic = Awaited(AdminCalls.topic)
    describe_topics = Awaited(AdminCalls.describe_topics)
    create_topic = Awaited(AdminCalls.create_topic)
    create_topics_many = Awaited(AdminCalls.create_topics_many)
    delete_topic = Awaited(AdminCalls.delete_topic)
    delete_topics_many = Awaited(AdminCalls.delete_topics_many)
    create_partitions = Awaited(AdminCalls.create_partitions)

    describe_config = Awaited(AdminCalls.describe_config)
    set_config = Awaited(AdminCalls.set_config)

    partitions_of = Awaited(AdminCalls.partitions_of)
    list_offsets = Awaited(AdminCalls.list_offsets)
    beginning_offsets = Awaited(AdminCalls.beginning_offsets)
    end_offsets = Awaited(AdminCalls.end_offsets)
    delete_records = Awaited(AdminCalls.delete_records)

    groups = Awaited(AdminCalls.groups)
    group = Awaited(AdminCalls.group)
    describe_groups = Awaited(AdminCalls.describe_groups)
    delete_group = Awaited(AdminCalls.delete_group)
    delete_groups_many = Awaited(AdminCalls.delete_groups_many)
    group_offsets = Awaited(AdminCalls.group_offsets)
    alter_group_offsets = Awaited(AdminCalls.alter_group_offsets)
    delete_group_offsets = Awaited(AdminCalls.delete_group_offsets)
    lag = Awaited(AdminCalls.lag)
    seek_group = Awaited(AdminCalls.seek_group)

    cluster = Awaited(AdminCalls.cluster)
    log_dirs = Awaited(AdminCalls.log_dirs)
