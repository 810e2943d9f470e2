"""What a client knows of a cluster, and when it asks again."""

from __future__ import annotations

import random
from dataclasses import dataclass
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.backoff import ExponentialBackoff
from odradek.client.cluster_image import NO_EPOCH, NO_LEADER, Node
from odradek.client.errors import Disconnected, WrongCluster
from odradek.client.metadata import LeaderChange, Metadata
from odradek.model.errors import ErrorCode
from odradek.model.ids import ZERO_UUID, TopicPartition
from odradek.protocol.api.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

NEWEST = 13
MAX_AGE_MS = 300_000
IDLE_MS = 300_000
ORDERS = UUID(int=1)


@dataclass
class Clock:
    now_ms: int = 1_000_000

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        raise AssertionError("deadlines never look at the wall clock")


class Knowing:
    """Metadata with a clock of its own, and answers to it."""

    def __init__(self) -> None:
        self.clock = Clock()
        backoff = ExponentialBackoff(100, 1000, random.Random(1), jitter=0)
        self.metadata = Metadata(self.clock, backoff, MAX_AGE_MS)

    def learn(self, *topics: MetadataResponseTopic, **options: object) -> None:
        """Ask, and be answered at once."""
        _, token = self.metadata.wanted_topics()
        self.metadata.updated(response(*topics, **options), NEWEST, token)

    @property
    def wait_ms(self) -> int:
        return self.metadata.time_to_next_update_ms()


def response(
    *topics: MetadataResponseTopic, cluster_id: str | None = "ours", nodes: tuple[int, ...] = (1, 2)
) -> MetadataResponse:
    brokers = [MetadataResponseBroker(node_id=n, host=f"broker{n}", port=9092) for n in nodes]
    return MetadataResponse(
        brokers=brokers, cluster_id=cluster_id, controller_id=1, topics=list(topics)
    )


def topic(
    name: str = "orders", *leaders: tuple[int, int], topic_id: UUID = ORDERS, error: int = 0
) -> MetadataResponseTopic:
    """`leaders`: leader and epoch of each partition."""
    return MetadataResponseTopic(
        error_code=error,
        name=name,
        topic_id=topic_id,
        partitions=[
            MetadataResponsePartition(
                error_code=0 if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=number,
                leader_id=leader,
                leader_epoch=epoch,
                replica_nodes=[1, 2],
                isr_nodes=[1],
            )
            for number, (leader, epoch) in enumerate(leaders)
        ],
    )


# The image.


def test_an_answer_becomes_the_image() -> None:
    knowing = Knowing()
    knowing.metadata.add_topic("orders")
    knowing.learn(topic("orders", (1, 5), (2, 6)))
    image = knowing.metadata.image
    assert image.version == 1
    assert image.nodes == {1: Node(1, "broker1", 9092), 2: Node(2, "broker2", 9092)}
    assert [image.leader("orders", number) for number in (0, 1, 2)] == [1, 2, NO_LEADER]
    assert image.leader_epoch("orders", 1) == 6
    assert image.topic_names == {ORDERS: "orders"}
    assert image.partitions(["orders", "unknown"]) == [
        TopicPartition("orders", 0),
        TopicPartition("orders", 1),
    ]
    assert image.partition_count("orders") == 2


def test_a_leader_whose_address_is_not_known_is_none() -> None:
    knowing = Knowing()
    knowing.metadata.add_topic("orders")
    knowing.learn(topic("orders", (9, 1)))
    assert knowing.metadata.image.leader("orders", 0) == NO_LEADER


def test_an_image_that_was_taken_does_not_change() -> None:
    knowing = Knowing()
    knowing.metadata.add_topic("orders")
    knowing.learn(topic("orders", (1, 1)))
    before = knowing.metadata.image
    knowing.learn(topic("orders", (2, 2)))
    assert before.leader("orders", 0) == 1
    assert knowing.metadata.image.leader("orders", 0) == 2


def test_new_topics_are_asked_for_alone_and_added() -> None:
    knowing = Knowing()
    knowing.metadata.add_topic("orders")
    knowing.learn(topic("orders", (1, 1)))
    knowing.metadata.add_topic("payments")
    names, token = knowing.metadata.wanted_topics()
    assert names == ["payments"]
    answer = response(topic("payments", (2, 1), topic_id=UUID(int=2)))
    knowing.metadata.updated(answer, NEWEST, token)
    assert set(knowing.metadata.image.topics) == {"orders", "payments"}
    knowing.metadata.request_update()
    assert knowing.metadata.wanted_topics()[0] == ["orders", "payments"]


def test_a_topic_that_nobody_used_for_long_is_forgotten() -> None:
    knowing = Knowing()
    knowing.metadata.add_topic("orders")
    knowing.metadata.add_topic("payments")
    knowing.learn(topic("orders", (1, 1)), topic("payments", (1, 1), topic_id=UUID(int=2)))
    knowing.clock.now_ms += IDLE_MS - 1
    knowing.metadata.add_topic("orders")
    knowing.clock.now_ms += 1
    knowing.metadata.request_update()
    assert knowing.metadata.wanted_topics()[0] == ["orders"]
    knowing.learn(topic("orders", (1, 1)))
    assert set(knowing.metadata.image.topics) == {"orders"}


def test_topics_that_were_set_stay_until_others_are_set() -> None:
    knowing = Knowing()
    knowing.metadata.set_topics(["orders", "payments"])
    knowing.clock.now_ms += 10 * IDLE_MS
    knowing.metadata.request_update()
    assert knowing.metadata.wanted_topics()[0] == ["orders", "payments"]
    knowing.metadata.set_topics(["payments"])
    knowing.metadata.request_update()
    assert knowing.metadata.wanted_topics()[0] == ["payments"]


def test_topics_are_asked_for_in_the_same_order_every_time() -> None:
    """Subscriptions are sets, whose order a process of its own has."""
    knowing = Knowing()
    knowing.metadata.set_topics(frozenset(f"t{number}" for number in range(9)))
    assert knowing.metadata.wanted_topics()[0] == [f"t{number}" for number in range(9)]


def test_all_topics() -> None:
    knowing = Knowing()
    knowing.metadata.set_topics([], all_topics=True)
    assert knowing.metadata.wanted_topics()[0] is None
    knowing.learn(topic("orders", (1, 1)), topic("payments", (1, 1), topic_id=UUID(int=2)))
    assert set(knowing.metadata.image.topics) == {"orders", "payments"}


def test_of_all_topics_none_is_new_by_its_name() -> None:
    """Of one that does not exist nothing would ever be answered."""
    knowing = Knowing()
    knowing.metadata.set_topics([], all_topics=True)
    knowing.learn(topic("t", (1, 1)))
    knowing.metadata.set_topics(["t", "missing"], all_topics=True)
    assert knowing.metadata.interest.new_names() == []
    assert not knowing.metadata.update_requested


def test_no_topics_is_not_all_topics() -> None:
    assert Knowing().metadata.wanted_topics()[0] == []


def test_a_topic_with_an_error_says_so() -> None:
    knowing = Knowing()
    knowing.metadata.add_topic("secret")
    knowing.learn(topic("secret", error=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    info = knowing.metadata.image.topics["secret"]
    assert info.error == ErrorCode.TOPIC_AUTHORIZATION_FAILED and info.count == 0
    assert not knowing.metadata.update_requested, "asking again will not help"


# Leader epochs.


def test_a_leader_epoch_never_goes_back() -> None:
    knowing = Knowing()
    knowing.metadata.add_topic("orders")
    knowing.learn(topic("orders", (1, 5), (1, 5)))
    knowing.learn(topic("orders", (2, 4), (2, 6)))
    image = knowing.metadata.image
    assert (image.leader("orders", 0), image.leader_epoch("orders", 0)) == (1, 5)
    assert (image.leader("orders", 1), image.leader_epoch("orders", 1)) == (2, 6)


def test_the_same_epoch_is_as_good() -> None:
    knowing = Knowing()
    knowing.metadata.add_topic("orders")
    knowing.learn(topic("orders", (1, 5)))
    knowing.learn(topic("orders", (NO_LEADER, 5)))
    assert knowing.metadata.image.leader("orders", 0) == NO_LEADER


def test_a_topic_made_anew_begins_its_epochs_anew() -> None:
    knowing = Knowing()
    knowing.metadata.add_topic("orders")
    knowing.learn(topic("orders", (1, 5)))
    knowing.learn(topic("orders", (2, 0), topic_id=UUID(int=99)))
    assert knowing.metadata.image.leader_epoch("orders", 0) == 0


def test_epochs_of_old_brokers_do_not_count() -> None:
    knowing = Knowing()
    knowing.metadata.add_topic("orders")
    _, token = knowing.metadata.wanted_topics()
    knowing.metadata.updated(response(topic("orders", (1, 5))), 8, token)
    assert knowing.metadata.image.leader_epoch("orders", 0) == NO_EPOCH
    assert knowing.metadata.saw_epoch(TopicPartition("orders", 0), 3), "it is the first"


def test_a_newer_epoch_met_elsewhere_is_a_reason_to_ask() -> None:
    knowing = Knowing()
    knowing.metadata.add_topic("orders")
    knowing.learn(topic("orders", (1, 5)))
    partition = TopicPartition("orders", 0)
    assert not knowing.metadata.saw_epoch(partition, 5)
    assert not knowing.metadata.update_requested
    assert knowing.metadata.saw_epoch(partition, 6)
    assert knowing.metadata.update_requested
    knowing.learn(topic("orders", (1, 5)))
    assert knowing.metadata.image.leader_epoch("orders", 0) == 5, "what is known, until newer comes"
    knowing.learn(topic("orders", (2, 6)))
    assert knowing.metadata.image.leader("orders", 0) == 2


def test_a_partition_of_which_only_a_newer_epoch_is_known_has_no_leader_yet() -> None:
    knowing = Knowing()
    knowing.metadata.add_topic("orders")
    knowing.metadata.saw_epoch(TopicPartition("orders", 0), 7)
    knowing.learn(topic("orders", (1, 5)))
    assert knowing.metadata.image.leader("orders", 0) == NO_LEADER
    assert knowing.metadata.update_requested


def test_a_new_leader_named_in_another_answer_is_taken_at_once() -> None:
    knowing = Knowing()
    knowing.metadata.add_topic("orders")
    knowing.learn(topic("orders", (1, 5), (1, 5)))
    seen: list[int] = []
    knowing.metadata.listen(lambda image: seen.append(image.leader("orders", 1)))
    changed = knowing.metadata.update_leaders(
        [LeaderChange("orders", 0, 2, 5), LeaderChange("orders", 1, 3, 6)],
        [Node(3, "broker3", 9092)],
    )
    assert changed == [TopicPartition("orders", 1)], "the other was no news"
    image = knowing.metadata.image
    assert (image.leader("orders", 0), image.leader("orders", 1)) == (1, 3)
    assert image.nodes[3].host == "broker3"
    assert image.version == 1, "the cluster itself was not asked"
    assert seen == [3]
    knowing.learn(topic("orders", (1, 5), (1, 5)), nodes=(1, 2, 3))
    assert knowing.metadata.image.leader("orders", 1) == 3


def test_a_leader_nobody_knows_the_address_of_is_not_taken() -> None:
    knowing = Knowing()
    knowing.metadata.add_topic("orders")
    knowing.learn(topic("orders", (1, 5)))
    assert not knowing.metadata.update_leaders([LeaderChange("orders", 0, 9, 6)], [])
    assert not knowing.metadata.update_leaders([LeaderChange("other", 0, 1, 6)], [])


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["answer", "elsewhere", "seen", "error", "gone", "anew"]),
            st.integers(0, 2),
            st.integers(0, 6),
        ),
        max_size=40,
    )
)
def test_whatever_is_told_in_whatever_order_no_epoch_goes_back(
    told: list[tuple[str, int, int]],
) -> None:
    knowing = Knowing()
    knowing.metadata.add_topic("orders")
    topic_id = 1
    newest = dict.fromkeys(range(3), NO_EPOCH)
    for kind, number, epoch in told:
        if kind == "anew":
            topic_id += 1
            newest = dict.fromkeys(range(3), NO_EPOCH)
        if kind == "elsewhere":
            change = LeaderChange("orders", number, 2, epoch)
            knowing.metadata.update_leaders([change], [])
        elif kind == "seen":
            knowing.metadata.saw_epoch(TopicPartition("orders", number), epoch)
        elif kind == "error":
            code = ErrorCode.LEADER_NOT_AVAILABLE
            knowing.learn(topic("orders", topic_id=UUID(int=topic_id), error=code))
        elif kind == "gone":
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            knowing.learn(topic("orders", topic_id=ZERO_UUID, error=code))
        else:
            leaders = [(1, epoch if number == n else 3) for n in range(3)]
            knowing.learn(topic("orders", *leaders, topic_id=UUID(int=topic_id)))
        for n in range(3):
            if knowing.metadata.image.partition("orders", n) is not None:
                now = knowing.metadata.image.leader_epoch("orders", n)
                assert now >= newest[n]
                newest[n] = now


# When to ask.


def test_it_asks_when_it_knows_nothing_and_again_when_that_is_old() -> None:
    knowing = Knowing()
    assert knowing.wait_ms == 0
    knowing.learn()
    assert knowing.wait_ms == MAX_AGE_MS
    knowing.clock.now_ms += MAX_AGE_MS - 10
    assert knowing.wait_ms == 10


def test_it_asks_at_once_when_somebody_wants_it() -> None:
    knowing = Knowing()
    asked: list[int] = []
    knowing.metadata.on_request = lambda: asked.append(knowing.wait_ms)
    knowing.learn()
    knowing.clock.now_ms += 2000
    knowing.metadata.request_update()
    assert asked[-1] == 0


def test_after_failures_it_waits_longer_and_longer() -> None:
    knowing = Knowing()
    waits = []
    for _ in range(6):
        knowing.metadata.failed(Disconnected("no"))
        waits.append(knowing.wait_ms)
        knowing.clock.now_ms += waits[-1]
    assert waits == [100, 200, 400, 800, 1000, 1000]
    assert isinstance(knowing.metadata.trouble, Disconnected)
    knowing.learn()
    assert knowing.metadata.trouble is None
    knowing.metadata.request_update()
    knowing.metadata.failed(Disconnected("no"))
    assert knowing.wait_ms == 100


def test_after_answers_that_were_no_news_it_waits_longer_and_longer() -> None:
    knowing = Knowing()
    knowing.metadata.add_topic("orders")
    knowing.learn(topic("orders", (1, 1)))
    waits = []
    for _ in range(5):
        knowing.metadata.request_update()
        waits.append(knowing.wait_ms)
        knowing.clock.now_ms += waits[-1]
        knowing.learn(topic("orders", (1, 1)))
    assert waits == [0, 100, 200, 400, 800]
    knowing.learn(topic("orders", (2, 2)))
    knowing.metadata.request_update()
    assert knowing.wait_ms == 0


def test_a_new_topic_is_asked_for_at_once_whatever_was_asked_before() -> None:
    knowing = Knowing()
    for _ in range(5):
        knowing.learn()
    knowing.metadata.add_topic("orders")
    assert knowing.wait_ms == 0


@pytest.mark.parametrize(
    "bad",
    [
        topic("orders", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        topic("orders", (1, 1), (NO_LEADER, 1)),
    ],
    ids=["no such topic (yet)", "no leader"],
)
def test_it_asks_again_by_itself_when_the_broker_said_that_it_will_change(
    bad: MetadataResponseTopic,
) -> None:
    knowing = Knowing()
    knowing.metadata.add_topic("orders")
    knowing.learn(bad)
    knowing.learn(bad)
    assert knowing.metadata.update_requested
    assert knowing.wait_ms == 100
    knowing.learn(topic("orders", (1, 1)))
    assert not knowing.metadata.update_requested


def test_a_wish_uttered_while_a_request_is_under_way_is_not_answered_by_it() -> None:
    knowing = Knowing()
    knowing.metadata.request_update()
    _, token = knowing.metadata.wanted_topics()
    knowing.metadata.request_update()
    knowing.metadata.updated(response(), NEWEST, token)
    assert knowing.metadata.update_requested
    knowing.learn()
    assert not knowing.metadata.update_requested


# Waiting.


def test_who_waits_for_a_newer_image_gets_the_next() -> None:
    knowing = Knowing()
    first = knowing.metadata.newer_than(0)
    later = knowing.metadata.newer_than(1)
    knowing.learn()
    assert first.result() is knowing.metadata.image
    assert not later.done
    knowing.learn()
    assert later.result().version == 2
    assert knowing.metadata.newer_than(1).done, "there is one already"


def test_failures_that_may_pass_keep_them_waiting() -> None:
    knowing = Knowing()
    waiter = knowing.metadata.newer_than(0)
    knowing.metadata.failed(Disconnected("no"))
    assert not waiter.done
    knowing.learn()
    assert waiter.done


def test_the_brokers_of_another_cluster_are_an_error_that_does_not_pass() -> None:
    knowing = Knowing()
    knowing.learn()
    waiter = knowing.metadata.newer_than(1)
    knowing.learn(cluster_id="theirs")
    with pytest.raises(WrongCluster, match="theirs, not to ours"):
        waiter.result()
    assert isinstance(knowing.metadata.newer_than(1).error, WrongCluster)
    assert knowing.metadata.image.cluster_id == "ours"


def test_a_broker_that_does_not_say_which_cluster_it_is_of_is_believed() -> None:
    knowing = Knowing()
    knowing.learn()
    knowing.learn(cluster_id=None)
    assert knowing.metadata.fatal is None and knowing.metadata.image.cluster_id == "ours"


def test_who_gave_up_waiting_is_not_kept() -> None:
    knowing = Knowing()
    for _ in range(100):
        knowing.metadata.newer_than(0).fail(TimeoutError())
    assert len(knowing.metadata._waiters) <= 1
