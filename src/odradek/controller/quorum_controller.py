"""QuorumController: the decisions' side of the metadata log, on the node that leads the quorum.

    submit(records)   replays them on `pending` and appends one batch to the log, in one step
    [fsync, quorum]   starts at the end of the event: many submits share one
    commit            every node replays the same records on its committed image (`metadata_log`)

Decisions use `pending`, so two of them in one event cannot contradict each other. The reply to a
decision is sent when the committed offset reaches the offset that `submit` returned, also for a
decision without records: it may depend on records that are not committed yet.

It is active from when this node leads and has everything from before its epoch, until another
leads. Then `pending` is dropped, whoever waits for a commit of its records gets no commit
(`NotController`), and the next leader has some of them, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from odradek.controller.image import MetadataImage
from odradek.controller.partition_change import RECOVERING
from odradek.controller.records import batch_of
from odradek.model.env import Env
from odradek.protocol.metadata_records import PartitionChangeRecord
from odradek.raft.core import NotLeader
from odradek.raft.raft_client import RaftClient, UncommittedLimit

if TYPE_CHECKING:
    from odradek.controller.metadata_log import MetadataLog

MAX_BATCH_BYTES = 8 << 20


class ActiveController(NamedTuple):
    """The node that is the active controller, and the epoch in which it is."""

    node_id: int
    epoch: int


FindController = Callable[[], ActiveController | None]


class NotController(Exception):
    """This node does not decide about metadata: it does not lead the quorum, or not yet."""


class RecordsTooLarge(ValueError):
    """The records of one decision exceed the size of a batch of this log."""


def is_unclean_election(before: MetadataImage, record: object) -> bool:
    """True of a record that elects a leader which is neither in sync nor eligible."""
    if not isinstance(record, PartitionChangeRecord) or record.leader < 0:
        return False
    partition = before.partition(record.topic_id, record.partition_id)
    if partition is None or record.leader in (*partition.isr, *partition.elr):
        return False
    # A replica that is taken into the ISR may lead at once.
    return partition.merge(record).leader_recovery_state == RECOVERING


class QuorumController:
    """Decides while this node leads the metadata quorum. Owner thread."""

    def __init__(self, env: Env, raft: RaftClient, metadata: MetadataLog) -> None:
        self._env = env
        self._raft = raft
        self._metadata = metadata
        self._pending: MetadataImage | None = None
        self.epoch = -1
        """The epoch in which it is active, or was last."""
        self.unclean_elections = 0
        """Leaders elected here that may not have all committed records."""
        self.on_change: list[Callable[[], None]] = []
        """Called when it has become active, or no longer is."""

    @property
    def is_active(self) -> bool:
        """True while this node decides."""
        return self._pending is not None

    @property
    def pending(self) -> MetadataImage:
        """The image with everything that was submitted. Raises `NotController`."""
        if self._pending is None:
            raise NotController
        return self._pending

    def submit(self, records: Sequence[object]) -> int:
        """Append the records of a decision as one batch and replay them on `pending`.

        The decision is committed when the committed offset reaches the returned offset. After
        `NotController`, `RecordsTooLarge` or `OSError` nothing was submitted; after `LogDirFailure`
        every later call raises it, too.
        """
        if self._raft.failure is not None:
            raise self._raft.failure
        pending = self.pending
        if not records:
            return self._raft.end_offset
        data = batch_of(records, self._env.clock.wall_ms())
        if len(data) > MAX_BATCH_BYTES:
            raise RecordsTooLarge(
                f"{len(records)} metadata records take {len(data)} bytes, more than the "
                f"{MAX_BATCH_BYTES} of a batch"
            )
        try:
            offset = self._raft.append(self.epoch, records, data)
        except (NotLeader, UncommittedLimit) as error:
            raise NotController(str(error)) from error
        for record in records:
            self.unclean_elections += is_unclean_election(pending, record)
            pending.replay(record)
        return offset

    def commit_now(self) -> None:
        """Commit everything that was submitted. Blocks: only for a start of a node that is alone,
        before serving.
        """
        self._raft.flush_now()

    def claim_if_due(self) -> None:
        """Become active if this node leads and knows everything from before its epoch."""
        raft = self._raft
        if self._pending is None and raft.is_leader and raft.has_applied_epoch:
            self._pending = self._metadata.committed.copy()
            self.epoch = raft.epoch
            self._tell()

    def renounce(self) -> None:
        """Drop the decisions if this node no longer leads the epoch in which they were made."""
        if self._pending is not None and not (
            self._raft.is_leader and self._raft.epoch == self.epoch
        ):
            self._pending = None
            self._tell()

    def _tell(self) -> None:
        for each in list(self.on_change):
            each()
