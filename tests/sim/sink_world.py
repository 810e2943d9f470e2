"""A world whose clients are queries that write exactly once: see `sim.sink_query`.

    faults of brokers, links and clocks, strikes ─► calm ─► all micro-batches ─► the last one
    ─► committed records are read ─► each row once, nothing of a prefix open, one decision for each

The topic of the rows and the ledger are topics of the simulated cluster, made here; the ledger is
compacted all the time. Nothing deletes rows, so no query may stop because rows are missing, or
because its ledger has lost something.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from odradek.model.topics import TopicPartition, uuid_text
from odradek.spark.exactly_once.ledger_topic import LedgerTopic
from odradek.spark.options import ClientOptions, WriteOptions
from odradek.testing.machine import PORT, host_of
from odradek.testing.prng import SplitMix64
from odradek.testing.reproduction import as_drawn
from odradek.testing.scheduler import MS
from odradek.testing.sim import be_quiet, explain, run_seed, split, summary
from odradek.testing.transactions import TransactionHistory
from odradek.testing.workload.committed_reader import SimCommittedReader
from odradek.testing.workload.further_clients import FurtherClients
from odradek.testing.workload.schedule import Schedule
from odradek.testing.workload.topics import TopicCreator, TopicLife, TopicPlan
from odradek.testing.workload.transaction_clients import kept_settings
from odradek.testing.world import World
from sim.sink_query import QueryPlan, Rules, SinkQuery

COMMAND = "PYTHONPATH=tests python -m sim.sink_world"
TOPIC, LEDGER = "sink", "ledger"
LEDGER_SETTINGS = (
    ("cleanup.policy", "compact"),
    ("internal.segment.bytes", "4000"),
    ("min.cleanable.dirty.ratio", "0.1"),
    ("delete.retention.ms", "300"),
    ("file.delete.delay.ms", "50"),
)
SETTINGS = {"log.cleaner.backoff.ms": "200"}
STEPS_NS = ((0, 0), (10_000, 300_000), (100_000, 4_000_000))
STEPS = 100
"""Stands for seven seconds in which faults begin at one broker."""
STRETCH = 3
"""Brief faults of a cluster come within so many times their time: queries work by then."""
RULES = Rules()


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """What is done to the queries of a world, as `QueryPlan` has it, and what a seed draws from."""

    rules: Rules = RULES
    strikes: int = 6
    driver_rate: int = 120
    ending_rate: int = 240
    executor_rate: int = 50
    rival_rate: int = 4
    most_rows: int = 6
    """The longest micro-batch."""
    calm_ms: int = 8_000
    """When all faults have ended."""
    transaction_timeouts_ms: tuple[int, ...] = (1_500, 4_000, 15_000)
    api_timeouts_ms: tuple[int, ...] = (3_000, 10_000)


PLAN = SinkPlan()


@dataclass(eq=False)
class SinkClients(FurtherClients):
    """The queries of a world, one or two, which share topic and ledger."""

    world: World
    plan: SinkPlan = PLAN
    queries: list[SinkQuery] = field(default_factory=list)
    read: TransactionHistory = field(default_factory=TransactionHistory)
    topics: list[TopicPlan] = field(default_factory=list)
    _ids: dict[str, UUID] = field(default_factory=dict)
    _final: SimCommittedReader | None = None
    _is_calm: bool = False

    def start(self) -> None:
        world = self.world
        replicas = max((each.replicas for each in world.plan.transactions.topics), default=1)
        settings = kept_settings(world.plan.transactions.topics[0])
        partitions = self._chance("topics").between(1, 3)
        self.topics = [
            TopicPlan(TOPIC, partitions, settings, replicas=replicas),
            TopicPlan(LEDGER, 1, LEDGER_SETTINGS, replicas=replicas),
        ]
        for plan in self.topics:
            client = world.clients.transactions.new_client(f"admin-{plan.name}")
            TopicCreator(client, world.history, plan, self._ready_for(plan.name)).start()

    def _chance(self, purpose: str) -> SplitMix64:
        return self.world.scheduler.stream(f"sink/{purpose}")

    def _ready_for(self, name: str) -> Callable[[UUID], None]:
        def ready(topic_id: UUID) -> None:
            self._ids[name] = topic_id
            self.world.clients.topics[name] = TopicLife(name, name, topic_id)
            if len(self._ids) == len(self.topics):
                self._start_queries()

        return ready

    def _start_queries(self) -> None:
        world, chance = self.world, self._chance("queries")
        for number in range(chance.pick((1, 1, 2))):
            plan = self._query_plan(f"q{number}", chance)
            query = SinkQuery(world.scheduler, world.fabric, plan)
            self.queries.append(query)
            query.start()
            if self._is_calm:
                query.calm_down()

    def _query_plan(self, prefix: str, chance: SplitMix64) -> QueryPlan:
        world, drawn = self.world, self.plan
        machines = range(1, world.plan.machines + 1)
        client = ClientOptions(
            ",".join(f"{host_of(number)}:{PORT}" for number in machines),
            request_timeout_ms=chance.pick((700, 2_000)),
            api_timeout_ms=chance.pick(drawn.api_timeouts_ms),
        )
        options = WriteOptions(client, delivery_timeout_ms=chance.pick((3_000, 10_000)))
        timeout_ms = chance.pick(drawn.transaction_timeouts_ms)
        return QueryPlan(
            prefix,
            chance.between(2, 5),
            options,
            LedgerTopic(LEDGER, uuid_text(self._ids[LEDGER]), 1, timeout_ms),
            TOPIC,
            uuid_text(self._ids[TOPIC]),
            self.topics[0].partitions,
            chance.pick(STEPS_NS),
            drawn.rules,
            drawn.most_rows,
            drawn.strikes,
            drawn.driver_rate,
            drawn.ending_rate,
            drawn.executor_rate,
            drawn.rival_rate,
        )

    # The end.

    def calm_down(self) -> None:
        self._is_calm = True
        for query in self.queries:
            query.calm_down()

    def work_is_done(self) -> bool:
        return bool(self.queries) and all(query.finished for query in self.queries)

    def pending_work(self) -> list[str]:
        missing = [f"creating {each.name}" for each in self.topics if each.name not in self._ids]
        return missing + [line for query in self.queries for line in query.pending()]

    def progress(self) -> int:
        return sum(query.checkpoint.committed for query in self.queries)

    def start_final(self) -> None:
        world = self.world
        partitions = [TopicPartition(TOPIC, n) for n in range(self.topics[0].partitions)]
        self._final = SimCommittedReader(
            world.clients.transactions.new_client("final sink"),
            world.history,
            self.read,
            "final sink",
            partitions,
            world.clients.topics,
            final=True,
        )
        self._final.start()

    def final_pending(self) -> list[str]:
        reader = self._final
        return [] if reader is None or reader.finished else [reader.pending()]

    def judge(self) -> list[str]:
        read = Counter(row_of(each.value) for each in self.read.reads)
        known = {row for each in self.queries for rows in each.checkpoint.rows for row in rows}
        return [
            *(line for query in self.queries for line in query.violations(read)),
            *(f"sink: {row} was written by nobody" for row in read if row not in known),
        ]

    def kill(self) -> None:
        for query in self.queries:
            query.kill()


def row_of(value: bytes) -> str:
    """Return the row of a value, which ends with the transactional id of its attempt."""
    return value.decode().rpartition("/")[0]


def with_sink(plan: Schedule, calm_ms: int) -> Schedule:
    """Return the plan of a world without clients of its own, whose faults come while queries
    work."""
    faults = plan.faults
    if plan.machines > 1:
        faults = [replace(fault, at_ns=STRETCH * fault.at_ns) for fault in faults]
    ends = [fault.at_ns + fault.length_ns for fault in faults]
    clients, levels = plan.transactions, plan.transactions.levels
    changes = [replace(each, after_ns=STRETCH * each.after_ns) for each in levels.changes]
    return replace(
        plan,
        settings=plan.settings | SETTINGS,
        topics=(),
        producers=(),
        readers=(),
        trimmers=(),
        recreated=(),
        operations=(),
        voters=0,
        recorded_voters=False,
        fates=(),
        faults=faults,
        transactions=replace(
            clients,
            topics=clients.topics[:1],
            producers=(),
            readers=0,
            levels=replace(levels, changes=changes),
        ),
        heal_ns=max([plan.heal_ns, calm_ms * MS, *ends]) + 100 * MS,
    )


def sink_world(
    seed: int,
    brokers: int = 1,
    plan: SinkPlan = PLAN,
    adjust: Callable[[Schedule], Schedule] = as_drawn,
    kept: Sequence[str] | None = None,
) -> World:
    """Return a world of a seed; `brokers` and `kept` as in `World`."""
    is_drawn = plan is PLAN and adjust is as_drawn
    return World(
        seed,
        STEPS,
        brokers=brokers,
        brief=brokers != 1,
        extras=False,
        transactions=True,
        adjust=lambda schedule: adjust(with_sink(schedule, plan.calm_ms)),
        brings=lambda world: SinkClients(world, plan),
        kept=kept,
        command=f"{COMMAND} --seed {seed} --brokers {brokers}" if is_drawn else None,
    )


def main() -> int:
    """Run the world of a seed again, and explain it; return 1 if it breaks a rule."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--brokers", type=int, default=1, help="0: as the seed decides")
    parser.add_argument("--keep", help="only these parts of the plan, as a shrunk run prints them")
    options = parser.parse_args()
    be_quiet(log=False)
    kept = None if options.keep is None else split(options.keep)
    outcome = run_seed(sink_world(options.seed, options.brokers, kept=kept))
    print("\n".join([summary(outcome), *explain(outcome)]))
    return 0 if outcome.kept else 1


if __name__ == "__main__":
    sys.exit(main())
