"""What is measured of a cluster: each function drives a running one and returns what that took.

A measurement has single figures, and samples of which percentiles are taken over all turns. CPU is
that of all nodes, from the kernel's account of their processes.
"""

from __future__ import annotations

import itertools
import random
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

import raw_client
from broker_load import GB, recycled_pages
from cluster_client import AckProbe, ClusterClient, Partition, until
from clusters import ClusterProcesses, used_cpu_s
from failover_producer import FailoverProducer
from odradek.model.errors import ErrorCode

FACTOR = 3
PROBED = 12
SETTLE_S = 3.0
LONG_S, IDLE_AFTER_S = 5.0, 75.0


@dataclass
class Measured:
    """Single figures, and samples in seconds."""

    figures: dict[str, float] = field(default_factory=dict)
    samples: dict[str, list[float]] = field(default_factory=dict)

    def add(self, other: Measured) -> None:
        self.figures |= other.figures
        for name, samples in other.samples.items():
            self.samples.setdefault(name, []).extend(samples)


_began = time.monotonic()


def progress(text: str) -> None:
    print(f"    {time.monotonic() - _began:7.1f} s  {text}", file=sys.stderr, flush=True)


def percentile(samples: Iterable[float], percent: float) -> float:
    """Return a sample that so many percent of them are not above; 100 is the greatest."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def probed_topic(client: ClusterClient, partitions: int = PROBED) -> str:
    topic = f"probed-{partitions}"
    # Fenced nodes are nobody's preferred leaders.
    until(lambda: len(client.metadata([]).brokers) == len(client.ports), "nodes are fenced")
    client.create([topic], partitions, FACTOR)
    client.await_led([topic])
    client.await_in_sync([topic], FACTOR)
    return topic


def rejoin(
    cluster: ClusterProcesses, client: ClusterClient, node_id: int, topics: list[str]
) -> None:
    """Start a node again, and wait until it is in every ISR and leads its share."""
    cluster.spawn(node_id)
    cluster.await_ready(node_id)
    client.down.discard(node_id)
    client.await_in_sync(topics, FACTOR)
    client.elect_preferred()
    time.sleep(SETTLE_S)


def kills(cluster: ClusterProcesses, count: int) -> Measured:
    """`kill -9` of one node after another: from that to the next ack of every partition."""
    client = ClusterClient(cluster.ports)
    topic = probed_topic(client)
    found: list[float] = []
    with AckProbe(client, [topic]) as probe:
        time.sleep(SETTLE_S)
        for node_id in itertools.islice(itertools.cycle(cluster.ports), count):
            role = "the controller" if client.controller() == node_id else "no controller"
            client.down.add(node_id)
            since = time.perf_counter()
            cluster.kill(node_id)
            found += (outages := probe.await_acks(since))
            progress(f"node {node_id} killed, {role}: {spread(outages)}")
            rejoin(cluster, client, node_id, [topic])
    return Measured(samples={"kill_s": found})


def coordinator_kills(cluster: ClusterProcesses, count: int) -> Measured:
    """`kill -9` of the coordinator of a transactional id: from that to the next commit, of a record
    in a partition that another node leads.
    """
    client = ClusterClient(cluster.ports)
    topic = probed_topic(client)
    found: list[float] = []
    for number in range(count):
        producer = FailoverProducer(client, topic, f"killed-{number}")
        for _ in range(20):
            producer.commit_one()
        victim = producer.coordinator()
        producer.write_elsewhere_than(victim)
        producer.commit_one()
        client.down.add(victim)
        since = time.perf_counter()
        cluster.kill(victim)
        producer.commit_one()
        found.append(time.perf_counter() - since)
        progress(f"coordinator {victim} killed, committed again: {found[-1]:.3f} s")
        rejoin(cluster, client, victim, [topic, "__transaction_state"])
    return Measured(samples={"coordinator_s": found})


def spread(seconds: list[float]) -> str:
    return f"{min(seconds):.3f} to {max(seconds):.3f} s"


def pauses(cluster: ClusterProcesses, count: int) -> Measured:
    """SIGSTOP of one node after another: from that to the next ack of every partition."""
    client = ClusterClient(cluster.ports)
    topic = probed_topic(client)
    found: list[float] = []
    with AckProbe(client, [topic]) as probe:
        time.sleep(SETTLE_S)
        for node_id in itertools.islice(itertools.cycle(cluster.ports), count):
            since = time.perf_counter()
            cluster.pause(node_id)
            try:
                found += (outages := probe.await_acks(since))
            finally:
                cluster.resume(node_id)
            progress(f"node {node_id} stopped: {spread(outages)}")
            client.await_in_sync([topic], FACTOR)
            client.elect_preferred()
            time.sleep(SETTLE_S)
    return Measured(samples={"pause_s": found})


class SteadyLoad:
    """A librdkafka producer with its defaults and acks=all; it sends at a steady rate."""

    def __init__(self, cluster: ClusterProcesses, topic: str, partitions: int) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "acks": "all",
                "log_level": 0,
            }
        )
        self._topic = topic
        self.failed = 0
        self.acked: dict[int, list[float]] = {each: [] for each in range(partitions)}

    def run(self, step: Callable[[], bool], per_s: int) -> None:
        """Send until `step` says that it is over; wait for the last acknowledgement."""
        began, sent = time.perf_counter(), 0
        while step():
            due = int((time.perf_counter() - began) * per_s)
            for _ in range(due - sent):
                with suppress(BufferError):
                    self._producer.produce(
                        self._topic,
                        b"x" * 100,
                        partition=sent % len(self.acked),
                        on_delivery=self._delivered,
                    )
                sent += 1
            self._producer.poll(0.002)
        self._producer.flush(130)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed += 1
        else:
            self.acked[message.partition() or 0].append(time.perf_counter())

    def longest_gap(self) -> float:
        """Return the longest time between two acknowledgements of a partition."""
        return max(
            (b - a for times in self.acked.values() for a, b in itertools.pairwise(times)),
            default=float("nan"),
        )


def rolling_restart(cluster: ClusterProcesses) -> Measured:
    """Every node is stopped cleanly and started again, one at a time, under load."""
    client = ClusterClient(cluster.ports)
    topic = probed_topic(client)
    load = SteadyLoad(cluster, topic, PROBED)
    with ThreadPoolExecutor(1) as others:

        def restart() -> None:
            time.sleep(SETTLE_S)
            for node_id in cluster.ports:
                client.down.add(node_id)
                began = time.perf_counter()
                cluster.stop(node_id)
                progress(f"node {node_id} ended after {time.perf_counter() - began:.2f} s")
                rejoin(cluster, client, node_id, [topic])
                progress(f"node {node_id} is back after {time.perf_counter() - began:.2f} s")

        work = others.submit(restart)
        load.run(lambda: not work.done(), per_s=600)
        work.result()
    return Measured({"restart_failed": load.failed, "restart_gap_s": load.longest_gap()})


def warm_up(cluster: ClusterProcesses, seconds: float, work: Path) -> None:
    """Both kinds of load, until the JVMs compile no more of it."""
    progress("warming up")
    big(cluster, int(seconds * 20_000), work)
    small(cluster, 64, seconds)
    small(cluster, 3, seconds)


def spread_topic(client: ClusterClient, name: str, factor: int = FACTOR) -> str:
    """Create a topic with a partition led by each node."""
    client.create([name], len(client.ports), factor)
    client.await_led([name])
    client.await_in_sync([name], factor)
    return name


_numbers = itertools.count()


def big(
    cluster: ClusterProcesses,
    records: int,
    work: Path,
    factor: int = FACTOR,
    per_s: float | None = None,
) -> Measured:
    """Big batches of librdkafka, 1 KB a record, acks=all; the topic is deleted at the end. As many
    records as the cluster takes, or `per_s`.
    """
    client = ClusterClient(cluster.ports)
    topic = spread_topic(client, f"big-{next(_numbers)}", factor)
    recycled_pages(work, records * 1050 * factor)
    cpu, start = cluster.cpu_s(), time.perf_counter()
    send_big(cluster, topic, records, per_s)
    elapsed = time.perf_counter() - start
    cpu = cluster.cpu_s() - cpu
    delete(client, topic)
    return Measured(
        {"cpu_s_per_gb": cpu / (records * 1024 / GB), "mb_per_s": records * 1024 / elapsed / 1e6}
    )


def send_big(
    cluster: ClusterProcesses, topic: str, records: int, per_s: float | None = None
) -> None:
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "acks": "all",
            "linger.ms": 20,
            "queue.buffering.max.messages": 200_000,
            "queue.buffering.max.kbytes": 256_000,
        }
    )
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error)

    value = (bytes(range(256)) * 4)[:1024]
    nodes, sent, start = len(cluster.ports), 0, time.monotonic()
    while sent < records:
        if per_s is not None and sent % nodes == 0 and sent > (time.monotonic() - start) * per_s:
            producer.poll(0.001)
            continue
        try:
            # The whole batches of one partition after another's, as its own partitioner does; at a
            # given rate a batch is what comes in the linger time.
            partition = sent // 500 % nodes if per_s is None else sent % nodes
            producer.produce(topic, value, partition=partition, on_delivery=delivered)
            sent += 1
        except BufferError:
            producer.poll(0.01)
        if sent % 1000 == 0:
            producer.poll(0)
    if producer.flush(120) or failed:
        raise RuntimeError(f"not all records were acknowledged: {failed[:1]}")


def delete(client: ClusterClient, topic: str) -> None:
    for port in client.ports.values():
        with suppress(OSError, RuntimeError):
            raw_client.delete_topic(port, topic)
            return


def small(
    cluster: ClusterProcesses,
    connections: int,
    seconds: float,
    factor: int = FACTOR,
    per_s: float | None = None,
) -> Measured:
    """One record of 100 bytes per request, one request under way on each connection, acks=all. As
    many as the cluster takes, or `per_s`.
    """
    client = ClusterClient(cluster.ports)
    topic = spread_topic(client, "small", factor)
    ports = leaders_ports(client, topic)
    requests = [
        (ports[index], raw_client.produce_frame(topic, 100, -1, (index,))) for index in ports
    ]
    raw_client.single_records_of(requests, connections, seconds / 10)
    cpu, start = cluster.cpu_s(), time.perf_counter()
    if per_s is None:
        answered = raw_client.single_records_of(requests, connections, seconds)
    else:
        answered = raw_client.paced_records_of(requests, connections, seconds, per_s)
    elapsed = time.perf_counter() - start
    cpu = cluster.cpu_s() - cpu
    return Measured({"cpu_us": cpu / answered * 1e6, "per_s": answered / elapsed})


def leaders_ports(client: ClusterClient, topic: str) -> dict[int, int]:
    found = client.partitions([topic])
    return {key.number: client.ports[each.leader_id] for key, each in found.items()}


def one_in_flight(cluster: ClusterProcesses, count: int) -> Measured:
    """A record of 100 bytes at a time, acks=all: from its request to the answer."""
    client = ClusterClient(cluster.ports)
    topic = spread_topic(client, "one")
    times: list[float] = []
    for index, port in leaders_ports(client, topic).items():
        request = raw_client.produce_frame(topic, 100, -1, (index,))
        with raw_client.connect(port) as line:
            for number in range(count // 10 + count):
                start = time.perf_counter()
                line.sendall(request)
                raw_client.receive(line)
                if number >= count // 10:
                    times.append(time.perf_counter() - start)
    return Measured(samples={"one_s": times})


def produce(cluster: ClusterProcesses, gigabytes: float, seconds: float, work: Path) -> Measured:
    """Big batches and single records, after a warm-up."""
    warm_up(cluster, 2 * seconds, work)
    measured = big(cluster, int(gigabytes * GB / 1024), work)
    progress(f"big: {measured.figures}")
    for each in (small(cluster, 64, seconds), one_in_flight(cluster, int(500 * seconds))):
        measured.add(each)
    progress(f"small: {measured.figures}")
    return measured


def topics_of(partitions: int) -> list[str]:
    return [f"many-{number:03}" for number in range(partitions // 100)]


def make(client: ClusterClient, topics: list[str], factor: int = FACTOR) -> float:
    """Create topics of 100 partitions, ten a request; the seconds until all have a leader."""
    began = time.perf_counter()
    for first in range(0, len(topics), 10):
        client.create(topics[first : first + 10], 100, factor)
    progress(f"{len(topics) * 100} partitions are created: {time.perf_counter() - began:.2f} s")
    client.await_led(topics)
    took = time.perf_counter() - began
    progress(f"{len(topics) * 100} partitions have leaders: {took:.2f} s")
    return took


def idle(cluster: ClusterProcesses, seconds: float) -> dict[str, float]:
    """What nodes that nobody asks anything take, after the checkpoint that comes up to a minute
    after their last record and flushes every log that has one. A short measurement does not wait so
    long."""
    time.sleep(IDLE_AFTER_S if seconds >= LONG_S else seconds)
    cpu = cluster.scheduled_s()
    time.sleep(seconds)
    percent = (cluster.scheduled_s() - cpu) / seconds * 100
    progress(f"idle: {percent:.1f} % of a core, {cluster.pss_mib():.0f} MiB")
    return {"idle_cpu_percent": percent, "idle_pss_mib": cluster.pss_mib()}


def restart_cpu_s(cluster: ClusterProcesses, node_id: int) -> float:
    """Stop a node cleanly and start it; return what it took of the CPU until its first answer."""
    cluster.stop(node_id)
    began = time.perf_counter()
    cluster.spawn(node_id)
    ClusterClient({node_id: cluster.ports[node_id]}).partitions([])
    cpu, took = used_cpu_s(cluster.processes[node_id].pid), time.perf_counter() - began
    progress(f"node {node_id} answers after {took:.2f} s, CPU {cpu:.2f} s")
    return cpu


def partitions(cluster: ClusterProcesses, count: int, idle_s: float, kills: int) -> Measured:
    """`count` partitions made, idle, led again after a kill; then kills of the controller."""
    client = ClusterClient(cluster.ports)
    client.create(["first"], 1, FACTOR)  # All nodes are there.
    client.await_led(["first"])
    topics = topics_of(count)
    cpu = cluster.cpu_s()
    measured = Measured({"made_s": make(client, topics)})
    measured.figures["made_cpu_s"] = cluster.cpu_s() - cpu
    client.await_in_sync(topics, FACTOR)
    if idle_s:
        measured.figures |= idle(cluster, idle_s)
        victim = next(each for each in cluster.ports if each != client.controller())
        began = time.perf_counter()
        client.down.add(victim)
        cluster.kill(victim)
        client.await_led(topics, without=victim)
        measured.figures["led_again_s"] = time.perf_counter() - began
        progress(f"all led again: {measured.figures['led_again_s']:.2f} s")
        rejoin(cluster, client, victim, topics)
    for number in range(kills):
        measured.add(controller_kill(cluster, client, number))
        [down] = client.down
        if number + 1 < kills:
            rejoin(cluster, client, down, topics)
    return measured


def controller_kill(cluster: ClusterProcesses, client: ClusterClient, number: int) -> Measured:
    """`kill -9` of the controller's node: from that to the first CreateTopics that is answered."""
    victim = client.controller()
    began = time.perf_counter()
    client.down.add(victim)
    cluster.kill(victim)

    def created() -> bool:
        with suppress(OSError):
            # A request that the failover swallows is given up like a lost one.
            topic = f"after-{number}"
            return client.create_once([topic], 1, 1, timeout_s=2)[topic] == ErrorCode.NONE
        return False

    until(created, "CreateTopics was not answered")
    took = time.perf_counter() - began
    progress(f"controller {victim} killed, CreateTopics answered: {took:.3f} s")
    return Measured(samples={"controller_s": [took]})


def log_bytes(directory: Path) -> int:
    """Return the size of all segments below a directory."""
    total = 0
    for path in directory.rglob("*.log"):
        with suppress(OSError):
            total += path.stat().st_size
    return total


def catch_up(cluster: ClusterProcesses, gigabytes: float) -> Measured:
    """A node misses records and comes back, while others are acknowledged.

    The rate counts from the first bytes that it fetches until it is in every ISR.
    """
    client = ClusterClient(cluster.ports)
    probed = probed_topic(client, 3)
    topic = spread_topic(client, "missed")
    away = 3
    client.down.add(away)
    cluster.stop(away)
    records = int(gigabytes * GB / 1024)
    with AckProbe(client, [probed], 0.01) as probe:
        probe.await_acks(time.perf_counter())
        send_big(cluster, topic, records)
        time.sleep(SETTLE_S)
        quiet_since = time.perf_counter()
        time.sleep(SETTLE_S)
        quiet = probe.latencies(quiet_since, time.perf_counter())
        before = log_bytes(cluster.data_dir(away))
        progress(f"{gigabytes} GB were missed")
        began = time.perf_counter()
        cluster.spawn(away)
        first_bytes, cpu = None, cluster.cpu_s()
        while True:
            if first_bytes is None and log_bytes(cluster.data_dir(away)) > before + 100_000:
                first_bytes, cpu = time.perf_counter(), cluster.cpu_s()
            found = client.partitions([topic])
            if all(len(each.isr_nodes) >= FACTOR for each in found.values()):
                break
            if time.perf_counter() - began > 600:
                raise RuntimeError("the node did not catch up in ten minutes")
            time.sleep(0.02)
        end, cpu = time.perf_counter(), cluster.cpu_s() - cpu
        first_bytes = first_bytes or began
        meanwhile = probe.latencies(first_bytes, end)
    size = records * 1024
    progress(f"caught up {size / (end - first_bytes) / 1e6:.0f} MB/s, {end - began:.1f} s in all")
    return Measured(
        {
            "catch_up_mb_per_s": size / (end - first_bytes) / 1e6,
            "catch_up_cpu_s_per_gb": cpu / (size / GB),
            "back_s": end - began,
        },
        {"catching_up_produce_s": meanwhile, "before_produce_s": quiet},
    )


def first_ack(ports: dict[int, int]) -> None:
    """Until a record is acknowledged by three replicas; the nodes may still be starting."""
    client = ClusterClient(ports)
    topic = f"first-{random.randrange(1 << 30)}"
    client.create([topic], 1, FACTOR)

    def acked() -> bool:
        with suppress(OSError, KeyError):
            leader = client.partitions([topic])[Partition(topic, 0)].leader_id
            with raw_client.connect(ports[leader]) as line:
                line.settimeout(5)
                line.sendall(raw_client.produce_frame(topic, 100, -1))
                return raw_client.produce_error(line) == ErrorCode.NONE
        return False

    until(acked, "no record was acknowledged")
