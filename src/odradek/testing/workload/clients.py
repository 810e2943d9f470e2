"""All scripted clients of a run: started when their topics exist, stopped, crashed, replaced.

Each is a process of its own with one connection. A crash ends the process at any point, so the
outcome of its unanswered requests stays unknown. It is then replaced: a producer by one with the
batches that were left, a reader by one that starts over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from odradek.model.topics import TopicPartition
from odradek.testing.history import History, SentBatch
from odradek.testing.machine import PORT, host_of
from odradek.testing.network import Fabric
from odradek.testing.process import SimProcess
from odradek.testing.scheduler import MS, Scheduler, SimClock
from odradek.testing.workload.cluster_client import ClusterClient
from odradek.testing.workload.committer import SimCommitter
from odradek.testing.workload.operator import SimOperator
from odradek.testing.workload.producer import ProducerPlan, SimProducer
from odradek.testing.workload.reader import ReaderPlan, SimReader
from odradek.testing.workload.schedule import Schedule, draw_life, draw_reader
from odradek.testing.workload.topics import TopicCreator, TopicLife, TopicLives, TopicPlan
from odradek.testing.workload.transaction_clients import TransactionClients
from odradek.testing.workload.trimmer import SimTrimmer


@dataclass(slots=True, eq=False)
class ScriptedClients:
    """All scripted clients of a run. `acked` is called for every acknowledged batch, `committed`
    for every acknowledged commit, `topics_ready` when the topics that are not deleted exist.
    """

    scheduler: Scheduler
    fabric: Fabric
    history: History
    plan: Schedule
    acked: Callable[[SentBatch], None]
    topics_ready: Callable[[], None] = lambda: None
    committed: Callable[[], None] = lambda: None
    transaction_topics_ready: Callable[[], None] = lambda: None
    topics: dict[str, TopicLife] = field(default_factory=dict)
    """By label."""
    creators: list[TopicCreator] = field(default_factory=list)
    lives: list[TopicLives] = field(default_factory=list)
    producers: list[SimProducer] = field(default_factory=list)
    readers: list[SimReader] = field(default_factory=list)
    trimmers: list[SimTrimmer] = field(default_factory=list)
    committers: list[SimCommitter] = field(default_factory=list)
    operator: SimOperator | None = None
    transactions: TransactionClients = field(init=False)
    _crashes: int = 0
    _to_come: int = 0
    """The number of producers that will soon replace a crashed one."""
    _stopped: bool = False

    def __post_init__(self) -> None:
        self.transactions = TransactionClients(
            self.scheduler,
            self.history,
            self.plan.transactions,
            self._client,
            self.topics,
            self.committed,
            lambda: self.transaction_topics_ready(),
        )

    def start(self) -> None:
        """Create the topics; their clients start when they exist."""
        self.transactions.start()
        if self.plan.operations or self.plan.recorded_voters:
            self._start_operator()
        for plan in self.plan.topics:
            client = self._client(f"admin-{plan.name}")
            creator = TopicCreator(client, self.history, plan, self._ready_for(plan.name))
            self.creators.append(creator)
            creator.start()
        for plan in self.plan.recreated:
            client = self._client(f"admin-{plan.name}")
            lives = TopicLives(client, self.history, plan, self._born, self._ending)
            self.lives.append(lives)
            lives.start()

    def _client(self, name: str, without: Collection[int] = ()) -> ClusterClient:
        process = SimProcess(self.scheduler, name, SimClock(self.scheduler))
        network = self.fabric.network(process, name)
        chance = self.scheduler.stream(f"client/{name}")
        timeout_ms = chance.pick((700, 2000, 5000))
        numbers = range(1, self.plan.machines + 1)
        hosts = [host_of(number) for number in numbers if number not in without]
        if len(hosts) > 1:
            chance.shuffle(hosts)
        return ClusterClient(process, network, chance, hosts, PORT, self.topics, timeout_ms)

    def _start_operator(self) -> None:
        plan = self.plan
        self.operator = SimOperator(
            self._client("operator"),
            self.topics,
            [host_of(number) for number in range(1, plan.machines + 1)],
            {topic.name: topic.partitions for topic in plan.topics},
            plan.operations,
            plan.voters if plan.recorded_voters else 0,
            least_replicas=3 if plan.fates else 1,
        )
        self.operator.start()

    # Clients of the topics that are not deleted.

    def _ready_for(self, name: str) -> Callable[[UUID], None]:
        def ready(topic_id: UUID) -> None:
            self.topics[name] = TopicLife(name, name, topic_id)
            if all(topic.name in self.topics for topic in self.plan.topics):
                self._start_work()
                self.topics_ready()

        return ready

    def _start_work(self) -> None:
        for plan in self.plan.producers:
            self._start_producer(plan)
        for reader_plan in self.plan.readers:
            if reader_plan.partitions:
                self._start_reader(reader_plan)
        for trimmer_plan in self.plan.trimmers:
            client = self._client(trimmer_plan.name)
            trimmer = SimTrimmer(client, self.history, trimmer_plan, self.topics)
            self.trimmers.append(trimmer)
            trimmer.start()
        if self.plan.machines > 1 and self.plan.topics:
            name = "committer0"
            committer = SimCommitter(
                self._client(name), self.history, name, self.plan.topics[0].name
            )
            self.committers.append(committer)
            committer.start()

    def _start_producer(self, plan: ProducerPlan) -> None:
        client = self._client(plan.name)
        producer = SimProducer(client, self.history, plan, self.topics, self.acked)
        self.producers.append(producer)
        producer.start()

    def _start_reader(self, plan: ReaderPlan) -> SimReader:
        # A machine that is disturbed for ever may take itself for a leader: it shows an old end.
        lost = [fate.machine for fate in self.plan.fates] if plan.final else []
        reader = SimReader(self._client(plan.name, lost), self.history, plan, self.topics)
        self.readers.append(reader)
        reader.start()
        return reader

    # Clients of one life of a topic.

    def _born(self, topic: TopicLife) -> None:
        self.topics[topic.label] = topic
        (plan,) = [plan for plan in self.plan.recreated if plan.name == topic.name]
        partitions = [TopicPartition(topic.label, number) for number in range(plan.partitions)]
        chance = self.scheduler.stream(f"life/{topic.label}")
        producer, reader = draw_life(chance, topic.label, partitions)
        self._start_producer(producer)
        self._start_reader(reader)

    def _ending(self, label: str) -> None:
        """Stop the clients of a topic that is being deleted, after a while."""
        for client in self._working_on(label):
            delay_ms = client.client.chance.between(0, 800)
            stop = client.abandon if isinstance(client, SimProducer) else client.stop
            client.client.process.post(delay_ms * MS, "abandon", stop)

    def _working_on(self, label: str) -> list[SimProducer | SimReader]:
        everyone: list[SimProducer | SimReader] = [*self.producers, *self.readers]
        return [each for each in everyone if each.plan.partitions[0].topic == label]

    # The end of the work.

    def work_is_done(self) -> bool:
        """True if every topic exists and every batch is resolved."""
        ready = all(creator.plan.name in self.topics for creator in self.creators)
        lived = all(lives.finished for lives in self.lives)
        made = self._to_come == 0 and all(producer.finished for producer in self.producers)
        voters = self.operator is None or self.operator.has_first_voters
        return ready and lived and made and voters and self.transactions.work_is_done()

    def pending_work(self) -> list[str]:
        """Return what is unfinished, for a report."""
        topics = [f"creating {c.plan.name}" for c in self.creators if c.topic_id is None]
        topics += [lives.pending() for lives in self.lives if not lives.finished]
        if self.operator is not None and not self.operator.has_first_voters:
            topics.append(f"the quorum has {self.operator.voters} voters")
        producers = [p.pending() for p in self.producers if not p.finished]
        return topics + producers + self.transactions.pending_work()

    def rest(self) -> None:
        """Let the operator ask for nothing more."""
        if self.operator is not None:
            self.operator.stop()

    def start_new_work(self) -> None:
        """Create one more topic, and produce to all partitions: work that only a cluster which goes
        on can do.
        """
        replicas = max((topic.replicas for topic in self.plan.topics), default=1)
        client = self._client("admin-late")
        creator = TopicCreator(
            client, self.history, TopicPlan("late", 1, (), replicas=replicas), self._late_topic
        )
        self.creators.append(creator)
        creator.start()

    def _late_topic(self, topic_id: UUID) -> None:
        self.topics["late"] = TopicLife("late", "late", topic_id)
        partitions = [*self.plan.partitions(), TopicPartition("late", 0)]
        self._start_producer(ProducerPlan("late", partitions, 4 * len(partitions), idempotent=True))

    def stop(self) -> None:
        """Stop the readers, trimmers and committers, which do not end by themselves."""
        self._stopped = True
        for reader in self.readers:
            reader.stop()
        for trimmer in self.trimmers:
            trimmer.stopped = True
        for committer in self.committers:
            committer.stopped = True
        self.transactions.stop()

    def start_final_readers(self) -> list[SimReader]:
        """Start one final reader for each partition that exists now."""
        chance = self.scheduler.stream("final")
        finals = []
        forgetful = self.plan.forgetful()
        late = [TopicPartition("late", 0)] if "late" in self.topics else []
        for number, tp in enumerate(self.plan.partitions() + self._last_lives() + late):
            plan = draw_reader(chance, f"final{number}", [tp], final=True)
            plan = replace(plan, sessions=self.plan.sessions, forgetful=tp.topic in forgetful)
            finals.append(self._start_reader(plan))
        return finals

    def _last_lives(self) -> list[TopicPartition]:
        return [
            TopicPartition(lives.topics[-1].label, number)
            for lives in self.lives
            for number in range(lives.plan.partitions)
        ]

    # Crashes.

    def crash(self, number: int) -> None:
        """Kill one working client; another replaces it after a delay."""
        if number % 2 and self.transactions.crash(number // 2):
            return
        working: list[SimProducer | SimReader] = [
            *(producer for producer in self.producers if not producer.finished),
            *(reader for reader in self.readers if not reader.finished),
        ]
        if not working:
            return
        victim = working[number % len(working)]
        self._crashes += 1
        self.history.fault(self.scheduler.now_ns, f"crash of {victim.plan.name}")
        left = 0
        if isinstance(victim, SimProducer):
            left = victim.plan.batches - victim.made
            victim.abandon()
        victim.client.crash()
        delay_ms = number // 7 % 500
        name = f"{victim.plan.name.partition('~')[0]}~{self._crashes}"
        if isinstance(victim, SimReader):
            self.readers.remove(victim)
            plan = replace(victim.plan, name=name)
            self.scheduler.after(delay_ms * MS, name, "start", lambda: self._replace_reader(plan))
        elif left > 0:
            plan_left = replace(victim.plan, name=name, batches=left)
            self._to_come += 1
            self.scheduler.after(
                delay_ms * MS, name, "start", lambda: self._replace_producer(plan_left)
            )

    def _replace_producer(self, plan: ProducerPlan) -> None:
        self._to_come -= 1
        if not self._is_ending(plan.partitions):
            self._start_producer(plan)

    def _replace_reader(self, plan: ReaderPlan) -> None:
        if not self._stopped and not self._is_ending(plan.partitions):
            self._start_reader(plan)

    def _is_ending(self, partitions: Sequence[TopicPartition]) -> bool:
        return partitions[0].topic in self.history.topic_deletions
