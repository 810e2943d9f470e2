"""One answer for requests that ask the same, each of which gets it once."""

from __future__ import annotations

from odradek.coordinator.operation import MAX_REQUESTS_PER_REPLY, Reply
from odradek.model.errors import ErrorCode

AGAIN = ErrorCode.REBALANCE_IN_PROGRESS


def replies(count: int) -> tuple[Reply[str], dict[int, list[str]]]:
    """The way back to so many requests, and what each was answered."""
    answers: dict[int, list[str]] = {number: [] for number in range(count)}
    each: list[Reply[str]] = [
        Reply(answers[number].append, lambda error: error.name) for number in range(count)
    ]
    first, *others = each
    for other in others:
        first = first.merge(other, AGAIN)
    return first, answers


def test_whoever_asks_again_is_answered_as_often() -> None:
    reply, answers = replies(3)
    reply.send("here")
    assert answers == {0: ["here"], 1: ["here"], 2: ["here"]}


def test_what_cannot_be_done_is_told_to_all() -> None:
    reply, answers = replies(2)
    reply.refuse(ErrorCode.NOT_COORDINATOR)
    assert answers == {0: ["NOT_COORDINATOR"], 1: ["NOT_COORDINATOR"]}


def test_of_very_many_the_oldest_are_told_to_ask_again() -> None:
    """So that they do not pile up for a client that opens connection after connection."""
    reply, answers = replies(MAX_REQUESTS_PER_REPLY + 2)
    assert [number for number, told in answers.items() if told] == [0, 1]
    reply.send("here")
    assert answers.pop(0) == answers.pop(1) == [AGAIN.name]
    assert all(told == ["here"] for told in answers.values())
