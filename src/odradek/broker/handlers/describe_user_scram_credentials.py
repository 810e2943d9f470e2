"""DescribeUserScramCredentials: v0. No user has credentials.

A credential is a record of the metadata log of a kind that this version does not replay, and
AlterUserScramCredentials is not served: a stored credential would promise an authentication that
no listener performs.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from odradek.model.errors import ErrorCode
from odradek.protocol.api.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext


def handle(
    broker: Broker, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    counts = Counter(user.name for user in request.users or ())
    return DescribeUserScramCredentialsResponse(
        error_code=0,
        error_message="",
        results=[duplicate(name) if count > 1 else missing(name) for name, count in counts.items()],
    )


def duplicate(name: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(
        user=name,
        error_code=ErrorCode.DUPLICATE_RESOURCE,
        error_message="Cannot describe SCRAM credentials for the same user twice in a single "
        f"request: {name[:249]}",
    )


def missing(name: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(
        user=name,
        error_code=ErrorCode.RESOURCE_NOT_FOUND,
        error_message=f"Attempt to describe a user credential that does not exist: {name[:249]}",
    )
