"""The offset of a stream as Spark's checkpoint holds it: offsets, and what explains them.

    {"flights": {"0": 1200, "1": 1310}, "@begin": {}, "flights@Yb5oXh1mQpWnJ2vC6Tt8Kg": {}}

The first part is what Spark's own Kafka source writes (`offsets`). The rest are *notes*: keys
without partitions that no topic can have as its name, since names of topics have no `@`. Spark's
own source reads them as topics without partitions, so as nothing: a checkpoint can go from one
source to the other and back.

    "@begin"                 the first micro-batch of a query, which reads nothing: the query begins
                             here, whatever its starting options would give when asked again
    "<topic>@<topic id>"     the topic that the offsets are of. A topic that was deleted and made
                             again has the same name, another id, and other records at its offsets

Everything here is pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from odradek.spark.offsets import Offsets, from_json_dict, to_json_dict

BEGIN = "@begin"
Json = dict[str, Any]
TopicIds = Mapping[str, str]
"""The ids of topics by their names, as text (`model.ids.uuid_text`)."""


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """Where a stream stands. `offsets` are the next to read."""

    offsets: Offsets
    topic_ids: TopicIds = field(default_factory=dict)
    begins: bool = False
    """True for the end of a first micro-batch that reads nothing."""

    def to_json(self) -> Json:
        """The one JSON form of equal offsets: Spark compares them as text."""
        notes = {f"{topic}@{topic_id}" for topic, topic_id in self.topic_ids.items()}
        if self.begins:
            notes.add(BEGIN)
        return {**to_json_dict(self.offsets), **{note: {} for note in sorted(notes)}}

    @classmethod
    def from_json(cls, given: object, what: str) -> StreamOffset:
        """The inverse; offsets without notes are another source's. Raises `ValueError` naming
        `what` for anything of another shape."""
        shaped = given if isinstance(given, dict) else {}
        notes = {name for name, partitions in shaped.items() if "@" in name and not partitions}
        ids = dict(note.split("@", 1) for note in sorted(notes - {BEGIN}))
        plain = {k: v for k, v in shaped.items() if k not in notes} if notes else given
        try:
            offsets = from_json_dict(plain, what)
        except ValueError as error:
            raise ValueError(
                f"{error}. So it is no offset of this source: the checkpoint is of a query over "
                "something else, such as files. What to do: give each query a checkpointLocation "
                "of its own"
            ) from None
        return cls(offsets, ids, BEGIN in notes)

    def made_again(self, now: TopicIds) -> list[str]:
        """The topics that have other ids now, sorted."""
        return sorted(
            topic
            for topic, topic_id in self.topic_ids.items()
            if topic in now and now[topic] != topic_id
        )

    def without(self, topics: list[str]) -> Offsets:
        """The offsets of all topics but these."""
        return {p: offset for p, offset in self.offsets.items() if p.topic not in topics}
