"""Runs the transcripts of the group coordinator: requests of clients in, effects out.

    broker group.max.size=2              settings; the first command
    join A flights instance=seat-1 speaks=range,sticky says=topics session=10s rebalance=1m v=4
    join A,B flights                     both have arrived when the timers of the first one fire
    sync A gives=A:x,B:y instance=seat-1 generation=3
    beat A instance=seat-1 generation=3
    leave A instance=seat-1
    restart A                            the process of A restarts, without a member id
    remove flights seat-1                an administrator removes an instance
    describe flights | delete flights
    wait 3s                              time passes; timers fire at their deadlines
    disk slow | disk fast | disk full | disk roomy
    crash group.max.size=1               the broker is killed, and starts again with this setting
    history                              the records of the log, from the start
    transitions 4                        the last changes of state with their reasons, newest first

Clients have names of one letter. Their member ids are written as `A1`, and `A2` after a restart. A
client knows the id, the generation and the protocol of its last response.

    A1 <- ...    a response              record ...    a record is appended
    timer ...    a timer is set          fires ...     a timer fires
    flights: Stable 2 (A1 B1)            the group, if it has changed
"""

from __future__ import annotations

from collections.abc import Callable

from odradek.coordinator.group.classic_group import ClassicGroup
from odradek.coordinator.group.group_records import (
    GROUP_RECORDS,
    GroupMetadataKey,
    GroupMetadataValue,
)
from odradek.coordinator.group.member import Caller, Member
from odradek.coordinator.operation import CANCELLED, OperationResult, TimerKey
from odradek.coordinator.records import CoordinatorRecord
from odradek.coordinator.shard import CoordinatorLoader
from odradek.model.errors import ErrorCode
from odradek.protocol.api.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from odradek.protocol.api.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from odradek.protocol.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.api.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from odradek.protocol.api.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from odradek.protocol.api.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from transcripts.durations import duration, milliseconds
from transcripts.group_stage import Stage
from transcripts.transcript import arguments


class Client:
    """The state of a client."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.group = ""
        self.member_id = ""
        self.generation = -1
        self.protocol: str | None = None
        self.incarnation = 1


class History:
    """A state machine that writes the records of a log which is read again."""

    codec = GROUP_RECORDS

    def __init__(self, write: Callable[[CoordinatorRecord], None]) -> None:
        self.replay = write

    def replay_transactional(self, record: CoordinatorRecord, producer_id: int) -> None:
        """Not in the transcripts."""

    def replay_marker(self, producer_id: int, committed: bool) -> None:
        """Not in the transcripts."""

    def loaded(self, result: OperationResult) -> None:
        """It is not loaded into a shard."""

    def expired(self, key: TimerKey, result: OperationResult) -> None:
        """It has no timers."""

    def unloaded(self, error: ErrorCode) -> None:
        """Nobody waits in it."""


class GroupMachine(Stage):
    """Runs the commands of a transcript and writes their effects."""

    def __init__(self) -> None:
        self._output: list[str] = []
        self._clients: dict[str, Client] = {}
        self._names: dict[str, str] = {}
        self._joining: Client | None = None
        super().__init__()

    def run(self, line: str) -> list[str]:
        """Run one command."""
        command, words, values = arguments(line)
        self._output = []
        before = self.states()
        handler: Callable[[list[str], dict[str, str]], None] = getattr(self, f"do_{command}")
        handler(words, values)
        self.run_until_idle()
        after = self.states()
        self._output += [text for group, text in after.items() if before.get(group) != text]
        self._output += [f"{group}: gone" for group in before if group not in after]
        return self._output

    def client(self, name: str) -> Client:
        return self._clients.setdefault(name, Client(name))

    # Members.

    def do_join(self, words: list[str], values: dict[str, str]) -> None:
        first, *others = words[0].split(",")
        self.join(first, words[1:], values)
        for name in others:
            self.timer.advance_clock(self.clock.passed_ms)
            self.join(name, words[1:], values)

    def join(self, name: str, group: list[str], values: dict[str, str]) -> None:
        client = self._joining = self.client(name)
        client.group = group[0] if group else client.group
        says = values.get("says", "topics").encode()
        request = JoinGroupRequest(
            group_id=client.group,
            session_timeout_ms=milliseconds(values.get("session", "10s")),
            rebalance_timeout_ms=milliseconds(values.get("rebalance", "1m")),
            member_id=client.member_id,
            group_instance_id=values.get("instance"),
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=says)
                for name in values.get("speaks", "range").split(",")
            ],
        )

        def answered(response: JoinGroupResponse) -> None:
            if response.member_id:
                client.member_id = response.member_id
            who = self.name(response.member_id or client.member_id, client)
            if response.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                client.member_id = ""
            if response.error_code == ErrorCode.NONE:
                client.generation = response.generation_id
                client.protocol = response.protocol_name
            self.write_response(who, self.joined(response))

        caller = Caller(client.name, "/host", int(values.get("v", 9)))
        self.groups.join_group(request, caller, answered)

    def joined(self, response: JoinGroupResponse) -> str:
        if response.error_code:
            return ErrorCode(response.error_code).name
        generation = f"generation {response.generation_id}, {response.protocol_name}"
        if not response.members:
            return f"{generation}, follows {self.name(response.leader)}"
        members = " ".join(self.name(each.member_id) for each in response.members)
        skip = " but is not to assign" if response.skip_assignment else ""
        return f"{generation}, leads {members}{skip}"

    def do_sync(self, words: list[str], values: dict[str, str]) -> None:
        client = self.client(words[0])
        given = [each.split(":") for each in values.get("gives", "").split(",") if each]
        request = SyncGroupRequest(
            group_id=client.group,
            generation_id=int(values.get("generation", client.generation)),
            member_id=client.member_id,
            group_instance_id=values.get("instance"),
            protocol_type="consumer",
            protocol_name=client.protocol,
            assignments=[
                SyncGroupRequestAssignment(
                    member_id=self.client(name).member_id, assignment=what.encode()
                )
                for name, what in given
            ],
        )

        def answered(response: SyncGroupResponse) -> None:
            error = ErrorCode(response.error_code)
            has = f"has {response.assignment.decode() or 'nothing'}"
            self.write_response(self.name(request.member_id, client), error.name if error else has)

        self.groups.sync_group(request, 5, answered)

    def do_beat(self, words: list[str], values: dict[str, str]) -> None:
        client = self.client(words[0])
        request = HeartbeatRequest(
            group_id=client.group,
            generation_id=int(values.get("generation", client.generation)),
            member_id=client.member_id,
            group_instance_id=values.get("instance"),
        )

        def answered(response: HeartbeatResponse) -> None:
            self.write_response(
                self.name(request.member_id, client), ErrorCode(response.error_code).name
            )

        self.groups.heartbeat(request, answered)

    def do_leave(self, words: list[str], values: dict[str, str]) -> None:
        client = self.client(words[0])
        instance = values.get("instance")
        member = MemberIdentity(member_id=client.member_id, group_instance_id=instance)
        self.send_leave(self.name(client.member_id, client), client.group, member)

    def do_remove(self, words: list[str], values: dict[str, str]) -> None:
        member = MemberIdentity(member_id="", group_instance_id=words[1])
        self.send_leave("admin", words[0], member)

    def send_leave(self, who: str, group: str, member: MemberIdentity) -> None:
        def answered(response: LeaveGroupResponse) -> None:
            codes = [response.error_code, *(each.error_code for each in response.members)]
            self.write_response(who, ErrorCode(max(codes)).name)

        self.groups.leave_group(LeaveGroupRequest(group_id=group, members=[member]), answered)

    def do_transitions(self, words: list[str], values: dict[str, str]) -> None:
        noted = self.groups.transitions
        for each in noted.newest_before(noted.total, int(words[0])):
            reason = each.reason
            for member_id, name in self._names.items():
                reason = reason.replace(member_id, name)
            self._output.append(
                f"{each.number} {each.group_id}: {each.from_state} to {each.to_state}, generation "
                f"{each.generation}, {each.members} members: {reason}"
            )

    def do_restart(self, words: list[str], values: dict[str, str]) -> None:
        client = self.client(words[0])
        client.member_id = ""
        client.incarnation += 1

    # Groups.

    def do_delete(self, words: list[str], values: dict[str, str]) -> None:
        def answered(response: DeleteGroupsResponse) -> None:
            self.write_response("admin", ErrorCode(response.results[0].error_code).name)

        self.groups.delete_groups(DeleteGroupsRequest(groups_names=words), answered)

    def do_describe(self, words: list[str], values: dict[str, str]) -> None:
        def answered(response: DescribeGroupsResponse) -> None:
            for group in response.groups:
                members = [
                    self.has(each.member_id, each.member_assignment) for each in group.members
                ]
                self.write_response("admin", ", ".join([group.group_state, *members]))

        self.groups.describe_groups(DescribeGroupsRequest(groups=words), 6, answered)

    # Settings, time, disk.

    def do_broker(self, words: list[str], values: dict[str, str]) -> None:
        super().__init__(**{name.replace(".", "_"): int(text) for name, text in values.items()})

    def do_wait(self, words: list[str], values: dict[str, str]) -> None:
        self.pass_time(milliseconds(words[0]))

    def do_disk(self, words: list[str], values: dict[str, str]) -> None:
        self.slow = words[0] == "slow"
        self.disk.full = words[0] == "full"

    def do_crash(self, words: list[str], values: dict[str, str]) -> None:
        self.crash()
        self.configure(values)
        self.open()

    def do_history(self, words: list[str], values: dict[str, str]) -> None:
        reading = CoordinatorLoader(
            self.partition, History(lambda record: self.on_record(record, ErrorCode.NONE))
        )
        while reading.load_some():
            """Not used: the log is read to its end."""

    # Effects.

    def write_response(self, who: str, what: str) -> None:
        self._output.append(f"{who} <- {what}")

    def on_record(self, record: CoordinatorRecord, error: ErrorCode) -> None:
        key, value = record
        if error is not ErrorCode.NONE:
            self._output.append(f"record refused: {error.name}")
        elif isinstance(key, GroupMetadataKey):
            assert value is None or isinstance(value, GroupMetadataValue)
            self._output.append(f"record {key.group}: {self.kept(value)}")

    def kept(self, value: GroupMetadataValue | None) -> str:
        if value is None:
            return "no more"
        if not value.members:
            return f"generation {value.generation}, nobody"
        members = ", ".join(self.has(each.member_id, each.assignment) for each in value.members)
        leader = self.name(value.leader or "")
        return f"generation {value.generation}, {value.protocol}, {leader} leads, {members}"

    def has(self, member_id: str, assignment: bytes) -> str:
        return f"{self.name(member_id)} has {assignment.decode() or 'nothing'}"

    def on_timer(self, key: TimerKey, delay_ms: int) -> None:
        when = "off" if delay_ms == CANCELLED else f"in {duration(delay_ms)}"
        self._output.append(f"timer {self.key_text(key)} {when}")

    def on_fired(self, key: TimerKey) -> None:
        self._output.append(f"fires {self.key_text(key)}")

    def key_text(self, key: TimerKey) -> str:
        return " ".join([*key[:2], *(self.name(each) for each in key[2:])])

    def states(self) -> dict[str, str]:
        machines = [*self.groups.runtime.state_machines()]
        return {group.id: self.state(group) for machine in machines for group in machine.groups}

    def state(self, group: ClassicGroup) -> str:
        members = " ".join(
            [
                *(self.member_text(each) for each in group.members.values()),
                *(f"{name}?" for name in sorted(map(self.name, group.pending_joins))),
            ]
        )
        return f"{group.id}: {group.state.value} {group.generation} ({members})"

    def member_text(self, member: Member) -> str:
        """`A1+` has joined, `A1*` waits for its assignment, `A1?` was only given an id."""
        waits = "+" if member.join is not None else "*" if member.sync is not None else ""
        return self.name(member.id) + waits

    def name(self, member_id: str, client: Client | None = None) -> str:
        """The name of a member id: its client, and the number of the incarnation."""
        if not member_id:
            return client.name if client is not None else "nobody"
        if member_id not in self._names:
            owner = client or self._joining
            assert owner is not None, member_id
            self._names[member_id] = f"{owner.name}{owner.incarnation}"
        return self._names[member_id]
