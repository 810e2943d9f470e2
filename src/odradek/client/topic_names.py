"""What the name of a topic has to be before anybody is asked about it: text as the protocol has it.

Python's text may hold halves of surrogate pairs (what `os.fsdecode` makes of other encodings, a cut
JSON string), which have no UTF-8, and may be longer than a request can say. All else about names is
the broker's business.
"""

from __future__ import annotations

from odradek.client.errors.answers import InvalidTopic
from odradek.model.errors import ErrorCode
from odradek.protocol.primitives import MAX_STRING_BYTES


def checked_topic(name: str) -> str:
    """The name. Raises `InvalidTopic`."""
    if len(name) > MAX_STRING_BYTES:
        raise InvalidTopic(
            f"a topic cannot have a name of {len(name)} characters. What to do: "
            f"{InvalidTopic.advice}",
            ErrorCode.INVALID_TOPIC_EXCEPTION,
        )
    if not name.isascii():
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise InvalidTopic(
                f"a topic cannot be named {name!a}, which is not text that UTF-8 knows: "
                f"{error.reason}. What to do: {InvalidTopic.advice}",
                ErrorCode.INVALID_TOPIC_EXCEPTION,
            ) from None
    return name
