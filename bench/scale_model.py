"""What a cluster needs and what ends first, from what single things were measured to cost.

Everything is linear: a request, a GB, a replica, a partition, a member has a price, and a cluster
pays it so often. `fitted` takes the prices out of measurements of small clusters, `predict` says
what a `Load` costs a node, `limits` how much of what a node or the cluster has that is. Nothing is
measured here. Not in the model: skew between nodes and partitions (it predicts the average node),
disks that are slower than the network, and clients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

GB = 1e9
MIB = 2**20
KIB = 2**10
MEMBER_HEARTBEATS_PER_S = 1 / 3


@dataclass(frozen=True, kw_only=True)
class Costs:
    """The price of each thing. CPU is that of one core of the machine that was measured."""

    request_us: float
    """One small Produce request with `acks=all`, at its leader, many connections under way."""
    follow_request_us: float
    """The same, for each further replica: what leader and follower take together."""
    gb_s: float
    """One GB produced in big batches, at its leader."""
    follow_gb_s: float
    """The same, for each further replica: what leader and follower take together."""
    read_gb_s: float
    """One GB read by consumers, from the page cache."""
    member_heartbeat_us: float
    alone_cpu: float
    """A node that does nothing, without others: its share of a core."""
    member_cpu: float
    """The same in a cluster: fetches of the metadata log, heartbeats, at both ends."""
    pair_cpu: float
    """A node that follows another one with nothing to fetch: the share of a core of both."""
    node_mib: float
    replica_kib: float
    """Memory of one replica, at its node, without the image."""
    connection_kib: float
    member_kib: float
    partition_image_bytes: float
    """Memory of one partition in the metadata image, which every node has."""
    partition_snapshot_bytes: float
    """One partition in a snapshot of the metadata."""
    partition_load_us: float
    """Reading that at a start."""
    look_us: float
    """The controller looks at a partition and finds nothing to do."""
    record_us: float
    """The controller decides what becomes of a partition of a fenced broker, beside the look."""
    record_bytes: float
    follow_record_us: float
    """Another broker replays such a record."""
    start_s: float
    """A start without partitions: process, modules, registration."""
    open_replica_ms: float
    """A start opens a replica's log that was closed cleanly."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """A cluster and what it is asked to do."""

    nodes: int
    partitions: int = 0
    factor: int = 3
    gb_per_s: float = 0.0
    """Written by producers, before replication."""
    batch_bytes: float = 64 * KIB
    """What a producer sends a partition at once: a request of its own in the model."""
    requests_per_s: float = 0.0
    """Small requests beside that."""
    readers: float = 1.0
    """How often each byte is read by consumers."""
    connections: int = 0
    members: int = 0

    @property
    def followers(self) -> int:
        """The replicas of a partition beside its leader."""
        return min(self.factor, self.nodes) - 1

    @property
    def replicas_per_node(self) -> float:
        return self.partitions * (self.followers + 1) / self.nodes

    @property
    def pairs(self) -> int:
        """Followed leaders: each node follows each other one, if there are partitions enough."""
        possible = self.nodes * (self.nodes - 1)
        return min(possible, self.partitions * self.followers) if self.partitions else possible


@dataclass(frozen=True)
class Prediction:
    """What a load takes. `cores` is of the whole cluster; the rest of the average node."""

    cores: float
    node_cores: float
    """The owner thread's, which is one."""
    node_mib: float
    node_in_gb_per_s: float
    node_out_gb_per_s: float
    replicas_per_node: float
    image_mib: float
    snapshot_mib: float
    snapshot_load_s: float
    failover_records: float
    failover_bytes: float
    controller_failover_s: float
    """CPU of the controller after a broker was fenced, until the last record."""
    follow_failover_s: float
    """CPU of each other broker for the same."""
    start_s: float
    """A node begins, opens its logs and reads the image."""


def predict(costs: Costs, load: Load) -> Prediction:
    """Return what a cluster takes for a load, from the prices."""
    batches = load.gb_per_s * GB / load.batch_bytes + load.requests_per_s
    followers = load.followers
    per_request_us = costs.request_us + followers * costs.follow_request_us
    per_gb_s = costs.gb_s + followers * costs.follow_gb_s + load.readers * costs.read_gb_s
    cores = (
        batches * per_request_us / 1e6
        + load.gb_per_s * per_gb_s
        + load.members * MEMBER_HEARTBEATS_PER_S * costs.member_heartbeat_us / 1e6
        + load.nodes * (costs.member_cpu if load.nodes > 1 else costs.alone_cpu)
        + load.pairs * costs.pair_cpu
    )
    replicas = load.replicas_per_node
    image = load.partitions * costs.partition_image_bytes
    memory = (
        costs.node_mib
        + replicas * costs.replica_kib / KIB
        + image / MIB
        + (load.connections * costs.connection_kib + load.members * costs.member_kib)
        / load.nodes
        / KIB
    )
    gb_per_node = load.gb_per_s / load.nodes
    changed = replicas  # Every partition of which the broker has a replica.
    load_s = load.partitions * costs.partition_load_us / 1e6
    return Prediction(
        cores=cores,
        node_cores=cores / load.nodes,
        node_mib=memory,
        node_in_gb_per_s=gb_per_node * (1 + followers),
        node_out_gb_per_s=gb_per_node * (followers + load.readers),
        replicas_per_node=replicas,
        image_mib=image / MIB,
        snapshot_mib=load.partitions * costs.partition_snapshot_bytes / MIB,
        snapshot_load_s=load_s,
        failover_records=changed,
        failover_bytes=changed * costs.record_bytes,
        controller_failover_s=(load.partitions * costs.look_us + changed * costs.record_us) / 1e6,
        follow_failover_s=changed * costs.follow_record_us / 1e6,
        start_s=costs.start_s + replicas * costs.open_replica_ms / 1e3 + load_s,
    )


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What a node has, and how long the rare things may take."""

    owner_thread: float = 0.7
    """The share of its core up to which answers are not late."""
    network_gb_per_s: float = 3.1
    """25 Gbit/s, in each direction."""
    node_mib: float = 16 * KIB
    failover_s: float = 3.0
    """Without leader, after a broker was lost."""
    start_s: float = 60.0
    """The start of one node, in a rolling restart."""
    image_mib: float = 1 * KIB


@dataclass(frozen=True, order=True)
class Limit:
    """How much of a bound is used: 1 is all of it."""

    used: float
    name: str = field(compare=False)


def limits(found: Prediction, bounds: Bounds) -> list[Limit]:
    """Return all limits, what ends first at the front."""
    return sorted(
        [
            Limit(found.node_cores / bounds.owner_thread, "owner thread"),
            Limit(
                max(found.node_in_gb_per_s, found.node_out_gb_per_s) / bounds.network_gb_per_s,
                "network",
            ),
            Limit(found.controller_failover_s / bounds.failover_s, "controller"),
            Limit(found.start_s / bounds.start_s, "recovery"),
            Limit(found.image_mib / bounds.image_mib, "image"),
            Limit(found.node_mib / bounds.node_mib, "memory"),
        ],
        reverse=True,
    )


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What a small cluster was measured to take, all nodes together, with so many replicas each.

    `idle_cpu`, `pss_mib` and `restart_cpu_s`, a clean start of one node to its first answer, are
    pairs: with one partition, and with `partitions` more.
    """

    nodes: int
    factor: int
    partitions: int
    cpu_us: float
    cpu_s_per_gb: float
    idle_cpu: tuple[float, float]
    pss_mib: tuple[float, float]
    restart_cpu_s: tuple[float, float]

    @property
    def load(self) -> Load:
        """The load of the cluster without partitions and traffic."""
        return Load(nodes=self.nodes, factor=self.factor, readers=0)


@dataclass(frozen=True, kw_only=True)
class UnitPrices:
    """Prices that were measured one by one, not in a cluster."""

    read_gb_s: float
    member_heartbeat_us: float
    connection_kib: float
    member_kib: float
    partition_image_bytes: float
    partition_snapshot_bytes: float
    partition_load_us: float
    look_us: float
    record_us: float
    record_bytes: float
    follow_record_us: float


def fitted(known: UnitPrices, alone: Measurement, three: Measurement) -> Costs:
    """Return the prices that explain a node alone and a cluster of three.

    What a node alone takes for a request or a GB is its leader's price; what three take more is
    that of two further replicas.
    """
    further = three.factor - alone.factor
    node_mib = alone.pss_mib[0]
    # The image, too, is there once for each node.
    image_mib = known.partition_image_bytes / MIB
    grown = three.pss_mib[1] - three.pss_mib[0]
    replicas = three.partitions * three.factor
    replica_mib = (grown - three.nodes * three.partitions * image_mib) / replicas
    # One partition has a leader and its followers; of many, each node follows each other one.
    few, all_pairs = further, three.nodes * (three.nodes - 1)
    pair_cpu = max(0.0, (three.idle_cpu[1] - three.idle_cpu[0]) / (all_pairs - few))
    return Costs(
        request_us=alone.cpu_us,
        follow_request_us=(three.cpu_us - alone.cpu_us) / further,
        gb_s=alone.cpu_s_per_gb,
        follow_gb_s=(three.cpu_s_per_gb - alone.cpu_s_per_gb) / further,
        alone_cpu=alone.idle_cpu[0],
        member_cpu=(three.idle_cpu[1] - all_pairs * pair_cpu) / three.nodes,
        pair_cpu=pair_cpu,
        node_mib=node_mib,
        replica_kib=replica_mib * KIB,
        start_s=alone.restart_cpu_s[0],
        open_replica_ms=opened_ms(alone),
        **vars(known),
    )


def opened_ms(alone: Measurement) -> float:
    """Return the time of opening one replica in a start: reading its part of the image too."""
    without, with_partitions = alone.restart_cpu_s
    return (with_partitions - without) / alone.partitions * 1e3


@dataclass(frozen=True)
class Check:
    """A figure that was measured beside what the model says of it."""

    name: str
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        """How far the prediction is off, as a part of what was measured."""
        return self.predicted / self.measured - 1 if self.measured else 0.0


def check(costs: Costs, measured: Measurement) -> list[Check]:
    """Hold the model against a measurement."""
    idle = predict(costs, replace(measured.load, partitions=measured.partitions))
    one_request = predict(costs, replace(measured.load, requests_per_s=1.0))
    one_gb = predict(costs, replace(measured.load, gb_per_s=1.0, batch_bytes=float("inf")))
    nothing = predict(costs, measured.load)
    return [
        Check("CPU us a request", measured.cpu_us, (one_request.cores - nothing.cores) * 1e6),
        Check("CPU s a GB", measured.cpu_s_per_gb, one_gb.cores - nothing.cores),
        Check("idle, % of a core", measured.idle_cpu[1] * 100, idle.cores * 100),
        Check("memory, MiB", measured.pss_mib[1], idle.node_mib * measured.nodes),
        Check("a start, CPU s", measured.restart_cpu_s[1], idle.start_s),
    ]


def largest_error(checks: Sequence[Check]) -> float:
    return max(abs(each.error) for each in checks)
