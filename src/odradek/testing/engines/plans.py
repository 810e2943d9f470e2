"""The plans of a seed's engines, drawn from streams of their own.

Engines have their own topics, from which nothing is removed, and run only if the broker keeps every
acknowledged record (`log.durability=fsync`, no damaged disk). So every outcome and every received
record can be checked. Together with scripted clients they run in half of the seeds; alone in every
seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from odradek.model.topics import TopicPartition
from odradek.testing.checker import FSYNC
from odradek.testing.engines.consumer_application import AssignedPlan, ConsumerPlan
from odradek.testing.engines.group_member import ASYNC, AUTO, SYNC, MemberPlan
from odradek.testing.engines.producer_application import SenderPlan
from odradek.testing.machine import HOST, PORT, host_of
from odradek.testing.prng import SplitMix64, stream
from odradek.testing.scheduler import MS
from odradek.testing.workload.schedule import Schedule, draw_topic, partitions_of
from odradek.testing.workload.topics import TopicPlan

STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky", "range,cooperative-sticky")
SEGMENTS = (1 << 14, 1 << 16, 1 << 20)
STEPS_NS = ((0, 0), (0, 0), (1_000, 200_000), (10_000, 20 * MS))
"""Tasks in the engine's loop, quick threads, and slow ones."""
CALM_NS = 1_000 * MS
DAMAGE = ("bit flip",)
GROUP_EVENTS = ("join", "join", "leave", "crash", "pause", "busy")
SETTINGS = {
    "log.durability": FSYNC,
    "offsets.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "100",
    "group.min.session.timeout.ms": "500",
}


@dataclass(frozen=True, slots=True)
class EngineEvent:
    """An event of an application, such as a crash. `number` selects the application."""

    at_ns: int
    kind: str
    length_ns: int
    number: int


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """A group: the settings that its members share, and its events."""

    name: str
    topics: Sequence[str]
    partitions: Sequence[TopicPartition]
    settings: tuple[tuple[str, str], ...]
    commits: str
    first: int
    """The number of members at the start."""
    max_poll_ms: int
    static_rate: int
    events: Sequence[EngineEvent]


@dataclass(frozen=True, slots=True)
class EnginesPlan:
    """All engines of a run, and the crashes of those without a group."""

    topics: Sequence[TopicPlan]
    senders: Sequence[SenderPlan]
    readers: Sequence[AssignedPlan]
    groups: Sequence[GroupPlan]
    crashes: Sequence[EngineEvent]
    bootstrap: str = f"{HOST}:{PORT}"
    """The addresses that every client gets, separated by commas."""

    def parts(self) -> list[str]:
        """Return the names of the optional parts."""
        readers = [reader.consuming.name for reader in self.readers]
        return [*(s.name for s in self.senders), *readers, *(g.name for g in self.groups)]

    def keeping(self, parts: Sequence[str]) -> EnginesPlan:
        """Return the plan with these of its applications only."""
        return replace(
            self,
            senders=[each for each in self.senders if each.name in parts],
            readers=[each for each in self.readers if each.consuming.name in parts],
            groups=[each for each in self.groups if each.name in parts],
        )


NO_PLAN = EnginesPlan((), (), (), (), ())


def with_engines(seed: int, base: Schedule, steps: int, *, alone: bool) -> Schedule:
    """Add engines to the schedule, in some seeds; `alone`: in every seed, without other clients."""
    joins = stream(seed, "schedule/engines/join").chance(700) and base.durability == FSYNC
    if not (joins or alone):
        return base
    plan = draw_engines(stream(seed, "schedule/engines"), steps, base.heal_ns)
    if alone:
        base = replace(base, topics=[], producers=[], readers=[], trimmers=[], recreated=[])
    # Three of them outlive a machine that is lost for ever.
    drawn = stream(seed, "schedule/engines/replicas").pick((3, 3, 3, 2, 1))
    replicas = min(base.machines, 3 if base.fates else drawn)
    bootstrap = ",".join(f"{host_of(number)}:{PORT}" for number in range(1, base.machines + 1))
    return replace(
        base,
        durability=FSYNC,
        settings=base.settings | SETTINGS,
        topics=[*base.topics, *(replace(topic, replicas=replicas) for topic in plan.topics)],
        faults=[fault for fault in base.faults if fault.kind not in DAMAGE],
        engines=replace(plan, bootstrap=bootstrap),
    )


def draw_engines(chance: SplitMix64, steps: int, horizon_ns: int) -> EnginesPlan:
    topics = [draw_engine_topic(chance, f"app{n}") for n in range(chance.between(1, 3))]
    partitions = all_partitions(topics)
    senders = draw_senders(chance, topics, steps, horizon_ns)
    readers = [draw_assigned(chance, f"assigned{n}", partitions) for n in range(chance.below(3))]
    groups = [
        draw_group(chance, f"group{n}", topics, horizon_ns) for n in range(chance.between(0, 2))
    ]
    if not readers and not groups:
        readers = [draw_assigned(chance, "assigned0", partitions)]
    crashes = [
        EngineEvent(at_ns, "crash", chance.below(500) * MS, chance.below(1 << 30))
        for at_ns in draw_times(chance, chance.pick((0, 0, 1, 3)), horizon_ns)
    ]
    return EnginesPlan(topics, senders, readers, groups, crashes)


def all_partitions(topics: Sequence[TopicPlan]) -> list[TopicPartition]:
    return [partition for topic in topics for partition in partitions_of(topic)]


def draw_times(chance: SplitMix64, count: int, horizon_ns: int) -> list[int]:
    return sorted(chance.between(200 * MS, horizon_ns) for _ in range(count))


def draw_engine_topic(chance: SplitMix64, name: str) -> TopicPlan:
    topic = draw_topic(chance, name, SEGMENTS)
    if chance.chance(300):  # Then batches that are too large must be split.
        topic = replace(topic, settings=(*topic.settings, ("max.message.bytes", "1500")))
    return replace(topic, partitions=chance.between(1, 4))


def draw_connecting(chance: SplitMix64) -> tuple[tuple[str, str], ...]:
    """Draw the settings that all clients have."""
    setup_ms = chance.pick((300, 10_000))
    return (
        ("socket.connection.setup.timeout.ms", str(setup_ms)),
        ("socket.connection.setup.timeout.max.ms", str(3 * setup_ms)),
        ("metadata.max.age.ms", str(chance.pick((1000, 300_000)))),
    )


# Producers.


def draw_senders(
    chance: SplitMix64, topics: list[TopicPlan], steps: int, horizon_ns: int
) -> list[SenderPlan]:
    count = chance.between(1, 3)
    records = 4 * -(-steps // count)
    plans = []
    for number in range(count):
        burst_rate = chance.pick((0, 700, 950))
        longest_ms = max(2, 2 * horizon_ns * 1000 // (MS * records * (1000 - burst_rate)))
        plans.append(
            SenderPlan(
                name=f"sender{number}",
                partitions=all_partitions([t for t in topics if chance.chance(700)] or topics),
                records=records,
                settings=draw_sender_settings(chance),
                step_ns=chance.pick(STEPS_NS),
                pause_ms=(1, longest_ms),
                burst_rate=burst_rate,
                keys=chance.pick((0, 3, 20)),
                value_bytes=chance.pick(((1, 40), (1, 300), (200, 1000))),
                flush_rate=chance.pick((0, 5, 50)),
                calm_ns=horizon_ns + CALM_NS,
            )
        )
    return plans


def draw_sender_settings(chance: SplitMix64) -> tuple[tuple[str, str], ...]:
    request_ms = chance.pick((400, 2000, 30_000))
    linger_ms = chance.pick((0, 0, 5, 50))
    delivery_ms = max(chance.pick((1000, 5000, 120_000)), request_ms + linger_ms)
    return (
        *draw_connecting(chance),
        ("linger.ms", str(linger_ms)),
        ("batch.size", str(chance.pick((0, 300, 2000, 16_384)))),
        ("request.timeout.ms", str(request_ms)),
        ("delivery.timeout.ms", str(delivery_ms)),
        ("buffer.memory", str(chance.pick((4000, 20_000, 1 << 25)))),
        ("max.block.ms", str(chance.pick((500, 5000, 60_000)))),
        ("max.in.flight.requests.per.connection", str(chance.pick((1, 2, 5, 5)))),
        ("compression.type", chance.pick(("none", "none", "gzip", "lz4", "zstd"))),
        ("retry.backoff.ms", str(chance.pick((5, 100)))),
    )


# Consumers.


def draw_consuming(
    chance: SplitMix64, name: str, settings: tuple[tuple[str, str], ...] = ()
) -> ConsumerPlan:
    return ConsumerPlan(
        name=name,
        settings=(
            *draw_connecting(chance),
            ("auto.offset.reset", "earliest"),
            ("fetch.max.wait.ms", str(chance.pick((50, 100, 500)))),
            ("max.partition.fetch.bytes", str(chance.pick((1, 2000, 1 << 20)))),
            ("fetch.min.bytes", str(chance.pick((1, 1, 1000)))),
            ("request.timeout.ms", str(chance.pick((1500, 5000, 30_000)))),
            *settings,
        ),
        step_ns=chance.pick(STEPS_NS),
        gather=chance.pick((0, 0, 1, 5, 500)),
        wait_s=chance.pick((0.05, 0.5)),
        work_ms=chance.pick(((0, 0), (0, 30), (20, 300))),
    )


def draw_assigned(chance: SplitMix64, name: str, partitions: list[TopicPartition]) -> AssignedPlan:
    mine = [tp for tp in partitions if chance.chance(700)] or partitions
    return AssignedPlan(draw_consuming(chance, name), mine, chance.pick((0, 10, 60)))


def draw_group(
    chance: SplitMix64, name: str, topics: list[TopicPlan], horizon_ns: int
) -> GroupPlan:
    mine = [topic for topic in topics if chance.chance(700)] or topics
    session_ms = chance.pick((1500, 3000, 6000))
    max_poll_ms = chance.pick((2000, 5000, 15_000))
    lengths_ms = (50, session_ms, 2 * session_ms, 2 * max_poll_ms)
    return GroupPlan(
        name=name,
        topics=[topic.name for topic in mine],
        partitions=all_partitions(mine),
        settings=(
            ("group.id", name),
            ("partition.assignment.strategy", chance.pick(STRATEGIES)),
            ("session.timeout.ms", str(session_ms)),
            ("heartbeat.interval.ms", str(session_ms // chance.pick((3, 5)))),
            ("max.poll.interval.ms", str(max_poll_ms)),
        ),
        commits=chance.pick((AUTO, AUTO, SYNC, ASYNC)),
        first=chance.between(1, 4),
        max_poll_ms=max_poll_ms,
        static_rate=chance.pick((0, 0, 500)),
        events=[
            EngineEvent(
                at_ns,
                chance.pick(GROUP_EVENTS),
                chance.between(1, chance.pick(lengths_ms)) * MS,
                chance.below(1 << 30),
            )
            for at_ns in draw_times(chance, chance.below(9), horizon_ns)
        ],
    )


def draw_member(
    chance: SplitMix64, group: GroupPlan, name: str, instance_id: str | None
) -> MemberPlan:
    """Draw the plan of a member; `instance_id` is that of the member it replaces."""
    settings = group.settings
    if group.commits == AUTO:
        settings += (("auto.commit.interval.ms", str(chance.pick((50, 1000, 5000)))),)
    else:
        settings += (("enable.auto.commit", "false"),)
    if instance_id is not None:
        settings += (("group.instance.id", instance_id),)
    return MemberPlan(
        draw_consuming(chance, name, settings), group.topics, group.commits, instance_id
    )
