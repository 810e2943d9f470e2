"""The file `quorum-state`: the epoch, its leader and this replica's vote, in Kafka's format.

    {"leaderId":1,"leaderEpoch":5,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}

A new voter (see `replicas`) has `"newVoter":true` besides, which Kafka ignores. `leaderId` is -1 if
no leader is known, `votedId` if there was no vote. Version 0, which Kafka writes for a quorum
without directory ids, has no `votedDirectoryId`, and has fields that nobody reads. The file is
replaced as a whole and synced before anything that depends on it is done: a vote that was answered
must outlive the process.
"""

from __future__ import annotations

import json
from typing import Final

from odradek.model.env import Disk
from odradek.model.topics import uuid_from_text, uuid_text
from odradek.raft.effects import ElectionState
from odradek.raft.replicas import UNKNOWN_DIRECTORY, ReplicaKey

QUORUM_STATE_FILE: Final = "quorum-state"
VERSION: Final = 1
NOBODY: Final = -1
NEW_VOTER: Final = "newVoter"


class QuorumStateDamaged(Exception):
    """The file cannot be read, so it is unknown for whom this replica has voted."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(
            f"{path}: {what}. Without it this node might vote twice in one epoch, so it does not "
            "start. If this node is the only voter, the file may be removed; else move all of the "
            "data directory away, and let the node join again with --join and its node.id. An "
            "older copy of the file would be as bad as none"
        )


def encode(state: ElectionState) -> bytes:
    """Return the contents of the file."""
    voted = state.voted or ReplicaKey(NOBODY)
    fields: dict[str, object] = {
        "leaderId": NOBODY if state.leader_id is None else state.leader_id,
        "leaderEpoch": state.epoch,
        "votedId": voted.id,
        "votedDirectoryId": uuid_text(voted.directory_id),
        "data_version": VERSION,
    }
    if state.is_new:
        fields[NEW_VOTER] = True
    return json.dumps(fields, separators=(",", ":")).encode()


def decode(data: bytes) -> ElectionState:
    """Return the state in a file of version 0 or 1. Raises `ValueError`."""
    fields = json.loads(data)
    if not isinstance(fields, dict):
        raise ValueError("it is no JSON object")
    version = _number(fields, "data_version")
    if not 0 <= version <= VERSION:
        raise ValueError(f"data_version {version} is unknown")
    leader, voted = _number(fields, "leaderId"), _number(fields, "votedId")
    directory = UNKNOWN_DIRECTORY
    if version >= 1:
        directory = uuid_from_text(str(fields.get("votedDirectoryId")))
    return ElectionState(
        _number(fields, "leaderEpoch"),
        None if leader == NOBODY else leader,
        None if voted == NOBODY else ReplicaKey(voted, directory),
        fields.get(NEW_VOTER) is True,
    )


def _number(fields: dict[str, object], name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"it has no number {name}")
    return value


def load(disk: Disk, directory: str) -> ElectionState | None:
    """Return the state in a directory, None if it has none. Raises `QuorumStateDamaged`."""
    path = f"{directory}/{QUORUM_STATE_FILE}"
    if not disk.exists(path):
        return None
    try:
        return decode(disk.read_file(path))
    except ValueError as error:
        raise QuorumStateDamaged(path, str(error)) from error


def save(disk: Disk, directory: str, state: ElectionState) -> None:
    """Replace the file, durably. Blocks."""
    disk.replace_file(f"{directory}/{QUORUM_STATE_FILE}", encode(state))
