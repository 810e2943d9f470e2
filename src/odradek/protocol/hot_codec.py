"""Base of the codecs written by hand: `hot_produce`, `hot_fetch` and `hot_heartbeat`.

Brokers and clients read and write little else. The declarations in `api.produce`, `api.fetch` and
`api.heartbeat` define the encoding, and the readers and writers generated from them are the
reference. The codecs written by hand yield the same objects and the same parts in every version,
and refuse the same frames with `ProtocolError` and the same values with `UnsupportedVersionError`;
`tests/property/test_hot_parity.py` compares the two. They exist because mypyc can compile them and
cannot compile generated code. `codec` uses them only where they are compiled: interpreted, the
generated code is faster.

Rare cases are left to the reference. Where a codec meets a tagged field, a rarely used array, or a
value that the version cannot carry, it raises `UseReference`, and the reference reads or writes the
message from its beginning.

The messages are classes written by hand too, so that compiled code accesses their attributes
directly: one of each is made per request, and a generated dataclass would cost a tenth of the
request. Their wire form is declared in `api`, like that of all other messages. Import them from
there, except in compiled modules, which need the native classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

from librt.strings import (
    BytesWriter,
    read_i16_be,
    read_i32_be,
    read_i64_be,
    write_i16_be,
    write_i32_be,
)
from mypy_extensions import i16, i32, i64, u8

from odradek.model.byte_ranges import ByteRange, FileSlice
from odradek.model.errors import ProtocolError
from odradek.model.topics import ZERO_UUID
from odradek.protocol.codegen import minimum_size, objects_max
from odradek.protocol.primitives import (
    COPIED_BYTES_MAX,
    MAX_STRING_BYTES,
    read_uvarint,
    skip_tags,
    uuid_of,
    uvarint,
)
from odradek.protocol.schema import StructOf, declaration, fields_of


class MessageInput:
    """Reads the primitives of a message from a frame.

    Every read checks first that it stays inside the frame, and every count that the remaining bytes
    can hold that many elements and the message that many objects (see `primitives`). Invalid input
    raises `ProtocolError`.
    """

    def __init__(self, data: bytes, pos: i64, flexible: bool, objects_max: i64) -> None:
        self.data = data
        self.pos: i64 = pos
        self.end: i64 = len(data)
        self.flexible = flexible
        self.objects_left: i64 = objects_max

    def int8(self) -> i64:
        at: i64 = self.step(1)
        value: i64 = self.data[at]
        return value - 256 if value > 127 else value

    def int16(self) -> i64:
        return i64(read_i16_be(self.data, self.step(2)))

    def int32(self) -> i64:
        return i64(read_i32_be(self.data, self.step(4)))

    def int64(self) -> i64:
        return read_i64_be(self.data, self.step(8))

    def step(self, size: i64) -> i64:
        """Skip `size` bytes; return where they begin."""
        at: i64 = self.pos
        if size > self.end - at:
            raise ProtocolError("a message runs past the end of its frame")
        self.pos = at + size
        return at

    def length(self, narrow: bool) -> i64:
        """Read a length, -1 for null; `narrow` where the non-flexible encoding has 2 bytes."""
        if not self.flexible:
            return self.int16() if narrow else self.int32()
        at: i64 = self.step(1)
        value: i64 = self.data[at]
        if value > 127:
            value, self.pos = read_uvarint(self.data, at)
        return value - 1

    def text(self) -> str:
        """Read a text that is not null."""
        return self.text_of(self.length(True))

    def nullable_text(self) -> str | None:
        size: i64 = self.length(True)
        return None if size == -1 else self.text_of(size)

    def text_of(self, size: i64) -> str:
        if size < 0 or size > MAX_STRING_BYTES:
            raise ProtocolError(f"a text of {size} bytes")
        at: i64 = self.step(size)
        try:
            return self.data[at : at + size].decode()
        except UnicodeDecodeError:
            raise ProtocolError("a message has text that is not UTF-8") from None

    def identifier(self) -> UUID:
        at: i64 = self.step(16)
        return uuid_of(self.data[at : at + 16])

    def records(self) -> Any:
        """Read record batches: a range of the frame, or None."""
        size: i64 = self.length(False)
        if size == -1:
            return None
        if size < 0:
            raise ProtocolError(f"records of {size} bytes")
        at: i64 = self.step(size)
        return ByteRange(self.data, at, at + size)

    def count(self, min_element_size: i64) -> i64:
        """Read the number of elements of an array, which the remaining bytes can hold."""
        found: i64 = self.length(False)
        self.objects_left -= found
        if found < 0 or self.objects_left < 0 or found * min_element_size > self.end - self.pos:
            raise ProtocolError(f"an array of {found} elements, {self.end - self.pos} bytes left")
        return found

    def skip_tags(self) -> None:
        """Skip a tag section without known fields."""
        if self.flexible:
            at: i64 = self.step(1)
            if self.data[at] != 0:
                self.pos, self.objects_left = skip_tags(self.data, at, self.objects_left)

    def has_tags(self) -> bool:
        """Skip an empty tag section; True if it has fields."""
        return self.flexible and self.data[self.step(1)] != 0


class MessageOutput:
    """Collects a message as parts to send in order.

    Small values are joined to one part. Byte ranges of files, and record batches above
    `COPIED_BYTES_MAX`, are separate parts and are not copied, as in `generated_writer`.
    """

    def __init__(self, flexible: bool) -> None:
        self.flexible = flexible
        self.out = BytesWriter()
        self.parts: list[Any] = []

    def length(self, size: i64, narrow: bool) -> None:
        """Write a length, -1 for null; `narrow` where the non-flexible encoding has 2 bytes."""
        if self.flexible:
            rest: i64 = size + 1
            while rest > 127:
                self.out.append(u8((rest & 0x7F) | 0x80))
                rest >>= 7
            self.out.append(u8(rest))
        elif narrow:
            write_i16_be(self.out, i16(size))
        else:
            write_i32_be(self.out, i32(size))

    def text(self, value: str) -> None:
        data = value.encode()
        if len(data) > MAX_STRING_BYTES:
            raise ValueError(f"a text takes {len(data)} bytes, the protocol allows 32767")
        self.length(len(data), True)
        self.out.write(data)

    def nullable_text(self, value: str | None) -> None:
        if value is None:
            self.length(-1, True)
        else:
            self.text(value)

    def identifier(self, value: UUID) -> None:
        # `UUID.bytes` is a property that does the same, interpreted.
        self.out.write(value.int.to_bytes(16, "big"))

    def no_tags(self) -> None:
        """Write an empty tag section."""
        if self.flexible:
            self.out.append(0)

    def records(self, records: Any) -> None:
        """Write record batches: in memory, in one or several byte ranges of files, or None."""
        if records is None:
            self.length(-1, False)
        elif isinstance(records, bytes):
            if len(records) > COPIED_BYTES_MAX:
                self.part(len(records), records)
            else:
                self.length(len(records), False)
                self.out.write(records)
        elif isinstance(records, ByteRange):
            size: i64 = records.end - records.start
            if size > COPIED_BYTES_MAX:
                self.part(size, records.view())
            else:
                self.length(size, False)
                self.out.write(records.data[records.start : records.end])
        elif isinstance(records, FileSlice):
            self.part(records.length, records)
        else:
            self.file_slices(records)

    def part(self, size: i64, part: Any) -> None:
        """Add a part of its own, after its length."""
        self.length(size, False)
        self.split()
        self.parts.append(part)

    def file_slices(self, slices: Sequence[FileSlice]) -> None:
        """Add byte ranges of files as parts of their own, after their total length."""
        size: i64 = 0
        for each in slices:
            size += each.length
        self.length(size, False)
        if slices:
            self.split()
            self.parts.extend(slices)

    def split(self) -> None:
        """End the current part of joined bytes."""
        self.parts.append(self.out.getvalue())
        self.out = BytesWriter()

    def finish(self) -> list[Any]:
        """Return all parts."""
        if len(self.out) > 0:
            self.parts.append(self.out.getvalue())
        return self.parts


FIRST_VERSION_BY_ID: Final = 13
"""From here on Produce and Fetch name topics by their ids (KIP-516)."""


LEADER_BYTES: Final = 9
"""An id and an epoch of 4 bytes, and an empty tag section."""


class UseReference(Exception):
    """Raised for a message that only the generated codec handles."""


class HotMessage:
    """Gives hand-written messages the equality and representation of declared ones."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(
            getattr(self, each.name) == getattr(other, each.name) for each in fields_of(type(self))
        )

    def __hash__(self) -> int:
        raise TypeError(f"{type(self).__name__} is mutable: it has no hash")

    def __repr__(self) -> str:
        inside = (f"{each.name}={getattr(self, each.name)!r}" for each in fields_of(type(self)))
        return f"{type(self).__name__}({', '.join(inside)})"


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

    def min_element_size(self, element: type[Any]) -> i64:
        """Return the fewest bytes that an element of an array takes."""
        return minimum_size(StructOf(element), self.version, self.flexible)

    def read(self, data: bytes, pos: i64) -> Any:
        """Return the message of a frame that begins at `pos`. Raises `ProtocolError`."""
        source = MessageInput(data, pos, self.flexible, self.objects_max)
        try:
            message = self.message(source)
        except UseReference:
            return self.reference(data, pos)
        if source.pos != source.end and not self.open_ended:
            raise ProtocolError(f"a message is followed by {source.end - source.pos} bytes more")
        return message

    def message(self, source: MessageInput) -> Any:
        """Read the whole message. May raise `UseReference`."""
        raise NotImplementedError

    def topic_key(self, source: MessageInput) -> tuple[str, UUID]:
        """Read a topic's name or its id, whichever the version has."""
        if self.version >= FIRST_VERSION_BY_ID:
            return "", source.identifier()
        return source.text(), ZERO_UUID

    def end_of_struct(self, source: MessageInput, has_tagged_fields: bool) -> None:
        """Skip the tag section; a field in it that the version has is left to the reference."""
        if not has_tagged_fields:
            source.skip_tags()
        elif source.has_tags():
            raise UseReference


class HotWriter:
    """Writes one message in one version."""

    def __init__(self, cls: type[Any], version: i64, reference: Callable[[Any], list[Any]]) -> None:
        self.version: i64 = version
        self.flexible = declaration(cls).is_flexible(version)
        self.reference = reference

    def write(self, message: Any) -> list[Any]:
        """Return the message as parts to send in order. Raises `UnsupportedVersionError`."""
        target = MessageOutput(self.flexible)
        try:
            self.put(target, message)
        except UseReference:
            return self.reference(message)
        return target.finish()

    def put(self, target: MessageOutput, message: Any) -> None:
        """Write the whole message. May raise `UseReference`."""
        raise NotImplementedError

    def topic_key(self, target: MessageOutput, name: str, topic_id: UUID) -> None:
        """Write a topic's name or its id, whichever the version has."""
        if self.version >= FIRST_VERSION_BY_ID:
            target.identifier(topic_id)
        else:
            target.text(name)

    def leader(self, target: MessageOutput, tag: i64, leader: Any) -> None:
        """Write a partition's tag section with its present leader (KIP-951)."""
        out = target.out
        out.append(1)
        out.append(u8(tag))
        out.append(LEADER_BYTES)
        write_i32_be(out, i32(leader.leader_id))
        write_i32_be(out, i32(leader.leader_epoch))
        out.append(0)

    def endpoints(self, target: MessageOutput, nodes: list[Any]) -> None:
        """Write a response's tag section with the addresses of leaders, in the field with tag 0;
        without any, an empty one."""
        if not nodes:
            target.no_tags()
            return
        inner = MessageOutput(True)
        inner.length(len(nodes), False)
        for node in nodes:
            write_i32_be(inner.out, i32(node.node_id))
            inner.text(node.host)
            write_i32_be(inner.out, i32(node.port))
            inner.nullable_text(node.rack)
            inner.no_tags()
        data = inner.out.getvalue()
        out = target.out
        out.append(1)
        out.append(0)
        out.write(uvarint(len(data)))
        out.write(data)
