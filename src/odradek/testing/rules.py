"""Rules of a cluster, as functions of what a simulation has observed.

Each takes observations in the order in which they were made and returns the violations, one line of
text each. The observations come from running processes and from the disks' platters, so the same
rules hold for a broker alone (one replica), a cluster, and a quorum without brokers.

| rule                     | says                                                                  |
|--------------------------|-----------------------------------------------------------------------|
| `one_leader_per_epoch`   | in one epoch a partition has one leader; the metadata log too         |
| `one_vote_per_epoch`     | a replica of the quorum votes for one candidate in an epoch           |
| `high_watermarks_rise`   | while one process leads in one epoch, its high watermark never falls, |
|                          | and neither does its last stable offset                               |
| `stable_offsets_rise`    | the last stable offset of a later epoch is not below that of an       |
|                          | earlier one: what was decided once is                                 |
| `acks_are_on_platters`   | an acknowledged batch is on the platter of every in-sync replica, and |
|                          | of as many replicas as `min.insync.replicas` says                     |
| `in_sync_have_committed` | a replica in sync has everything below its leader's high watermark    |
| `replicas_match`         | replicas have the same bytes below the least high watermark           |
| `committed_logs_match`   | two replicas never commit different records at an offset              |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

METADATA = "__cluster_metadata-0"


@dataclass(frozen=True, slots=True)
class LeadershipClaim:
    """A node that says that it leads a partition in an epoch. A process is a node's `boot`."""

    at_ns: int
    partition: str
    epoch: int
    node: str
    boot: int = 1


@dataclass(frozen=True, slots=True)
class Vote:
    """A vote of a replica of the quorum, as it saved it."""

    at_ns: int
    replica: str
    epoch: int
    candidate: str


@dataclass(frozen=True, slots=True)
class Watermark:
    """The high watermark of a partition that a node leads."""

    at_ns: int
    partition: str
    epoch: int
    node: str
    boot: int
    offset: int


@dataclass(frozen=True, slots=True)
class InSyncReplica:
    """The log end of a replica that is in sync, and the high watermark of its leader."""

    at_ns: int
    partition: str
    epoch: int
    node: str
    end: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class DurableAck:
    """An acknowledgement of all in-sync replicas: the batch ends before `end`, and each replica has
    the log on its platter up to `platters`.
    """

    at_ns: int
    partition: str
    end: int
    platters: Mapping[str, int]
    needed: int = 0
    """How many of them must have it; 0: all."""


@dataclass(frozen=True, slots=True)
class ReplicaLog:
    """A replica's log: its batches by base offset, as bytes."""

    node: str
    partition: str
    log_start: int
    high_watermark: int
    batches: Mapping[int, bytes]


@dataclass(frozen=True, slots=True)
class CommittedRecord:
    """A record or batch of the metadata log that a replica takes for committed."""

    at_ns: int
    node: str
    offset: int
    epoch: int
    content: object


def one_leader_per_epoch(seen: Iterable[LeadershipClaim]) -> list[str]:
    """Return the leaderships of an epoch that another node, or another process, had already."""
    first: dict[tuple[str, int], LeadershipClaim] = {}
    found = []
    for each in seen:
        known = first.setdefault((each.partition, each.epoch), each)
        if (known.node, known.boot) != (each.node, each.boot):
            found.append(
                f"{each.partition}: epoch {each.epoch} has two leaders: {known.node} since"
                f" {known.at_ns} ns, and {each.node} at {each.at_ns} ns"
            )
    return found


def one_vote_per_epoch(votes: Iterable[Vote]) -> list[str]:
    """Return the votes of replicas that had voted for another candidate in that epoch."""
    first: dict[tuple[str, int], Vote] = {}
    found = []
    for vote in votes:
        known = first.setdefault((vote.replica, vote.epoch), vote)
        if known.candidate != vote.candidate:
            found.append(
                f"{vote.replica} voted twice in epoch {vote.epoch}: for {known.candidate} at"
                f" {known.at_ns} ns, and for {vote.candidate} at {vote.at_ns} ns"
            )
    return found


def high_watermarks_rise(seen: Iterable[Watermark], what: str = "high watermark") -> list[str]:
    """Return the high watermarks, or last stable offsets, that fell while one process led in one
    epoch.
    """
    last: dict[tuple[str, int, str, int], Watermark] = {}
    found = []
    for each in seen:
        key = (each.partition, each.epoch, each.node, each.boot)
        known = last.get(key)
        if known is not None and each.offset < known.offset:
            found.append(
                f"{each.partition}: the {what} of {each.node} in epoch {each.epoch} fell"
                f" from {known.offset} to {each.offset} at {each.at_ns} ns"
            )
        last[key] = each
    return found


def stable_offsets_rise(seen: Iterable[Watermark]) -> list[str]:
    """Return the last stable offsets below one of an earlier epoch.

    A marker below the high watermark is not lost, so that what a leader took for decided is so for
    all later ones, when they know the high watermark.
    """
    found, highest = [], dict[str, Watermark]()
    for each in sorted(seen, key=lambda one: (one.partition, one.epoch, one.offset)):
        known = highest.get(each.partition)
        if known is not None and each.epoch > known.epoch and each.offset < known.offset:
            found.append(
                f"{each.partition}: the last stable offset of {each.node} in epoch {each.epoch} is"
                f" {each.offset} at {each.at_ns} ns, and {known.node} had {known.offset} in epoch"
                f" {known.epoch}"
            )
        if known is None or each.offset >= known.offset:
            highest[each.partition] = each
    return found


def in_sync_have_committed(seen: Iterable[InSyncReplica]) -> list[str]:
    """Return the replicas in sync whose logs ended below their leader's high watermark."""
    return [
        f"{each.partition}: {each.node} is in sync in epoch {each.epoch} and ends at {each.end},"
        f" below the high watermark {each.high_watermark}, at {each.at_ns} ns"
        for each in seen
        if each.end < each.high_watermark
    ]


def acks_are_on_platters(acks: Iterable[DurableAck]) -> list[str]:
    """Return the acknowledgements that came before the bytes were on enough platters."""
    found = []
    for ack in acks:
        missing = {node: end for node, end in ack.platters.items() if end < ack.end}
        needed = ack.needed or len(ack.platters)
        if len(ack.platters) - len(missing) < needed:
            ends = ", ".join(f"{node} to {end}" for node, end in sorted(missing.items()))
            found.append(
                f"{ack.partition}: acked up to {ack.end} at {ack.at_ns} ns, but on disk is {ends}"
            )
    return found


def replicas_match(replicas: Sequence[ReplicaLog]) -> list[str]:
    """Return where replicas of one partition differ below the least high watermark, from the
    greatest log start on.
    """
    found = []
    by_partition: dict[str, list[ReplicaLog]] = {}
    for replica in replicas:
        by_partition.setdefault(replica.partition, []).append(replica)
    for partition, logs in by_partition.items():
        start = max(log.log_start for log in logs)
        end = min(log.high_watermark for log in logs)
        first = _between(logs[0], start, end)
        for other in logs[1:]:
            mine = _between(other, start, end)
            for base in sorted(first.keys() | mine.keys()):
                if first.get(base) != mine.get(base):
                    found.append(
                        f"{partition}@{base}: {logs[0].node} and {other.node} differ below the"
                        f" high watermark {end}"
                    )
                    break
    return found


def _between(log: ReplicaLog, start: int, end: int) -> dict[int, bytes]:
    return {base: data for base, data in log.batches.items() if start <= base < end}


def committed_logs_match(records: Iterable[CommittedRecord]) -> list[str]:
    """Return the committed records that differ from what was committed at their offset."""
    first: dict[int, CommittedRecord] = {}
    found = []
    for record in records:
        known = first.setdefault(record.offset, record)
        if (known.epoch, known.content) != (record.epoch, record.content):
            found.append(
                f"{METADATA}@{record.offset}: {known.node} committed {known.content!r} of epoch"
                f" {known.epoch}, {record.node} {record.content!r} of epoch {record.epoch} at"
                f" {record.at_ns} ns"
            )
    return found
