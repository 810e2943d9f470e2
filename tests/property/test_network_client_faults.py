"""Under any faults of connections and brokers every request of a client ends exactly once.

No response reaches another request, and afterwards the client works as before.
"""

from __future__ import annotations

from typing import Any

import pytest

from odradek.client.waiter import spawn
from odradek.network_client.in_flight_requests import ClientRequest
from odradek.protocol.api.metadata import MetadataRequest, MetadataRequestTopic
from odradek.testing.prng import SplitMix64
from odradek.testing.scripted import CLOSE, SILENT, DelayedAnswer, ScriptedCluster
from odradek.testing.transport import Link

BROKERS = 3
STEPS = 150
SECOND = 1000
TIMEOUTS_MS = (200, 1 * SECOND, 5 * SECOND)
CHOPPY = Link(capacity=2000, chop_rate=300, slow_rate=100)


class FaultScript:
    """Named requests and faults, in an order drawn from the seed."""

    def __init__(self, seed: int) -> None:
        self.cluster = ScriptedCluster(BROKERS, seed=seed, link=CHOPPY)
        self.chance: SplitMix64 = self.cluster.scheduler.stream("storm")
        self.side = self.cluster.client()
        self.engine = self.side.engine(
            max_in_flight=self.chance.pick((1, 3, 100)),
            connections_max_idle_ms=20 * SECOND,
            request_timeout_ms=5 * SECOND,
        )
        self.client = self.engine.client
        self.asked: list[ClientRequest] = []
        self.ended: list[ClientRequest] = []
        self.down: set[int] = set()
        self.side.wait(lambda: spawn(self.engine.cluster_image()))
        self.cluster.answers[MetadataRequest] = self.answer

    def answer(self, request: MetadataRequest, version: int) -> Any:
        answer: Any = self.cluster.metadata(request)
        if self.chance.chance(100):
            answer.throttle_time_ms = self.chance.between(1, 2 * SECOND)
        if self.chance.chance(150):
            answer = DelayedAnswer(self.chance.between(1, 3 * SECOND), answer)
        return self.chance.pick((answer,) * 30 + (SILENT, CLOSE))

    def ask(self) -> None:
        """Send a request, identified by its topic; sometimes its response causes another one."""
        name = f"topic-{len(self.asked)}"
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name)] * self.chance.between(1, 30)
        )
        again = self.chance.chance(100)

        def ended(call: ClientRequest) -> None:
            self.ended.append(call)
            assert (call.response is None) != (call.error is None)
            if call.response is not None:
                assert {topic.name for topic in call.response.topics} == {name}
            if again:
                self.ask()

        node_id = self.chance.between(1, BROKERS)
        timeout_ms = self.chance.pick(TIMEOUTS_MS)
        self.asked.append(self.client.send(node_id, request, ended, timeout_ms=timeout_ms))

    def cause_fault(self) -> None:
        """Cause one fault."""
        connections = self.cluster.fabric.connections()
        broker = self.chance.between(1, BROKERS)
        if connections and self.chance.chance(600):
            connection = self.chance.pick(connections)
            kind = self.chance.below(3)
            if kind == 0:
                connection.reset()
            elif kind == 1:
                connection.blackhole(to_server=self.chance.chance(500), to_client=True)
            else:
                until_ns = self.cluster.scheduler.now_ns + self.chance.between(1, 3) * 10**9
                connection.stall(until_ns)
        elif broker in self.down:
            self.cluster[broker].start()
            self.down.discard(broker)
        elif self.chance.chance(500):
            self.cluster[broker].stop()
            self.down.add(broker)
        else:
            self.cluster[broker].close_connections()

    def rage(self) -> None:
        for _ in range(STEPS):
            for _ in range(self.chance.below(6)):
                self.side.do(self.ask)
            if self.chance.chance(200):
                self.cause_fault()
            self.cluster.run(self.chance.between(1, 400))

    def calm(self) -> None:
        for broker in sorted(self.down):
            self.cluster[broker].start()
        del self.cluster.answers[MetadataRequest]
        self.cluster.until(lambda: len(self.ended) == len(self.asked))

    def check(self, node_id: int) -> None:
        """Send a request that the node must answer."""
        calls = [
            self.side.do(
                lambda: self.client.send(node_id, MetadataRequest(topics=[]), self.ended.append)
            )
            for _ in range(3)
        ]
        self.cluster.until(lambda: all(call.done for call in calls), 15 * SECOND)
        assert [call.error for call in calls] == [None] * 3


@pytest.mark.parametrize("seed", range(20))
def test_every_request_ends_once_and_the_client_recovers(seed: int) -> None:
    storm = FaultScript(seed)
    storm.rage()
    storm.calm()
    assert len(storm.ended) == len(set(map(id, storm.ended)))
    assert any(call.response is not None for call in storm.ended)
    storm.cluster.run(60 * SECOND)
    assert storm.client.in_flight.total == 0 and storm.client.bugs == 0
    for node_id in range(1, BROKERS + 1):
        storm.check(node_id)
    storm.side.do(storm.engine.close)
    assert storm.side.timer.size == 0


def test_the_same_seed_gives_the_same_events() -> None:
    digests = set()
    for _ in range(2):
        storm = FaultScript(7)
        storm.rage()
        storm.calm()
        digests.add(storm.cluster.scheduler.digest())
    assert len(digests) == 1
