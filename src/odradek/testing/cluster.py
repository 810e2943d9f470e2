"""Several real brokers that form a cluster, for tests: `with Cluster(3) as cluster: ...`.

    from odradek.testing import Cluster

    with Cluster(3) as cluster:
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap})
        ...
        cluster.kill(cluster.leader_of("orders"))  # as kill -9: a follower takes over
        cluster.start(1)

The nodes are those of `odradek up`, each on a thread of this process, in memory unless a directory
is given; with `processes=True` each is a process of its own, and `kill` and `pause` are signals. A
killed node keeps what it has written, and goes on with it when it is started.

`async with` works, too. The methods block for a moment: `await asyncio.to_thread(cluster.kill, 1)`.

Settings that differ from those of `odradek up -n`, so that tests are fast: groups form at once, a
leader of the quorum is elected after a tenth of a second, `__consumer_offsets` has five partitions.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from odradek.broker.formatting import format_directory
from odradek.broker.server import MEMORY, Server, StartFailed
from odradek.client.errors import KafkaError
from odradek.config.setting import setting_text
from odradek.log.directory_identity import MetaProperties, read_meta_properties
from odradek.log.files import LocalDisk
from odradek.log.memory_disk import MemoryDisk
from odradek.model.env import Disk
from odradek.model.topics import new_uuid, uuid_text
from odradek.raft.replicas import QuorumEndpoint, ReplicaKey, Voter, VoterSet
from odradek.testing.ports import HOST, release_ports, reserve_ports

if TYPE_CHECKING:
    from odradek.client.blocking.admin import Admin

logger = logging.getLogger(__name__)

PATIENCE_S = 60.0
PAUSE_S = 0.01
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "controller.quorum.election.timeout.ms": "100",
    "controller.quorum.election.backoff.max.ms": "100",
    "offsets.topic.num.partitions": "5",
}


class ClusterNode(Protocol):
    """One node: in this process, or in one of its own."""

    def start(self) -> None:
        """Begin to start it."""

    def await_ready(self) -> None:
        """Block until it serves clients. Raises `StartFailed`."""

    def kill(self) -> None:
        """End it as kill -9 does."""

    def stop(self) -> None:
        """Stop it cleanly."""

    def pause(self) -> None:
        """Let it do nothing, as SIGSTOP does."""

    def resume(self) -> None:
        """Let it go on."""

    @property
    def runs(self) -> bool:
        """True from its start to its end."""


class Cluster:
    """Starts when entered; all nodes serve clients before `__enter__` returns, and are stopped when
    it is left.

    `nodes`: how many; their ids are 1, 2, 3 ... The first three are the voters of the quorum, of
    two nodes only the first one. `data_dir` None keeps everything in memory (with `processes` in a
    temporary directory); one that a cluster of as many nodes has used goes on with its records.
    `settings` are broker settings of all nodes by Kafka's names; new topics have three replicas, of
    which two must be in sync. Raises `odradek.broker.server.StartFailed`.
    """

    def __init__(
        self,
        nodes: int = 3,
        *,
        data_dir: Path | str | None = None,
        settings: Mapping[str, object] | None = None,
        processes: bool = False,
    ) -> None:
        if nodes < 1:
            raise ValueError(f"a cluster has at least one node, not {nodes}")
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._data_dir = None if data_dir is None else Path(data_dir).absolute()
        self._processes = processes
        ports = reserve_ports(2 * nodes)
        self.ids = tuple(range(1, nodes + 1))
        self._ports = dict(zip(self.ids, ports[:nodes], strict=True))
        self._cluster_ports = dict(zip(self.ids, ports[nodes:], strict=True))
        chance = random.SystemRandom()
        self.cluster_id = uuid_text(new_uuid(chance))
        self._identities = {
            each: MetaProperties(self.cluster_id, each, new_uuid(chance)) for each in self.ids
        }
        self._goes_on = self._known()
        replicas = min(nodes, 3)
        given = {name: setting_text(value) for name, value in (settings or {}).items()}
        self._settings = {
            **SETTINGS,
            "default.replication.factor": str(replicas),
            "min.insync.replicas": "2" if nodes >= 3 else "1",
            "controller.quorum.auto.join.enable": "true",
            "controller.quorum.moved.voters": ",".join(
                f"{each}@{HOST}:{port}" for each, port in self._cluster_ports.items()
            ),
            **given,
        }
        self._nodes: dict[int, ClusterNode] = {}

    def _known(self) -> bool:
        """Take over the identities in the directory. True if there are any."""
        if self._data_dir is None:
            return False
        disk = LocalDisk()
        found = {each: read_meta_properties(disk, self._directory(each)) for each in self.ids}
        if not any(found.values()):
            return False
        for node_id, identity in found.items():
            if identity is None:
                raise ValueError(
                    f"{self._data_dir} has directories of some nodes, but none of node {node_id}: "
                    "give the number of nodes that it was made with"
                )
            self._identities[node_id] = identity
            self.cluster_id = identity.cluster_id
        return True

    def _directory(self, node_id: int) -> str:
        return f"{self._data_dir}/node-{node_id}"

    # -- the cluster -------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes, for `bootstrap.servers`, whether they run or not."""
        return ",".join(self.address_of(each) for each in self.ids)

    def address_of(self, node_id: int) -> str:
        """Return the `host:port` of one node."""
        return f"{HOST}:{self._ports[node_id]}"

    @property
    def running(self) -> tuple[int, ...]:
        """The ids of the nodes that run."""
        return tuple(each for each in self.ids if each in self._nodes and self._nodes[each].runs)

    def leader_of(self, topic: str, partition: int = 0, *, timeout_s: float = PATIENCE_S) -> int:
        """Return the node that leads a partition; wait until one that runs does. Raises
        `TimeoutError`.
        """

        def leader() -> int | None:
            with self._admin() as admin:
                for found in admin.topics(internal=True):
                    if found.name == topic:
                        for each in found.partitions:
                            if each.partition == partition and each.leader in self.running:
                                return each.leader
            return None

        return self._await(leader, f"partition {partition} of {topic} to be led", timeout_s)

    def controller(self, *, timeout_s: float = PATIENCE_S) -> int:
        """Return the active controller; wait until one that runs is. Raises `TimeoutError`."""

        def active() -> int | None:
            with self._admin() as admin:
                found = admin.quorum().leader
            return found if found in self.running else None

        return self._await(active, "a controller to be elected", timeout_s)

    def _admin(self) -> Admin:
        from odradek.client.blocking.admin import Admin  # Only here: `Broker` needs no clients.

        brokers = ",".join(self.address_of(each) for each in self.running) or self.bootstrap
        return Admin(brokers=brokers, default_api_timeout_ms=2_000)

    def _await(self, look: Callable[[], int | None], what: str, timeout_s: float) -> int:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                found = look()
            except KafkaError as error:
                logger.debug("nobody tells who leads: %s", error)
                found = None
            if found is not None:
                return found
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {timeout_s:g} s for {what}")
            time.sleep(PAUSE_S)

    # -- its nodes ---------------------------------------------------------------------------------

    def kill(self, node_id: int) -> None:
        """End a node as kill -9 ends a process."""
        self._node(node_id).kill()

    def stop(self, node_id: int) -> None:
        """Stop a node cleanly; others lead its partitions first."""
        self._node(node_id).stop()

    def start(self, node_id: int) -> None:
        """Start a node that was killed or stopped, and wait until it serves clients."""
        node = self._node(node_id)
        if node.runs:
            raise ValueError(f"node {node_id} runs")
        node.start()
        node.await_ready()

    def pause(self, node_id: int) -> None:
        """Let a node do nothing, with its connections open, until `resume`."""
        self._node(node_id).pause()

    def resume(self, node_id: int) -> None:
        """Let a paused node go on."""
        self._node(node_id).resume()

    def _node(self, node_id: int) -> ClusterNode:
        if node_id not in self._nodes:
            raise ValueError(f"there is no node {node_id}: the nodes are {self.ids}, once entered")
        return self._nodes[node_id]

    # -- its life ----------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        if self._processes and self._data_dir is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="odradek-cluster-")
            self._data_dir = Path(self._temporary.name)
        try:
            for each in self.ids:
                self._nodes[each] = self._made(each)
            for node in self._nodes.values():
                node.start()
            for node in self._nodes.values():
                node.await_ready()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """End all nodes. They are not stopped one after the other, which takes longer: what is kept
        on disk is stopped cleanly, the rest is dropped.
        """
        drops = self._data_dir is None or self._temporary is not None
        threads = [
            threading.Thread(target=node.kill if drops else node.stop)
            for node in self._nodes.values()
            if node.runs
        ]
        for node in self._nodes.values():
            if node.runs:
                node.resume()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        release_ports([*self._ports.values(), *self._cluster_ports.values()])
        if self._temporary is not None:
            self._temporary.cleanup()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.close)

    def _made(self, node_id: int) -> ClusterNode:
        at = (
            f"PLAINTEXT://{HOST}:{self._ports[node_id]},"
            f"CLUSTER://{HOST}:{self._cluster_ports[node_id]}"
        )
        settings = {**self._settings, "node.id": str(node_id), "listeners": at}
        if self._data_dir is None:
            disk: Disk = MemoryDisk()
            self._format(disk, MEMORY, node_id)
            return ThreadNode(settings, None, disk)
        directory = self._directory(node_id)
        if not self._goes_on:
            self._format(LocalDisk(), directory, node_id)
        if self._processes:
            return ProcessNode(settings, directory)
        return ThreadNode(settings, directory, None)

    def _format(self, disk: Disk, directory: str, node_id: int) -> None:
        voting = self.ids[:3] if len(self.ids) >= 3 else self.ids[:1]
        voters = VoterSet(
            Voter(
                ReplicaKey(each, self._identities[each].directory_id),
                (QuorumEndpoint("CLUSTER", HOST, self._cluster_ports[each]),),
            )
            for each in voting
        )
        now_ms = time.time_ns() // 1_000_000
        format_directory(disk, directory, self._identities[node_id], voters, now_ms)


class ThreadNode:
    """A node on a thread of this process."""

    def __init__(self, settings: Mapping[str, str], data_dir: str | None, disk: Disk | None):
        self._settings = settings
        self._data_dir = data_dir
        self._disk = disk
        self._server: Server | None = None
        self._thread: threading.Thread | None = None
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._goes_on = threading.Event()

    @property
    def runs(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        self._ready.clear()
        self._failure = None
        self._server = server = Server(
            self._settings, host=HOST, port=0, data_dir=self._data_dir, disk=self._disk
        )
        name = f"odradek-node-{self._settings['node.id']}"
        self._thread = threading.Thread(target=self._run, args=(server,), name=name, daemon=True)
        self._thread.start()

    def _run(self, server: Server) -> None:
        try:
            server.start()
            self._ready.set()
            server.run()
        except BaseException as failure:
            self._failure = failure
            if self._ready.is_set():
                logger.exception("node %s ended", self._settings["node.id"])
        finally:
            self._ready.set()

    def await_ready(self) -> None:
        self._ready.wait()
        if self._failure is not None:
            raise self._failure

    def kill(self) -> None:
        self._end(Server.kill)

    def stop(self) -> None:
        self._end(Server.request_stop)

    def _end(self, how: Callable[[Server], None]) -> None:
        if self._server is None or self._thread is None:
            return
        self.resume()
        how(self._server)
        self._thread.join()

    def pause(self) -> None:
        if self._server is None:
            return
        self._goes_on.clear()
        begun = threading.Event()

        def hold() -> None:
            begun.set()
            self._goes_on.wait()

        self._server.call_soon(hold)
        begun.wait(PATIENCE_S)

    def resume(self) -> None:
        self._goes_on.set()


class ProcessNode:
    """A node in a process of its own: `odradek up`."""

    def __init__(self, settings: Mapping[str, str], directory: str) -> None:
        self._command = [sys.executable, "-m", "odradek", "up", "--json", "--http", "none"]
        self._command += ["--data-dir", directory]
        for name, value in settings.items():
            self._command += ["--set", f"{name}={value}"]
        self._log = Path(f"{directory}.log")
        self._process: subprocess.Popen[str] | None = None

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The id of the process."""
        assert self._process is not None, "it was not started"
        return self._process.pid

    def start(self) -> None:
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=log, text=True
            )

    def await_ready(self) -> None:
        assert self._process is not None, "it was not started"
        assert self._process.stdout is not None, "it has a pipe"
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            raise StartFailed(self._log.read_text()[-2_000:].strip())
        json.loads(line)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        self.resume()
        self._process.send_signal(number)
        self._process.wait()
        assert self._process.stdout is not None, "it has a pipe"
        self._process.stdout.close()

    def pause(self) -> None:
        if self.runs and self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        if self.runs and self._process is not None:
            self._process.send_signal(signal.SIGCONT)
