"""The metadata image and its delta: replaying records, and records that do not fit."""

from __future__ import annotations

from uuid import UUID

import pytest

from odradek.controller.brokers import allocate_producer_ids
from odradek.controller.delta import MetadataDelta
from odradek.controller.image import (
    BrokerRegistration,
    ConfigResource,
    MetadataImage,
    ReplayError,
    ResourceType,
)
from odradek.controller.records import batch_of, records_in
from odradek.protocol.metadata_records import (
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from odradek.protocol.record_batch import batches
from unit.controller.cluster_making import (
    CLUSTER,
    a_topic,
    an_image,
    broker_records,
    create,
    replay_all,
)

ONE, TWO = UUID(int=1), UUID(int=2)


def a_partition(topic_id: UUID = ONE, number: int = 0) -> PartitionRecord:
    return PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=[1, 2],
        isr=[1, 2],
        removing_replicas=[],
        adding_replicas=[],
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=[ONE, TWO],
    )


def test_a_leader_in_a_change_raises_the_leader_epoch_even_if_it_is_the_same() -> None:
    image = replay_all(an_image(1, 2), [TopicRecord(name="t", topic_id=ONE), a_partition()])
    image.replay(PartitionChangeRecord(partition_id=0, topic_id=ONE, leader=1))
    partition = image.partition(ONE, 0)
    assert partition is not None
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (1, 1, 1)


def test_any_other_change_raises_only_the_partition_epoch() -> None:
    image = replay_all(an_image(1, 2), [TopicRecord(name="t", topic_id=ONE), a_partition()])
    image.replay(PartitionChangeRecord(partition_id=0, topic_id=ONE, isr=[1]))
    partition = image.partition(ONE, 0)
    assert partition is not None
    assert (partition.isr, partition.replicas) == ((1,), (1, 2))
    assert (partition.leader_epoch, partition.partition_epoch) == (0, 1)


def test_a_partition_of_an_older_writer_has_no_directories_assigned() -> None:
    record = a_partition()
    record.directories = []
    image = replay_all(an_image(), [TopicRecord(name="t", topic_id=ONE), record])
    partition = image.partition(ONE, 0)
    assert partition is not None
    assert partition.directories == (UUID(int=0), UUID(int=0))


def test_brokers_are_registered_changed_and_unregistered() -> None:
    image = an_image()
    image.replay(FenceBrokerRecord(id=1, epoch=0))
    assert image.brokers[1].fenced
    image.replay(UnfenceBrokerRecord(id=1, epoch=0))
    image.replay(
        BrokerRegistrationChangeRecord(
            broker_id=1, broker_epoch=0, fenced=1, in_controlled_shutdown=1, log_dirs=[TWO]
        )
    )
    broker = image.brokers[1]
    assert (broker.fenced, broker.in_controlled_shutdown, broker.log_dirs) == (True, True, (TWO,))
    image.replay(UnregisterBrokerRecord(broker_id=1, broker_epoch=0))
    assert not image.brokers


def test_a_broker_registered_after_an_unclean_stop_leads_in_a_new_epoch() -> None:
    image = an_image()
    create(image, a_topic("t", 2, 1))
    replay_all(image, broker_records(image, 1, epoch=50, clean=True))
    assert [p.leader_epoch for p in image.topics["t"].partitions.values()] == [0, 0]
    replay_all(image, broker_records(image, 1, epoch=60, clean=False))
    assert [p.leader_epoch for p in image.topics["t"].partitions.values()] == [1, 1]
    assert image.brokers[1].epoch == 60


def an_elected(name: str, topic_id: UUID) -> list[object]:
    """Return the records of a topic whose only partition has an eligible replica and no leader."""
    change = PartitionChangeRecord(
        partition_id=0,
        topic_id=topic_id,
        isr=[],
        leader=-1,
        eligible_leader_replicas=[1, 2],
        last_known_elr=[1],
    )
    return [TopicRecord(name=name, topic_id=topic_id), a_partition(topic_id), change]


def test_eligible_leader_replicas_are_kept_until_a_change_names_them() -> None:
    image = replay_all(an_image(1, 2), an_elected("t", ONE))
    partition = image.topics["t"].partitions[0]
    assert (partition.isr, partition.elr, partition.last_known_elr) == ((), (1, 2), (1,))
    image.replay(PartitionChangeRecord(partition_id=0, topic_id=ONE, isr=[2], leader=2))
    assert image.topics["t"].partitions[0].elr == (1, 2)
    image.replay(PartitionChangeRecord(partition_id=0, topic_id=ONE, eligible_leader_replicas=[]))
    assert not image.topics["t"].partitions[0].elr


@pytest.mark.parametrize(("name", "cleared"), [("t", ["t"]), ("", ["t", "u"])])
def test_eligible_leader_replicas_are_forgotten_for_one_or_all_topics(
    name: str, cleared: list[str]
) -> None:
    image = replay_all(an_image(1, 2), [*an_elected("t", ONE), *an_elected("u", TWO)])
    delta = delta_of(image, ClearElrRecord(topic_name=name))
    for topic in image.topics.values():
        partition = topic.partitions[0]
        epoch = 2 if topic.name in cleared else 1
        kept: tuple[int, ...] = () if topic.name in cleared else (1, 2)
        assert (partition.elr, partition.partition_epoch) == (kept, epoch)
    assert list(delta.partitions) == [(image.topics[each].id, 0) for each in cleared]


def test_a_replica_is_offline_while_its_broker_is_fenced_or_gone_or_its_directory_failed() -> None:
    image = an_image(1, 2, 3)
    create(image, a_topic("t", assignments={0: [1, 2, 3]}))
    partition = image.topics["t"].partitions[0]
    assert image.offline_replicas(partition) == []
    image.replay(FenceBrokerRecord(id=2, epoch=0))
    assert image.offline_replicas(partition) == [2]
    image.replay(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=0, log_dirs=[TWO]))
    image.replay(UnregisterBrokerRecord(broker_id=3, broker_epoch=0))
    assert image.offline_replicas(partition) == [1, 2, 3]


def test_a_broker_is_usable_for_new_replicas_unless_it_stops_or_is_cordoned() -> None:
    image = an_image(1)
    assert image.brokers[1].usable

    def changed(**fields: object) -> BrokerRegistration:
        change = BrokerRegistrationChangeRecord(
            broker_id=1,
            broker_epoch=0,
            **fields,  # type: ignore[arg-type]
        )
        return replay_all(image.copy(), [change]).brokers[1]

    assert changed(fenced=1).usable
    assert not changed(in_controlled_shutdown=1).usable
    assert not changed(cordoned_log_dirs=[UUID(int=2001)]).usable
    assert changed(cordoned_log_dirs=[]).usable
    assert changed(cordoned_log_dirs=[UUID(int=2001)], log_dirs=[TWO, UUID(int=2001)]).usable


def test_producer_ids_are_allocated_once() -> None:
    image = an_image()
    blocks = []
    for _ in range(3):
        decision = allocate_producer_ids(image, 1)
        replay_all(image, decision.records)
        blocks.append(decision.response)
    assert [(block.first, block.size) for block in blocks] == [
        (0, 1000),
        (1000, 1000),
        (2000, 1000),
    ]


@pytest.mark.parametrize(
    "record",
    [
        TopicRecord(name="t", topic_id=TWO),
        TopicRecord(name="other", topic_id=ONE),
        a_partition(TWO),
        PartitionChangeRecord(partition_id=7, topic_id=ONE, isr=[1]),
        PartitionChangeRecord(partition_id=0, topic_id=TWO, isr=[1]),
        RemoveTopicRecord(topic_id=TWO),
        FenceBrokerRecord(id=1, epoch=99),
        UnregisterBrokerRecord(broker_id=9, broker_epoch=0),
        ConfigRecord(resource_type=8, resource_name="x", name="y", value="z"),
        ProducerIdsRecord(broker_id=1, next_producer_id=0),
        BeginTransactionRecord(),
        ClearElrRecord(topic_name="other"),
    ],
)
def test_a_record_that_does_not_fit_raises_replay_error(record: object) -> None:
    image = replay_all(an_image(), [TopicRecord(name="t", topic_id=ONE), a_partition()])
    with pytest.raises(ReplayError):
        image.replay(record)


def test_a_copy_is_equal_and_independent() -> None:
    image = an_image()
    create(image, a_topic("a.b", 2, 1, configs={"retention.ms": "5"}))
    twin = image.copy()
    assert twin == image
    create(twin, a_topic("c"))
    twin.replay(PartitionChangeRecord(partition_id=0, topic_id=twin.topics["a.b"].id, leader=1))
    assert "c" not in image.topics
    assert image.topics["a.b"].partitions[0].leader_epoch == 0


def test_records_round_trip_through_a_batch() -> None:
    image = an_image(1, 2)
    create(image, a_topic("t", 3, 2, configs={"retention.ms": "5"}))
    image.replay(ProducerIdsRecord(broker_id=1, next_producer_id=1000))
    replay_all(image, an_elected("u", ONE))
    image.replay(
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=0, cordoned_log_dirs=[TWO])
    )
    records = list(image.records())
    data = batch_of(records, 123)
    assert [record for header in batches(data) for record in records_in(data, header)] == records
    assert replay_all(MetadataImage(CLUSTER), records) == image


def delta_of(image: MetadataImage, *records: object) -> MetadataDelta:
    delta = MetadataDelta()
    for record in records:
        delta.add(image, record)
        image.replay(record)
    return delta


def test_a_delta_has_everything_that_changed() -> None:
    image = an_image(1, 2)
    create(image, a_topic("old", 1, 1), a_topic("gone", 1, 1))
    old, gone = image.topics["old"], image.topics["gone"]
    delta = delta_of(
        image,
        TopicRecord(name="new", topic_id=ONE),
        ConfigRecord(resource_type=2, resource_name="new", name="retention.ms", value="5"),
        a_partition(ONE),
        PartitionChangeRecord(partition_id=0, topic_id=old.id, leader=1),
        RemoveTopicRecord(topic_id=gone.id),
        FeatureLevelRecord(name="group.version", feature_level=1),
        FenceBrokerRecord(id=2, epoch=0),
        ProducerIdsRecord(broker_id=1, next_producer_id=1000),
        NoOpRecord(),
    )
    assert list(delta.created) == [ONE]
    assert delta.deleted == {gone.id: gone}
    assert list(delta.partitions) == [(old.id, 0)]
    assert list(delta.configs) == [ConfigResource(ResourceType.TOPIC, "new")]
    assert list(delta.features) == ["group.version"]
    assert list(delta.brokers) == [2]
    assert delta.producer_ids


def test_a_topic_created_and_deleted_in_one_commit_is_not_in_the_delta() -> None:
    delta = delta_of(
        an_image(1, 2),
        TopicRecord(name="new", topic_id=ONE),
        ConfigRecord(resource_type=2, resource_name="new", name="retention.ms", value="5"),
        a_partition(ONE),
        RemoveTopicRecord(topic_id=ONE),
    )
    assert not delta.created
    assert not delta.deleted
    assert not delta.partitions
    assert not delta.configs


def test_the_delta_of_everything_has_the_whole_image() -> None:
    image = an_image(1, 2)
    create(image, a_topic("b", configs={"retention.ms": "5"}), a_topic("a"))
    delta = MetadataDelta.everything(image)
    assert list(delta.created) == [image.topics["a"].id, image.topics["b"].id]
    assert list(delta.brokers) == [1, 2]
    assert list(delta.configs) == [
        ConfigResource(ResourceType.TOPIC, "b"),
        ConfigResource(ResourceType.BROKER, ""),
    ]
