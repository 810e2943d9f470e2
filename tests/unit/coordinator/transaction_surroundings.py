"""The surroundings of the shards of a transaction coordinator, for tests."""

from __future__ import annotations

from odradek.config.broker import BrokerConfig
from odradek.coordinator.transaction.markers import TransactionEnd


class Surroundings:
    """A `TransactionEnvironment` that notes what it is told."""

    def __init__(self, version: int = 2) -> None:
        self.config = BrokerConfig.load({"log.dirs": "/data"}, "the test")
        self.version = version
        self.next_id: int | None = 100
        self.ends: list[TransactionEnd] = []
        self.ended_ids: list[str] = []
        self.timeouts = 0
        self.counted: list[bool] = []
        self.unloaded: list[int] = []

    def next_producer_id(self) -> int | None:
        return self.next_id

    def transaction_version(self) -> int:
        return self.version

    def write_markers(self, end: TransactionEnd) -> None:
        self.ends.append(end)

    def ended(self, transactional_id: str) -> None:
        self.ended_ids.append(transactional_id)

    def shard_unloaded(self, number: int) -> None:
        self.unloaded.append(number)

    def count_end(self, committed: bool) -> None:
        self.counted.append(committed)

    def count_timeout(self) -> None:
        self.timeouts += 1
