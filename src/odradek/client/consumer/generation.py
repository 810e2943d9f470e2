"""The generation of a group, as one of its members knows it."""

from __future__ import annotations

from typing import NamedTuple

from odradek.protocol.consumer_protocol import NO_GENERATION


class Generation(NamedTuple):
    """Whom the coordinator knows this member as. Without a number it is in no generation."""

    generation_id: int = NO_GENERATION
    member_id: str = ""
    protocol_name: str | None = None

    @property
    def is_reset(self) -> bool:
        """Whether what the member had, it has lost."""
        return self.generation_id == NO_GENERATION or not self.member_id
