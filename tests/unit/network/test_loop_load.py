"""How long turns of a loop are, and which share of time it sleeps."""

from __future__ import annotations

from odradek.network.loop_load import MARK_NS, LoopLoad

SECOND = 1_000_000_000


def test_turn_lasts_from_the_wake_up_to_the_sleep():
    load = LoopLoad(0)
    load.wake(10)
    load.end_turn(25)
    load.wake(100)
    load.end_turn(101)
    assert (load.turns.count, load.turns.sum) == (2, 16)


def test_turns_without_a_sleep_between_them_count_each():
    load = LoopLoad(0)
    load.wake(10)
    load.wake(15)
    load.end_turn(25)
    assert (load.turns.count, load.turns.sum) == (2, 15)


def test_turn_that_is_left_out_is_not_counted():
    load = LoopLoad(0)
    load.wake(10)
    load.leave_out()
    load.wake(1000)
    load.end_turn(1001)
    assert (load.turns.count, load.turns.sum) == (1, 1)


def test_idle_share_is_of_the_last_half_minute():
    load = LoopLoad(0)
    now = 0
    for _ in range(20):  # busy for a hundred seconds
        load.wake(now)
        now += MARK_NS
        load.end_turn(now)
    assert load.idle_share(now) == load.mean_idle_share(now) == 0
    for _ in range(20):  # then asleep
        now += MARK_NS
        load.wake(now)
        load.end_turn(now)
    assert load.idle_share(now) == 1
    assert load.mean_idle_share(now) == 0.5
