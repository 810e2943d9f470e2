"""How much of the moves under way is copied, as `cluster grow` tells it."""

from __future__ import annotations

from odradek.cli.replica_moves import copied_bytes
from odradek.client.admin.results import Reassignment
from odradek.model.topics import TopicPartition

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


def test_each_new_replica_counts_with_what_it_has_and_will_have() -> None:
    moves = {
        FIRST: Reassignment((1, 2, 3), adding=(2, 3), removing=()),
        SECOND: Reassignment((1, 2), adding=(2,), removing=(1,)),
    }
    sizes = {1: {FIRST: 1000, SECOND: 50}, 2: {FIRST: 400, SECOND: 50}, 3: {FIRST: 100}}
    assert copied_bytes(moves, sizes) == (550, 2050)


def test_brokers_that_do_not_tell_count_nothing() -> None:
    moves = {FIRST: Reassignment((1, 2), adding=(2,), removing=())}
    assert copied_bytes(moves, {}) == (0, 0)
    assert copied_bytes(moves, {1: {FIRST: 10}}) == (0, 10)
