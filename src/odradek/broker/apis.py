"""The table of the APIs that this broker serves: key, versions, handler, authorisation.

ApiVersions responds with this table, with the rows of Odradek's own APIs only to our clients;
`dispatch` decides by it, and the protocol page of the documentation is rendered from it.

Any broker answers a request, unless its row is `of_controller`: then only the active controller
does, and another broker sends it on (`forwarding`). Rows with `between_nodes` are served and listed
to other nodes of the cluster only, on their listener.

`authorisation` names the permissions that a principal needs on a broker with an authorizer; there
is none yet, so everybody may do everything.

A row names its module of `handlers`, which is imported at the first request, with the messages of
its API: most brokers never serve most APIs, and a start would wait for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from odradek.model.errors import ErrorCode
from odradek.protocol.api_keys import FIRST_OWN_KEY, MESSAGES

if TYPE_CHECKING:
    from types import ModuleType

    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext

Handle = Callable[["Broker", "RequestContext", Any], Any]
Failed = Callable[[Any, ErrorCode], Any]


@dataclass(frozen=True, slots=True)
class Api:
    """One row. `advertised_min` is lower than `min_version` only where clients need it to be."""

    key: int
    name: str
    min_version: int
    max_version: int
    handler: str
    """The module of `handlers` with `handle(broker, context, request)`. For an API that only the
    active controller answers it also has `failed(request, error)`, which makes the response to a
    request that cannot reach the controller, with this error for all that was requested."""
    authorisation: str
    advertised_min: int
    of_controller: bool = False
    """Only the active controller answers it."""
    between_nodes: bool = False
    """It is served only to other nodes of the cluster."""

    @property
    def is_own(self) -> bool:
        """True for an API that Kafka has not."""
        return self.key >= FIRST_OWN_KEY

    @property
    def request(self) -> type[Any]:
        return MESSAGES[self.key].request

    @property
    def response(self) -> type[Any]:
        return MESSAGES[self.key].response

    @property
    def handle(self) -> Handle:
        """The handler, whose module is imported now if it was not before."""
        found: Handle = self._module().handle
        return found

    @property
    def failed(self) -> Failed:
        """The function that answers a request which cannot reach the active controller."""
        found: Failed = self._module().failed
        return found

    def _module(self) -> ModuleType:
        return import_module(f"odradek.broker.handlers.{self.handler}")


def row(
    key: int,
    versions: tuple[int, int],
    handler: str,
    authorisation: str,
    advertised_min: int | None = None,
    *,
    of_controller: bool = False,
    between_nodes: bool = False,
) -> Api:
    least, most = versions
    return Api(
        key,
        MESSAGES[key].name,
        least,
        most,
        handler,
        authorisation,
        least if advertised_min is None else advertised_min,
        of_controller,
        between_nodes,
    )


def of_controller(key: int, versions: tuple[int, int], handler: str, authorisation: str) -> Api:
    return row(key, versions, handler, authorisation, of_controller=True)


def of_node(key: int, versions: tuple[int, int], handler: str) -> Api:
    return row(key, versions, handler, "ClusterAction on Cluster", between_nodes=True)


ROWS = (
    # librdkafka before 2.11 switches features off when the minimum of Produce rises (KAFKA-18659).
    row(0, (3, 13), "produce", "Write on Topic; IdempotentWrite on Cluster", advertised_min=0),
    row(1, (4, 18), "fetch", "Read on Topic"),
    row(2, (1, 11), "list_offsets", "Describe on Topic"),
    row(3, (0, 13), "metadata", "Describe on Topic; Create on Cluster or Topic"),
    row(8, (2, 10), "offset_commit", "Read on Group; Read on Topic"),
    row(9, (1, 10), "offset_fetch", "Describe on Group; Describe on Topic"),
    row(10, (0, 6), "find_coordinator", "Describe on Group"),
    # librdkafka before 2.11 wants a minimum of 0 to use groups with Kerberos.
    row(11, (0, 9), "join_group", "Read on Group"),
    row(12, (0, 4), "heartbeat", "Read on Group"),
    row(13, (0, 5), "leave_group", "Read on Group"),
    row(14, (0, 5), "sync_group", "Read on Group"),
    row(15, (0, 6), "describe_groups", "Describe on Group"),
    row(16, (0, 5), "list_groups", "Describe on Cluster or Group"),
    row(17, (0, 1), "sasl_handshake", "none"),
    row(18, (0, 5), "api_versions", "none"),
    of_controller(19, (2, 7), "create_topics", "Create on Cluster or Topic"),
    of_controller(20, (1, 6), "delete_topics", "Delete on Topic"),
    row(21, (0, 2), "delete_records", "Delete on Topic"),
    row(22, (0, 5), "init_producer_id", "IdempotentWrite on Cluster"),
    row(23, (2, 4), "offset_for_leader_epoch", "Describe on Topic"),
    row(24, (0, 5), "add_partitions_to_txn", "Write on TransactionalId; Write on Topic"),
    row(25, (0, 4), "add_offsets_to_txn", "Write on TransactionalId; Read on Group"),
    row(26, (0, 5), "end_txn", "Write on TransactionalId"),
    row(27, (1, 2), "write_txn_markers", "Alter or ClusterAction on Cluster"),
    row(
        28,
        (0, 5),
        "txn_offset_commit",
        "Write on TransactionalId; Read on Group; Read on Topic",
    ),
    row(29, (1, 3), "describe_acls", "Describe on Cluster"),
    row(30, (1, 3), "create_acls", "Alter on Cluster"),
    row(31, (1, 3), "delete_acls", "Alter on Cluster"),
    row(32, (1, 4), "describe_configs", "DescribeConfigs on Topic or Cluster"),
    of_controller(33, (0, 2), "alter_configs", "AlterConfigs on Topic or Cluster"),
    row(35, (1, 5), "describe_log_dirs", "Describe on Cluster"),
    row(36, (0, 2), "sasl_authenticate", "none"),
    of_controller(37, (0, 3), "create_partitions", "Alter on Topic"),
    row(42, (0, 3), "delete_groups", "Delete on Group"),
    of_controller(43, (0, 2), "elect_leaders", "Alter on Cluster"),
    of_controller(44, (0, 1), "incremental_alter_configs", "AlterConfigs on Topic or Cluster"),
    of_controller(45, (0, 1), "alter_partition_reassignments", "Alter on Cluster"),
    of_controller(46, (0, 0), "list_partition_reassignments", "Describe on Cluster"),
    row(47, (0, 0), "offset_delete", "Delete on Group; Read on Topic"),
    row(48, (0, 1), "describe_client_quotas", "DescribeConfigs on Cluster"),
    row(50, (0, 0), "describe_user_scram_credentials", "Describe on Cluster"),
    of_node(52, (0, 2), "quorum_requests"),
    of_node(53, (0, 1), "quorum_requests"),
    of_node(54, (0, 1), "quorum_requests"),
    of_controller(55, (0, 2), "describe_quorum", "Describe on Cluster"),
    of_node(56, (2, 3), "alter_partition"),
    of_controller(57, (0, 2), "update_features", "Alter on Cluster"),
    of_node(58, (0, 0), "envelope"),
    of_node(59, (0, 1), "quorum_requests"),
    row(60, (0, 2), "describe_cluster", "Describe on Cluster"),
    row(61, (0, 0), "describe_producers", "Read on Topic"),
    of_node(62, (0, 4), "broker_registration"),
    of_node(63, (0, 2), "broker_heartbeat"),
    of_controller(64, (0, 0), "unregister_broker", "Alter on Cluster"),
    row(65, (0, 0), "describe_transactions", "Describe on TransactionalId"),
    row(66, (0, 2), "list_transactions", "Describe on TransactionalId"),
    of_node(67, (0, 0), "allocate_producer_ids"),
    row(74, (0, 1), "list_config_resources", "DescribeConfigs on Cluster"),
    row(75, (0, 0), "describe_topic_partitions", "Describe on Topic"),
    of_controller(80, (0, 1), "add_raft_voter", "Alter on Cluster"),
    of_controller(81, (0, 0), "remove_raft_voter", "Alter on Cluster"),
    of_node(82, (0, 0), "update_raft_voter"),
    row(20_000, (0, 0), "describe_waiting", "Describe on Cluster"),
    row(20_001, (0, 0), "describe_metrics", "Describe on Cluster"),
)

CLIENT_ROWS = tuple(api for api in ROWS if not api.between_nodes)
APIS: dict[int, Api] = {api.key: api for api in ROWS}
