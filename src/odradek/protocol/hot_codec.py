"""Codecs by hand: what those of Produce, Fetch and Heartbeat have in common (`hot_produce`,
`hot_fetch`, `hot_heartbeat`).

Brokers and clients read and write little else. The declarations in `api.produce`, `api.fetch` and
`api.heartbeat` say what the bytes mean, and the readers and writers made from them are the
reference: those by hand yield the same objects and the same parts in every version, and refuse the
same frames with a `ProtocolError` and the same values with an `UnsupportedVersionError`. A parity
test holds them to it. They exist because they can be compiled to native code, and made code cannot;
`compile` hands them out where they are compiled, for interpreted the made code is the faster one.

What is rare is left to the reference, which then begins anew: `LeftToReference` is how a codec says
so, wherever it meets a tagged field, the array of a case that hardly occurs, or a value that the
version cannot carry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from mypy_extensions import i64

from odradek.model.errors import ProtocolError
from odradek.model.ids import ZERO_UUID
from odradek.protocol.code import minimum_size, objects_max
from odradek.protocol.hot_input import Input
from odradek.protocol.hot_output import Output
from odradek.protocol.schema import StructOf, declaration

FIRST_VERSION_BY_ID: Final = 13
"""From here on both APIs name topics by their ids (KIP-516)."""


class LeftToReference(Exception):
    """The message has what is not read or written by hand."""


class HotReader:
    """Reads one message in one version."""

    def __init__(
        self,
        cls: type[Any],
        version: i64,
        reference: Callable[[bytes, int], Any],
        open_ended: bool,
    ) -> None:
        self.version: i64 = version
        self.flexible = declaration(cls).is_flexible(version)
        self.reference = reference
        self.open_ended = open_ended
        self.objects_max: i64 = objects_max(cls)

    def smallest(self, element: type[Any]) -> i64:
        """The fewest bytes that an element of an array takes."""
        return minimum_size(StructOf(element), self.version, self.flexible)

    def read(self, data: bytes, pos: i64) -> Any:
        """The message in a frame, from `pos` on. Raises `ProtocolError`."""
        source = Input(data, pos, self.flexible, self.objects_max)
        try:
            message = self.message(source)
        except LeftToReference:
            return self.reference(data, pos)
        if source.pos != source.end and not self.open_ended:
            raise ProtocolError(f"a message is followed by {source.end - source.pos} bytes more")
        return message

    def message(self, source: Input) -> Any:
        """All of it. May raise `LeftToReference`."""
        raise NotImplementedError

    def topic_key(self, source: Input) -> tuple[str, UUID]:
        """A topic's name or its id, whichever the version has."""
        if self.version >= FIRST_VERSION_BY_ID:
            return "", source.identifier()
        return source.text(), ZERO_UUID

    def end_of_struct(self, source: Input, has_tagged_fields: bool) -> None:
        """Pass over the tag section, in which the version has fields or has none."""
        if not has_tagged_fields:
            source.skip_tags()
        elif source.has_tags():
            raise LeftToReference


class HotWriter:
    """Writes one message in one version."""

    def __init__(self, cls: type[Any], version: i64, reference: Callable[[Any], list[Any]]) -> None:
        self.version: i64 = version
        self.flexible = declaration(cls).is_flexible(version)
        self.reference = reference

    def write(self, message: Any) -> list[Any]:
        """The message as parts to send in order. Raises `UnsupportedVersionError`."""
        target = Output(self.flexible)
        try:
            self.put(target, message)
        except LeftToReference:
            return self.reference(message)
        return target.finish()

    def put(self, target: Output, message: Any) -> None:
        """All of it. May raise `LeftToReference`."""
        raise NotImplementedError

    def topic_key(self, target: Output, name: str, topic_id: UUID) -> None:
        """A topic's name or its id, whichever the version has."""
        if self.version >= FIRST_VERSION_BY_ID:
            target.identifier(topic_id)
        else:
            target.text(name)
