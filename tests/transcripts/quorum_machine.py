"""Runs the transcripts of the quorum's core: what one replica gets in, what it asks for out.

replica 1 of=1,2,3 epoch=2 log=4@1,6@2   replica 1 of these voters starts; its log has records up to
                                         offset 4 of epoch 1, then up to 6 of epoch 2
wait | wait 500ms                        the next deadline is reached, or time passes
vote 2 epoch=3 log=6@2 pre               replica 2 asks for a vote, or whether it would be given
leads 2 epoch=3                          replica 2 tells that it leads
fetch 2 at=6@2 hw=4                      replica 2 fetches, and has what is before offset 6 on disk
2: granted | 2: refused epoch=4          replica 2 answers the last request to it
2: batch 3@3 hw=6 | 2: diverges 4@1      it answers a fetch: 3 records of epoch 3, or a difference
flushed                                  what was appended is on disk
propose 2                                two records of this leader
add 4 | remove 2                         changes of the voters
cut 2                                    the connection to replica 2 ends

The effects are those of `raft.effects`, in their order. Elections are spread by nothing: random
numbers are the least.
"""

from __future__ import annotations

from uuid import UUID

from odradek.raft.core import Raft, RaftConfig
from odradek.raft.effects import (
    AddVoter,
    Answered,
    Append,
    Committed,
    Effect,
    ElectionState,
    Event,
    Flush,
    Flushed,
    LeaderChanged,
    Propose,
    Received,
    RemoveVoter,
    ReplicaDisconnected,
    ReplyRecords,
    Respond,
    SaveElection,
    Send,
    Tick,
    Truncate,
)
from odradek.raft.log_state import LogState, OffsetAndEpoch, RaftBatch
from odradek.raft.messages import (
    BeginQuorumEpochRequest,
    Destination,
    EndQuorumEpochRequest,
    FetchSnapshotResponse,
    QuorumEpochResponse,
    RaftError,
    RaftFetchRequest,
    RaftFetchResponse,
    RaftRequest,
    RaftResponse,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from odradek.raft.replicas import QuorumEndpoint, ReplicaKey, Voter, VoterSet
from transcripts.durations import milliseconds
from transcripts.transcript import arguments


class Least:
    """Random numbers that are always the least."""

    def randrange(self, start: int, stop: int, /) -> int:
        return start


class QuorumMachine:
    """One replica, its time, and the last request to each other one."""

    def __init__(self) -> None:
        self.core: Raft
        self.now_ms = 0
        self.truncations = 0
        self.asked: dict[int | None, tuple[Destination, RaftRequest]] = {}

    def run(self, line: str) -> list[str]:
        command, words, values = arguments(line)
        if command.endswith(":"):
            return self.answered(int(command[:-1]), words, values)
        found: list[str] = getattr(self, f"do_{command}")(words, values)
        return found

    def step(self, event: Event) -> list[str]:
        return self.transcript_lines(self.core.step(self.now_ms, event))

    # Commands

    def do_replica(self, words: list[str], values: dict[str, str]) -> list[str]:
        me = int(words[0])
        log = LogState(VoterSet(voter(int(each)) for each in values["of"].split(",")))
        batches: list[RaftBatch] = []
        for each in values["log"].split(",") if "log" in values else ():
            end = position(each)
            start = batches[-1].end_offset if batches else 0
            batches.append(RaftBatch(start, end.offset - start, end.epoch))
        log.load(batches)
        leader = int(values["leader"]) if "leader" in values else None
        election = ElectionState(int(values.get("epoch", 0)), leader)
        self.core = Raft(voter(me).key, RaftConfig(), Least(), election, log)
        return self.transcript_lines(self.core.start(self.now_ms))

    def do_wait(self, words: list[str], values: dict[str, str]) -> list[str]:
        end_ms = self.now_ms + milliseconds(words[0]) if words else self.core.deadline
        assert end_ms is not None, "nothing is due"
        lines = []
        while (due_ms := self.core.deadline) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            lines += self.step(Tick())
            if not words:
                break
        self.now_ms = end_ms
        return lines

    def do_vote(self, words: list[str], values: dict[str, str]) -> list[str]:
        candidate, last = voter(int(words[0])).key, position(values["log"])
        epoch = int(values["epoch"])
        request = VoteRequest(epoch, candidate, self.core.me, last, "pre" in words)
        return self.step(Received("", request))

    def do_leads(self, words: list[str], values: dict[str, str]) -> list[str]:
        leader = voter(int(words[0]))
        request = BeginQuorumEpochRequest(
            int(values["epoch"]), leader.key, self.core.me, leader.endpoints
        )
        return self.step(Received("", request))

    def do_fetch(self, words: list[str], values: dict[str, str]) -> list[str]:
        at = position(values["at"])
        known = int(values.get("hw", 0))
        request = RaftFetchRequest(
            self.core.epoch, voter(int(words[0])).key, at.offset, at.epoch, known, 0
        )
        return self.step(Received("", request))

    def do_flushed(self, words: list[str], values: dict[str, str]) -> list[str]:
        return self.step(Flushed(self.core.log.end_offset, self.truncations))

    def do_propose(self, words: list[str], values: dict[str, str]) -> list[str]:
        return self.step(Propose(self.core.epoch, int(words[0]), None))

    def do_add(self, words: list[str], values: dict[str, str]) -> list[str]:
        return self.step(AddVoter("", voter(int(words[0]))))

    def do_remove(self, words: list[str], values: dict[str, str]) -> list[str]:
        return self.step(RemoveVoter("", voter(int(words[0])).key))

    def do_cut(self, words: list[str], values: dict[str, str]) -> list[str]:
        return self.step(ReplicaDisconnected(int(words[0])))

    def answered(self, replica: int, words: list[str], values: dict[str, str]) -> list[str]:
        to, request = self.asked[replica]
        return self.step(Answered(to, request, self.answer(request, words, values)))

    def answer(
        self, request: RaftRequest, words: list[str], values: dict[str, str]
    ) -> RaftResponse:
        what, *rest = words
        epoch = int(values.get("epoch", request.epoch))
        if isinstance(request, VoteRequest):
            return VoteResponse(RaftError.NONE, epoch, None, what == "granted")
        assert isinstance(request, RaftFetchRequest), f"nothing answers {request}"
        known = int(values.get("hw", 0))
        if what == "diverges":
            at = position(rest[0])
            return RaftFetchResponse(RaftError.NONE, epoch, request.replica.id, diverging=at)
        count = position(rest[0])
        batch = RaftBatch(self.core.log.end_offset, count.offset, count.epoch)
        leader = self.core.leader_id
        return RaftFetchResponse(RaftError.NONE, epoch, leader, (), known, (batch,))

    # Effects

    def transcript_lines(self, effects: list[Effect]) -> list[str]:
        return [line for effect in effects if (line := self.line_of(effect))]

    def line_of(self, effect: Effect) -> str:
        match effect:
            case SaveElection(state):
                led = "" if state.leader_id is None else f", leader {state.leader_id}"
                voted = "" if state.voted is None else f", voted for {state.voted.id}"
                return f"save epoch {state.epoch}{led}{voted}"
            case Append(batches):
                return f"append {', '.join(map(batch_text, batches))}"
            case Flush(truncations):
                self.truncations = truncations
                return "flush"
            case Truncate(offset):
                return f"truncate to {offset}"
            case Send(to, request):
                self.asked[to.replica_id] = (to, request)
                return f"{to.replica_id} <- {request_text(request)}"
            case Respond(_, response):
                return f"reply {response_text(response)}"
            case ReplyRecords(_, request):
                return f"reply records from {request.fetch_offset}, hw {effect.high_watermark}"
            case Committed(high_watermark):
                return f"committed to {high_watermark}"
            case LeaderChanged(epoch, leader_id):
                leader = "no leader" if leader_id is None else f"leader {leader_id}"
                return f"epoch {epoch} has {leader}"
        raise AssertionError(f"no transcript has {effect}")


def voter(number: int) -> Voter:
    key = ReplicaKey(number, UUID(int=number))
    return Voter(key, (QuorumEndpoint("CLUSTER", f"node{number}", 9),))


def position(text: str) -> OffsetAndEpoch:
    offset, _, epoch = text.partition("@")
    return OffsetAndEpoch(int(offset), int(epoch))


def batch_text(batch: RaftBatch) -> str:
    ids = sorted(batch.voters.ids) if batch.voters is not None else []
    voters = f", voters {','.join(map(str, ids))}" if ids else ""
    return f"{batch.base_offset} to {batch.end_offset} of epoch {batch.epoch}{voters}"


def request_text(request: RaftRequest) -> str:
    match request:
        case VoteRequest(epoch, _, _, last, pre_vote):
            kind = "pre-vote" if pre_vote else "vote"
            return f"{kind} in epoch {epoch}, log {last.offset}@{last.epoch}"
        case BeginQuorumEpochRequest(epoch):
            return f"leads epoch {epoch}"
        case EndQuorumEpochRequest(epoch, _, successors):
            return f"gives up epoch {epoch}, next {','.join(str(key.id) for key in successors)}"
        case RaftFetchRequest():
            return f"fetch at {request.fetch_offset}@{request.last_fetched_epoch}"
    raise AssertionError(f"no transcript has {request}")


def response_text(response: RaftResponse) -> str:
    error = "" if response.error is RaftError.NONE else f"{response.error.name} "
    match response:
        case VoteResponse():
            return f"{error}{'granted' if response.granted else 'refused'}, epoch {response.epoch}"
        case QuorumEpochResponse():
            return f"{error}epoch {response.epoch}"
        case RaftFetchResponse(diverging=OffsetAndEpoch(offset, epoch)):
            return f"diverges {offset}@{epoch}"
        case RaftFetchResponse() | FetchSnapshotResponse():
            return f"{error}epoch {response.epoch}"
        case VoterChangeResponse():
            return f"{error}{response.message}".strip() or "changed"
