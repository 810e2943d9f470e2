"""What names have to be before anybody is asked about them: text, as the protocol has it.

Programs give bytes where other clients took them, None where a setting is missing, and one name
where several are asked for, which Python reads as a list of letters. No such name may get as far as
a request: what cannot be encoded there fails whatever else the request was to ask.

Python's text may hold halves of surrogate pairs (what `os.fsdecode` makes of other encodings, a cut
JSON string), which have no UTF-8, and may be longer than a request can say. All else about names is
the broker's business.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.client.errors.answers import InvalidTopic
from odradek.model.errors import ErrorCode
from odradek.protocol.primitives import MAX_STRING_BYTES


def checked_topic(name: object) -> str:
    """The name. Raises `TypeError`, and `InvalidTopic`."""
    text = text_of("topic", name)
    if len(text) > MAX_STRING_BYTES:
        raise InvalidTopic(
            f"a topic cannot have a name of {len(text)} characters. What to do: "
            f"{InvalidTopic.advice}",
            ErrorCode.INVALID_TOPIC_EXCEPTION,
        )
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidTopic(
                f"a topic cannot be named {text!a}, which is not text that UTF-8 knows: "
                f"{error.reason}. What to do: {InvalidTopic.advice}",
                ErrorCode.INVALID_TOPIC_EXCEPTION,
            ) from None
    return text


def checked_topics(names: object) -> list[str]:
    """One name, or several. Raises as `checked_topic`."""
    return [checked_topic(name) for name in several("topic", names)]


def text_of(what: str, name: object) -> str:
    """The name of a topic or group. Raises `TypeError` for what is no text."""
    if not isinstance(name, str):
        raise TypeError(
            f"a {what} cannot be named {name!r}. What to do: give its name as text, a str"
        )
    return name


def texts_of(what: str, names: object) -> list[str]:
    """One name, or several. Raises `TypeError`."""
    return [text_of(what, name) for name in several(what, names)]


def several(what: str, given: object) -> list[object]:
    """What was given, or all of them; text is one, and never a list of letters. Raises
    `TypeError`."""
    if isinstance(given, str):
        return [given]
    if not isinstance(given, Iterable) or isinstance(given, (bytes, bytearray, memoryview)):
        raise TypeError(
            f"{given!r} does not name any {what}. What to do: give one name, or several, as text"
        )
    return list(given)
