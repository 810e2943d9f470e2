"""Runs the transcripts of the active controller: what happens to brokers in, records out.

cluster min.insync.replicas=2        settings; the first command, if there is one
start 1 2 3                          processes register and are unfenced
start 1 clean | start 1 disk=1       a process starts again: after a clean shutdown, on this disk
register 1                           a process registers, and sends no heartbeat yet
beat 1 at=7 fence stop disk-failed   one heartbeat, with what the broker wants and tells
topic t 0:1,2,3 1:2,3,1              a topic with these replicas
isr t-0 1,2                          the leader proposes in-sync replicas
elect t-0 unclean                    an administrator elects a leader
reassign t-0 2,3 | reassign t-0 -    an administrator reassigns or cancels
unregister 3
silent 1                             the broker sends no heartbeats from now on
cut 1                                its connection ends, too
wait 3s                              time passes; a broker that is not silent beats every 2 s
takeover                             another controller goes on with the same log

register 1 in epoch 12    fence 1    unfence 1    stop 1    unregister 1      records
t-0: leader 2, epoch 1, isr 2,3, elr 1                                      the partition now
1 <- ...                                                                    a response
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.controller.image import PartitionRegistration
from odradek.controller.leader_election import elect_leaders
from odradek.controller.partition_change import RECOVERING
from odradek.controller.reassignments import alter_partition_reassignments
from odradek.model.errors import ErrorCode
from odradek.protocol.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.api.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.protocol.metadata_records import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from transcripts.durations import milliseconds
from transcripts.transcript import arguments
from unit.controller.controlled_cluster import ControlledCluster, directory

HEARTBEAT_MS = 2000


class ControllerMachine:
    """A cluster, and which of its brokers beat by themselves."""

    def __init__(self) -> None:
        self.cluster = ControlledCluster()
        self.told = len(self.cluster.records)
        self.beating: set[int] = set()
        self.incarnations: dict[int, int] = {}
        self.lines: list[str] = []

    def run(self, line: str) -> list[str]:
        command, words, values = arguments(line)
        self.lines = []
        getattr(self, f"do_{command.replace('-', '_')}")(words, values)
        self.tell()
        return self.lines

    # Commands

    def do_cluster(self, words: list[str], values: dict[str, str]) -> None:
        settings = {name.replace(".", "_"): value for name, value in values.items()}
        self.cluster = ControlledCluster(**settings)
        self.told = len(self.cluster.records)

    def do_start(self, words: list[str], values: dict[str, str]) -> None:
        for broker_id in numbers(words):
            if self.do_register([str(broker_id), *words], values):
                self.beating.add(broker_id)
                self.cluster.beat(broker_id)
                self.run_due_steps()

    def do_register(self, words: list[str], values: dict[str, str]) -> bool:
        broker_id = int(words[0])
        incarnation = self.incarnations[broker_id] = self.incarnations.get(broker_id, -1) + 1
        before = self.cluster.processes.get(broker_id)
        error = self.cluster.register(
            broker_id,
            incarnation=incarnation,
            log_dirs=[directory(broker_id, int(values.get("disk", 0)))],
            previous_epoch=-1 if before is None or "clean" not in words else before.epoch,
        )
        self.run_due_steps()
        if error:
            self.lines.append(f"{broker_id} <- {ErrorCode(error).name}")
        return not error

    def do_beat(self, words: list[str], values: dict[str, str]) -> None:
        (broker_id,) = numbers(words)
        failed = self.cluster.processes[broker_id].log_dirs if "disk-failed" in words else None
        response = self.cluster.beat(
            broker_id,
            at=int(values["at"]) if "at" in values else None,
            fence="fence" in words,
            stop="stop" in words,
            offline=failed,
        )
        self.run_due_steps()
        state = "fenced" if response.is_fenced else "unfenced"
        if response.error_code:
            state = ErrorCode(response.error_code).name
        elif response.should_shut_down:
            state += ", stops"
        self.lines.append(f"{broker_id} <- {state}")

    def do_topic(self, words: list[str], values: dict[str, str]) -> None:
        name, *given = words
        assignments = {int(each.split(":")[0]): ids(each.split(":")[1]) for each in given}
        configs = {key.replace(".", "_"): value for key, value in values.items()}
        self.cluster.create(name, assignments, **configs)

    def do_isr(self, words: list[str], values: dict[str, str]) -> None:
        name, number = place(words[0])
        request = self.cluster.alteration(ids(words[1]), name, number)
        (outcome,) = self.cluster.alter(request)
        self.run_due_steps()
        if outcome.error_code:
            self.lines.append(f"{request.broker_id} <- {ErrorCode(outcome.error_code).name}")

    def do_elect(self, words: list[str], values: dict[str, str]) -> None:
        name, number = place(words[0])
        request = ElectLeadersRequest(
            election_type=1 if "unclean" in words else 0,
            topic_partitions=[TopicPartitions(topic=name, partitions=[number])],
        )
        decision = elect_leaders(self.cluster.image, request, self.cluster.config)
        self.cluster.submit(decision.records)
        (result,) = decision.response.replica_election_results[0].partition_result
        self.tell()
        self.lines.append(f"<- {ErrorCode(result.error_code).name}")

    def do_reassign(self, words: list[str], values: dict[str, str]) -> None:
        name, number = place(words[0])
        target = ReassignablePartition(
            partition_index=number, replicas=None if words[1] == "-" else ids(words[1])
        )
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=name, partitions=[target])]
        )
        cluster = self.cluster
        decision = alter_partition_reassignments(cluster.image, request, cluster.config)
        cluster.submit(decision.records)
        self.tell()
        error = decision.response.responses[0].partitions[0].error_code
        self.lines.append(f"<- {ErrorCode(error).name}")

    def do_unregister(self, words: list[str], values: dict[str, str]) -> None:
        (broker_id,) = numbers(words)
        error = self.cluster.unregister(broker_id)
        self.run_due_steps()
        self.lines.append(f"<- {ErrorCode(error).name}")

    def do_silent(self, words: list[str], values: dict[str, str]) -> None:
        self.beating -= set(numbers(words))

    def do_cut(self, words: list[str], values: dict[str, str]) -> None:
        for broker_id in numbers(words):
            self.beating.discard(broker_id)
            self.cluster.control.disconnected(broker_id, self.cluster.now_ms)

    def do_wait(self, words: list[str], values: dict[str, str]) -> None:
        end_ms = self.cluster.now_ms + milliseconds(words[0])
        while self.cluster.now_ms < end_ms:
            until_beat = HEARTBEAT_MS - self.cluster.now_ms % HEARTBEAT_MS
            self.cluster.wait(min(until_beat, end_ms - self.cluster.now_ms))
            if self.cluster.now_ms % HEARTBEAT_MS == 0:
                for broker_id in sorted(self.beating):
                    self.cluster.beat(broker_id)
            self.tell()

    def do_takeover(self, words: list[str], values: dict[str, str]) -> None:
        self.cluster.take_over()
        self.run_due_steps()

    # Effects

    def run_due_steps(self) -> None:
        self.cluster.run_due_steps()
        self.tell()

    def tell(self) -> None:
        """Add the records since the last time; a changed partition is told once, as it is now."""
        changed: dict[tuple[str, int], None] = {}
        records = self.cluster.records[self.told :]
        self.told = len(self.cluster.records)
        for record in records:
            if isinstance(record, PartitionChangeRecord | PartitionRecord):
                name = self.cluster.image.topics_by_id[record.topic_id].name
                changed[name, record.partition_id] = None
            else:
                self.lines += transcript_lines(record)
        for name, number in changed:
            partition = self.cluster.partition(name, number)
            self.lines.append(f"{name}-{number}: {described(partition)}")


def transcript_lines(record: object) -> Iterable[str]:
    if isinstance(record, RegisterBrokerRecord):
        yield f"register {record.broker_id} in epoch {record.broker_epoch}"
    elif isinstance(record, UnregisterBrokerRecord):
        yield f"unregister {record.broker_id}"
    elif isinstance(record, FeatureLevelRecord):
        yield f"feature {record.name} {record.feature_level}"
    elif isinstance(record, BrokerRegistrationChangeRecord):
        if record.fenced:
            yield f"{'fence' if record.fenced > 0 else 'unfence'} {record.broker_id}"
        if record.in_controlled_shutdown:
            yield f"stop {record.broker_id}"
    elif not isinstance(record, TopicRecord):
        yield type(record).__name__


def described(partition: PartitionRegistration) -> str:
    leader = "no leader" if partition.leader < 0 else f"leader {partition.leader}"
    lists = {
        "isr": partition.isr,
        "elr": partition.elr,
        "last": partition.last_known_elr,
        "adding": partition.adding_replicas,
        "removing": partition.removing_replicas,
    }
    parts = [leader, f"epoch {partition.leader_epoch}"]
    parts += [
        f"{name} {','.join(map(str, each)) or '-'}"
        for name, each in lists.items()
        if each or name == "isr"
    ]
    if partition.leader_recovery_state == RECOVERING:
        parts.append("recovering")
    return ", ".join(parts)


def numbers(words: Iterable[str]) -> list[int]:
    return [int(word) for word in words if word.isdecimal()]


def ids(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


def place(text: str) -> tuple[str, int]:
    name, _, number = text.rpartition("-")
    return name, int(number)
