"""DescribeClientQuotas: v0-1. A valid filter matches nothing: there are no quotas.

A quota is a record of the metadata log of a kind that this version does not replay, and
AlterClientQuotas is not served: a stored quota would promise a limit that nothing enforces.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

from odradek.model.errors import ErrorCode
from odradek.protocol.api.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext

USER, CLIENT_ID, IP = "user", "client-id", "ip"


class MatchType(IntEnum):
    """The ways in which a component matches the names of entities."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


def handle(
    broker: Broker, context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    error, message = problem(request.components)
    return DescribeClientQuotasResponse(
        error_code=error, error_message=message, entries=None if error else []
    )


def problem(components: Sequence[ComponentData]) -> tuple[ErrorCode, str]:
    """Return the error of a filter and its message, in the order in which Kafka checks."""
    invalid = ErrorCode.INVALID_REQUEST
    seen: set[str] = set()
    for each in components:
        kind = each.entity_type[:249]
        if not kind:
            return invalid, "Invalid empty entity type."
        if kind in seen:
            return invalid, f"Entity type {kind} cannot appear more than once in the filter."
        if kind not in (USER, CLIENT_ID, IP):
            return ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}"
        if each.match_type not in MatchType.__members__.values():
            return invalid, f"Unknown match type {each.match_type}"
        if each.match_type == MatchType.EXACT and each.match is None:
            return invalid, "Request specified MATCH_TYPE_EXACT, but set match string to null."
        if each.match_type != MatchType.EXACT and each.match is not None:
            name = MatchType(each.match_type).name
            return (
                invalid,
                f"Request specified MATCH_TYPE_{name}, but also specified a match string.",
            )
        seen.add(kind)
    if IP in seen and len(seen) > 1:
        return invalid, (
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component."
        )
    return ErrorCode.NONE, ""
