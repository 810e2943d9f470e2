"""Opening a replica of the metadata quorum: its log, its election state and its voters.

    <data directory>/__cluster_metadata-0/
        *.log *.index *.timeindex   a log like any other
        durable-ends                how far it is durable (see `log.durable_ends`)
        *.checkpoint                snapshots (see `snapshot_files`)
        quorum-state                epoch and vote (see `quorum_state`)

Who the voters are is told by the last record of them, in the log or the snapshot where it begins
(`broker.formatting` writes one before all records).
Without one it is told by the settings, and without those a node that follows nobody is the only
voter: so a directory from before there were quorums goes on as it was.

Every batch is verified first: opening a log reads only the part after its recovery point, and for
other logs clients verify the rest. Damage below the durable end stops the start (`LogDamaged`),
since metadata cannot be guessed. Of a log of several voters only the snapshot is known to be
committed; a log of one voter is committed as far as it is on disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from odradek.config.broker import BrokerConfig
from odradek.log.durable_ends import STARTS_AT_ZERO, DurableEnds
from odradek.log.fence import Fence, LogDamaged
from odradek.log.index import IndexCache
from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.log.log_directory import CLEAN_SHUTDOWN_FILE, DURABLE_EPOCH_FILE, partition_of
from odradek.log.recovery import RecordedState, open_log
from odradek.model.env import Disk, Env, Random
from odradek.model.topics import TopicIdPartition
from odradek.raft import quorum_state
from odradek.raft.core import Raft, RaftConfig
from odradek.raft.effects import ElectionState
from odradek.raft.log_state import LogState
from odradek.raft.raft_client import RaftClient, RaftSender
from odradek.raft.raft_records import read_batches
from odradek.raft.replicas import (
    UNKNOWN_DIRECTORY,
    QuorumEndpoint,
    ReplicaKey,
    Voter,
    VoterSet,
)
from odradek.raft.snapshot_files import (
    SnapshotId,
    list_snapshots,
    recorded_voters,
    remove_parts,
)
from odradek.timing.timer import SystemTimer

logger = logging.getLogger(__name__)

METADATA_DIRECTORY: Final = "__cluster_metadata-0"
METADATA_TOPIC_ID: Final = UUID(int=1)
READ_BYTES: Final = 4 << 20
NO_EPOCH: Final = -1


class WrongQuorum(Exception):
    """The settings of the quorum contradict what this node has done before."""


class ElectionRandom:
    """The random numbers that spread elections, from the environment's."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def randrange(self, start: int, stop: int, /) -> int:
        """Return a number from `start` up to but not including `stop`."""
        return start + self._random.getrandbits(32) % (stop - start)


@dataclass(frozen=True, slots=True)
class QuorumPlace:
    """This node's place in the quorum, from its settings.

    `endpoints`: where other replicas reach it; none if it is alone. `voters`: the configured ones,
    which hold until the log has a record of voters. `bootstrap`: addresses of nodes that know the
    leader. `may_vote`: it has the role of a controller. `moved`: where recorded voters are now.
    """

    me: ReplicaKey
    config: RaftConfig = field(default_factory=RaftConfig)
    endpoints: tuple[QuorumEndpoint, ...] = ()
    voters: VoterSet = field(default_factory=VoterSet)
    bootstrap: tuple[QuorumEndpoint, ...] = ()
    may_vote: bool = True
    moved: Mapping[int, QuorumEndpoint] = field(default_factory=dict)


def check_not_lost(disk: Disk, data_directory: str) -> None:
    """Raise `WrongQuorum` if a node has used the directory, and its metadata log is gone.

    Such a node would begin another quorum with the id of its cluster; or it would vote as the voter
    that it was, without what it has acknowledged. Nothing else is written before the metadata log.
    """
    directory = f"{data_directory}/{METADATA_DIRECTORY}"
    if not disk.exists(data_directory) or (disk.exists(directory) and disk.list(directory)):
        return
    for name in disk.list(data_directory):
        if partition_of(name) or name in (CLEAN_SHUTDOWN_FILE, DURABLE_EPOCH_FILE):
            raise WrongQuorum(
                f"{data_directory} has {name}, but its {METADATA_DIRECTORY} is missing or empty. "
                "What to do: put that back, if it was only moved; else, if the node is one of "
                "several, move all of the data directory away, and let the node join again with "
                "--join and its node.id"
            )


def open_raft_client(
    env: Env,
    timer: SystemTimer,
    directory: str,
    place: QuorumPlace,
    config: BrokerConfig,
    snapshot: SnapshotId,
    *,
    fence: Fence,
    cache: IndexCache,
    sender: RaftSender | None,
    failed: Callable[[OSError], None],
) -> RaftClient:
    """Open the replica in `directory`, whose listener has `snapshot`: the newest sound one.

    Blocks: only for a start, before the loop runs. Raises `LogDamaged`, `QuorumStateDamaged`,
    `WrongQuorum`, `OSError`. `failed` is called once if the disk fails later.
    """
    disk = env.disk
    election = quorum_state.load(disk, directory)
    remove_parts(disk, directory)
    ends = DurableEnds(disk, directory)
    log = open_metadata_partition(disk, directory, config, fence, cache, ends, env.clock.wall_ms())
    snapshots = list_snapshots(disk, directory)
    start = _start_of(log, snapshots, snapshot)
    recorded = _recorded_at(disk, directory, start, snapshots)
    state = LogState(recorded or VoterSet(), start.end)
    _load(state, log)
    if not state.voters:
        configured = _configured_voters(place, election, log, snapshot)
        state = LogState(configured, start.end)
        _load(state, log)
    elif not state.voters_at(start.end_offset + 1) and place.voters:
        # The first ones were the settings', and may still be until a change is committed.
        state = LogState(place.voters, start.end)
        _load(state, log)
    elif place.moved:
        state.move_voters({i: at for i, at in place.moved.items() if i != place.me.id})
    if place.me in state.voters and not place.may_vote:
        raise WrongQuorum(
            f"node {place.me.id} is a voter of the quorum, and process.roles has no controller: "
            "start it with process.roles=broker,controller, or remove this voter first "
            "(kafka-metadata-quorum remove-controller)"
        )
    alone = place.me in state.voters and len(state.voters) == 1
    _check_snapshot_in_log(snapshot, log, restart=not alone)
    if log.log_end_offset < snapshot.end_offset:
        log.truncate_fully_and_start_at(snapshot.end_offset)
        state.begin_at(snapshot.end, state.voters)
    state.high_watermark = state.end_offset if alone else snapshot.end_offset
    last_epoch = max(state.last_epoch, log.latest_epoch, snapshot.epoch, 0)
    if election is None or election.epoch < last_epoch:
        is_new = _is_new(place, state, log) if election is None else election.is_new
        election = ElectionState(last_epoch, is_new=is_new)
        if is_new:
            logger.info(
                "node %d begins with an empty directory as a voter that controller.quorum.voters "
                "names: until a leader has brought it up to date, elections that need its vote "
                "need all voters. If there is no leader, start the other voters",
                place.me.id,
            )
    if alone and election.is_new:  # It was one of several, by other settings.
        election = ElectionState(election.epoch, election.leader_id, election.voted)
    core = Raft(
        place.me,
        place.config,
        ElectionRandom(env.random),
        election,
        state,
        endpoints=place.endpoints,
        bootstrap=place.bootstrap,
        # The log tells the voters of a formatted directory to nodes that join later.
        record_voters=(recorded is None and not place.voters and bool(place.endpoints))
        or (recorded is not None and start.end_offset == 0),
    )
    return RaftClient(
        env,
        timer,
        core,
        log,
        ends,
        applied_offset=snapshot.end_offset,
        sender=sender,
        failed=failed,
    )


def open_metadata_partition(
    disk: Disk,
    directory: str,
    config: BrokerConfig,
    fence: Fence,
    cache: IndexCache,
    ends: DurableEnds,
    now_ms: int,
) -> Log:
    """Open the log in `directory`; what a recovery read is durable then."""
    key = TopicIdPartition(METADATA_TOPIC_ID, 0)
    known_end = ends.get(key)
    known = RecordedState()
    if known_end is not None:
        written = known_end.log_start
        known = RecordedState(
            recovery_point=known_end.recovery_point,
            durable_end=known_end.offset,
            deleted_before=max(0, written),
            exact=True,
            restarted=known_end.offset < (1 if written == STARTS_AT_ZERO else written),
        )
    settings = LogConfig(
        segment_bytes=config.metadata_log_segment_bytes,
        segment_ms=config.metadata_log_segment_ms,
        retention_ms=-1,
        delete=False,
    )
    log, found = open_log(
        disk, directory, settings, fence, cache, now_ms=now_ms, known=known, durable=ends.slot(key)
    )
    if found.torn:
        logger.warning("the metadata log was %s", found.truncation(log.log_end_offset))
    if found.scanned_bytes and log.dirty:
        log.flush(checkpoint=True)
    return log


def _start_of(log: Log, snapshots: list[SnapshotId], newest: SnapshotId) -> SnapshotId:
    """Return the snapshot after which the log begins, or the newest one if that is unknown."""
    if log.log_start_offset == 0:
        return SnapshotId(0, 0)
    found = [each for each in snapshots if each.end_offset == log.log_start_offset]
    return found[0] if found else newest


def _recorded_at(
    disk: Disk, directory: str, start: SnapshotId, snapshots: list[SnapshotId]
) -> VoterSet | None:
    """Return the voters in the snapshot `start`. If it is gone, since the process ended before the
    log began after a newer one, those of the oldest: later ones are in the log.
    """
    path = f"{directory}/{start.file_name}"
    if not disk.exists(path):
        if not snapshots:
            return None
        path = f"{directory}/{snapshots[0].file_name}"
    return recorded_voters(disk.read_file(path))


def _load(state: LogState, log: Log) -> None:
    """Take over the batches of the log from the start of `state` on."""
    offset, end = state.start.offset, log.log_end_offset
    if not log.log_start_offset <= offset <= end:
        return  # `_check_snapshot_in_log` decides.
    while offset < end:
        found = read_batches(log, offset, end, READ_BYTES, state.last_epoch)
        offset = found[-1].end_offset
        for batch in found:
            state.append(batch)
    state.flushed_offset = state.end_offset


def _configured_voters(
    place: QuorumPlace, election: ElectionState | None, log: Log, snapshot: SnapshotId
) -> VoterSet:
    """Return the voters of a log without a record of them."""
    used = log.log_end_offset > 0 or snapshot.end_offset > 0
    if place.voters:
        if used and election is None and len(place.voters) > 1:
            raise WrongQuorum(
                f"node {place.me.id} has led its cluster alone, and controller.quorum.voters names "
                "other voters, which could elect each other without its records. Start it without "
                "that setting, and add the others with AddRaftVoter"
            )
        return place.voters
    follows = None if election is None else election.leader_id
    if follows not in (None, place.me.id):
        if place.bootstrap or place.endpoints:
            return VoterSet()
        raise WrongQuorum(
            f"node {place.me.id} followed node {follows} of a quorum before, and its settings name "
            "no quorum now: give controller.quorum.bootstrap.servers, or start it as it was"
        )
    if place.bootstrap and not used:
        return VoterSet()
    if not place.may_vote:
        raise WrongQuorum(
            f"node {place.me.id} is no controller and its settings name none: give "
            "controller.quorum.bootstrap.servers or controller.quorum.voters"
        )
    return VoterSet([Voter(place.me, place.endpoints)])


def _is_new(place: QuorumPlace, state: LogState, log: Log) -> bool:
    """True for a new voter (see `replicas`): settings name it, and its directory is empty."""
    voter = state.voters.get(place.me.id)
    by_settings = voter is not None and voter.key.directory_id == UNKNOWN_DIRECTORY
    return by_settings and len(state.voters) > 1 and log.log_end_offset == 0


def _check_snapshot_in_log(snapshot: SnapshotId, log: Log, *, restart: bool) -> None:
    """Raise `LogDamaged` unless the log goes on from the snapshot.

    With `restart` the log may end before it: the snapshot was fetched, and the process ended before
    the log began after it.
    """
    end = snapshot.end_offset
    ends_before = end > log.log_end_offset
    if end < log.log_start_offset or (ends_before and not restart):
        raise LogDamaged(
            log.directory,
            f"the newest sound snapshot ends at offset {end}, but the log has offsets "
            f"{log.log_start_offset} to {log.log_end_offset}",
        )
