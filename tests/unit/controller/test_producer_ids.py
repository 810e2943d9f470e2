"""AllocateProducerIds: blocks of producer ids, to brokers of the present epoch only (KIP-730)."""

from __future__ import annotations

import pytest

from odradek.controller.brokers import MAX_PRODUCER_ID, allocate_producer_ids_to
from odradek.controller.image import MetadataImage
from odradek.model.errors import ErrorCode
from odradek.protocol.api.allocate_producer_ids import AllocateProducerIdsRequest
from odradek.protocol.metadata_records import ProducerIdsRecord
from unit.controller.cluster_making import an_image, broker_records, replay_all


@pytest.fixture
def image() -> MetadataImage:
    """Brokers 1 and 2 in epochs 11 and 12."""
    image = an_image(1, 2)
    for broker_id in (1, 2):
        replay_all(image, broker_records(image, broker_id, epoch=10 + broker_id))
    return image


def allocate(image: MetadataImage, broker_id: int, epoch: int) -> tuple[int, int, int]:
    request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=epoch)
    decision = allocate_producer_ids_to(image, request)
    replay_all(image, decision.records)
    response = decision.response
    return response.error_code, response.producer_id_start, response.producer_id_len


def test_blocks_of_all_brokers_are_different(image: MetadataImage) -> None:
    assert allocate(image, 1, 11) == (0, 0, 1000)
    assert allocate(image, 2, 12) == (0, 1000, 1000)
    assert allocate(image, 1, 11) == (0, 2000, 1000)


@pytest.mark.parametrize(("broker_id", "epoch"), [(1, 10), (1, 12), (9, 11), (1, -1)])
def test_a_broker_of_another_epoch_gets_none(
    image: MetadataImage, broker_id: int, epoch: int
) -> None:
    assert allocate(image, broker_id, epoch) == (ErrorCode.STALE_BROKER_EPOCH, 0, 0)
    assert image.next_producer_id == 0


def test_producer_ids_end_with_the_last_one_that_fits(image: MetadataImage) -> None:
    last = MAX_PRODUCER_ID - 1000
    replay_all(image, [ProducerIdsRecord(broker_id=1, next_producer_id=last)])
    assert allocate(image, 1, 11) == (0, last, 1000)
    assert allocate(image, 1, 11) == (ErrorCode.UNKNOWN_SERVER_ERROR, 0, 0)
