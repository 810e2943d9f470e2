"""Decisions: the records to submit for a request, and the response once they are committed.

A decision is a function of the pending image and a request. It changes nothing itself: either its
records are submitted, all of them in one batch, or nothing happened. Results are per topic or
resource, as in Kafka: a refused one does not affect the others.

A decision that may change every partition comes in `Parts`: a generator whose lists of records are
submitted one after another, and which returns the response. Between two parts the loop serves
others. Each part is sound alone and is looked up anew in the pending image, so that a controller
that stops in between leaves nothing half done, and the next one goes on; that is why the parts need
no transaction (KIP-868), whose records would take effect only after the last of them.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Generic, TypeVar

from odradek.model.errors import ErrorCode
from odradek.model.topics import name_problem

T = TypeVar("T")
MAX_RECORDS_PER_DECISION = 10_000
TOO_MANY_RECORDS = f"A request may change {MAX_RECORDS_PER_DECISION} partitions at most."
MAX_MESSAGE_LENGTH = 2_000
RECORDS_PER_PART = 50
Parts = Generator[list[object], None, T]


@dataclass(frozen=True, slots=True)
class ControllerResult(Generic[T]):
    """Records, and the response that is sent once they are committed."""

    records: list[object]
    response: T


class ApiError(Exception):
    """A topic or resource of a request is refused with this error code and message.

    The message is None where Kafka sends none. A long message is cut off, because it may quote a
    client's string and must fit into a string of the response.
    """

    def __init__(self, error: ErrorCode, message: str | None) -> None:
        if message is not None and len(message) > MAX_MESSAGE_LENGTH:
            message = message[:MAX_MESSAGE_LENGTH] + " ..."
        super().__init__(error.name if message is None else message)
        self.error = error
        self.message = message


def check_topic_name(name: str) -> None:
    """Raise `ApiError` with INVALID_TOPIC_EXCEPTION if the name is not valid."""
    problem = name_problem(name)
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
