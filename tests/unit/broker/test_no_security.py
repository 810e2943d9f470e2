"""Requests about SASL, ACLs, SCRAM credentials and quotas, of which this broker has none."""

from __future__ import annotations

import pytest

from odradek.broker.apis import APIS
from odradek.model.errors import ErrorCode, ProtocolError
from odradek.protocol.api.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from odradek.protocol.api.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from odradek.protocol.api.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from odradek.protocol.api.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from odradek.protocol.api.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from odradek.protocol.api.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from odradek.protocol.api.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from odradek.protocol.api_keys import MESSAGES
from unit.broker.memory_broker import MemoryBroker

DISABLED = ErrorCode.SECURITY_DISABLED


@pytest.fixture(scope="module")
def serving() -> MemoryBroker:
    return MemoryBroker()


def describing_acls(operation: int = 1) -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        principal_filter=None,
        host_filter=None,
        operation=operation,
        permission_type=1,
    )


def test_sasl_is_not_expected_on_this_listener(serving: MemoryBroker) -> None:
    handshake = SaslHandshakeRequest(mechanism="PLAIN")
    refused = serving.call(handshake, 1, SaslHandshakeResponse)
    assert (refused.error_code, refused.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    token = SaslAuthenticateRequest(auth_bytes=b"\0ada\0secret")
    answer = serving.call(token, 2, SaslAuthenticateResponse)
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_acls_are_disabled_and_the_answer_says_so_for_each_entry(serving: MemoryBroker) -> None:
    described = serving.call(describing_acls(), 3, DescribeAclsResponse)
    assert (described.error_code, described.resources) == (DISABLED, [])
    entry = AclCreation(
        resource_type=2,
        resource_name="t",
        principal="User:ada",
        host="*",
        operation=3,
        permission_type=3,
    )
    created = serving.call(CreateAclsRequest(creations=[entry] * 2), 3, CreateAclsResponse)
    assert [each.error_code for each in created.results] == [DISABLED] * 2
    given = DeleteAclsFilter(
        resource_type_filter=2,
        resource_name_filter="t",
        principal_filter=None,
        host_filter=None,
        operation=3,
        permission_type=3,
    )
    deleted = serving.call(DeleteAclsRequest(filters=[given]), 3, DeleteAclsResponse)
    assert [(e.error_code, e.matching_acls) for e in deleted.filter_results] == [(DISABLED, [])]


def test_the_code_for_unknown_ends_the_connection(serving: MemoryBroker) -> None:
    with pytest.raises(ProtocolError, match="unknown"):
        serving.send(describing_acls(operation=0), 3)


def test_no_user_has_credentials(serving: MemoryBroker) -> None:
    def described(names: list[str] | None) -> dict[str, int]:
        users = None if names is None else [UserName(name=name) for name in names]
        request = DescribeUserScramCredentialsRequest(users=users)
        answer = serving.call(request, 0, DescribeUserScramCredentialsResponse)
        assert answer.error_code == 0
        return {each.user: each.error_code for each in answer.results}

    assert described(None) == described([]) == {}
    assert described(["ada", "bob", "ada"]) == {
        "ada": ErrorCode.DUPLICATE_RESOURCE,
        "bob": ErrorCode.RESOURCE_NOT_FOUND,
    }


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ([], ErrorCode.NONE),
        ([("user", 0, "ada"), ("client-id", 1, None)], ErrorCode.NONE),
        ([("user", 0, None)], ErrorCode.INVALID_REQUEST),
        ([("user", 2, "ada")], ErrorCode.INVALID_REQUEST),
        ([("user", 7, None)], ErrorCode.INVALID_REQUEST),
        ([("user", 1, None), ("user", 2, None)], ErrorCode.INVALID_REQUEST),
        ([("ip", 1, None), ("user", 1, None)], ErrorCode.INVALID_REQUEST),
        ([("", 1, None)], ErrorCode.INVALID_REQUEST),
        ([("group", 1, None)], ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_a_filter_of_quotas_is_checked_and_matches_nothing(
    serving: MemoryBroker, components: list[tuple[str, int, str | None]], error: ErrorCode
) -> None:
    request = DescribeClientQuotasRequest(
        components=[
            ComponentData(entity_type=kind, match_type=match_type, match=match)
            for kind, match_type, match in components
        ],
        strict=False,
    )
    answer = serving.call(request, 1, DescribeClientQuotasResponse)
    assert (answer.error_code, answer.entries) == (error, None if error else [])


def test_quotas_and_credentials_cannot_be_stored() -> None:
    served = {MESSAGES[key].name for key in APIS}
    assert served.isdisjoint(("AlterClientQuotas", "AlterUserScramCredentials"))
    assert not {49, 51} & APIS.keys()
