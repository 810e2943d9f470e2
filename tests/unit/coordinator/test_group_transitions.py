"""The ring of the last changes of state: bounded in number and in bytes, read in pages."""

from __future__ import annotations

from odradek.coordinator.group.transitions import (
    LONGEST_NAME,
    LONGEST_REASON,
    GroupTransitions,
)


def noted(count: int, capacity: int) -> GroupTransitions:
    ring = GroupTransitions(capacity)
    for number in range(count):
        ring.note(1000 + number, f"g{number}", ("Empty", "Stable"), number, (2, 1), "a reason")
    return ring


def test_the_newest_are_read_first_and_in_pages() -> None:
    ring = noted(5, capacity=10)
    first = ring.newest_before(ring.total, 2)
    assert [each.number for each in first] == [4, 3]
    assert [each.number for each in ring.newest_before(first[-1].number, 10)] == [2, 1, 0]
    newest = first[0]
    assert (newest.time_ms, newest.group_id, newest.from_state) == (1004, "g4", "Empty")
    assert (newest.to_state, newest.generation, newest.members) == ("Stable", 4, 2)
    assert (newest.pending_members, newest.reason) == (1, "a reason")


def test_older_ones_make_room_for_newer_ones() -> None:
    ring = noted(25, capacity=10)
    assert ring.total == 25
    assert [each.number for each in ring.newest_before(25, 100)] == list(range(24, 14, -1))
    assert [each.number for each in ring.newest_before(17, 100)] == [16, 15]
    assert ring.newest_before(10, 100) == []


def test_names_and_reasons_of_clients_are_shortened() -> None:
    ring = GroupTransitions(1)
    ring.note(0, "g" * 30_000, ("Empty", "Stable"), 1, (1, 0), "r" * 30_000)
    (kept,) = ring.newest_before(1, 1)
    assert len(kept.group_id) == LONGEST_NAME and kept.group_id.endswith("g…")
    assert len(kept.reason) == LONGEST_REASON


def test_a_coordinator_keeps_the_last_10_000() -> None:
    ring = GroupTransitions()
    for _ in range(10_002):
        ring.note(1, "g", ("Empty", "Stable"), 1, (1, 0), "joined")
    kept = ring.newest_before(ring.total, 20_000)
    assert [len(kept), kept[0].number, kept[-1].number] == [10_000, 10_001, 2]
