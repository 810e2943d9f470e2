"""The table of the APIs that this broker serves: key, versions, handler, authorisation.

ApiVersions responds with this table, with the rows of Odradek's own APIs only to our clients;
`dispatch` decides by it, and the protocol page of the documentation is rendered from it.

Any broker answers a request, unless its row is `of_controller`: then only the active controller
does, and another broker sends it on (`forwarding`). Rows with `between_nodes` are served and listed
to other nodes of the cluster only, on their listener.

`authorisation` names the permissions that a principal needs on a broker with an authorizer; there
is none yet, so everybody may do everything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from odradek.broker.handlers import (
    add_raft_voter,
    allocate_producer_ids,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    api_versions,
    broker_heartbeat,
    broker_registration,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_metrics,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_user_scram_credentials,
    describe_waiting,
    elect_leaders,
    envelope,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    quorum_requests,
    remove_raft_voter,
    sasl_authenticate,
    sasl_handshake,
    sync_group,
    unregister_broker,
    update_features,
    update_raft_voter,
)
from odradek.model.errors import ErrorCode
from odradek.protocol.api_keys import FIRST_OWN_KEY, MESSAGES

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext

Handle = Callable[["Broker", "RequestContext", Any], Any]
Failed = Callable[[Any, ErrorCode], Any]


@dataclass(frozen=True, slots=True)
class Api:
    """One row. `advertised_min` is lower than `min_version` only where clients need it to be."""

    key: int
    name: str
    request: type[Any]
    response: type[Any]
    min_version: int
    max_version: int
    handle: Handle
    authorisation: str
    advertised_min: int
    failed: Failed | None = None
    """For the active controller's APIs: makes the response to a request that cannot reach it."""
    between_nodes: bool = False

    @property
    def is_own(self) -> bool:
        """True for an API that Kafka has not."""
        return self.key >= FIRST_OWN_KEY


def row(
    key: int,
    versions: tuple[int, int],
    handle: Handle,
    authorisation: str,
    advertised_min: int | None = None,
    *,
    failed: Failed | None = None,
    between_nodes: bool = False,
) -> Api:
    message = MESSAGES[key]
    least, most = versions
    return Api(
        key,
        message.name,
        message.request,
        message.response,
        least,
        most,
        handle,
        authorisation,
        least if advertised_min is None else advertised_min,
        failed,
        between_nodes,
    )


class ControllersHandler(Protocol):
    """A module of `handlers` for an API that only the active controller answers."""

    def handle(self, broker: Broker, context: RequestContext, request: Any, /) -> Any: ...

    def failed(self, request: Any, error: ErrorCode, /) -> Any:
        """Make the response with this error for all that was requested."""
        ...


def of_controller(
    key: int, versions: tuple[int, int], handler: ControllersHandler, authorisation: str
) -> Api:
    return row(key, versions, handler.handle, authorisation, failed=handler.failed)


class NodesHandler(Protocol):
    """A module of `handlers` for an API that only nodes of the cluster use."""

    def handle(self, broker: Broker, context: RequestContext, request: Any, /) -> Any: ...


def of_node(key: int, versions: tuple[int, int], handler: NodesHandler) -> Api:
    return row(key, versions, handler.handle, "ClusterAction on Cluster", between_nodes=True)


ROWS = (
    # librdkafka before 2.11 switches features off when the minimum of Produce rises (KAFKA-18659).
    row(0, (3, 13), produce.handle, "Write on Topic; IdempotentWrite on Cluster", advertised_min=0),
    row(1, (4, 18), fetch.handle, "Read on Topic"),
    row(2, (1, 11), list_offsets.handle, "Describe on Topic"),
    row(3, (0, 13), metadata.handle, "Describe on Topic; Create on Cluster or Topic"),
    row(8, (2, 10), offset_commit.handle, "Read on Group; Read on Topic"),
    row(9, (1, 10), offset_fetch.handle, "Describe on Group; Describe on Topic"),
    row(10, (0, 6), find_coordinator.handle, "Describe on Group"),
    # librdkafka before 2.11 wants a minimum of 0 to use groups with Kerberos.
    row(11, (0, 9), join_group.handle, "Read on Group"),
    row(12, (0, 4), heartbeat.handle, "Read on Group"),
    row(13, (0, 5), leave_group.handle, "Read on Group"),
    row(14, (0, 5), sync_group.handle, "Read on Group"),
    row(15, (0, 6), describe_groups.handle, "Describe on Group"),
    row(16, (0, 5), list_groups.handle, "Describe on Cluster or Group"),
    row(17, (0, 1), sasl_handshake.handle, "none"),
    row(18, (0, 5), api_versions.handle, "none"),
    of_controller(19, (2, 7), create_topics, "Create on Cluster or Topic"),
    of_controller(20, (1, 6), delete_topics, "Delete on Topic"),
    row(21, (0, 2), delete_records.handle, "Delete on Topic"),
    row(22, (0, 5), init_producer_id.handle, "IdempotentWrite on Cluster"),
    row(23, (2, 4), offset_for_leader_epoch.handle, "Describe on Topic"),
    row(29, (1, 3), describe_acls.handle, "Describe on Cluster"),
    row(30, (1, 3), create_acls.handle, "Alter on Cluster"),
    row(31, (1, 3), delete_acls.handle, "Alter on Cluster"),
    row(32, (1, 4), describe_configs.handle, "DescribeConfigs on Topic or Cluster"),
    of_controller(33, (0, 2), alter_configs, "AlterConfigs on Topic or Cluster"),
    row(35, (1, 5), describe_log_dirs.handle, "Describe on Cluster"),
    row(36, (0, 2), sasl_authenticate.handle, "none"),
    of_controller(37, (0, 3), create_partitions, "Alter on Topic"),
    row(42, (0, 3), delete_groups.handle, "Delete on Group"),
    of_controller(43, (0, 2), elect_leaders, "Alter on Cluster"),
    of_controller(44, (0, 1), incremental_alter_configs, "AlterConfigs on Topic or Cluster"),
    of_controller(45, (0, 1), alter_partition_reassignments, "Alter on Cluster"),
    of_controller(46, (0, 0), list_partition_reassignments, "Describe on Cluster"),
    row(47, (0, 0), offset_delete.handle, "Delete on Group; Read on Topic"),
    row(48, (0, 1), describe_client_quotas.handle, "DescribeConfigs on Cluster"),
    row(50, (0, 0), describe_user_scram_credentials.handle, "Describe on Cluster"),
    of_node(52, (0, 2), quorum_requests),
    of_node(53, (0, 1), quorum_requests),
    of_node(54, (0, 1), quorum_requests),
    of_controller(55, (0, 2), describe_quorum, "Describe on Cluster"),
    of_node(56, (2, 3), alter_partition),
    of_controller(57, (0, 2), update_features, "Alter on Cluster"),
    of_node(58, (0, 0), envelope),
    of_node(59, (0, 1), quorum_requests),
    row(60, (0, 2), describe_cluster.handle, "Describe on Cluster"),
    row(61, (0, 0), describe_producers.handle, "Read on Topic"),
    of_node(62, (0, 4), broker_registration),
    of_node(63, (0, 2), broker_heartbeat),
    of_controller(64, (0, 0), unregister_broker, "Alter on Cluster"),
    row(66, (0, 2), list_transactions.handle, "Describe on TransactionalId"),
    of_node(67, (0, 0), allocate_producer_ids),
    row(74, (0, 1), list_config_resources.handle, "DescribeConfigs on Cluster"),
    row(75, (0, 0), describe_topic_partitions.handle, "Describe on Topic"),
    of_controller(80, (0, 1), add_raft_voter, "Alter on Cluster"),
    of_controller(81, (0, 0), remove_raft_voter, "Alter on Cluster"),
    of_node(82, (0, 0), update_raft_voter),
    row(20_000, (0, 0), describe_waiting.handle, "Describe on Cluster"),
    row(20_001, (0, 0), describe_metrics.handle, "Describe on Cluster"),
)

CLIENT_ROWS = tuple(api for api in ROWS if not api.between_nodes)
APIS: dict[int, Api] = {api.key: api for api in ROWS}
