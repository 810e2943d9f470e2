"""Which leader a partition is fetched from, and by which fetcher."""

from __future__ import annotations

from collections.abc import Callable

from odradek.protocol.hot_fetch import FetchRequest, FetchResponse
from odradek.replication.replica_fetcher import FetcherSettings
from odradek.replication.replica_fetcher_manager import FetcherKind, ReplicaFetcherManager
from unit.replication.replicated import Replicated, registration

IN_SYNC, CATCH_UP = FetcherKind.IN_SYNC, FetcherKind.CATCH_UP


class FetcherConnection:
    """The connection of one fetcher: the requests that it sent."""

    def __init__(self) -> None:
        self.sent: list[FetchRequest] = []
        self.answered: list[Callable[[FetchResponse | None], None]] = []

    def send(self, request: FetchRequest, answered: Callable[[FetchResponse | None], None]) -> None:
        self.sent.append(request)
        self.answered.append(answered)

    def call_later(self, delay_ms: int, function: Callable[[], None]) -> None:
        """Nothing waits here."""


class Following:
    """A broker that follows; `wires` are the connections that were made, by leader and kind."""

    def __init__(self) -> None:
        self.led = Replicated()
        self.wires: dict[tuple[int, FetcherKind], FetcherConnection] = {}
        self.manager = ReplicaFetcherManager(
            self.led.replicas, lambda: 7, self.connect, FetcherSettings()
        )
        replication = self.led.replicas.replication
        assert replication is not None
        replication.followers = self.manager
        self.partition = self.led.replica(registration(leader=2))

    def connect(self, leader: int, kind: FetcherKind) -> FetcherConnection:
        wire = self.wires[leader, kind] = FetcherConnection()
        return wire

    def change(self, **values: object) -> None:
        self.led.replicas.apply(self.partition, registration(**values), 1)  # type: ignore[arg-type]


def test_an_in_sync_replica_and_one_that_catches_up_have_fetchers_of_their_own():
    following = Following()
    assert list(following.manager.fetchers) == [(2, IN_SYNC)]
    following.change(leader=2, isr=(2, 3), partition_epoch=1)
    assert list(following.manager.fetchers) == [(2, CATCH_UP)]
    assert len(following.wires[2, CATCH_UP].sent) == 1


def test_a_position_is_told_again_when_the_requests_of_the_fetcher_before_have_ended():
    """One of them may reach the leader late, and would put the replica back to where it was."""
    following = Following()
    following.change(leader=2, isr=(2, 3), partition_epoch=1)
    late, wire = following.wires[2, IN_SYNC], following.wires[2, CATCH_UP]
    wire.answered[0](FetchResponse(session_id=5, responses=[]))
    listed = [len(request.topics) for request in wire.sent]
    assert listed == [1, 0]
    late.answered[0](None)
    assert [len(request.topics) for request in wire.sent] == [1, 0, 1]
    assert wire.sent[2].topics == wire.sent[0].topics


def test_a_partition_moves_to_its_new_leader():
    following = Following()
    following.change(leader=3, epoch=1)
    assert list(following.manager.fetchers) == [(3, IN_SYNC)]
    (topic,) = following.wires[3, IN_SYNC].sent[0].topics
    assert topic.partitions[0].current_leader_epoch == 1


def test_a_newer_epoch_of_the_same_leader_is_told():
    following = Following()
    following.change(leader=2, epoch=1)
    assert list(following.manager.fetchers) == [(2, IN_SYNC)]
    fetcher = following.manager.fetchers[2, IN_SYNC]
    assert [state.leader_epoch for state in fetcher.partitions.values()] == [1]


def test_without_a_leader_and_as_the_leader_nothing_is_fetched():
    following = Following()
    following.change(leader=-1, epoch=1)
    assert following.manager.fetchers == {}
    following.change(leader=2, epoch=2)
    following.change(leader=1, epoch=3)
    assert following.manager.fetchers == {}
    assert following.partition.is_leader
