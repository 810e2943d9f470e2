"""ApiVersions: v0-5.

Lists the rows of `apis`; those of Odradek's own (keys from 20000) only to clients that give our
software name (KIP-511), so that the response to any other client is as if there were none; and
those between nodes of the cluster only on the listener of the nodes. The
response has header version 0 in every version: clients read it before they know which versions the
broker supports. A request in an unknown version gets the response in version 0 with
UNSUPPORTED_VERSION and the versions of this key; with an empty list clients would stay at version
0.

Versions: 3 has the client's software name and version, which must be well-formed (KIP-511); up to 3
supported features whose minimum is 0 are left out (KAFKA-17011); 5 may name the cluster and the
node that the client means to reach: REBOOTSTRAP_REQUIRED if it has reached another one (KIP-1242).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from odradek.model.errors import ErrorCode
from odradek.protocol.api.api_versions import (
    SOFTWARE_NAME,
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext

KEY = 18
FIRST_VERSION_WITH_SOFTWARE = 3
FIRST_VERSION_WITH_ZERO_MINIMUMS = 4
SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(
    broker: Broker, context: RequestContext, request: ApiVersionsRequest
) -> ApiVersionsResponse:
    if context.version >= FIRST_VERSION_WITH_SOFTWARE and not (
        SOFTWARE.fullmatch(request.client_software_name)
        and SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=[])
    if is_meant_for_another(broker, request):
        return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED, api_keys=[])
    features = broker.image.features
    return ApiVersionsResponse(
        error_code=0,
        api_keys=served(
            own=context.version >= FIRST_VERSION_WITH_SOFTWARE
            and request.client_software_name == SOFTWARE_NAME,
            between_nodes=context.from_node,
        ),
        supported_features=[
            SupportedFeatureKey(name=name, min_version=least, max_version=most)
            for name, (least, most) in broker.supported_features.items()
            if least > 0 or context.version >= FIRST_VERSION_WITH_ZERO_MINIMUMS
        ],
        finalized_features_epoch=broker.metadata.committed_offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in sorted(features.items())
        ],
    )


def is_meant_for_another(broker: Broker, request: ApiVersionsRequest) -> bool:
    """True if the client means to reach another cluster, or another node of this one (KIP-1242): an
    address has changed hands."""
    if request.cluster_id is None:
        return False
    if request.cluster_id != broker.image.cluster_id:
        return True
    return request.node_id >= 0 and request.node_id != broker.node_id


def served(*, own: bool, between_nodes: bool = False) -> list[ApiVersion]:
    """Return the versions of the APIs, with those of Odradek's own if `own`, and those that only
    nodes of the cluster use if `between_nodes`."""
    from odradek.broker.apis import ROWS  # late: the table imports this module

    return [
        ApiVersion(api_key=api.key, min_version=api.advertised_min, max_version=api.max_version)
        for api in ROWS
        if (own or not api.is_own) and (between_nodes or not api.between_nodes)
    ]


def unsupported_version() -> ApiVersionsResponse:
    """The response, in version 0, to a version that is not served."""
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[row for row in served(own=False) if row.api_key == KEY],
    )
