"""One chaos run: writers and a group against brokers, fault after fault, and the checks."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

from chaos.cluster import (
    COPY_TOPIC,
    COUNTS_TOPIC,
    GROUP,
    OFFSETS_TOPIC,
    PATIENCE_S,
    TOPIC,
    TRANSACTIONS_TOPIC,
    ChaosFailure,
    Cluster,
)
from chaos.committed import CommittedOffsets
from chaos.copier import Copier, wrong_copies
from chaos.counting import NAME as COUNTING
from chaos.counting import Counting, counts_of, wrong_counts
from chaos.faults import FAULTS, Victims
from chaos.node import TESTS, environment
from chaos.reading import Values, read_to_end, values_of
from chaos.transactions import (
    LIBRARIES,
    TransactionalWriter,
    await_ends,
    committed_offset,
)
from chaos.writer import FLUSH_S, PLAIN, REORDERING
from clients.group_members import Members
from clients.libraries.transactional import TransactionalProducer
from odradek import Admin
from odradek.model.topics import TopicPartition
from odradek.testing.checker import FSYNC, Checker
from odradek.testing.history import Content, History, Read, SentBatch

PARTITIONS = 3
WRITERS = ("odradek", "confluent-kafka", "confluent-kafka-plain", "kafka-python")
JAVA = "java"
CHAOS_WRITER = Path(__file__).with_name("ChaosWriter.java")
GROUP_MEMBER = TESTS / "interop" / "GroupMember.java"
READERS = ("odradek", "confluent-kafka", "kafka-python")
REST_S = (0.5, 2.0)
"""The pause between all writers' first acknowledgement after a fault and the next fault."""
UNBOUNDED = 1 << 62
MANY_ATTEMPTS = 1_000_000
"""A plain producer may repeat a record as often as it likes."""


class Writer:
    """One process of `chaos.writer`, or of `ChaosWriter.java` with the class path `jars`, and what
    it has noted so far.
    """

    def __init__(
        self, library: str, bootstrap: str, rate: int, directory: Path, jars: str | None = None
    ) -> None:
        self.library = library
        self.path = directory / f"{library}.jsonl"
        arguments = [library, bootstrap, TOPIC, str(PARTITIONS), str(rate), str(self.path)]
        if library == JAVA:
            assert jars is not None, "a Java writer without a class path"
            command = ["java", "-Xmx128m", "-cp", jars, str(CHAOS_WRITER), *arguments]
        else:
            command = [sys.executable, "-m", "chaos.writer", *arguments]
        with (directory / f"{library}.log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stderr=log,
                env=environment(),
            )

    def last_ack_ns(self) -> int:
        """The time of the last acknowledgement in the file; 0 without one."""
        latest = 0
        with self.path.open("rb") as file:
            file.seek(max(0, self.path.stat().st_size - (1 << 16)))
            for line in file.read().splitlines()[1:]:
                if line.startswith(b'["a"') and line.endswith(b"]"):
                    latest = max(latest, json.loads(line)[-1])
        return latest

    def finish(self) -> None:
        """Send no more, and wait until what was sent has an outcome."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def join(self) -> None:
        if self._process.wait(FLUSH_S + PATIENCE_S) != 0:
            raise ChaosFailure(f"writer {self.library} ended with {self._process.returncode}")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def events(self) -> Iterator[list[object]]:
        """Everything it noted."""
        with self.path.open() as file:
            for line in file:
                yield json.loads(line)


@dataclass(slots=True)
class Outage:
    """One fault, from its beginning until it was healed and all was whole again, and for how long
    there was no acknowledgement around it.
    """

    kind: str
    began_ns: int
    victims: Victims = ()
    healed_ns: int = 0
    whole_ns: int = 0
    """All writers got an acknowledgement again, and all replicas were in sync."""
    partitions_s: float = 0
    """The longest time without an acknowledgement to any writer in one partition."""
    gaps_s: dict[str, float] = field(default_factory=dict)
    """The same for each writer alone."""


@dataclass(slots=True)
class Result:
    """What a run has shown."""

    seed: int
    outages: list[Outage]
    sent: int = 0
    acked: int = 0
    failed: dict[str, int] = field(default_factory=dict)
    """Sends that failed, by writer: allowed, but told."""
    read: int = 0
    read_again: int = 0
    starts: int = 0
    transactions: int = 0
    """Transactions that were begun."""
    hung: int = 0
    """Transactional producers with a call that did not return."""
    copied: int = 0
    """Records that Kafka's copier has copied."""
    copiers: int = 0
    """How often it was started, of which"""
    copiers_failed: int = 0
    """it ended with an error."""
    counted: int = 0
    """Records that Kafka Streams has counted."""
    counting: int = 0
    """How often it was started, of which"""
    counting_failed: int = 0
    """it ended with an error."""
    committed: int = 0
    """Offsets that were committed and compared during the run, besides those of the group."""
    stale: int = 0
    """How often an older one was told before."""
    violations: list[str] = field(default_factory=list)


def chaos_run(
    directory: Path,
    *,
    brokers: int = 1,
    seed: int,
    seconds: float,
    rate: int = 100,
    kinds: Sequence[str] = (),
    writers: Sequence[str] = WRITERS,
    readers: Sequence[str] = READERS,
    transactional: Sequence[type[TransactionalProducer]] = LIBRARIES,
    jars: str | None = None,
    streams_jars: str | None = None,
    told: Callable[[Outage], None] = lambda outage: None,
) -> Result:
    """Run for at least so many seconds, each kind of fault at least once; check everything.

    `brokers`: 1 or 3. `kinds`: of faults, all of them if there are none. `jars`: the class path of
    Kafka's own clients; with it a producer and a consumer of them take part, and its copier.
    `streams_jars`: that of Kafka Streams, with which an application takes part.
    """
    if jars is not None:
        writers = (*writers, JAVA)
    chance = random.Random(seed)
    faults = FAULTS[brokers]
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(directory, brokers, chance))
        bootstrap = cluster.bootstrap
        cluster.create_topic(PARTITIONS)
        log = stack.enter_context((directory / "readers.log").open("ab"))
        members = stack.enter_context(Members(bootstrap, GROUP, TOPIC, "range", 10_000, stderr=log))
        group = [members.start(library) for library in readers]
        if jars is not None:
            group.append(
                members.add(
                    JAVA, ["java", "-Xmx128m", "-cp", jars, str(GROUP_MEMBER), *members.arguments]
                )
            )
        running = [Writer(library, bootstrap, rate, directory, jars) for library in writers]
        for writer in running:
            stack.callback(writer.kill)
        await_acks(running, 0)
        # So that its log is there before the first fault, and has a coordinator to choose.
        members.until(lambda: any(member.owned for member in group), "the group has members")
        cluster.await_whole()
        committed = CommittedOffsets(bootstrap)
        transactions = [
            TransactionalWriter(library, bootstrap, directory) for library in transactional
        ]
        applications = Applications.started(stack, bootstrap, directory, jars, streams_jars)
        outages: list[Outage] = []
        with (
            ExitStack() as during,
            committed,
        ):  # Without the end: a log that still grows has none to read to.
            for each in transactions:
                during.enter_context(each)
            for kind in schedule(chance, kinds or tuple(faults), seconds):
                outage = Outage(kind, time.monotonic_ns())
                outages.append(outage)
                outage.victims = faults[kind](cluster)
                outage.healed_ns = time.monotonic_ns()
                await_acks(running, outage.healed_ns)
                cluster.await_whole()
                outage.whole_ns = time.monotonic_ns()
                told(outage)
                cluster.wait(REST_S)
            for each in transactions:
                each.await_commit()
        for writer in running:
            writer.finish()
        for writer in running:
            writer.join()
        result = Result(seed, outages, starts=cluster.starts)
        result.committed, result.stale = committed.acked, committed.stale
        check_transactions(bootstrap, transactions, applications, result)
        history = history_of(running, result, brokers)
        final = read_final(bootstrap, history)
        values = {value for rows in final.values() for _, value, _ in rows}
        await_group(lambda: [value for member in group for value in member.read], values, result)
        for member in group:
            member.close()
        cluster.await_whole()
        result.violations += cluster.await_equal_logs()
        log_of_offsets = read_to_end(bootstrap, OFFSETS_TOPIC)
        result.violations += committed.violations((m.key(), m.value()) for m in log_of_offsets)
        if any(node.stop() != 0 for node in cluster.nodes.values()):
            result.violations.append("the last clean stop failed")
    checker = Checker(history, FSYNC)
    result.violations += checker.check()
    measure_gaps(running, outages)
    return result


class Applications(NamedTuple):
    """Kafka's own that read what the transactional writers commit; None if they do not run."""

    copier: Copier | None
    counting: Counting | None

    @classmethod
    def started(
        cls,
        stack: ExitStack,
        bootstrap: str,
        directory: Path,
        jars: str | None,
        streams_jars: str | None,
    ) -> Self:
        copier = counting = None
        if jars is not None:
            copier = stack.enter_context(Copier(bootstrap, directory, jars))
        if streams_jars is not None:
            counting = stack.enter_context(Counting(bootstrap, directory, streams_jars))
        return cls(copier, counting)

    def await_done(self) -> None:
        """Wait until they have processed all that there is; stop."""
        if self.copier is not None:
            self.copier.await_copied()
        if self.counting is not None:
            self.counting.await_counted()

    def check(self, bootstrap: str, values: Values, result: Result) -> None:
        """Note what they did not process once. `values` are their input."""
        if self.copier is not None:
            copies = values_of(bootstrap, COPY_TOPIC)
            result.violations += wrong_copies(values, copies)
            result.copied, result.copiers = copies.total(), self.copier.starts
            result.copiers_failed = self.copier.failures
        if self.counting is not None:
            counts = counts_of(bootstrap)
            result.violations += wrong_counts(values, counts)
            result.counted, result.counting = sum(map(len, counts.values())), self.counting.starts
            result.counting_failed = self.counting.failures


def check_transactions(
    bootstrap: str,
    writers: Sequence[TransactionalWriter],
    applications: Applications,
    result: Result,
) -> None:
    """Note the transactions that are torn, lost or left open, wrong copies of them, and wrong
    counts."""
    result.violations += await_ends(bootstrap, TRANSACTIONS_TOPIC)
    applications.await_done()
    with Admin(brokers=bootstrap) as admin:
        own = [topic.name for topic in admin.topics() if topic.name.startswith(f"{COUNTING}-")]
    result.violations += await_ends(bootstrap, COPY_TOPIC, COUNTS_TOPIC, OFFSETS_TOPIC, *own)
    values = values_of(bootstrap, TRANSACTIONS_TOPIC)
    applications.check(bootstrap, values, result)
    for writer in writers:
        result.transactions += len(writer.outcomes)
        result.hung += writer.hung
        result.violations += writer.violations(values)
        offset = committed_offset(bootstrap, writer.name)
        result.violations += writer.wrong_offset(offset, values)


def schedule(chance: random.Random, kinds: Sequence[str], seconds: float) -> Iterator[str]:
    """Yield kinds of faults, all of them in each round, until the time is up."""
    end = time.monotonic() + seconds
    while True:
        yield from chance.sample(list(kinds), len(kinds))
        if time.monotonic() >= end:
            return


def await_acks(writers: Sequence[Writer], after_ns: int) -> None:
    """Wait until each writer got an acknowledgement after that time."""
    deadline = time.monotonic() + PATIENCE_S
    waiting = list(writers)
    while waiting:
        waiting = [w for w in waiting if not w.path.exists() or w.last_ack_ns() <= after_ns]
        if time.monotonic() > deadline:
            names = ", ".join(writer.library for writer in waiting)
            raise ChaosFailure(f"no acknowledgement for {PATIENCE_S} s: {names}")
        threading.Event().wait(0.05)


def history_of(writers: Sequence[Writer], result: Result, brokers: int = 1) -> History:
    """Return the sends of all writers in their order, with their outcomes."""
    history = History()
    for writer in writers:
        sends: dict[int, SentBatch] = {}
        for event in writer.events():
            match event:
                case ["s", int(number), int(partition), int(timestamp), int(ns)]:
                    value = f"{writer.library}:{number}".encode()
                    sends[number] = SentBatch(
                        writer.library,
                        TopicPartition(TOPIC, partition),
                        [Content(None, value, (), timestamp)],
                        acks=-1,
                        idempotent=writer.library not in PLAIN,
                        in_order=brokers == 1 or writer.library not in REORDERING,
                        invoked_ns=ns,
                        attempts=MANY_ATTEMPTS,
                        outcome="info",
                    )
                case ["a", int(number), int(offset), int(ns)]:
                    send = sends[number]
                    send.outcome, send.base_offset, send.ended_ns = "ok", offset, ns
                case ["f", int(number), str(_), int(_)]:
                    result.failed[writer.library] = result.failed.get(writer.library, 0) + 1
        history.sends += sends.values()
        result.sent += len(sends)
    result.acked = history.acked()
    return history


Rows = list[tuple[int, str, Content]]


def read_final(bootstrap: str, history: History) -> dict[TopicPartition, Rows]:
    """Read the whole topic into the history, as its final reader."""
    found: dict[TopicPartition, Rows] = {
        TopicPartition(TOPIC, number): [] for number in range(PARTITIONS)
    }
    for message in read_to_end(bootstrap, TOPIC):
        value, offset = message.value(), message.offset()
        assert value is not None
        assert offset is not None
        content = Content(message.key(), value, (), message.timestamp()[1])
        key = TopicPartition(TOPIC, message.partition() or 0)
        found[key].append((offset, value.decode(), content))
    now = time.monotonic_ns()
    for key, rows in found.items():
        records = [(offset, content) for offset, _, content in rows]
        history.reads.append(Read("final", key, now, 0, records, UNBOUNDED, final=True))
    return found


def await_group(read: Callable[[], list[str]], values: set[str], result: Result) -> None:
    """Wait until the group has read every record; note how many, and how many again."""
    deadline = time.monotonic() + PATIENCE_S
    while (missing := values.difference(seen := read())) and time.monotonic() < deadline:
        threading.Event().wait(0.5)
    result.read, result.read_again = len(set(seen)), len(seen) - len(set(seen))
    if missing:
        example = ", ".join(sorted(missing)[:3])
        result.violations.append(f"the group skipped {len(missing)} records: {example} …")
    if invented := set(seen) - values:
        result.violations.append(f"the group read {len(invented)} records that are not in the log")


def measure_gaps(writers: Sequence[Writer], outages: Sequence[Outage]) -> None:
    """Set for each fault for how long there was no acknowledgement around it."""
    everybody: dict[int, list[int]] = defaultdict(list)
    for writer in writers:
        partitions: dict[int, int] = {}
        acks: dict[int, list[int]] = defaultdict(list)
        for event in writer.events():
            match event:
                case ["s", int(number), int(partition), int(_), int(_)]:
                    partitions[number] = partition
                case ["a", int(number), int(_), int(ns)]:
                    acks[partitions[number]].append(ns)
                    everybody[partitions[number]].append(ns)
        for outage in outages:
            outage.gaps_s[writer.library] = longest_gap_s(acks, outage)
    for outage in outages:
        outage.partitions_s = longest_gap_s(everybody, outage)


def longest_gap_s(acks: Mapping[int, list[int]], outage: Outage) -> float:
    """Return the longest time between two acknowledgements of a partition around a fault."""
    gaps = [
        later - earlier
        for times in acks.values()
        for earlier, later in itertools.pairwise(sorted(times))
        if later > outage.began_ns and earlier < outage.whole_ns
    ]
    return max(gaps, default=0) / 1e9
