"""Replies: repeated requests of a client get the same response, each once."""

from __future__ import annotations

from odradek.coordinator.operation import MAX_REQUESTS_PER_REPLY, Reply
from odradek.model.errors import ErrorCode

AGAIN = ErrorCode.REBALANCE_IN_PROGRESS


def replies(count: int) -> tuple[Reply[str], dict[int, list[str]]]:
    """A merged reply of so many requests, and the responses of each."""
    answers: dict[int, list[str]] = {number: [] for number in range(count)}
    each: list[Reply[str]] = [
        Reply(answers[number].append, lambda error: error.name) for number in range(count)
    ]
    first, *others = each
    for other in others:
        first = first.merge(other, AGAIN)
    return first, answers


def test_repeated_requests_each_get_the_response() -> None:
    reply, answers = replies(3)
    reply.send("here")
    assert answers == {0: ["here"], 1: ["here"], 2: ["here"]}


def test_an_error_goes_to_all_repeated_requests() -> None:
    reply, answers = replies(2)
    reply.refuse(ErrorCode.NOT_COORDINATOR)
    assert answers == {0: ["NOT_COORDINATOR"], 1: ["NOT_COORDINATOR"]}


def test_beyond_the_limit_the_oldest_requests_are_refused() -> None:
    """Else they would pile up for a client that opens one connection after the other."""
    reply, answers = replies(MAX_REQUESTS_PER_REPLY + 2)
    assert [number for number, responses in answers.items() if responses] == [0, 1]
    reply.send("here")
    assert answers.pop(0) == answers.pop(1) == [AGAIN.name]
    assert all(responses == ["here"] for responses in answers.values())
