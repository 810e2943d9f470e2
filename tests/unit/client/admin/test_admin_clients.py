"""Both admin clients, blocking and awaited: the same calls, their start and end, and errors."""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from odradek.client.admin.admin import AdminCalls
from odradek.client.aio.admin import Admin as AioAdmin
from odradek.client.blocking.admin import Admin
from odradek.client.errors import (
    ApiTimeout,
    ClientClosed,
    ConfigError,
    TopicAlreadyExists,
    error_for,
)
from odradek.model.errors import ErrorCode
from odradek.testing import Broker

# The same calls.


@pytest.mark.parametrize("api", [Admin, AioAdmin])
def test_both_clients_have_every_call_with_its_signature_and_docstring(api: Any) -> None:
    calls = {
        name: call
        for name, call in inspect.getmembers(AdminCalls, inspect.iscoroutinefunction)
        if not name.startswith(("_", "ask_")) and name not in HIDDEN
    }
    for name, call in calls.items():
        bound = getattr(api, name)
        assert inspect.getdoc(bound) == inspect.getdoc(call)
        assert inspect.signature(bound) == inspect.signature(call)


HIDDEN = (
    "retry",
    "describe_metadata",
    "existing_topics",
    "find_topics",
    "by_leader",
    "named_brokers",
    "listed_by_brokers",
)
"""Parts of calls."""


def test_wrong_arguments_raise_with_the_name_of_the_clients_method(
    admin: Admin, broker: Broker
) -> None:
    untyped: Any = admin
    with pytest.raises(TypeError, match=r"^Admin\.describe_config\(\) takes"):
        untyped.describe_config("orders")
    with pytest.raises(
        TypeError, match=r"^Admin\.create_topic\(\) got an unexpected .*'partition'"
    ):
        untyped.create_topic("orders", partition=2)

    async def awaited() -> None:
        async with AioAdmin(brokers=broker.bootstrap) as other:
            await other.create_topic("orders", partition=2)  # type: ignore[call-arg]

    with pytest.raises(TypeError, match=r"^Admin\.create_topic\(\) got an unexpected"):
        asyncio.run(awaited())


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


def test_the_awaited_client_makes_the_same_calls(broker: Broker) -> None:
    async def main() -> None:
        async with AioAdmin({"bootstrap.servers": broker.bootstrap}) as admin:
            await asyncio.gather(*(admin.create_topic(f"aio-{n}") for n in range(5)))
            found = [topic.name for topic in await admin.topics()]
            assert {f"aio-{n}" for n in range(5)} <= set(found)
            with pytest.raises(TopicAlreadyExists):
                await admin.create_topic("aio-0")
            assert await admin.delete_topic("aio-0")

    run(main())


# Their lives.


def test_an_awaited_client_must_be_started_exactly_once(broker: Broker) -> None:
    async def main() -> None:
        admin = AioAdmin(brokers=broker.bootstrap)
        with pytest.raises(ClientClosed, match="async with"):
            await admin.topics()
        await admin.close()
        await admin.start()
        with pytest.raises(RuntimeError, match="started before"):
            await admin.start()
        await admin.close()
        await admin.close()
        with pytest.raises(ClientClosed):
            await admin.topics()

    run(main())


def test_calls_after_close_raise_client_closed(broker: Broker) -> None:
    admin = Admin(bootstrap_servers=broker.bootstrap)
    assert admin.cluster().nodes
    admin.close()
    admin.close()
    with pytest.raises(ClientClosed):
        admin.cluster()


def test_many_threads_may_call_at_once(admin: Admin) -> None:
    outcomes: list[int] = []
    threads = [
        threading.Thread(target=lambda: outcomes.append(len(admin.cluster().nodes)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == [1] * 8


def test_a_client_that_is_not_closed_ends_when_it_is_collected(broker: Broker) -> None:
    admin = Admin(brokers=broker.bootstrap)
    thread = admin._thread._thread
    assert admin.cluster().nodes
    del admin
    gc.collect()
    thread.join(60)
    assert not thread.is_alive()


def test_an_unreachable_broker_is_named_after_the_timeout() -> None:
    with Broker() as broker:
        gone = broker.bootstrap
    with Admin(brokers=gone, default_api_timeout_ms=300) as admin:
        with pytest.raises(ApiTimeout, match=gone) as caught:
            admin.topics()
        assert "300 ms" in str(caught.value)


@pytest.fixture
def no_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let calls about a group find no coordinator for it."""

    async def ask_coordinator(calls: AdminCalls, group_id: str, *_: object) -> None:
        raise error_for(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"group {group_id}")

    monkeypatch.setattr(AdminCalls, "ask_coordinator", ask_coordinator)


@pytest.mark.usefixtures("no_coordinator")
def test_a_late_call_names_its_last_error_while_other_calls_succeed(broker: Broker) -> None:
    with (
        Admin(brokers=broker.bootstrap, default_api_timeout_ms=400) as admin,
        ThreadPoolExecutor(1) as pool,
    ):
        late = pool.submit(admin.group, "g")
        while not late.done():
            admin.topics()
        with pytest.raises(ApiTimeout, match="last error: group g"):
            late.result()


@pytest.mark.usefixtures("no_coordinator")
def test_a_late_awaited_call_names_its_last_error_while_other_calls_succeed(
    broker: Broker,
) -> None:
    async def main() -> None:
        async with AioAdmin(brokers=broker.bootstrap, default_api_timeout_ms=400) as admin:
            late = asyncio.create_task(admin.group("g"))
            while not late.done():
                await admin.topics()
            with pytest.raises(ApiTimeout, match="last error: group g"):
                await late

    asyncio.run(main())


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "bootstrap.servers is empty"),
        ({"brokers": "nowhere"}, "Write host:port"),
        ({"brokers": "a:1", "request_timout_ms": 1}, "did you mean"),
        ({"brokers": "a:1", "security_protocol": "SSL"}, "only PLAINTEXT"),
    ],
)
def test_wrong_settings_leave_no_thread_behind(given: dict[str, Any], problem: str) -> None:
    before = threading.active_count()
    make: Callable[..., Admin] = Admin
    with pytest.raises(ConfigError, match=problem):
        make(**given)
    assert threading.active_count() <= before
