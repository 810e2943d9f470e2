"""The metadata quorum and the nodes of the cluster (KIP-595, KIP-853)."""

from __future__ import annotations

from uuid import UUID

from odradek.client.admin.calls import Calls, raise_for_code
from odradek.client.admin.results import Quorum, QuorumReplica
from odradek.config.addresses import address_text
from odradek.protocol.api.describe_quorum import (
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopic,
    ReplicaState,
)
from odradek.protocol.api.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from odradek.protocol.api.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

METADATA_LOG = "__cluster_metadata"


class QuorumCalls(Calls):
    """The calls about the metadata quorum and the nodes of the cluster."""

    async def quorum(self) -> Quorum:
        """Return the leader, the voters and the observers of the metadata quorum."""
        request = quorum_request()

        async def attempt() -> Quorum:
            answer = await self.ask_controller(request, DescribeQuorumResponse)
            return quorum_of(answer)

        return await self.retry(attempt)

    async def remove_voter(self, node_id: int, directory_id: UUID) -> None:
        """Take a node out of the voters of the metadata quorum. Raises `KafkaError`: it is no
        voter, or another change is under way."""
        request = RemoveRaftVoterRequest(voter_id=node_id, voter_directory_id=directory_id)

        async def attempt() -> None:
            answer = await self.ask_controller(request, RemoveRaftVoterResponse)
            raise_for_code(answer.error_code, f"removing voter {node_id}", answer.error_message)

        await self.retry(attempt)

    async def unregister_broker(self, broker_id: int) -> None:
        """Remove a broker from the cluster's metadata. It should be stopped: one that runs
        registers again."""
        request = UnregisterBrokerRequest(broker_id=broker_id)

        async def attempt() -> None:
            answer = await self.ask_controller(request, UnregisterBrokerResponse)
            raise_for_code(
                answer.error_code, f"unregistering broker {broker_id}", answer.error_message
            )

        await self.retry(attempt)


def quorum_request() -> DescribeQuorumRequest:
    """Return the request for the quorum of the metadata log."""
    partition = DescribeQuorumPartition(partition_index=0)
    topic = DescribeQuorumTopic(topic_name=METADATA_LOG, partitions=[partition])
    return DescribeQuorumRequest(topics=[topic])


def quorum_of(answer: DescribeQuorumResponse) -> Quorum:
    """Return the quorum of a response. Raises the `KafkaError` in it."""
    raise_for_code(answer.error_code, "describing the quorum", answer.error_message)
    found = answer.topics[0].partitions[0]
    raise_for_code(found.error_code, "describing the quorum", found.error_message)
    return Quorum(
        found.leader_id,
        found.leader_epoch,
        found.high_watermark,
        tuple(replica_of(each) for each in found.current_voters),
        tuple(replica_of(each) for each in found.observers),
        {
            node.node_id: {each.name: address_text(each.host, each.port) for each in node.listeners}
            for node in answer.nodes
        },
    )


def replica_of(state: ReplicaState) -> QuorumReplica:
    """Return one replica of a response."""
    return QuorumReplica(
        state.replica_id,
        state.replica_directory_id,
        state.log_end_offset,
        state.last_fetch_timestamp,
        state.last_caught_up_timestamp,
    )
