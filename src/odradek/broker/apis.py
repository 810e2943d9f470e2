"""The table of the APIs that this broker serves: key, versions, handler, authorisation.

ApiVersions responds with this table, with the rows of Odradek's own APIs only to our clients;
`dispatch` decides by it, and the protocol page of the documentation is rendered from it.
`authorisation` names the permissions that a principal needs on a broker with an authorizer; there
is none yet, so everybody may do everything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from odradek.broker.handlers import (
    alter_configs,
    alter_partition_reassignments,
    api_versions,
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
    sasl_authenticate,
    sasl_handshake,
    sync_group,
    update_features,
)
from odradek.protocol.api_keys import FIRST_OWN_KEY, MESSAGES

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext

Handle = Callable[["Broker", "RequestContext", Any], Any]


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
    )


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
    row(19, (2, 7), create_topics.handle, "Create on Cluster or Topic"),
    row(20, (1, 6), delete_topics.handle, "Delete on Topic"),
    row(21, (0, 2), delete_records.handle, "Delete on Topic"),
    row(22, (0, 5), init_producer_id.handle, "IdempotentWrite on Cluster"),
    row(23, (2, 4), offset_for_leader_epoch.handle, "Describe on Topic"),
    row(29, (1, 3), describe_acls.handle, "Describe on Cluster"),
    row(30, (1, 3), create_acls.handle, "Alter on Cluster"),
    row(31, (1, 3), delete_acls.handle, "Alter on Cluster"),
    row(32, (1, 4), describe_configs.handle, "DescribeConfigs on Topic or Cluster"),
    row(33, (0, 2), alter_configs.handle, "AlterConfigs on Topic or Cluster"),
    row(35, (1, 5), describe_log_dirs.handle, "Describe on Cluster"),
    row(36, (0, 2), sasl_authenticate.handle, "none"),
    row(37, (0, 3), create_partitions.handle, "Alter on Topic"),
    row(42, (0, 3), delete_groups.handle, "Delete on Group"),
    row(43, (0, 2), elect_leaders.handle, "Alter on Cluster"),
    row(44, (0, 1), incremental_alter_configs.handle, "AlterConfigs on Topic or Cluster"),
    row(45, (0, 1), alter_partition_reassignments.handle, "Alter on Cluster"),
    row(46, (0, 0), list_partition_reassignments.handle, "Describe on Cluster"),
    row(47, (0, 0), offset_delete.handle, "Delete on Group; Read on Topic"),
    row(48, (0, 1), describe_client_quotas.handle, "DescribeConfigs on Cluster"),
    row(50, (0, 0), describe_user_scram_credentials.handle, "Describe on Cluster"),
    row(55, (0, 2), describe_quorum.handle, "Describe on Cluster"),
    row(57, (0, 2), update_features.handle, "Alter on Cluster"),
    row(60, (0, 2), describe_cluster.handle, "Describe on Cluster"),
    row(61, (0, 0), describe_producers.handle, "Read on Topic"),
    row(66, (0, 2), list_transactions.handle, "Describe on TransactionalId"),
    row(74, (0, 1), list_config_resources.handle, "DescribeConfigs on Cluster"),
    row(75, (0, 0), describe_topic_partitions.handle, "Describe on Topic"),
    row(20_000, (0, 0), describe_waiting.handle, "Describe on Cluster"),
    row(20_001, (0, 0), describe_metrics.handle, "Describe on Cluster"),
)

APIS: dict[int, Api] = {api.key: api for api in ROWS}
