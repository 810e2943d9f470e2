"""A Metadata request leaves before all others that wait for the same node: transcripts.

A transcript has a line for each request as a node receives it: the time in ms since the begin of
the scene, and what it is.
"""

from __future__ import annotations

from textwrap import dedent

import pytest

from odradek.client.errors import Disconnected
from odradek.protocol.api.describe_cluster import DescribeClusterRequest
from odradek.protocol.api.metadata import MetadataRequest
from odradek.protocol.api.produce import ProduceRequest
from odradek.testing.scripted import DelayedAnswer
from unit.client.producer.producing import Producing
from unit.network_client.scripted_nodes import Asking, described

NAMES = {
    DescribeClusterRequest: "DescribeCluster",
    MetadataRequest: "Metadata",
    ProduceRequest: "Produce",
}


class Scene:
    """What node 1 receives from now on. Answers take `answer_ms`."""

    def __init__(self, asking: Asking | Producing, answer_ms: int = 10) -> None:
        self.cluster = asking.cluster
        self.begun_ms = self.cluster.now_ms
        self.skipped = len(self.cluster[1].asked)
        if isinstance(asking, Asking):
            asking.answer(lambda request, version: DelayedAnswer(answer_ms, described()))

    def transcript(self) -> str:
        lines = [
            f"{round((asked.at_ms - self.begun_ms) / 10) * 10} ms: {NAMES[type(asked.request)]}\n"
            for asked in self.cluster[1].asked[self.skipped :]
            if type(asked.request) in NAMES
        ]
        return "".join(lines)


def expected(text: str) -> str:
    return dedent(text).lstrip("\n")


def test_metadata_goes_first_when_a_connection_is_ready() -> None:
    asking = Asking()
    asking.cluster[1].close_connections()
    asking.cluster.run(2_000)
    scene = Scene(asking)
    calls = [asking.ask() for _ in range(3)]
    asking.side.do(asking.engine.metadata.request_update)
    asking.cluster.until(lambda: calls[-1].done)
    assert scene.transcript() == expected(
        """
        0 ms: Metadata
        0 ms: DescribeCluster
        0 ms: DescribeCluster
        0 ms: DescribeCluster
        """
    )
    assert asking.ended == calls


def test_metadata_goes_first_when_the_limit_in_flight_is_reached() -> None:
    asking = Asking(max_in_flight=1)
    asking.connect()
    scene = Scene(asking, answer_ms=100)
    calls = [asking.ask() for _ in range(3)]
    asking.side.do(asking.engine.metadata.request_update)
    asking.cluster.until(lambda: calls[-1].done)
    assert scene.transcript() == expected(
        """
        0 ms: DescribeCluster
        100 ms: Metadata
        100 ms: DescribeCluster
        200 ms: DescribeCluster
        """
    )
    assert asking.ended == calls


def test_metadata_is_not_refused_where_too_many_requests_wait() -> None:
    asking = Asking(max_in_flight=1)
    asking.connect()
    scene = Scene(asking)
    asking.ask()
    calls = [asking.ask() for _ in range(asking.client.max_pending + 1)]
    asking.side.do(asking.engine.metadata.request_update)
    asking.cluster.until(lambda: calls[-1].done)
    assert isinstance(calls[-1].error, Disconnected)
    asking.cluster.run(50)
    assert scene.transcript().splitlines()[:2] == ["0 ms: DescribeCluster", "10 ms: Metadata"]


def test_a_producer_sends_no_data_before_metadata_that_waits() -> None:
    p = Producing(max_in_flight=1, linger_ms=0)
    p.send(b"known topic")
    p.flush()
    scene = Scene(p)

    def two_at_once() -> None:
        p.core.router.send("t", 0, 1_000, None, b"first", b"\0", None)
        p.core.sender.run()
        p.core.router.send("t", 0, 1_000, None, b"second", b"\0", None)
        p.engine.metadata.request_update()

    p.side.do(two_at_once)
    p.flush()
    assert scene.transcript() == expected(
        """
        0 ms: Produce
        0 ms: Metadata
        0 ms: Produce
        """
    )


@pytest.mark.parametrize("count", [1, 2])
def test_the_deadlines_of_what_waits_behind_still_count(count: int) -> None:
    asking = Asking(max_in_flight=1)
    asking.connect()
    Scene(asking, answer_ms=10_000)
    asking.ask(timeout_ms=60_000)
    hasty = [asking.ask(timeout_ms=500) for _ in range(count)]
    asking.side.do(asking.engine.metadata.request_update)
    asking.cluster.until(lambda: hasty[-1].done, 1_000)
    assert all("within 500 ms" in str(each.error) for each in hasty)
