"""After a broker is killed, the members of a stable group go on without rejoining."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from cli.processes import Up
from clients.wire import RawConnection
from odradek.model.errors import ErrorCode
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.api.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from odradek.protocol.api.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

T = TypeVar("T")

GROUP = "flights"
SESSION_MS = 1_800_000
"""Longer than this test takes on any machine."""
JOIN, SYNC, HEARTBEAT = 9, 5, 4


def ask(bootstrap: str, request: Any, version: int, expect: type[T]) -> T:
    with RawConnection(bootstrap, timeout=120) as wire:
        return wire.ask(request, version, expect)


def test_members_continue_without_rejoining_after_kills(tmp_path: Path) -> None:
    started = ("--port", "0", "--data-dir", str(tmp_path / "data"))
    settings = ("--set", "group.initial.rebalance.delay.ms=0")
    with Up(*started, *settings) as up:
        find = FindCoordinatorRequest(coordinator_keys=[GROUP])
        found = ask(up.bootstrap, find, 4, FindCoordinatorResponse)
        assert found.coordinators[0].error_code == ErrorCode.NONE
        joining = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id="",
            group_instance_id="seat-1",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"topics")],
        )
        member = ask(up.bootstrap, joining, JOIN, JoinGroupResponse).member_id
        share = SyncGroupRequestAssignment(member_id=member, assignment=b"everything")
        syncing = SyncGroupRequest(
            group_id=GROUP,
            generation_id=1,
            member_id=member,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[share],
        )
        assert ask(up.bootstrap, syncing, SYNC, SyncGroupResponse).assignment == b"everything"
        up.process.kill()
    beat = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=member)
    syncing.assignments = []
    for _ in range(2):
        with Up(*started, *settings) as up:
            heard = ask(up.bootstrap, beat, HEARTBEAT, HeartbeatResponse)
            assert heard.error_code == ErrorCode.NONE
            kept = ask(up.bootstrap, syncing, SYNC, SyncGroupResponse)
            assert (kept.error_code, kept.assignment) == (ErrorCode.NONE, b"everything")
            up.process.kill()
