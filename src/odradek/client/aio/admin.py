"""The admin client that is awaited.

    async with Admin(brokers="localhost:9092") as admin:
        await admin.create_topic("orders", partitions=3)
        print(await admin.topics())

Its calls are those of `client.admin`, each over when it is done or `default.api.timeout.ms` are
over; any number may be under way.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import update_wrapper
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, Unpack, overload

from odradek.client.admin.admin import AdminCalls
from odradek.client.aio.client import Client
from odradek.client.engine import Engine
from odradek.client.waiter import Waiter
from odradek.config.admin import AdminConfig
from odradek.config.client_loading import together
from odradek.config.keywords import AdminKeywords

P = ParamSpec("P")
R = TypeVar("R")


class Awaited(Generic[P, R]):
    """A call of `AdminCalls` as a coroutine of asyncio."""

    def __init__(
        self, call: Callable[Concatenate[AdminCalls, P], Coroutine[Waiter[Any], None, R]]
    ) -> None:
        async def awaited(admin: Admin, *args: P.args, **kwargs: P.kwargs) -> R:
            timeout_ms = admin.config.default_api_timeout_ms

            def make(engine: Engine) -> Waiter[R]:
                calls = AdminCalls(engine, timeout_ms)
                return calls.run(call.__name__, call(calls, *args, **kwargs))

            return await admin._wait(make)

        self._function = update_wrapper(awaited, call)
        self.__doc__ = call.__doc__

    @overload
    def __get__(self, instance: None, owner: type[Admin]) -> Callable[..., Any]: ...
    @overload
    def __get__(
        self, instance: Admin, owner: type[Admin]
    ) -> Callable[P, Coroutine[Any, Any, R]]: ...
    def __get__(self, instance: Admin | None, owner: type[Admin]) -> Callable[..., Any]:
        return self._function if instance is None else MethodType(self._function, instance)


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
        self.config = AdminConfig.load(together(config, brokers, settings))
        super().__init__(
            "odradek-admin",
            lambda loop: Engine(loop.machine.env, loop.machine.timer, self.config),
        )

    topics = Awaited(AdminCalls.topics)
    describe_topic = Awaited(AdminCalls.describe_topic)
    describe_topics = Awaited(AdminCalls.describe_topics)
    create_topic = Awaited(AdminCalls.create_topic)
    create_topics_many = Awaited(AdminCalls.create_topics_many)
    delete_topic = Awaited(AdminCalls.delete_topic)
    delete_topics_many = Awaited(AdminCalls.delete_topics_many)
    create_partitions = Awaited(AdminCalls.create_partitions)

    topic_config = Awaited(AdminCalls.topic_config)
    broker_config = Awaited(AdminCalls.broker_config)
    describe_config = Awaited(AdminCalls.describe_config)
    set_topic_config = Awaited(AdminCalls.set_topic_config)
    set_broker_config = Awaited(AdminCalls.set_broker_config)
    alter_config = Awaited(AdminCalls.alter_config)

    partitions_of = Awaited(AdminCalls.partitions_of)
    list_offsets = Awaited(AdminCalls.list_offsets)
    beginning_offsets = Awaited(AdminCalls.beginning_offsets)
    end_offsets = Awaited(AdminCalls.end_offsets)
    delete_records = Awaited(AdminCalls.delete_records)

    groups = Awaited(AdminCalls.groups)
    describe_group = Awaited(AdminCalls.describe_group)
    describe_groups = Awaited(AdminCalls.describe_groups)
    delete_group = Awaited(AdminCalls.delete_group)
    delete_groups_many = Awaited(AdminCalls.delete_groups_many)
    group_offsets = Awaited(AdminCalls.group_offsets)
    alter_group_offsets = Awaited(AdminCalls.alter_group_offsets)
    delete_group_offsets = Awaited(AdminCalls.delete_group_offsets)
    group_lag = Awaited(AdminCalls.group_lag)
    seek_group = Awaited(AdminCalls.seek_group)

    cluster = Awaited(AdminCalls.cluster)
    log_dirs = Awaited(AdminCalls.log_dirs)
