"""The plans of our own clients in a world with transactions, drawn from streams of their own.

They take the place of the applications of `engines.plans`. Producers with transactions write to the
topics of the scripted ones, some with a transactional id of theirs; processings read these topics
and write to topics of their own. Alone, they are the only clients but readers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from odradek.testing.engines.plans import (
    SETTINGS,
    STEPS_NS,
    EngineEvent,
    draw_connecting,
    draw_times,
)
from odradek.testing.engines.process_application import ProcessPlan
from odradek.testing.engines.transactional_application import EngineTransactionsPlan
from odradek.testing.machine import PORT, host_of
from odradek.testing.prng import SplitMix64, stream
from odradek.testing.scheduler import MS, SECOND
from odradek.testing.workload.schedule import Schedule, partitions_of
from odradek.testing.workload.topics import TopicPlan
from odradek.testing.workload.transaction_clients import draw_producers

PROCESSED, LETTERS = "processed", "letters"
PROCESSING_TIMEOUTS_MS = (1_500, 4_000, 10_000)
FEW_RECORDS, MOST_RECORDS = 3, 100
"""Inputs of one transaction. 100 records that are each a batch of their own can take longer on slow
disks and links than the transaction may be open, at every attempt."""
OFTEN = 100
"""A tenth, in thousandths."""
LEAST_OF_PRODUCERS_MS = {
    "transaction.timeout.ms": 20_000,
    "request.timeout.ms": 5_000,
    "delivery.timeout.ms": 20_000,
}
LEAST_OF_CONSUMERS_MS = {"session.timeout.ms": 10_000, "max.poll.interval.ms": 15_000}
Settings = tuple[tuple[str, str], ...]
EVENTS = ("crash", "crash", "pause", "takeover", "pause and takeover")


@dataclass(frozen=True, slots=True)
class ProcessGroupPlan:
    """The members of one group that process, each with the settings of one plan."""

    members: Sequence[ProcessPlan]
    keeps_ids: bool
    """A member that is started again has the transactional id of the one before."""

    @property
    def name(self) -> str:
        return self.members[0].group


@dataclass(frozen=True, slots=True)
class TransactionEnginesPlan:
    """All engines of a world with transactions, and what happens to them."""

    producers: Sequence[EngineTransactionsPlan] = ()
    groups: Sequence[ProcessGroupPlan] = ()
    events: Sequence[EngineEvent] = ()
    bootstrap: str = ""

    def parts(self) -> list[str]:
        """Return the names of the optional parts."""
        return [
            *(each.name for each in self.producers),
            *(each.name for each in self.groups),
            *(f"event{number}" for number in range(len(self.events))),
        ]

    def keeping(self, parts: Sequence[str]) -> TransactionEnginesPlan:
        """Return the plan with these of its parts only."""
        return replace(
            self,
            producers=[each for each in self.producers if each.name in parts],
            groups=[each for each in self.groups if each.name in parts],
            events=[each for n, each in enumerate(self.events) if f"event{n}" in parts],
        )


NO_TRANSACTION_ENGINES = TransactionEnginesPlan()


def with_transaction_engines(seed: int, base: Schedule, steps: int, *, alone: bool) -> Schedule:
    """Add engines to a schedule with transactions; `alone`: without other clients that write."""
    chance = stream(seed, "schedule/transactions/engines")
    transactions = base.transactions
    inputs = transactions.topics
    settings = tuple(inputs[0].settings)
    outputs = [
        TopicPlan(PROCESSED, chance.between(1, 3), settings, replicas=inputs[0].replicas),
        TopicPlan(LETTERS, 1, settings, replicas=inputs[0].replicas),
    ]
    plan = draw_transaction_engines(chance, inputs, outputs[0].partitions, steps, base.heal_ns)
    if base.link.slow_rate >= OFTEN and base.link.slow_latency_ns[1] >= SECOND:
        plan = replace(plan, groups=[with_patience(group) for group in plan.groups])
    bootstrap = ",".join(f"{host_of(number)}:{PORT}" for number in range(1, base.machines + 1))
    if alone:
        base = replace(base, topics=[], producers=[], readers=[], trimmers=[], recreated=[])
        transactions = replace(transactions, producers=[])
    return replace(
        base,
        fates=(),  # A coordinator that is slow for ever is never slow enough to be replaced.
        settings=base.settings | SETTINGS,
        transactions=replace(
            transactions,
            topics=[*inputs, *outputs],
            ids_of_engines=[each.producing.transactional_id for each in plan.producers],
        ),
        transaction_engines=replace(plan, bootstrap=bootstrap),
    )


def with_patience(group: ProcessGroupPlan) -> ProcessGroupPlan:
    """Return the group with timeouts of 5 s and more. Over links that hold up a seventh of all
    packets for up to 1.5 s, shorter ones let hardly any transaction end: there is no progress to
    judge."""

    def patient(settings: Settings, least: Mapping[str, int]) -> Settings:
        return tuple(
            (name, str(max(int(value), least[name])) if name in least else value)
            for name, value in settings
        )

    members = [
        replace(
            member,
            consumer=patient(member.consumer, LEAST_OF_CONSUMERS_MS),
            producer=patient(member.producer, LEAST_OF_PRODUCERS_MS),
        )
        for member in group.members
    ]
    return replace(group, members=members)


def draw_transaction_engines(
    chance: SplitMix64, inputs: Sequence[TopicPlan], outputs: int, steps: int, horizon_ns: int
) -> TransactionEnginesPlan:
    """Draw the engines: `outputs` is the number of partitions that processings write to."""
    partitions = [tp for topic in inputs for tp in partitions_of(topic)]
    first = chance.pick((0, 10))  # The ids of scripted producers begin at 0.
    drawn = [
        producer
        for number in range(first, first + chance.between(1, 2))
        for producer in draw_producers(chance, number, partitions, max(2, steps // 5))
    ]
    producers = [
        EngineTransactionsPlan(
            replace(each, name=f"engine-{each.name}"),
            draw_transacting(chance, each.transactional_id, each.timeout_ms),
            chance.pick(STEPS_NS),
            chance.pick((None, None, 300)),
        )
        for each in drawn
    ]
    groups = [draw_processing(chance, inputs, outputs)]
    events = [
        EngineEvent(
            at_ns,
            chance.pick(EVENTS),
            chance.between(1, chance.pick((100, 2_000, 5_000))) * MS,
            chance.below(1 << 30),
        )
        for at_ns in draw_times(chance, chance.below(6), horizon_ns)
    ]
    return TransactionEnginesPlan(producers, groups, events)


def draw_transacting(
    chance: SplitMix64, transactional_id: str, timeout_ms: int
) -> tuple[tuple[str, str], ...]:
    """Draw the settings of a transactional producer."""
    request_ms = chance.pick((400, 2_000, 30_000))
    return (
        *draw_connecting(chance),
        ("transactional.id", transactional_id),
        ("transaction.timeout.ms", str(timeout_ms)),
        ("linger.ms", str(chance.pick((0, 0, 5, 50)))),
        ("batch.size", str(chance.pick((0, 300, 16_384)))),
        ("request.timeout.ms", str(request_ms)),
        ("delivery.timeout.ms", str(max(chance.pick((1_000, 5_000, 120_000)), request_ms + 50))),
        ("max.block.ms", str(chance.pick((500, 5_000, 60_000)))),
        ("max.in.flight.requests.per.connection", str(chance.pick((1, 5)))),
        ("retry.backoff.ms", str(chance.pick((5, 100)))),
    )


def most_records(chance: SplitMix64, batch_size: str) -> int:
    """Draw how many inputs one transaction takes at most."""
    drawn = chance.pick((FEW_RECORDS, MOST_RECORDS))
    return FEW_RECORDS if batch_size == "0" else drawn


def draw_processing(
    chance: SplitMix64, inputs: Sequence[TopicPlan], outputs: int
) -> ProcessGroupPlan:
    """Draw the members of a group that reads all inputs."""
    session_ms = chance.pick((1_500, 3_000))
    timeout_ms = chance.pick(PROCESSING_TIMEOUTS_MS)
    version = chance.pick((1, 2, 2))
    shared = (
        ("partition.assignment.strategy", chance.pick(("range", "cooperative-sticky"))),
        ("session.timeout.ms", str(session_ms)),
        ("heartbeat.interval.ms", str(session_ms // 5)),
        ("max.poll.interval.ms", str(chance.pick((2_000, 15_000)))),
    )
    members = []
    for number in range(chance.between(1, 3)):
        name = f"process-{number}"
        transacting = dict(draw_transacting(chance, name, timeout_ms)) | {
            "max.block.ms": str(chance.pick((5_000, 60_000)))
        }
        del transacting["transactional.id"]
        members.append(
            ProcessPlan(
                name=name,
                group="process",
                transactional_id=name,
                topics=[topic.name for topic in inputs],
                to=PROCESSED,
                partitions=outputs,
                letters=LETTERS,
                version=version,
                consumer=(
                    *draw_connecting(chance),
                    ("fetch.max.wait.ms", str(chance.pick((50, 500)))),
                    ("request.timeout.ms", str(chance.pick((1_500, 30_000)))),
                    *shared,
                ),
                producer=tuple(transacting.items()),
                step_ns=chance.pick(STEPS_NS),
                interval_s=chance.pick((0.02, 0.1, 0.4)),
                max_records=most_records(chance, transacting["batch.size"]),
                work_ms=chance.pick(((0, 0), (0, 30), (0, timeout_ms // 2))),
            )
        )
    return ProcessGroupPlan(members, chance.chance(600))
