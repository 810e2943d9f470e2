"""Back-off and setup timeout of the connection to a node."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from odradek.network_client.backoff import ExponentialBackoff
from odradek.network_client.connection_states import (
    CHECKING_API_VERSIONS,
    CONNECTING,
    DISCONNECTED,
    READY,
    ClusterConnectionStates,
)

HERE, THERE = ("here", 9092), ("there", 9092)


def states(seed: int = 1) -> ClusterConnectionStates:
    chance = random.Random(seed)
    return ClusterConnectionStates(
        ExponentialBackoff(50, 1000, chance), ExponentialBackoff(10_000, 30_000, chance)
    )


def test_a_new_node_may_be_connected_at_once() -> None:
    nodes = states()
    assert nodes.can_connect(1, now_ms=0)
    assert nodes.is_disconnected(1)
    assert nodes.connection_delay_ms(1, now_ms=0) == 0


def test_a_node_becomes_ready_step_by_step() -> None:
    nodes = states()
    nodes.connecting(1, HERE, now_ms=0)
    assert nodes.state(1) == CONNECTING and not nodes.can_connect(1, now_ms=0)
    nodes.checking_api_versions(1)
    assert nodes.state(1) == CHECKING_API_VERSIONS and not nodes.is_ready(1, now_ms=0)
    nodes.ready(1)
    assert nodes.state(1) == READY and nodes.is_ready(1, now_ms=0)


def test_the_back_off_doubles_with_each_failure() -> None:
    nodes = states()
    waits = []
    for _ in range(8):
        nodes.connecting(1, HERE, now_ms=0)
        nodes.disconnected(1, now_ms=0)
        waits.append(nodes.connection_delay_ms(1, now_ms=0))
    for wait, term in zip(waits, (50, 100, 200, 400, 800, 1000, 1000, 1000), strict=True):
        assert term * 0.8 <= wait <= min(term * 1.2, 1000)
    assert not nodes.can_connect(1, now_ms=waits[-1] - 1)
    assert nodes.can_connect(1, now_ms=waits[-1])


def test_a_ready_connection_resets_the_failures_and_its_loss_counts_as_one() -> None:
    nodes = states()
    for _ in range(6):
        nodes.connecting(1, HERE, now_ms=0)
        nodes.disconnected(1, now_ms=0)
    nodes.connecting(1, HERE, now_ms=0)
    nodes.checking_api_versions(1)
    nodes.ready(1)
    nodes.disconnected(1, now_ms=0)
    assert 40 <= nodes.connection_delay_ms(1, now_ms=0) <= 60


def test_the_setup_timeout_grows_with_attempts_that_never_connected() -> None:
    nodes = states()
    allowed = []
    for _ in range(4):
        allowed.append(nodes.connecting(1, HERE, now_ms=0))
        nodes.disconnected(1, now_ms=0)
    for time, term in zip(allowed, (10_000, 20_000, 30_000, 30_000), strict=True):
        assert term * 0.8 <= time <= min(term * 1.2, 30_000)
    nodes.connecting(1, HERE, now_ms=0)
    nodes.checking_api_versions(1)
    nodes.disconnected(1, now_ms=0)
    assert nodes.connecting(1, HERE, now_ms=0) <= 12_000


def test_a_node_at_another_address_starts_as_if_new() -> None:
    nodes = states()
    for _ in range(5):
        nodes.connecting(1, HERE, now_ms=0)
        nodes.disconnected(1, now_ms=0)
    assert nodes.connecting(1, THERE, now_ms=0) <= 12_000
    nodes.disconnected(1, now_ms=0)
    assert nodes.connection_delay_ms(1, now_ms=0) <= 60


def test_the_longest_throttle_time_counts() -> None:
    nodes = states()
    nodes.connecting(1, HERE, now_ms=0)
    nodes.checking_api_versions(1)
    nodes.ready(1)
    nodes.throttle(1, 500)
    nodes.throttle(1, 300)
    assert not nodes.is_ready(1, now_ms=499)
    assert nodes.throttle_delay_ms(1, now_ms=100) == 400
    assert nodes.is_ready(1, now_ms=500)
    nodes.throttle(1, 900)
    nodes.disconnected(1, now_ms=600)
    assert nodes.throttle_delay_ms(1, now_ms=600) == 0


def test_closing_an_idle_connection_is_no_failure() -> None:
    nodes = states()
    nodes.connecting(1, HERE, now_ms=0)
    nodes.checking_api_versions(1)
    nodes.ready(1)
    nodes.closed(1)
    assert nodes.state(1) == DISCONNECTED and nodes.can_connect(1, now_ms=0)


@given(st.lists(st.sampled_from(["fail", "reach", "ready", "tick"]), max_size=60), st.integers())
def test_waits_are_bounded_for_every_sequence_of_events(steps: list[str], seed: int) -> None:
    nodes = states(seed)
    now_ms = 0
    for step in steps:
        state = nodes.state(1)
        if step == "tick":
            now_ms += 37
        elif state == DISCONNECTED:
            now_ms += nodes.connection_delay_ms(1, now_ms)
            assert nodes.can_connect(1, now_ms)
            assert 8000 <= nodes.connecting(1, HERE, now_ms) <= 30_000
        elif step == "fail":
            nodes.disconnected(1, now_ms)
            assert 40 <= nodes.connection_delay_ms(1, now_ms) <= 1000
        elif step == "reach" and state == CONNECTING:
            nodes.checking_api_versions(1)
        elif step == "ready" and state == CHECKING_API_VERSIONS:
            nodes.ready(1)
        assert nodes.is_ready(1, now_ms) == (nodes.state(1) == READY)
        assert nodes.can_connect(1, now_ms + 1000) == (nodes.state(1) == DISCONNECTED)


def never_connected(nodes: ClusterConnectionStates) -> None:
    """Fail attempts until the setup timeout is at its maximum."""
    for _ in range(5):
        nodes.connecting(1, HERE, now_ms=0)
        nodes.disconnected(1, now_ms=0)


def test_the_setup_timeout_is_reset_by_a_ready_connection() -> None:
    """The connection was closed as idle in between."""
    nodes = states()
    never_connected(nodes)
    assert nodes.connecting(1, HERE, now_ms=0) >= 24_000
    nodes.checking_api_versions(1)
    nodes.ready(1)
    nodes.closed(1)
    assert nodes.connecting(1, HERE, now_ms=0) <= 12_000
    nodes.disconnected(1, now_ms=0)
    assert 16_000 <= nodes.connecting(1, HERE, now_ms=0) <= 24_000, "the first failure since"


def test_the_setup_timeout_is_reset_by_a_connection_lost_before_it_was_ready() -> None:
    nodes = states()
    never_connected(nodes)
    nodes.connecting(1, HERE, now_ms=0)
    nodes.checking_api_versions(1)
    nodes.disconnected(1, now_ms=0)
    assert nodes.connecting(1, HERE, now_ms=0) <= 12_000
    nodes.disconnected(1, now_ms=0)
    assert 16_000 <= nodes.connecting(1, HERE, now_ms=0) <= 24_000, "the first failure since"
