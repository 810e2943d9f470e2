"""AllocateProducerIds: v0. Grants a block to a broker when its record is committed (KIP-730).

STALE_BROKER_EPOCH: another broker has registered with this id since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.controller.brokers import allocate_producer_ids_to
from odradek.model.errors import ErrorCode
from odradek.protocol.api.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import DelayedResponse, RequestContext

TIMEOUT_MS = 30_000


def handle(
    broker: Broker, context: RequestContext, request: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse | DelayedResponse:
    return broker.respond_when_committed(
        context, lambda image: allocate_producer_ids_to(image, request), TIMEOUT_MS, failed
    )


def failed(error: ErrorCode) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(error_code=error, producer_id_start=-1, producer_id_len=0)
