"""Watches committed offsets during a chaos run: none is lost, none goes back.

- Those of the group are asked for: what the coordinator told is in the log of committed offsets at
  the end. (They may go back there: librdkafka repeats a commit that was not answered after a newer
  one.)
- Those of a group of its own are committed and asked for in turns. As nobody else commits them, the
  answer after a commit that was acknowledged is this offset, unless a commit without an answer came
  through late. An isolated broker may answer an older one until it knows that it does not lead any
  more, as Kafka's do; so what is lost is what is not told within `STALE_S` either.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from chaos.cluster import GROUP, TOPIC
from odradek import Admin, KafkaError, TopicPartition
from odradek.coordinator.group.group_records import (
    GROUP_RECORDS,
    OffsetCommitKey,
    OffsetCommitValue,
)

OWN_GROUP = "chaos-committer"
OWN_PARTITION = TopicPartition(TOPIC, 0)
PAUSE_S = 0.25
ASKED_MS = 5_000
STALE_S = 15.0
"""Longer than a broker may be isolated and take itself for the coordinator."""

Entry = tuple[bytes | None, bytes | None]
"""The key and the value of a record in the log of committed offsets."""


def own_offset(admin: Admin) -> int | None:
    """Return the offset of the own group, -1 for none; None if nobody answers."""
    try:
        found = admin.group_offsets(OWN_GROUP).get(OWN_PARTITION)
    except KafkaError:
        return None
    return -1 if found is None else found.offset


class CommittedOffsets:
    """Commits and asks again and again, on a thread of its own."""

    def __init__(self, bootstrap: str) -> None:
        self.acked = 0
        """The number of its own commits that were acknowledged."""
        self.told = 0
        """How often the coordinator told the offsets of the group."""
        self.stale = 0
        """How often an offset was told that was older than the one acknowledged last."""
        self._bootstrap = bootstrap
        self._seen: dict[int, set[int]] = defaultdict(set)
        self._unanswered: set[int] = set()
        self._violations: list[str] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="committed-offsets", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        offset, acked = 0, -1
        with Admin({"default.api.timeout.ms": ASKED_MS}, brokers=self._bootstrap) as admin:
            while not self._ending.wait(PAUSE_S):
                offset += 1
                try:
                    admin.alter_group_offsets(OWN_GROUP, {OWN_PARTITION: offset})
                    acked = offset
                    self.acked += 1
                except KafkaError:
                    self._unanswered.add(offset)
                self.check_own(acked, lambda: own_offset(admin))
                with contextlib.suppress(KafkaError):
                    for partition, committed in admin.group_offsets(GROUP).items():
                        self.saw(partition.partition, committed.offset)
                    self.told += 1

    def check_own(self, acked: int, ask: Callable[[], int | None]) -> None:
        """Compare the own committed offset with the one acknowledged last, -1 for none; as long as
        an older one is told, ask again. `ask()` returns None if nobody answers.
        """
        told = ask()
        if told is None:
            return
        until = time.monotonic() + STALE_S
        while told is None or (told != acked and told not in self._unanswered):
            if told is not None:
                self.stale += 1
                found = told
            if time.monotonic() >= until:
                self._violations.append(f"offset {acked} was committed, and then {found} was told")
                return
            time.sleep(PAUSE_S)
            told = ask()

    def saw(self, partition: int, offset: int) -> None:
        """Note an offset of the group that the coordinator told."""
        self._seen[partition].add(offset)

    def violations(self, log: Iterable[Entry]) -> list[str]:
        """Return all violations, given the whole log of committed offsets."""
        in_log: dict[int, set[int]] = defaultdict(set)
        for key, value in log:
            record = GROUP_RECORDS.decode(key, value)
            if record is None or not isinstance(record.key, OffsetCommitKey):
                continue
            if record.key.group == GROUP and isinstance(record.value, OffsetCommitValue):
                in_log[record.key.partition].add(record.value.offset)
        lost = [
            f"partition {partition}: committed offsets were lost: {sorted(missing)}"
            for partition, seen in sorted(self._seen.items())
            if (missing := seen - in_log[partition])
        ]
        return [*self._violations, *lost]
