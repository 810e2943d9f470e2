"""Compares two transcripts: the differences, and which of them are known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from interop.differential.plain import Plain

ABSENT = "<absent>"
ANY = object()


class Difference(NamedTuple):
    """Our value and Kafka's of one field of one step. `path` is empty for a whole outcome."""

    step: str
    path: str
    ours: Plain
    kafka: Plain

    def __str__(self) -> str:
        return f"{self.step} | {self.path} | ours {self.ours!r} | kafka {self.kafka!r}"


@dataclass(frozen=True)
class Deviation:
    """Accepted differences: patterns for step and path, and the values where they matter."""

    step: str
    path: str
    reason: str
    ours: Any = ANY
    kafka: Any = ANY

    def covers(self, difference: Difference) -> bool:
        return (
            fnmatchcase(difference.step, self.step)
            and fnmatchcase(difference.path, self.path)
            and (self.ours is ANY or self.ours == difference.ours)
            and (self.kafka is ANY or self.kafka == difference.kafka)
        )


def compare(script: str, ours: dict[str, Plain], kafka: dict[str, Plain]) -> list[Difference]:
    """Return every field that differs, step by step. Both transcripts must have the same steps."""
    assert list(ours) == list(kafka), "the script took another way through the two brokers"
    return [
        Difference(f"{script}: {step}", path, a, b)
        for step in ours
        for path, a, b in differing(ours[step], kafka[step])
    ]


def differing(ours: Plain, kafka: Plain, path: str = "") -> Iterator[tuple[str, Plain, Plain]]:
    """Yield the smallest parts that differ: fields of dicts, elements of lists."""
    if isinstance(ours, list) and isinstance(kafka, list):
        for key in ("name", "api_key"):
            if by(key, ours) and by(key, kafka):
                ours = {str(each[key]): each for each in ours}
                kafka = {str(each[key]): each for each in kafka}
                break
    if isinstance(ours, dict) and isinstance(kafka, dict):
        for name in [*ours, *(name for name in kafka if name not in ours)]:
            inner = f"{path}.{name}" if path else name
            yield from differing(ours.get(name, ABSENT), kafka.get(name, ABSENT), inner)
    elif isinstance(ours, list) and isinstance(kafka, list) and len(ours) == len(kafka):
        for index, (a, b) in enumerate(zip(ours, kafka, strict=True)):
            yield from differing(a, b, f"{path}[{index}]")
    elif ours != kafka:
        yield path, ours, kafka


def by(key: str, trees: Sequence[Plain]) -> bool:
    """True if these are structs with such a key, each with another value."""
    keys = [tree.get(key) if isinstance(tree, dict) else None for tree in trees]
    return None not in keys and len(set(keys)) == len(keys)


def unknown(differences: Iterable[Difference], known: Sequence[Deviation]) -> list[Difference]:
    """Return the differences that no entry covers."""
    return [each for each in differences if not any(entry.covers(each) for entry in known)]


def unused(differences: Sequence[Difference], known: Iterable[Deviation]) -> list[Deviation]:
    """Return the entries that cover no difference, which should be removed."""
    return [entry for entry in known if not any(entry.covers(each) for each in differences)]
