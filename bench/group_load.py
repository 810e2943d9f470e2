"""Members of a group that cost little: every frame is encoded before the clock runs.

Each member has a connection of its own, as real ones have. They join with version 3, which takes a
new member at once, and sync with version 2; the same bytes go to every broker. A member looks at
the error of an answer and nothing else, and does what comes next: so a rebalance here is what the
broker makes of it.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections import deque

from odradek.model.errors import ErrorCode
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest
from odradek.protocol.api.heartbeat import HeartbeatRequest
from odradek.protocol.api.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from odradek.protocol.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.protocol.codec import decode
from peers import Node, cpu_s
from raw_client import frame

FIND, JOIN, SYNC, HEARTBEAT = 1, 3, 2, 2
SESSION_MS, REBALANCE_MS = 300_000, 300_000
SUBSCRIPTION = struct.pack(">hih8si", 0, 1, 8, b"benchmark", -1)
ASSIGNMENT = struct.pack(">hih8siiiii", 0, 1, 8, b"benchmark", 3, 1, 2, 3, -1)
LENGTH, ERROR_AT = struct.Struct(">i"), 12
ERROR = struct.Struct(">h")
TIMEOUT_S = 120.0
FASTEST_PER_S = 1e9
Figures = dict[str, float]


class Member:
    """One connection."""

    def __init__(self, node: Node, group: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", node.port), TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.group = group
        self.id = ""
        self.generation = 0
        self.received = bytearray()
        self.join_frame = self.sync_frame = b""

    def read(self) -> list[bytes]:
        """The whole answers that are here now."""
        data = self.received
        data += self.socket.recv(1 << 20)
        answers = []
        while len(data) >= LENGTH.size:
            end = LENGTH.size + LENGTH.unpack_from(data)[0]
            if len(data) < end:
                break
            answers.append(bytes(data[:end]))
            del data[:end]
        return answers

    def joining(self) -> bytes:
        return frame(
            JoinGroupRequest(
                group_id=self.group,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
                member_id=self.id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
            ),
            JOIN,
        )

    def syncing(self, generation: int, members: list[str]) -> bytes:
        assignments = [
            SyncGroupRequestAssignment(member_id=member, assignment=ASSIGNMENT)
            for member in members
        ]
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=generation,
            member_id=self.id,
            assignments=assignments,
        )
        return frame(request, SYNC)

    def heartbeat(self) -> bytes:
        request = HeartbeatRequest(
            group_id=self.group, generation_id=self.generation, member_id=self.id
        )
        return frame(request, HEARTBEAT)


class Members:
    """All of one group; in its first generation when made."""

    def __init__(self, node: Node, count: int, group: str) -> None:
        self.node = node
        self.members = [Member(node, group) for _ in range(count)]
        self.by_fd = {member.socket.fileno(): member for member in self.members}
        self.poll = select.epoll()
        for fd in self.by_fd:
            self.poll.register(fd, select.EPOLLIN)
        self._find_coordinator(group)
        for member in self.members:
            member.socket.sendall(member.joining())
        self._learn()
        self._sync()

    def close(self) -> None:
        for member in self.members:
            member.socket.close()
        self.poll.close()

    def _find_coordinator(self, group: str) -> None:
        """And wait until it serves: until it says that it does not know us."""
        asking = self.members[0]
        for request, expected in (
            (frame(FindCoordinatorRequest(key=group), FIND), ErrorCode.NONE),
            (asking.heartbeat(), ErrorCode.UNKNOWN_MEMBER_ID),
        ):
            while True:
                asking.socket.sendall(request)
                if ERROR.unpack_from(self._next()[1], ERROR_AT) == (expected,):
                    break
                time.sleep(0.1)

    def _next(self) -> tuple[Member, bytes]:
        """The next whole answer of anybody."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            for fd, _ in self.poll.poll(1.0, 1):
                member = self.by_fd[fd]
                answers = member.read()
                if answers:
                    return member, answers[0]
            if time.monotonic() > deadline:
                raise RuntimeError("a broker does not answer")

    def _learn(self) -> None:
        """The first generation: who has which id, and who leads."""
        for _ in self.members:
            member, answer = self._next()
            response = decode(JoinGroupResponse, JOIN, answer[8:])
            if response.error_code:
                raise RuntimeError(f"JoinGroup: error {response.error_code}")
            member.id, member.generation = response.member_id, response.generation_id
            if response.leader == response.member_id:
                self.leader = member
        self.generation = self.leader.generation
        self.ids = [member.id for member in self.members]

    def _sync(self) -> None:
        for member in self.members:
            members = self.ids if member is self.leader else []
            member.socket.sendall(member.syncing(self.generation, members))
        for _ in self.members:
            expect_none(self._next()[1])

    def rebalance(self) -> tuple[float, float]:
        """All join again, the leader first; (from the last join to the last assignment, in ms; CPU
        of the broker over it all, in ms)."""
        self._prepare()
        followers = [member for member in self.members if member is not self.leader]
        used = cpu_s(self.node.pid)
        self.leader.socket.sendall(self.leader.join_frame)
        self._await_rebalance(followers[0])
        for member in followers[:-1]:
            member.socket.sendall(member.join_frame)
        self._await_joined(followers[:-1])
        start = time.perf_counter()
        followers[-1].socket.sendall(followers[-1].join_frame)
        waiting = {member.socket.fileno(): 2 for member in self.members}
        left = 2 * len(waiting)
        while left:
            member, answer = self._next()
            expect_none(answer)
            fd = member.socket.fileno()
            if waiting[fd] == 2:
                member.socket.sendall(member.sync_frame)
            waiting[fd] -= 1
            left -= 1
        took = time.perf_counter() - start
        return took * 1000, (cpu_s(self.node.pid) - used) * 1000

    def _prepare(self) -> None:
        """Encode all that the next generation takes."""
        self.generation += 1
        for member in self.members:
            member.join_frame = member.joining()
            members = self.ids if member is self.leader else []
            member.sync_frame = member.syncing(self.generation, members)
            member.generation = self.generation

    def _await_rebalance(self, member: Member) -> None:
        """Until a heartbeat says that the leader's join has arrived."""
        member.generation -= 1
        beat = member.heartbeat()
        member.generation += 1
        while True:
            member.socket.sendall(beat)
            if ERROR.unpack_from(self._next()[1], ERROR_AT) != (0,):
                return

    def _await_joined(self, members: list[Member]) -> None:
        """Until these joins have surely been taken: whoever is asked later is answered later, on
        connections that were all written to before."""
        if members:
            time.sleep(0.05 + len(members) / 20_000)

    def heartbeats(self, count: int, window: int, per_s: float = FASTEST_PER_S) -> Figures:
        """`count` heartbeats of all members in turn, at most `window` of them unanswered, and no
        more than `per_s`.

        A member sends its next one when its last is answered, as real ones do, and an answer is
        acknowledged at once, as it is on connections that are silent for seconds; those of few
        members would have it acknowledged by the next request, and save the broker a packet. And
        it never sleeps: waking it would be the broker's work, and more of it the faster it answers.
        """
        beats = {member: member.heartbeat() for member in self.members}
        silent = deque(self.members)
        used, start = cpu_s(self.node.pid), time.perf_counter()
        sent, received = 0, 0
        while received < count:
            may_be_sent = min(count, received + window, 1 + (time.perf_counter() - start) * per_s)
            while sent < may_be_sent and silent:
                member = silent.popleft()
                member.socket.sendall(beats[member])
                sent += 1
            for fd, _ in self.poll.poll(0, window):
                member = self.by_fd[fd]
                answers = member.read()
                member.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
                for answer in answers:
                    expect_none(answer)
                    silent.append(member)
                    received += 1
        took = time.perf_counter() - start
        busy_s = cpu_s(self.node.pid) - used
        return {
            "cpu_us": busy_s * 1e6 / count,
            "per_s": count / took,
            "cpu_percent": busy_s * 100 / took,
        }


def expect_none(answer: bytes) -> None:
    (error,) = ERROR.unpack_from(answer, ERROR_AT)
    if error:
        raise RuntimeError(f"a member was answered with error {error}")


def rebalances(members: Members, times: int) -> Figures:
    """The median of some, and the CPU of one on average."""
    taken = [members.rebalance() for _ in range(times)]
    durations = sorted(duration for duration, _ in taken)
    return {
        "p50_ms": durations[len(durations) // 2],
        "max_ms": durations[-1],
        "cpu_ms": sum(cpu for _, cpu in taken) / times,
    }
