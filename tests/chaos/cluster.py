"""The brokers of a chaos run, one or three, each behind proxies.

    clients ─► proxy ─► node 1 ◄─ proxy ◄─ nodes 2, 3      the same for each node

Three nodes become a cluster as a user's do: node 1 begins it alone, the others join and become
voters. Topics have a replica on each node, and two of them must be in sync.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata, NewTopic

from chaos.node import Node
from chaos.proxy import Proxy
from odradek import Admin, KafkaError
from odradek.model.java_hash import partition_for
from odradek.testing.ports import reserve_ports

TOPIC, GROUP = "chaos", "chaos-readers"
TRANSACTIONS_TOPIC, COPY_TOPIC, COUNTS_TOPIC = "chaos-transactions", "chaos-copy", "chaos-counts"
OFFSETS_TOPIC = "__consumer_offsets"
PATIENCE_S = 120
ASKED_S = 5
CLUSTER_ID = "Y2hhb3MtY2hhb3MtY2hhbw"
METADATA = "__cluster_metadata-0"
ROLLED_BYTES = 1 << 20
"""The size of segments: several in a run of a minute."""
BOOTSTRAP = "controller.quorum.bootstrap.servers"


class ChaosFailure(Exception):
    """The run did not go on: something that must come did not."""


class Cluster:
    """Nodes 1 to `brokers`, the network before them, and the random numbers of the run."""

    def __init__(self, directory: Path, brokers: int, chance: random.Random) -> None:
        self.random = chance
        self.numbers = tuple(range(1, brokers + 1))
        self._stack = ExitStack()
        ports = reserve_ports(2 * brokers)
        self.of_clients = dict(zip(self.numbers, map(Proxy, ports[:brokers]), strict=True))
        """The proxies between clients and each node."""
        self.of_nodes: dict[int, Proxy] = {}
        """The proxies before the listener of each node for the others."""
        if brokers > 1:
            for number, port in zip(self.numbers, ports[brokers:], strict=True):
                self.of_nodes[number] = Proxy(port, of_nodes=True)
        self.nodes: dict[int, Node] = {}
        for number, port in zip(self.numbers, ports[:brokers], strict=True):
            listeners = {"PLAINTEXT": (port, self.of_clients[number].port)}
            if self.of_nodes:
                listeners["CLUSTER"] = (ports[brokers + number - 1], self.of_nodes[number].port)
            settings = {
                "node.id": str(number),
                "listeners": addresses({name: at[0] for name, at in listeners.items()}),
                "advertised.listeners": addresses({name: at[1] for name, at in listeners.items()}),
                "log.segment.bytes": str(ROLLED_BYTES),
                **({} if brokers == 1 else self._settings_of_several(number)),
            }
            self.nodes[number] = Node(directory, f"node-{number}", settings)

    def _settings_of_several(self, number: int) -> dict[str, str]:
        settings = {
            "cluster.id": CLUSTER_ID,
            "min.insync.replicas": "2",
            "default.replication.factor": "3",
            "offsets.topic.num.partitions": "3",
            "controller.quorum.auto.join.enable": "true",
        }
        return settings if number == 1 else settings | self._others_of(number)

    def _others_of(self, number: int) -> dict[str, str]:
        others = [proxy.port for other, proxy in self.of_nodes.items() if other != number]
        return {BOOTSTRAP: ",".join(f"127.0.0.1:{port}" for port in others)}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{proxy.port}" for proxy in self.of_clients.values())

    @property
    def starts(self) -> int:
        """How often a node was started."""
        return sum(node.starts for node in self.nodes.values())

    def __enter__(self) -> Self:
        for proxy in (*self.of_clients.values(), *self.of_nodes.values()):
            self._stack.enter_context(proxy)
        for node in self.nodes.values():
            self._stack.enter_context(node)
        try:
            self.start_all()
            if self.of_nodes:
                # From now on it does not begin a cluster, even with an empty directory.
                self.nodes[1].settings |= self._others_of(1)
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
            settings = {"default.api.timeout.ms": 1000 * ASKED_S}
            self._quorum = self._stack.enter_context(Admin(settings, brokers=self.bootstrap))
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def start_all(self) -> None:
        """Start all nodes at once, and wait until they are ready."""
        for node in self.nodes.values():
            node.start(wait=False)
        for node in self.nodes.values():
            node.await_ready()

    def wait(self, seconds: tuple[float, float]) -> None:
        """Wait for a random time."""
        threading.Event().wait(self.random.uniform(*seconds))

    def create_topic(self, partitions: int) -> None:
        """Create the topics of the run once all nodes are voters."""
        self.await_whole()
        for name in (TOPIC, TRANSACTIONS_TOPIC, COPY_TOPIC, COUNTS_TOPIC):
            topic = NewTopic(name, partitions, len(self.numbers))
            self._admin.create_topics([topic])[name].result(PATIENCE_S)

    # Who is who

    def leader(self) -> int:
        """Return the leader of a random partition of the topic."""
        partitions = self._metadata().topics[TOPIC].partitions
        return partitions[self.random.randrange(len(partitions))].leader

    def controller(self) -> int:
        """Return the active controller."""
        return self._metadata().controller_id

    def coordinator(self) -> int:
        """Return the coordinator of the group."""
        partitions = self._metadata().topics[OFFSETS_TOPIC].partitions
        return partitions[partition_for(GROUP, len(partitions))].leader

    def anyone(self) -> int:
        return self.random.choice(self.numbers)

    def others(self, number: int) -> tuple[int, ...]:
        return tuple(other for other in self.numbers if other != number)

    def _metadata(self) -> ClusterMetadata:
        return self._admin.list_topics(timeout=PATIENCE_S)

    # The end of a fault

    def await_whole(self) -> None:
        """Wait until every partition has all its replicas in sync, and every node votes."""
        if len(self.numbers) == 1:
            return
        for _ in attempts():
            if not (missing := self._missing()):
                return
        raise ChaosFailure(f"not whole again for {PATIENCE_S} s: {missing}")

    def _missing(self) -> str:
        """Return what is not whole, empty if nothing is."""
        try:
            metadata = self._admin.list_topics(timeout=ASKED_S)
        except KafkaException as error:
            return str(error)
        for name, topic in metadata.topics.items():
            for partition in topic.partitions.values():
                if len(partition.isrs) < len(self.numbers) or partition.leader < 0:
                    return f"{name}-{partition.id} has leader {partition.leader}, {partition.isrs}"
        try:
            voters = sorted(voter.node_id for voter in self._quorum.quorum().voters)
        except KafkaError as error:
            return str(error)
        return "" if voters == list(self.numbers) else f"the voters are {voters}"

    def await_equal_logs(self) -> list[str]:
        """Wait until all nodes have the same bytes in their logs; return the differences left."""
        found: list[str] = []
        for _ in attempts():
            found = differences(list(self.nodes.values()))
            if not found:
                break
        return found


def addresses(ports: dict[str, int]) -> str:
    """Return the text of listeners, given their ports by name."""
    return ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())


def logs(data: Path) -> dict[str, bytes]:
    """Return the bytes of all partitions' logs of a node, by the name of their directory."""
    found: dict[str, bytes] = {}
    for path in sorted(data.glob("*/*.log")):
        if (name := path.parent.name) != METADATA:
            with suppress(FileNotFoundError):
                found[name] = found.get(name, b"") + path.read_bytes()
    return found


def differences(nodes: Sequence[Node]) -> list[str]:
    """Return one line for each log of a node that is not as the first node has it."""
    first, *others = nodes
    found, ours = [], logs(first.data)
    for other in others:
        theirs = logs(other.data)
        for name in sorted(ours.keys() | theirs.keys()):
            one, another = ours.get(name, b""), theirs.get(name, b"")
            if one != another:
                at = next(different(one, another), min(len(one), len(another)))
                found.append(
                    f"{name}: {first.data.name} and {other.data.name} differ at byte {at} of"
                    f" {len(one)} and {len(another)}"
                )
    return found


def different(ours: bytes, theirs: bytes) -> Iterator[int]:
    """Yield the positions at which bytes differ."""
    return (at for at, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b)


def attempts() -> Iterator[None]:
    """Yield again and again until patience ends."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        yield
        threading.Event().wait(0.2)
