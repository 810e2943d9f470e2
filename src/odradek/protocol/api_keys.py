"""The table of APIs by key, with their request and response classes. Kafka's `ApiKeys`.

The versions in the declarations are Kafka 4.4's, from the floor of KIP-896 up. Odradek's own APIs
have keys from 20000. A broker advertises
the versions of its own table (`broker.apis`); the two differ where old clients need it. The
protocol page of the documentation is generated from both.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from odradek.protocol.api.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from odradek.protocol.api.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from odradek.protocol.api.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from odradek.protocol.api.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from odradek.protocol.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from odradek.protocol.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.api.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
)
from odradek.protocol.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from odradek.protocol.api.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from odradek.protocol.api.create_acls import CreateAclsRequest, CreateAclsResponse
from odradek.protocol.api.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from odradek.protocol.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.api.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from odradek.protocol.api.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from odradek.protocol.api.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from odradek.protocol.api.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from odradek.protocol.api.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from odradek.protocol.api.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from odradek.protocol.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from odradek.protocol.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from odradek.protocol.api.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from odradek.protocol.api.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from odradek.protocol.api.describe_metrics import (
    DescribeMetricsRequest,
    DescribeMetricsResponse,
)
from odradek.protocol.api.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from odradek.protocol.api.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from odradek.protocol.api.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from odradek.protocol.api.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from odradek.protocol.api.describe_waiting import (
    DescribeWaitingRequest,
    DescribeWaitingResponse,
)
from odradek.protocol.api.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from odradek.protocol.api.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from odradek.protocol.api.envelope import EnvelopeRequest, EnvelopeResponse
from odradek.protocol.api.fetch import FetchRequest, FetchResponse
from odradek.protocol.api.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.api.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.protocol.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.api.join_group import JoinGroupRequest, JoinGroupResponse
from odradek.protocol.api.leave_group import LeaveGroupRequest, LeaveGroupResponse
from odradek.protocol.api.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from odradek.protocol.api.list_groups import ListGroupsRequest, ListGroupsResponse
from odradek.protocol.api.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from odradek.protocol.api.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from odradek.protocol.api.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from odradek.protocol.api.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.api.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from odradek.protocol.api.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from odradek.protocol.api.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from odradek.protocol.api.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from odradek.protocol.api.produce import ProduceRequest, ProduceResponse
from odradek.protocol.api.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from odradek.protocol.api.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from odradek.protocol.api.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from odradek.protocol.api.sync_group import SyncGroupRequest, SyncGroupResponse
from odradek.protocol.api.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from odradek.protocol.api.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from odradek.protocol.api.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from odradek.protocol.api.vote import VoteRequest, VoteResponse
from odradek.protocol.schema import declaration

FIRST_OWN_KEY: Final = 20_000
"""The keys from here on are Odradek's own. Kafka's are below a hundred."""


class ApiMessages(NamedTuple):
    """An API by its key, with its request and response for all versions."""

    key: int
    name: str
    request: type[Any]
    response: type[Any]
    versions: tuple[int, int]
    flexible: int | None
    """The first version with compact lengths, tagged fields and the matching header."""

    def is_flexible(self, version: int) -> bool:
        """True if this version of request and response is flexible."""
        return self.flexible is not None and version >= self.flexible


def api_messages(request: type[Any], response: type[Any]) -> ApiMessages:
    """Return the row of a request and its response, from their declarations."""
    key, versions, flexible = declaration(request)
    assert declaration(response) == (key, versions, flexible), request
    return ApiMessages(
        key, request.__name__.removesuffix("Request"), request, response, versions, flexible
    )


MESSAGES: dict[int, ApiMessages] = {
    api.key: api
    for api in (
        api_messages(ProduceRequest, ProduceResponse),
        api_messages(FetchRequest, FetchResponse),
        api_messages(ListOffsetsRequest, ListOffsetsResponse),
        api_messages(MetadataRequest, MetadataResponse),
        api_messages(OffsetCommitRequest, OffsetCommitResponse),
        api_messages(OffsetFetchRequest, OffsetFetchResponse),
        api_messages(FindCoordinatorRequest, FindCoordinatorResponse),
        api_messages(JoinGroupRequest, JoinGroupResponse),
        api_messages(HeartbeatRequest, HeartbeatResponse),
        api_messages(LeaveGroupRequest, LeaveGroupResponse),
        api_messages(SyncGroupRequest, SyncGroupResponse),
        api_messages(DescribeGroupsRequest, DescribeGroupsResponse),
        api_messages(ListGroupsRequest, ListGroupsResponse),
        api_messages(SaslHandshakeRequest, SaslHandshakeResponse),
        api_messages(ApiVersionsRequest, ApiVersionsResponse),
        api_messages(CreateTopicsRequest, CreateTopicsResponse),
        api_messages(DeleteTopicsRequest, DeleteTopicsResponse),
        api_messages(DeleteRecordsRequest, DeleteRecordsResponse),
        api_messages(InitProducerIdRequest, InitProducerIdResponse),
        api_messages(OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse),
        api_messages(DescribeAclsRequest, DescribeAclsResponse),
        api_messages(CreateAclsRequest, CreateAclsResponse),
        api_messages(DeleteAclsRequest, DeleteAclsResponse),
        api_messages(DescribeConfigsRequest, DescribeConfigsResponse),
        api_messages(AlterConfigsRequest, AlterConfigsResponse),
        api_messages(DescribeLogDirsRequest, DescribeLogDirsResponse),
        api_messages(SaslAuthenticateRequest, SaslAuthenticateResponse),
        api_messages(CreatePartitionsRequest, CreatePartitionsResponse),
        api_messages(DeleteGroupsRequest, DeleteGroupsResponse),
        api_messages(ElectLeadersRequest, ElectLeadersResponse),
        api_messages(IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse),
        api_messages(AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse),
        api_messages(ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse),
        api_messages(OffsetDeleteRequest, OffsetDeleteResponse),
        api_messages(DescribeClientQuotasRequest, DescribeClientQuotasResponse),
        api_messages(DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse),
        api_messages(VoteRequest, VoteResponse),
        api_messages(BeginQuorumEpochRequest, BeginQuorumEpochResponse),
        api_messages(EndQuorumEpochRequest, EndQuorumEpochResponse),
        api_messages(DescribeQuorumRequest, DescribeQuorumResponse),
        api_messages(AlterPartitionRequest, AlterPartitionResponse),
        api_messages(UpdateFeaturesRequest, UpdateFeaturesResponse),
        api_messages(EnvelopeRequest, EnvelopeResponse),
        api_messages(FetchSnapshotRequest, FetchSnapshotResponse),
        api_messages(DescribeClusterRequest, DescribeClusterResponse),
        api_messages(DescribeProducersRequest, DescribeProducersResponse),
        api_messages(BrokerRegistrationRequest, BrokerRegistrationResponse),
        api_messages(BrokerHeartbeatRequest, BrokerHeartbeatResponse),
        api_messages(UnregisterBrokerRequest, UnregisterBrokerResponse),
        api_messages(ListTransactionsRequest, ListTransactionsResponse),
        api_messages(AllocateProducerIdsRequest, AllocateProducerIdsResponse),
        api_messages(ListConfigResourcesRequest, ListConfigResourcesResponse),
        api_messages(DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse),
        api_messages(AddRaftVoterRequest, AddRaftVoterResponse),
        api_messages(RemoveRaftVoterRequest, RemoveRaftVoterResponse),
        api_messages(UpdateRaftVoterRequest, UpdateRaftVoterResponse),
        api_messages(DescribeWaitingRequest, DescribeWaitingResponse),
        api_messages(DescribeMetricsRequest, DescribeMetricsResponse),
    )
}
