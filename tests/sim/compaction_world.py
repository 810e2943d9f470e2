"""A compacted topic and committed offsets in simulated time, with faults that end the broker.

A writer produces keyed records and tombstones (each value once), a committer commits rising
offsets for a group, and a reader reads the topic repeatedly; meanwhile the broker compacts the
topic and `__consumer_offsets`. Faults occur as in `World`, then end, and these rules are checked:

- an offset has the same record in every read, until compaction removes it;
- an acknowledged record is present, or a later record of its key is; after an acknowledged
  tombstone, no earlier record of its key is present;
- an acknowledged commit is not lost, and no offset is found that was not committed. (A commit
  without a response may reach the broker late, over an abandoned connection.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from odradek.broker.node import Node
from odradek.config.broker import BrokerConfig
from odradek.model.env import Env
from odradek.model.topics import ZERO_UUID
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.testing.history import History
from odradek.testing.machine import DATA_DIRECTORY, HOST, PORT, SimMachine, Wiring, start_node
from odradek.testing.nemesis import Nemesis
from odradek.testing.network import Fabric
from odradek.testing.process import SimProcess
from odradek.testing.scheduler import MS, SECOND, Scheduler, SimClock
from odradek.testing.workload.schedule import draw_faults, draw_link, draw_pace
from odradek.testing.workload.topics import TopicCreator, TopicPlan
from odradek.testing.workload.wire import WireClient
from sim.compaction_clients import GROUP, TOPIC, Committer, Journal, Reader, Writer

WORK_NS = 6 * SECOND
LIMIT_NS = 60 * SECOND
SETTINGS = {
    "listeners": f"PLAINTEXT://0.0.0.0:{PORT}",
    "advertised.listeners": f"PLAINTEXT://{HOST}:{PORT}",
    "log.dirs": DATA_DIRECTORY,
    "offsets.topic.num.partitions": "1",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.io.buffer.size": "1024",
}
TOPIC_SETTINGS = (
    ("cleanup.policy", "compact"),
    ("internal.segment.bytes", "2000"),
    ("index.interval.bytes", "200"),
    ("min.cleanable.dirty.ratio", "0.2"),
    ("delete.retention.ms", "300"),
    ("file.delete.delay.ms", "50"),
)


class CompactionWorld:
    """One run of a seed."""

    def __init__(self, seed: int, faults: tuple[str, ...] = ()) -> None:
        self.scheduler = Scheduler(seed)
        chance = self.scheduler.stream("plan")
        self.fabric = Fabric(self.scheduler, draw_link(chance))
        self.journal = Journal()
        self.topic_id: UUID = ZERO_UUID
        config = BrokerConfig.load(SETTINGS)

        def start_broker(env: Env, process: SimProcess) -> Node:
            return start_node(config, env, process)

        self.machine = SimMachine(
            self.scheduler, self.fabric, History(), Wiring(start_broker), draw_pace(chance)
        )
        self.nemesis = Nemesis(self.machine, self.scheduler.stream("nemesis"))
        plans = draw_faults(chance, WORK_NS, faults)
        self.nemesis.plan(plans)
        self.heal_ns = max([WORK_NS, *(plan.at_ns + plan.length_ns for plan in plans)]) + 100 * MS
        self.machine.boot()

    def run(self) -> list[str]:
        """Run the seed to its end and return the violations."""
        self._create()
        writer = Writer(self.journal, self.client("writer"), self.topic_id)
        committer = Committer(self.journal, self.client("committer"), self.topic_id)
        reader = Reader(self.journal, self.client("reader"), self.topic_id)
        for client in (writer, committer, reader):
            client.start()
        self.scheduler.run(self.scheduler.now_ns + self.heal_ns)
        self.nemesis.heal()
        for client in (writer, committer, reader):
            client.stopping = True
        self.wait_until(lambda: writer.idle and committer.idle and reader.idle, "the last answers")
        last = Reader(self.journal, self.client("last reader"), self.topic_id)
        last.once = True
        last.start()
        self.wait_until(lambda: last.idle, "the last reading")
        committer.stopping, committer.idle = False, False
        committer.check_only = True
        committer.start()
        self.wait_until(lambda: committer.idle, "the last look at what is committed")
        return self.journal.check()

    def _create(self) -> None:
        made: list[UUID] = []
        plan = TopicPlan(TOPIC, 1, TOPIC_SETTINGS)
        admin = self.client("admin")
        TopicCreator(admin, self.machine.history, plan, made.append).start()
        self.wait_until(lambda: bool(made), "the topic")
        self.topic_id = made[0]
        RetriedRequest(
            admin,
            FindCoordinatorRequest(coordinator_keys=[GROUP]),
            4,
            FindCoordinatorResponse,
            lambda answer: answer.coordinators[0].error_code == 0,
        ).run(self)
        small = AlterConfigsResource(
            resource_type=2,
            resource_name="__consumer_offsets",
            configs=[
                AlterableConfig(name=name, config_operation=0, value=value)
                for name, value in TOPIC_SETTINGS[1:]
            ],
        )
        RetriedRequest(
            admin,
            IncrementalAlterConfigsRequest(resources=[small], validate_only=False),
            1,
            IncrementalAlterConfigsResponse,
            lambda answer: answer.responses[0].error_code == 0,
        ).run(self)

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        if not condition():
            limit_ns = self.scheduler.now_ns + LIMIT_NS
            assert self.scheduler.run(limit_ns, condition), f"no end of waiting for {what}"

    def client(self, name: str) -> WireClient:
        process = SimProcess(self.scheduler, name, SimClock(self.scheduler))
        chance = self.scheduler.stream(f"client/{name}")
        network = self.fabric.network(process, name)
        return WireClient(process, network, chance, HOST, PORT)

    def compacted(self) -> int:
        """Return the cleaned end offset of the topic, from the checkpoint on disk."""
        path = f"{DATA_DIRECTORY}/cleaner-offset-checkpoint"
        if path not in self.machine.disk.paths():
            return 0
        lines = self.machine.disk.mount().read_file(path).decode().splitlines()[2:]
        return sum(int(line.split()[2]) for line in lines)


@dataclass(slots=True)
class RetriedRequest:
    """One request, repeated until its response succeeds."""

    client: WireClient
    request: Any
    version: int
    response: type[Any]
    succeeded: Callable[[Any], bool]
    done: bool = False

    def run(self, world: CompactionWorld) -> None:
        self.client.process.run(self._send)
        world.wait_until(lambda: self.done, type(self.request).__name__)

    def _send(self) -> None:
        self.client.call(self.request, self.version, self.response, self._answered, self._retry)

    def _answered(self, answer: Any) -> None:
        self.done = self.succeeded(answer)
        if not self.done:
            self._retry()

    def _retry(self) -> None:
        self.client.process.post(100 * MS, "again", self._send)
