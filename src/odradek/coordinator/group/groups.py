"""The groups of one shard, by id, and what the rules of the protocol are set to."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from odradek.config.broker import BrokerConfig
from odradek.coordinator.group.classic_group import ClassicGroup
from odradek.coordinator.records import (
    CoordinatorRecord,
    GroupMetadataKey,
    GroupMetadataValue,
)
from odradek.model.env import Random


class Groups:
    """`random` draws the ids of new members."""

    def __init__(self, config: BrokerConfig, random: Random) -> None:
        self.config = config
        self._random = random
        self._groups: dict[str, ClassicGroup] = {}

    def __iter__(self) -> Iterator[ClassicGroup]:
        return iter(self._groups.values())

    def __len__(self) -> int:
        return len(self._groups)

    def get(self, group_id: str) -> ClassicGroup | None:
        """The group, if there is one."""
        return self._groups.get(group_id)

    def replay(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        """A record says what the group is, or that it is no more."""
        if value is None:
            self._groups.pop(key.group, None)
            return
        self.get_or_create(key.group, value.current_state_timestamp).become(value)

    def get_or_create(self, group_id: str, now_ms: int) -> ClassicGroup:
        """The group, or an empty one that has no record: it keeps offsets only."""
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = ClassicGroup(group_id, now_ms)
        return group

    def new_member_id(self, prefix: str) -> str:
        """An id nobody has: client or instance id, and a random UUID."""
        return f"{prefix}-{UUID(int=self._random.getrandbits(128), version=4)}"


def tombstone(group_id: str) -> CoordinatorRecord:
    """The record that a group is no more."""
    return CoordinatorRecord(GroupMetadataKey(group=group_id), None)
