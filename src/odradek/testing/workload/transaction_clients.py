"""The transactional clients of a run: topics of their own, producers, readers, groups.

    topics ready ──► producers, readers of committed records ──► all transactions tried
                                                                      │ nothing is open any more
    ends of groups and final readers ◄────────────────────────────────┘

Some transactional ids have two producers at a time, each the zombie of the other. A producer that
crashes is replaced by one with the same id, or by none: then the coordinator must end what it left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from odradek.controller.features import TRANSACTION_VERSION
from odradek.model.topics import TopicPartition
from odradek.testing.history import History
from odradek.testing.prng import SplitMix64
from odradek.testing.scheduler import MS, Scheduler
from odradek.testing.transactions import TransactionHistory
from odradek.testing.workload.cluster_client import ClusterClient
from odradek.testing.workload.committed_reader import SimCommittedReader
from odradek.testing.workload.group_offsets import NO_OFFSET, ask_offsets
from odradek.testing.workload.offset_watcher import SimOffsetWatcher
from odradek.testing.workload.topics import TopicCreator, TopicLife, TopicPlan
from odradek.testing.workload.transaction_levels import (
    NEWEST_LEVEL,
    LevelsPlan,
    SimLevelSetter,
)
from odradek.testing.workload.transactional_producer import (
    SimTransactionalProducer,
    TransactionalProducerPlan,
    group_of,
)

TIMEOUTS_MS = (700, 1_500, 4_000)


@dataclass(frozen=True, slots=True)
class TransactionsPlan:
    """What a seed decides of the transactional clients."""

    topics: Sequence[TopicPlan] = ()
    producers: Sequence[TransactionalProducerPlan] = ()
    readers: int = 0
    ids_of_engines: Sequence[str] = ()
    """The transactional ids of applications of our own that commit offsets of a group."""
    levels: LevelsPlan = NEWEST_LEVEL
    """The finalized levels of `transaction.version`."""
    watches_offsets: bool = False
    """Somebody asks for the offsets of the groups all the time."""

    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(t.name, p) for t in self.topics for p in range(t.partitions)]

    def ids(self) -> list[str]:
        """Return the transactional ids whose producers commit offsets of a group, each once."""
        scripted = [each.transactional_id for each in self.producers]
        return list(dict.fromkeys([*scripted, *self.ids_of_engines]))

    def parts(self) -> list[str]:
        """Return the names of the optional parts."""
        return [*(producer.name for producer in self.producers), *self.levels.parts()]

    def keeping(self, parts: Sequence[str]) -> TransactionsPlan:
        """Return the plan with these of its optional parts only."""
        return replace(
            self,
            producers=[each for each in self.producers if each.name in parts],
            levels=self.levels.keeping(parts),
        )


NO_TRANSACTIONS = TransactionsPlan()


def draw_transactions(
    chance: SplitMix64, topics: Sequence[TopicPlan], steps: int
) -> TransactionsPlan:
    """Draw transactional clients with about `steps` writes, for topics of their own that are made
    like these, and delete nothing.
    """
    own = [
        TopicPlan(
            f"transactions{number}", each.partitions, kept_settings(each), replicas=each.replicas
        )
        for number, each in enumerate(topics)
    ]
    partitions = [TopicPartition(t.name, p) for t in own for p in range(t.partitions)]
    ids = chance.between(1, 3)
    producers = [
        producer
        for number in range(ids)
        for producer in draw_producers(chance, number, partitions, max(2, steps // (3 * ids)))
    ]
    return TransactionsPlan(own, producers, chance.below(3))


def kept_settings(topic: TopicPlan) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in topic.settings if "retention" not in name)


def draw_producers(
    chance: SplitMix64, number: int, partitions: Sequence[TopicPartition], transactions: int
) -> list[TransactionalProducerPlan]:
    """Draw the producers of one transactional id, one or two at a time."""
    rivals = chance.pick((1, 1, 2))
    return [
        TransactionalProducerPlan(
            name=f"transactional{number}.{rival}",
            transactional_id=f"id{number}",
            partitions=[tp for tp in partitions if chance.chance(700)] or partitions,
            transactions=-(-transactions // rivals),
            version=chance.pick((1, 2)),
            timeout_ms=chance.pick(TIMEOUTS_MS),
            abort_rate=chance.pick((0, 200, 500)),
            pause_ms=chance.pick(((0, 20), (1, 200))),
        )
        for rival in range(rivals)
    ]


@dataclass(slots=True, eq=False)
class TransactionClients:
    """Runs a plan. `new_client` makes the connections of one client."""

    scheduler: Scheduler
    history: History
    plan: TransactionsPlan
    new_client: Callable[[str], ClusterClient]
    topics: dict[str, TopicLife]
    """By label; those of all clients of the run."""
    committed: Callable[[], None] = lambda: None
    """Called when a commit is acknowledged."""
    topics_ready: Callable[[], None] = lambda: None
    observed: TransactionHistory = field(default_factory=TransactionHistory)
    creators: list[TopicCreator] = field(default_factory=list)
    producers: list[SimTransactionalProducer] = field(default_factory=list)
    readers: list[SimCommittedReader] = field(default_factory=list)
    watchers: list[SimOffsetWatcher] = field(default_factory=list)
    setter: SimLevelSetter | None = None
    _to_come: int = 0
    """The number of producers that will soon replace a crashed one."""
    _crashes: int = 0

    def start(self) -> None:
        """Set the first level, then create the topics; the clients start when they exist."""
        levels = self.plan.levels
        if levels.is_newest:
            self._create_topics()
            return
        client = self.new_client("admin-levels")
        self.setter = SimLevelSetter(client, self.history, levels, self._create_topics)
        self.setter.start()

    def _create_topics(self) -> None:
        for plan in self.plan.topics:
            client = self.new_client(f"admin-{plan.name}")
            creator = TopicCreator(client, self.history, plan, self._ready_for(plan.name))
            self.creators.append(creator)
            creator.start()

    def _ready_for(self, name: str) -> Callable[[UUID], None]:
        def ready(topic_id: UUID) -> None:
            self.topics[name] = TopicLife(name, name, topic_id)
            if all(topic.name in self.topics for topic in self.plan.topics):
                for plan in self.plan.producers:
                    self._start_producer(plan)
                for number in range(self.plan.readers):
                    self._start_reader(f"committed{number}", final=False)
                if self.setter is not None:
                    self.setter.begin_changes()
                if self.plan.watches_offsets:
                    self._start_watchers()
                self.topics_ready()

        return ready

    def _start_producer(self, plan: TransactionalProducerPlan) -> None:
        producer = SimTransactionalProducer(
            self.new_client(plan.name),
            self.history,
            self.observed,
            plan,
            self.topics,
            self.committed,
            follows_level=plan.version == TRANSACTION_VERSION and not self.plan.levels.is_newest,
        )
        self.producers.append(producer)
        producer.start()

    def _start_reader(self, name: str, *, final: bool) -> SimCommittedReader:
        reader = SimCommittedReader(
            self.new_client(name),
            self.history,
            self.observed,
            name,
            self.plan.partitions(),
            self.topics,
            final,
        )
        self.readers.append(reader)
        reader.start()
        return reader

    def _start_watchers(self) -> None:
        for transactional_id in self.plan.ids():
            watcher = SimOffsetWatcher(
                self.new_client(f"watcher-{transactional_id}"),
                self.observed,
                transactional_id,
                group_of(transactional_id),
                self.plan.partitions(),
            )
            self.watchers.append(watcher)
            watcher.start()

    # Crashes.

    def crash(self, number: int) -> bool:
        """Kill a producer that works, if there is one; most are replaced, by one of the same id."""
        working = [each for each in self.producers if not each.finished]
        if not working:
            return False
        victim = working[number % len(working)]
        left = victim.plan.transactions - victim.tried
        self._crashes += 1
        self.history.fault(self.scheduler.now_ns, f"crash of {victim.plan.name}")
        victim.abandon()
        victim.client.crash()
        if left and number % 5:
            name = f"{victim.plan.name.partition('~')[0]}~{self._crashes}"
            plan = replace(victim.plan, name=name, transactions=left)
            self._to_come += 1

            def start() -> None:
                self._to_come -= 1
                self._start_producer(plan)

            self.scheduler.after(number // 7 % 3_000 * MS, name, "start", start)
        return True

    # The end.

    def work_is_done(self) -> bool:
        """True if every producer has tried all its transactions."""
        ready = all(topic.name in self.topics for topic in self.plan.topics)
        return ready and self._to_come == 0 and all(each.finished for each in self.producers)

    def pending_work(self) -> list[str]:
        """Return what is unfinished, for a report."""
        topics = [f"creating {t.name}" for t in self.plan.topics if t.name not in self.topics]
        return topics + [each.pending() for each in self.producers if not each.finished]

    def stop(self) -> None:
        """Stop the readers and watchers, which do not end by themselves."""
        for reader in self.readers:
            reader.stopped = True
        for watcher in self.watchers:
            watcher.stopped = True

    def start_final(self) -> None:
        """Start to read all committed records, and the offsets of the groups."""
        if self.plan.topics:
            self.observed.final_readers.add("final committed")
            self._start_reader("final committed", final=True)
        for transactional_id in self.plan.ids():
            self.observed.offsets[transactional_id] = ASKED
            self._ask_offset(transactional_id)

    def final_pending(self) -> list[str]:
        """Return what the final readers have not read yet."""
        asked = [name for name, offset in self.observed.offsets.items() if offset == ASKED]
        return [
            *(each.pending() for each in self.readers if each.final and not each.finished),
            *(f"the offset of the group of {name}" for name in asked),
        ]

    def _ask_offset(self, transactional_id: str) -> None:
        def found(offsets: dict[TopicPartition, int]) -> None:
            self.observed.offsets[transactional_id] = max(offsets.values(), default=NO_OFFSET)

        client = self.new_client(f"offsets-{transactional_id}")
        ask_offsets(client, group_of(transactional_id), self.plan.partitions(), found)


ASKED = -2
"""Stands for a committed offset that was asked for and not answered yet."""
