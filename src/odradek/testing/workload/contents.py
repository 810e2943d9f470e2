"""The records of a run: as producers make them, and as readers get them back."""

from __future__ import annotations

from odradek.model.topics import TopicPartition
from odradek.testing.history import Content, Header
from odradek.testing.prng import SplitMix64
from odradek.testing.workload.lanes import ProducerPlan


def draw_contents(
    chance: SplitMix64,
    plan: ProducerPlan,
    partition: TopicPartition,
    values: int,
    timestamp_ms: int,
) -> list[Content]:
    """The records of a batch, by a producer that has made `values` of them: each value once."""
    made = []
    for _ in range(chance.between(1, plan.max_records)):
        values += 1
        name = f"{plan.name}/{partition}/{values}/".encode()
        headers: tuple[Header, ...] = ()
        if chance.chance(200):
            headers = (("h", name[:2]), ("nothing", None))
        made.append(
            Content(
                key=None if chance.chance(300) else name[-6:],
                value=name + b"." * chance.between(*plan.value_bytes),
                headers=headers,
                timestamp_ms=timestamp_ms,
            )
        )
    return made
