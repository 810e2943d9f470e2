"""A simulated client that commits offsets for a group of its own, and fetches them again.

It commits 1, 2, 3 and so on, one after the other, without membership, at whichever broker
coordinates the group now. An acknowledged commit must not be lost: an offset fetched later is at
least as high. Only a commit without an answer may be lower: it may arrive late, over a connection
that was given up. Several brokers only: with one, groups are tested by the engines.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from odradek.model.errors import ErrorCode
from odradek.protocol.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from odradek.protocol.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from odradek.testing.history import History
from odradek.testing.scheduler import MS
from odradek.testing.workload.cluster_client import GROUP, ClusterClient, CoordinatorKey

VERSION = 8
PAUSE_MS = (20, 400)


@dataclass(slots=True, eq=False)
class SimCommitter:
    """Commits and fetches until it is `stopped`."""

    client: ClusterClient
    history: History
    group: str
    topic: str
    sent: int = 0
    acknowledged: int = 0
    unanswered: set[int] = field(default_factory=set)
    stopped: bool = False

    def start(self) -> None:
        self._later()

    @property
    def _key(self) -> CoordinatorKey:
        return CoordinatorKey(GROUP, self.group)

    def _later(self) -> None:
        delay_ms = self.client.chance.between(*PAUSE_MS)
        self.client.process.post(delay_ms * MS, "commit", self._step)

    def _step(self) -> None:
        if self.stopped:
            return
        if self.client.chance.chance(300):
            self._fetch()
        else:
            self._commit()

    def _commit(self) -> None:
        self.sent += 1
        offset = self.sent
        partition = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        topic = OffsetCommitRequestTopic(name=self.topic, partitions=[partition])
        request = OffsetCommitRequest(group_id=self.group, topics=[topic])

        def answered(response: OffsetCommitResponse) -> None:
            error = ErrorCode(response.topics[0].partitions[0].error_code)
            if error == ErrorCode.NONE:
                self.acknowledged = max(self.acknowledged, offset)
            self._answered(error)

        def failed() -> None:
            self.unanswered.add(offset)
            self._later()

        self.client.call_coordinator(
            self._key, request, VERSION, OffsetCommitResponse, answered, failed
        )

    def _fetch(self) -> None:
        floor = self.acknowledged
        topics = [OffsetFetchRequestTopics(name=self.topic, partition_indexes=[0])]
        asked = OffsetFetchRequestGroup(group_id=self.group, topics=topics)
        request = OffsetFetchRequest(groups=[asked], require_stable=True)

        def answered(response: OffsetFetchResponse) -> None:
            group = response.groups[0]
            error = ErrorCode(group.error_code)
            if error == ErrorCode.NONE:
                found = max(0, group.topics[0].partitions[0].committed_offset)
                if not floor <= found <= self.sent and found not in self.unanswered:
                    self.history.surprise(
                        "lost",
                        f"{self.group} is committed at {found}; {floor} was acknowledged before,"
                        f" {self.sent} is the last one sent",
                    )
            self._answered(error)

        self.client.call_coordinator(
            self._key, request, VERSION, OffsetFetchResponse, answered, self._later
        )

    def _answered(self, error: ErrorCode) -> None:
        self.client.process.scheduler.reach(f"committer: {error.name}")
        self.client.note_coordinator_error(self._key, error)
        if error != ErrorCode.NONE and not error.retriable:
            self.history.surprise("refused", f"{self.group}: {error.name}")
        self._later()
