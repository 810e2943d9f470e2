"""Every error that Kafka lists for every group request: the member recovers, or the application
gets it.

Each test plays a membership - find the coordinator, join, sync, fetch offsets, heartbeat, commit -
in which one request is answered once with the error.
"""

from __future__ import annotations

import pytest

from odradek.model.errors import ErrorCode
from transcripts.consumer_machine import ConsumerMachine

PROTOCOL = "protocol=range"
ANSWERS = {
    "FindCoordinator": "node=1",
    "JoinGroup": f"generation=1 member=m1 leader=m2 {PROTOCOL}",
    "SyncGroup": "assigned=t-0,t-1",
    "OffsetFetch": "t-0=5 t-1=-1",
    "Heartbeat": "",
    "OffsetCommit": "",
    "LeaveGroup": "",
}
MOVING = ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR")
LOST = ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION")
RETRIED = {
    "FindCoordinator": MOVING[:2],
    "JoinGroup": (*MOVING, "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS", "MEMBER_ID_REQUIRED"),
    "SyncGroup": (*MOVING, *LOST, "REBALANCE_IN_PROGRESS"),
    "Heartbeat": (*MOVING, *LOST, "REBALANCE_IN_PROGRESS"),
    "OffsetFetch": (*MOVING, "UNSTABLE_OFFSET_COMMIT"),
    "OffsetCommit": (*MOVING, "REQUEST_TIMED_OUT", "UNKNOWN_TOPIC_OR_PARTITION"),
}
"""Errors that the application does not see."""
RAISED = {
    ("FindCoordinator", "GROUP_AUTHORIZATION_FAILED"): "GroupAuthorizationError",
    ("FindCoordinator", "INVALID_GROUP_ID"): "InvalidGroupId",
    ("FindCoordinator", "INVALID_REQUEST"): "InvalidRequest",
    ("JoinGroup", "INCONSISTENT_GROUP_PROTOCOL"): "InconsistentGroupProtocol",
    ("JoinGroup", "INVALID_GROUP_ID"): "InvalidGroupId",
    ("JoinGroup", "INVALID_SESSION_TIMEOUT"): "GroupError",
    ("JoinGroup", "GROUP_AUTHORIZATION_FAILED"): "GroupAuthorizationError",
    ("JoinGroup", "GROUP_MAX_SIZE_REACHED"): "GroupError",
    ("JoinGroup", "FENCED_INSTANCE_ID"): "FencedInstance",
    ("JoinGroup", "UNSUPPORTED_VERSION"): "UnsupportedVersion",
    ("SyncGroup", "GROUP_AUTHORIZATION_FAILED"): "GroupAuthorizationError",
    ("SyncGroup", "FENCED_INSTANCE_ID"): "FencedInstance",
    ("SyncGroup", "INCONSISTENT_GROUP_PROTOCOL"): "InconsistentGroupProtocol",
    ("Heartbeat", "GROUP_AUTHORIZATION_FAILED"): "GroupAuthorizationError",
    ("Heartbeat", "FENCED_INSTANCE_ID"): "FencedInstance",
    ("OffsetFetch", "GROUP_AUTHORIZATION_FAILED"): "GroupAuthorizationError",
    ("OffsetFetch", "UNKNOWN_MEMBER_ID"): "UnknownMember",
    ("OffsetCommit", "GROUP_AUTHORIZATION_FAILED"): "GroupAuthorizationError",
    ("OffsetCommit", "TOPIC_AUTHORIZATION_FAILED"): "TopicAuthorizationError",
    ("OffsetCommit", "OFFSET_METADATA_TOO_LARGE"): "BrokerError",
    ("OffsetCommit", "INVALID_COMMIT_OFFSET_SIZE"): "BrokerError",
    ("OffsetCommit", "ILLEGAL_GENERATION"): "CommitFailed",
    ("OffsetCommit", "UNKNOWN_MEMBER_ID"): "CommitFailed",
    ("OffsetCommit", "FENCED_INSTANCE_ID"): "FencedInstance",
    ("OffsetCommit", "REBALANCE_IN_PROGRESS"): "RebalanceInProgress",
}
"""The error that the application's call raises."""


class MemberUnderTest:
    """A member and a coordinator that answers one request with an error, once."""

    def __init__(self, api: str, code: str) -> None:
        self.machine = ConsumerMachine()
        self.machine.run("consumer topics=t assignors=range")
        self.failing: tuple[str, str] | None = (api, code)
        self.raised: list[str] = []

    def run(self, line: str) -> None:
        output = self.machine.run(line)
        self.raised += [text for text in output if "raises" in text or "fails" in text]

    def step(self) -> None:
        """Answer a request in flight; else poll and let time pass."""
        machine = self.machine
        if machine.coordinator.rebalance.is_calling_listener:
            self.run("returned")
        elif machine.calls:
            self.answer(machine.calls[0].builder.request_type.__name__.removesuffix("Request"))
        else:
            self.run("poll")
            if not machine.calls and not machine.coordinator.rebalance.is_calling_listener:
                self.run("wait 1000")

    def answer(self, api: str) -> None:
        if self.failing is not None and self.failing[0] == api:
            code, self.failing = self.failing[1], None
            member = " member=m1" if code == "MEMBER_ID_REQUIRED" else ""
            self.run(f"answer {api} error={code}{member}")
        else:
            self.run(f"answer {api} {ANSWERS[api]}")

    def until_stable(self) -> None:
        for _ in range(60):
            if "(stable" in self.machine.state() and "owns t-0, t-1" in self.machine.state():
                return
            self.step()
        raise AssertionError(f"not stable: {self.machine.state()}, raised {self.raised}")

    def live(self) -> None:
        """Join, fetch offsets, heartbeat and commit, and be stable again."""
        self.until_stable()
        self.run("committed q1 t-0 t-1 within=60000")
        self.run("commit c1 t-0=7 within=60000")
        for _ in range(12):
            self.step()
        self.until_stable()
        assert self.failing is None, "the error was never given"
        assert not self.machine.coordinator.commits.requests
        assert not self.machine.coordinator.offset_requests


@pytest.mark.parametrize(
    ("api", "code"), [(api, code) for api, codes in RETRIED.items() for code in codes]
)
def test_the_member_recovers_from_every_retriable_error(api: str, code: str) -> None:
    member = MemberUnderTest(api, code)
    member.live()
    # A commit fails with the generation in which it began.
    if code not in (*LOST, "REBALANCE_IN_PROGRESS"):
        assert member.raised == []
    assert all("c1 fails: CommitFailed" in line for line in member.raised)


@pytest.mark.parametrize(("api", "code"), RAISED)
def test_a_fatal_error_is_raised_and_the_member_can_go_on(api: str, code: str) -> None:
    member = MemberUnderTest(api, code)
    member.live()
    assert any(
        line.endswith((f"raises {kind} ({code})", f"fails: {kind} ({code})"))
        for line in member.raised
        for kind in [RAISED[api, code]]
    ), member.raised


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("UNKNOWN_TOPIC_OR_PARTITION", "UnknownTopicOrPartition (UNKNOWN_TOPIC_OR_PARTITION)"),
        ("COORDINATOR_LOAD_IN_PROGRESS", "ApiTimeout (REQUEST_TIMED_OUT)"),
    ],
)
def test_a_commit_that_times_out_names_the_last_error(code: str, kind: str) -> None:
    """UNKNOWN_TOPIC_OR_PARTITION itself is raised: the topic was deleted meanwhile."""
    member = MemberUnderTest("none", "none")
    member.until_stable()
    member.run("commit c1 t-0=7 within=3000")
    while not member.raised:
        asked = member.machine.calls
        if asked and asked[0].builder.request_type.__name__ == "OffsetCommitRequest":
            member.run(f"answer OffsetCommit error={code} t-0={code}")
        else:
            member.step()
    assert member.raised == [f"3000 ms: c1 fails: {kind}"]


@pytest.mark.parametrize(
    "code", [*MOVING, "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID", "GROUP_AUTHORIZATION_FAILED"]
)
def test_the_consumer_closes_whatever_error_leave_group_returns(code: str) -> None:
    member = MemberUnderTest("LeaveGroup", code)
    member.until_stable()
    member.run("close x1 within=5000")
    for _ in range(5):
        if member.failing is not None:
            member.step()
    assert member.failing is None
    assert member.raised == []
    assert member.machine.kept[-1].done


def test_every_tested_error_is_an_error_of_kafka() -> None:
    codes = {code for codes in RETRIED.values() for code in codes} | {code for _, code in RAISED}
    assert codes <= set(ErrorCode.__members__)
