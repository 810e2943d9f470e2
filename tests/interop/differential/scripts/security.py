"""ACLs, SCRAM credentials, quotas and transactions of a broker that has none of them."""

from __future__ import annotations

import itertools

from interop.differential.peer import Peer
from interop.differential.scripts import transactions
from odradek.protocol.api.create_acls import AclCreation, CreateAclsRequest
from odradek.protocol.api.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from odradek.protocol.api.describe_acls import DescribeAclsRequest
from odradek.protocol.api.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from odradek.protocol.api.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from odradek.protocol.api.list_transactions import ListTransactionsRequest
from odradek.protocol.api.sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.api.sasl_handshake import SaslHandshakeRequest

TOPIC, USER = 2, 7
ANY, LITERAL = 1, 3
ALL, ALLOW = 2, 3
CODES = (
    # resource type, pattern type, operation, permission
    (TOPIC, LITERAL, ALL, ALLOW),
    (ANY, ANY, ANY, ANY),
    (0, LITERAL, ALL, ALLOW),
    (TOPIC, 0, ALL, ALLOW),
    (TOPIC, LITERAL, 0, ALLOW),
    (TOPIC, LITERAL, ALL, 0),
    (99, LITERAL, ALL, ALLOW),
    (TOPIC, 99, ALL, ALLOW),
    (TOPIC, LITERAL, 99, ALLOW),
    (TOPIC, LITERAL, ALL, 99),
    (-1, -1, -1, -1),
    (TOPIC, 2, ALL, ALLOW),
    (TOPIC, 4, ALL, ALLOW),
    (USER, LITERAL, ALL, ALLOW),
)


def sasl(peer: Peer) -> None:
    """A handshake and a token on a listener without SASL, which goes on serving afterwards."""
    for version in peer.each_version(SaslHandshakeRequest):
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "", "nonsense"):
            request = SaslHandshakeRequest(mechanism=mechanism)
            peer.call(f"handshake v{version} {mechanism!r}", request, version)
    for version in peer.each_version(SaslAuthenticateRequest):
        for token in (b"", b"\0ada\0secret"):
            token_request = SaslAuthenticateRequest(auth_bytes=token)
            peer.call(f"token v{version} {token!r}", token_request, version)


def describe_acls(peer: Peer) -> None:
    """Filters of every kind, also with codes that mean nothing."""
    for version in peer.each_version(DescribeAclsRequest):
        for codes, name in itertools.product(CODES, ("topic", None)):
            kind, pattern, operation, permission = codes
            request = DescribeAclsRequest(
                resource_type_filter=kind,
                resource_name_filter=name,
                pattern_type_filter=pattern,
                principal_filter=name and "User:ada",
                host_filter=name and "*",
                operation=operation,
                permission_type=permission,
            )
            peer.call(f"v{version} {name} {codes}", request, version)


def creation(codes: tuple[int, int, int, int], name: str = "topic") -> AclCreation:
    kind, pattern, operation, permission = codes
    return AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern,
        principal="User:ada",
        host="*",
        operation=operation,
        permission_type=permission,
    )


def create_acls(peer: Peer) -> None:
    """Entries of every kind; several; none."""
    for version in peer.each_version(CreateAclsRequest):
        for codes in CODES:
            request = CreateAclsRequest(creations=[creation(codes)])
            peer.call(f"v{version} {codes}", request, version)
        for label, creations in (
            ("none", []),
            ("two", [creation(CODES[0]), creation(CODES[0], "other")]),
            ("the same twice", [creation(CODES[0])] * 2),
            ("one of them unknown", [creation(CODES[0]), creation(CODES[2])]),
            ("no name", [creation(CODES[0], "")]),
        ):
            peer.call(f"v{version} {label}", CreateAclsRequest(creations=creations), version)


def matching(codes: tuple[int, int, int, int], name: str | None = "topic") -> DeleteAclsFilter:
    kind, pattern, operation, permission = codes
    return DeleteAclsFilter(
        resource_type_filter=kind,
        resource_name_filter=name,
        pattern_type_filter=pattern,
        principal_filter=name and "User:ada",
        host_filter=name and "*",
        operation=operation,
        permission_type=permission,
    )


def delete_acls(peer: Peer) -> None:
    """Filters of every kind; several; none."""
    for version in peer.each_version(DeleteAclsRequest):
        for codes in CODES:
            request = DeleteAclsRequest(filters=[matching(codes)])
            peer.call(f"v{version} {codes}", request, version)
        for label, filters in (
            ("none", []),
            ("two", [matching(CODES[0]), matching(CODES[1], None)]),
            ("one of them unknown", [matching(CODES[0]), matching(CODES[2])]),
        ):
            peer.call(f"v{version} {label}", DeleteAclsRequest(filters=filters), version)


def scram_credentials(peer: Peer) -> None:
    """All users; users that have none; the same user twice."""
    for version in peer.each_version(DescribeUserScramCredentialsRequest):
        for users in (
            None,
            [],
            ["ada"],
            ["ada", "bob"],
            ["ada", "ada"],
            ["ada", "bob", "ada"],
            [""],
        ):
            named = None if users is None else [UserName(name=name) for name in users]
            request = DescribeUserScramCredentialsRequest(users=named)
            peer.call(f"v{version} {users}", request, version)


EXACT, DEFAULT, SPECIFIED = 0, 1, 2
FILTERS: tuple[tuple[tuple[str, int, str | None], ...], ...] = (
    (),
    (("user", EXACT, "ada"),),
    (("user", EXACT, None),),
    (("user", EXACT, ""),),
    (("user", DEFAULT, None),),
    (("user", DEFAULT, "ada"),),
    (("user", SPECIFIED, None),),
    (("user", SPECIFIED, "ada"),),
    (("user", 3, None),),
    (("user", -1, "ada"),),
    (("client-id", EXACT, "c"),),
    (("ip", EXACT, "127.0.0.1"),),
    (("ip", EXACT, "no address"),),
    (("group", EXACT, "g"),),
    (("", EXACT, "g"),),
    (("user", EXACT, "ada"), ("client-id", DEFAULT, None)),
    (("user", EXACT, "ada"), ("user", EXACT, "bob")),
    (("user", SPECIFIED, None), ("user", EXACT, "bob")),
    (("ip", SPECIFIED, None), ("user", EXACT, "bob")),
    (("client-id", DEFAULT, None), ("ip", DEFAULT, None)),
    (("group", EXACT, "g"), ("group", EXACT, "g")),
    (("user", EXACT, None), ("group", EXACT, "g")),
)


def client_quotas(peer: Peer) -> None:
    """Filters that are valid and that are not."""
    for version in peer.each_version(DescribeClientQuotasRequest):
        for components, strict in itertools.product(FILTERS, (False, True)):
            request = DescribeClientQuotasRequest(
                components=[
                    ComponentData(entity_type=kind, match_type=match_type, match=match)
                    for kind, match_type, match in components
                ],
                strict=strict,
            )
            peer.call(f"v{version} {components} {strict}", request, version)


STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
    "Dead",
)
DURATION_SINCE, PATTERN_SINCE = 1, 2


def list_transactions(peer: Peer) -> None:
    """Filters by state, by producer, by duration and by a pattern of ids, of one id."""

    def asking(
        states: tuple[str, ...] = (), producers: tuple[int, ...] = ()
    ) -> ListTransactionsRequest:
        return ListTransactionsRequest(
            state_filters=list(states), producer_id_filters=list(producers)
        )

    def listed() -> list[str]:
        response = peer.ask(asking(), 0)
        return [
            str(response.error_code),
            *(n.transactional_id for n in response.transaction_states),
        ]

    # Kafka's coordinator keeps what was in a deleted topic until the next one has been loaded.
    transactions.until_ready(peer)
    peer.until(lambda: listed() == ["0", "first"])
    for version in peer.each_version(ListTransactionsRequest):
        for states in (
            (),
            STATES,
            ("Ongoing",),
            ("ongoing",),
            ("Ongoing", "Nonsense", "", "Unknown"),
            ("Nonsense", "Nonsense"),
        ):
            peer.call(f"v{version} {states}", asking(states), version)
        for producers in ((0,), (-1, 5), (2**62,)):
            peer.call(f"v{version} {producers}", asking((), producers), version)
        if version >= DURATION_SINCE:
            for duration in (-1, -5, 0, 1000, 2**62):
                request = asking()
                request.duration_filter = duration
                peer.call(f"v{version} longer than {duration}", request, version)
        if version >= PATTERN_SINCE:
            for pattern in (
                None,
                "",
                "my-.*",
                "(",
                "[a",
                "*",
                "a{2",
                "\\",
                r"\p{Greek}+",
                r"\Qa.b\E",
            ):
                request = asking()
                request.transactional_id_pattern = pattern
                peer.call(f"v{version} pattern {pattern!r}", request, version)
