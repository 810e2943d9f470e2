"""Leader epochs in the metadata: none goes back, whatever responses say."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from odradek.client.metadata.cluster_image import NO_EPOCH, NO_LEADER
from odradek.client.metadata.metadata import CurrentLeader
from odradek.model.errors import ErrorCode
from odradek.model.node import Node
from odradek.model.topics import ZERO_UUID, TopicPartition
from unit.client.metadata_responses import Knowing, response, topic


def test_a_leader_epoch_never_goes_back() -> None:
    knowing = Knowing()
    knowing.metadata.add_topic("orders")
    knowing.learn(topic("orders", (1, 5), (1, 5)))
    knowing.learn(topic("orders", (2, 4), (2, 6)))
    image = knowing.metadata.image
    assert (image.leader("orders", 0), image.leader_epoch("orders", 0)) == (1, 5)
    assert (image.leader("orders", 1), image.leader_epoch("orders", 1)) == (2, 6)


def test_the_same_epoch_is_accepted() -> None:
    knowing = Knowing()
    knowing.metadata.add_topic("orders")
    knowing.learn(topic("orders", (1, 5)))
    knowing.learn(topic("orders", (NO_LEADER, 5)))
    assert knowing.metadata.image.leader("orders", 0) == NO_LEADER


def test_a_recreated_topic_starts_its_epochs_anew() -> None:
    knowing = Knowing()
    knowing.metadata.add_topic("orders")
    knowing.learn(topic("orders", (1, 5)))
    knowing.learn(topic("orders", (2, 0), topic_id=UUID(int=99)))
    assert knowing.metadata.image.leader_epoch("orders", 0) == 0


def test_epochs_of_old_brokers_are_ignored() -> None:
    knowing = Knowing()
    knowing.metadata.add_topic("orders")
    _, token = knowing.metadata.topics_to_request()
    knowing.metadata.updated(response(topic("orders", (1, 5))), 8, token)
    assert knowing.metadata.image.leader_epoch("orders", 0) == NO_EPOCH
    assert knowing.metadata.update_last_seen_epoch(TopicPartition("orders", 0), 3), (
        "it is the first"
    )


def test_a_newer_epoch_from_another_response_requests_an_update() -> None:
    knowing = Knowing()
    knowing.metadata.add_topic("orders")
    knowing.learn(topic("orders", (1, 5)))
    partition = TopicPartition("orders", 0)
    assert not knowing.metadata.update_last_seen_epoch(partition, 5)
    assert not knowing.metadata.update_requested
    assert knowing.metadata.update_last_seen_epoch(partition, 6)
    assert knowing.metadata.update_requested
    assert knowing.metadata.image.leader("orders", 0) == NO_LEADER, "the known one is too old"
    knowing.learn(topic("orders", (1, 5)))
    assert knowing.metadata.image.leader("orders", 0) == NO_LEADER, "as is the one told again"
    assert knowing.metadata.update_requested
    knowing.learn(topic("orders", (2, 6)))
    assert knowing.metadata.image.leader("orders", 0) == 2


def test_a_partition_with_only_a_newer_epoch_known_has_no_leader() -> None:
    knowing = Knowing()
    knowing.metadata.add_topic("orders")
    knowing.metadata.update_last_seen_epoch(TopicPartition("orders", 0), 7)
    knowing.learn(topic("orders", (1, 5)))
    assert knowing.metadata.image.leader("orders", 0) == NO_LEADER
    assert knowing.metadata.update_requested


def test_a_new_leader_named_in_another_response_is_taken_at_once() -> None:
    knowing = Knowing()
    knowing.metadata.add_topic("orders")
    knowing.learn(topic("orders", (1, 5), (1, 5)))
    seen: list[int] = []
    knowing.metadata.listen(lambda image: seen.append(image.leader("orders", 1)))
    changed = knowing.metadata.update_leaders(
        [CurrentLeader("orders", 0, 2, 5), CurrentLeader("orders", 1, 3, 6)],
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


def test_a_leader_without_a_known_address_is_ignored() -> None:
    knowing = Knowing()
    knowing.metadata.add_topic("orders")
    knowing.learn(topic("orders", (1, 5)))
    assert not knowing.metadata.update_leaders([CurrentLeader("orders", 0, 9, 6)], [])
    assert not knowing.metadata.update_leaders([CurrentLeader("other", 0, 1, 6)], [])


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
def test_no_sequence_of_responses_makes_an_epoch_go_back(
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
            change = CurrentLeader("orders", number, 2, epoch)
            knowing.metadata.update_leaders([change], [])
        elif kind == "seen":
            knowing.metadata.update_last_seen_epoch(TopicPartition("orders", number), epoch)
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
