"""A shard: responses wait for the disk, records are all or nothing, loading is replay."""

from __future__ import annotations

import errno

import pytest

from odradek.coordinator.group.classic_group import GroupState
from odradek.coordinator.group.group_records import GroupMetadataKey, GroupMetadataValue
from odradek.coordinator.operation import OperationResult, Reply
from odradek.coordinator.records import CoordinatorRecord
from odradek.coordinator.shard import READ_BYTES
from odradek.log.fence import LogDirFailure
from odradek.model.byte_ranges import ByteRange
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.record_batch_builder import build
from transcripts.group_stage import NOW_MS, Stage


def group_record(name: str, generation: int = 0) -> CoordinatorRecord:
    value = GroupMetadataValue(
        protocol_type="",
        generation=generation,
        protocol=None,
        leader=None,
        current_state_timestamp=NOW_MS,
        members=[],
    )
    return CoordinatorRecord(GroupMetadataKey(group=name), value)


class Asking:
    """Runs operations on a stage, and keeps the responses in order."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.answers: list[str] = []

    def _reply(self) -> Reply[str]:
        return Reply(self.answers.append, lambda error: error.name)

    def write(self, name: str, answer: str, times: int = 1) -> None:
        """Write a group `times` times in one batch, then respond."""
        reply = self._reply()

        def operation(shard: object, result: OperationResult) -> None:
            for _ in range(times):
                result.write(group_record(name))
            result.answer(reply, answer)

        self.stage.groups.runtime.run(name, operation, reply.refuse)

    def read(self, answer: str) -> None:
        """Respond without writing."""
        reply = self._reply()
        self.stage.groups.runtime.run(
            "any", lambda shard, result: result.answer(reply, answer), reply.refuse
        )


def names(stage: Stage) -> list[str]:
    return [group.id for group in stage.shard.groups]


def test_a_response_is_sent_when_its_records_are_on_disk() -> None:
    stage = Stage()
    asking = Asking(stage)
    stage.slow = True
    asking.write("a", "written")
    stage.run_until_idle()
    assert names(stage) == ["a"]
    assert asking.answers == []
    stage.slow = False
    stage.run_until_idle()
    assert asking.answers == ["written"]


def test_a_read_waits_for_the_records_before_it() -> None:
    """It may have read a state that a crash takes back."""
    stage = Stage()
    asking = Asking(stage)
    asking.read("nothing before")
    assert asking.answers == ["nothing before"]
    stage.slow = True
    asking.write("a", "first")
    asking.read("between")
    asking.write("b", "second")
    asking.read("last")
    stage.run_until_idle()
    assert asking.answers == ["nothing before"]
    stage.slow = False
    stage.run_until_idle()
    assert asking.answers[1:] == ["first", "between", "second", "last"]


def test_a_response_that_waits_too_long_is_refused_and_its_records_stay() -> None:
    stage = Stage(offsets_commit_timeout_ms=5_000)
    asking = Asking(stage)
    stage.slow = True
    asking.write("a", "never")
    stage.pass_time(2_000)
    asking.write("b", "written in time")
    stage.pass_time(2_999)
    assert asking.answers == []
    stage.pass_time(1)
    assert asking.answers == ["COORDINATOR_NOT_AVAILABLE"]
    stage.slow = False
    stage.run_until_idle()
    assert asking.answers[1:] == ["written in time"]
    assert names(stage) == ["a", "b"]
    stage.pass_time(60_000)
    assert len(asking.answers) == 2


def test_every_response_has_a_timeout_of_its_own() -> None:
    stage = Stage(offsets_commit_timeout_ms=5_000)
    asking = Asking(stage)
    stage.slow = True
    for name in ("a", "b"):
        asking.write(name, "never")
        stage.pass_time(3_000)
    assert asking.answers == ["COORDINATOR_NOT_AVAILABLE"]
    stage.pass_time(2_000)
    assert asking.answers == ["COORDINATOR_NOT_AVAILABLE"] * 2


def test_refused_records_change_no_state() -> None:
    stage = Stage()
    asking = Asking(stage)
    asking.write("kept", "kept")
    stage.run_until_idle()
    stage.disk.full = True
    asking.write("refused", "never")
    assert asking.answers == ["kept", "NOT_COORDINATOR"]
    stage.disk.full = False
    asking.write("too much for a batch", "never", times=50_000)
    asking.write("too long a name" * 5_000, "never")
    assert asking.answers[2:] == ["UNKNOWN_SERVER_ERROR", "UNKNOWN_SERVER_ERROR"]
    assert names(stage) == ["kept"]
    asking.write("next", "next")
    stage.run_until_idle()
    assert asking.answers[4:] == ["next"]


def test_steps_after_refused_records_do_not_run() -> None:
    stage = Stage()
    stage.disk.full = True
    responses: list[str] = []
    reply: Reply[str] = Reply(responses.append, lambda error: error.name)

    def operation(shard: object, result: OperationResult) -> None:
        result.write(group_record("g"))
        result.schedule(("retry",), 1000)
        result.after_append(lambda: responses.append("followed"), reply)

    stage.groups.runtime.run("g", operation, reply.refuse)
    assert responses == ["NOT_COORDINATOR"]
    assert ("retry",) in stage.shard_timers()


def test_a_failed_directory_ends_the_shard_and_refuses_all_requests() -> None:
    """Requests that wait for the disk, requests that wait for other members, and new ones."""
    stage = Stage(group_initial_rebalance_delay_ms=1000)
    asking = Asking(stage)
    stage.slow = True
    asking.write("a", "never")
    stage.run_until_idle()
    stage.replicas.fail_directory(LogDirFailure("data", OSError(errno.EIO, "broken")))
    assert asking.answers == ["NOT_COORDINATOR"]
    asking.read("too late")
    assert asking.answers[1:] == ["NOT_COORDINATOR"]
    assert stage.shard_timers() == set()


def test_a_deleted_topic_ends_the_shard_and_a_new_one_begins_another() -> None:
    stage = Stage()
    asking = Asking(stage)
    asking.write("a", "written")
    stage.run_until_idle()
    stage.replicas.remove(TopicPartition("__consumer_offsets", 0))
    asking.read("gone")
    assert asking.answers == ["written", "NOT_COORDINATOR"]


def test_loading_continues_between_requests() -> None:
    """Requests get COORDINATOR_LOAD_IN_PROGRESS, but heartbeats no error: a member that is in the
    log must not believe that it was removed."""
    stage = Stage()
    asking = Asking(stage)
    for number in range(4):
        asking.write(f"group {number}", "", times=READ_BYTES // 60)
    stage.run_until_idle()
    stage.crash()
    stage.open()
    asking.answers.clear()
    asking.read("early")
    assert asking.answers == ["COORDINATOR_LOAD_IN_PROGRESS"]
    heard: list[HeartbeatResponse] = []
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    stage.groups.heartbeat(request, heard.append)
    assert heard == [HeartbeatResponse(error_code=ErrorCode.NONE)]
    steps = 0
    while asking.answers[-1] != "loaded":
        assert stage.soon, "loading has stopped"
        stage.soon.pop(0)()
        steps += 1
        asking.read("loaded")
    assert steps > 2
    assert names(stage) == [f"group {number}" for number in range(4)]


def test_loading_waits_for_the_high_watermark() -> None:
    """After a crash the tail may be in the page cache only."""
    stage = Stage()
    asking = Asking(stage)
    stage.slow = True
    asking.write("a", "never")
    stage.groups.runtime.opened(stage.partition)
    asking.read("early")
    assert asking.answers == ["NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"]
    stage.slow = False
    stage.run_until_idle()
    asking.read("loaded")
    assert asking.answers[2:] == ["loaded"]
    assert names(stage) == ["a"]


def read_from_log(key: bytes, value: bytes) -> Stage:
    """Start with this record in the log."""
    stage = Stage()
    data = build([(key, value, (), NOW_MS)])
    stage.replicas.append(stage.partition, ByteRange(data, 0, len(data)), 13)
    stage.replicas.appended(stage.partition)
    stage.run_until_idle()
    stage.crash()
    stage.open()
    stage.run_until_idle()
    return stage


@pytest.mark.parametrize(
    ("key", "value", "served"),
    [(b"\0\3\0\1g", b"\0\0", True), (b"\0\2\0\5g", b"\0\3", False), (b"\0\2\0\1g", b"", False)],
)
def test_loading_skips_unknown_record_types_and_fails_on_damaged_records(
    key: bytes, value: bytes, served: bool
) -> None:
    asking = Asking(read_from_log(key, value))
    asking.read("served")
    assert asking.answers == ["served" if served else "NOT_COORDINATOR"]


def test_a_group_of_version_0_has_the_session_timeout_as_rebalance_timeout() -> None:
    value = (
        b"\0\0" b"\0\x08consumer" b"\0\0\0\3" b"\0\5range" b"\0\1m" b"\0\0\0\1"
        b"\0\1m" b"\0\1c" b"\0\2/h" b"\0\0\x27\x10" b"\0\0\0\1S" b"\0\0\0\1A"
    )  # fmt: skip
    (group,) = read_from_log(b"\0\2\0\1g", value).shard.groups
    assert (group.state, group.generation) == (GroupState.STABLE, 3)
    assert group.members["m"].session_timeout_ms == 10_000
    assert group.rebalance_timeout_ms == 10_000
