"""DescribeUserScramCredentials (key 50, version 0): mechanisms and iterations of users (KIP-554).

Mechanisms: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512.
"""

from __future__ import annotations

from odradek.protocol.schema import field, i8, i16, i32, message, struct


@struct
class UserName:
    """One user."""

    name: str


@message(api=50, versions=(0, 0), flexible=0)
class DescribeUserScramCredentialsRequest:
    """Describe the credentials of users; null or empty for all."""

    users: list[UserName] | None


@struct
class CredentialInfo:
    """One credential of a user."""

    mechanism: i8
    iterations: i32


@struct
class DescribeUserScramCredentialsResult:
    """One user."""

    user: str
    error_code: i16
    error_message: str | None = None
    credential_infos: list[CredentialInfo] = field(factory=list)


@message(api=50, versions=(0, 0), flexible=0)
class DescribeUserScramCredentialsResponse:
    """Per user, the credentials or the error."""

    throttle_time_ms: i32 = 0
    error_code: i16
    error_message: str | None = None
    results: list[DescribeUserScramCredentialsResult]
