"""What a decision is: records to submit and the response to give once they are committed.

A decision is a function of the submitted image and a request. It changes nothing: either its
records are submitted, all of them in one batch, or nothing happened. Results are per topic or
resource, as in Kafka: one that is refused does not hold up the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from odradek.model.errors import ErrorCode
from odradek.model.topics import name_problem

T = TypeVar("T")
MAX_RECORDS_PER_DECISION = 10_000
MAX_MESSAGE_LENGTH = 2_000


@dataclass(frozen=True, slots=True)
class Decision(Generic[T]):
    """Records, and a response that is true once they are committed."""

    records: list[object]
    response: T


class ApiError(Exception):
    """One topic or resource is refused; becomes its error code and message in the response.

    The message is None where Kafka gives none: the code says it all. A long one is cut, for it may
    quote a client's string, and what is a string of a request must fit in one of the response.
    """

    def __init__(self, error: ErrorCode, message: str | None) -> None:
        if message is not None and len(message) > MAX_MESSAGE_LENGTH:
            message = message[:MAX_MESSAGE_LENGTH] + " ..."
        super().__init__(error.name if message is None else message)
        self.error = error
        self.message = message


def check_topic_name(name: str) -> None:
    """Raises `ApiError` with INVALID_TOPIC_EXCEPTION."""
    problem = name_problem(name)
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
