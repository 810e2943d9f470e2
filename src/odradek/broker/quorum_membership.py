"""QuorumMembership: a node keeps its own entry among the voters of the quorum (KIP-853, KIP-1186).

What this node sees of the voters, and what it asks the leader for then:

| this node is                              | it asks for                                          |
|-------------------------------------------|------------------------------------------------------|
| a voter with another address              | UpdateRaftVoter: the address                         |
| a voter                                   | nothing                                              |
| no voter, and joins by itself             | AddRaftVoter, if there are fewer than three voters   |
|                                           | and at least three brokers that are not fenced       |
| one whose id votes with another directory | RemoveRaftVoter of that one first, if it joins by    |
|                                           | itself; else nothing: a warning says what to do      |

It joins by itself with `controller.quorum.auto.join.enable`. Two nodes have one voter, because two
voters would need each other; the third node makes three of one. Further voters are the
administrator's decision. A refusal is normal (one change at a time, and only who has caught up is
added), so it asks again after `RETRY_MS`.

Voters that are known by the settings alone do not change.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from odradek.broker.controller_channel import ControllerCall, ControllerChannel
from odradek.model.errors import error_code
from odradek.network_client.alarm import Alarm
from odradek.protocol.api.add_raft_voter import AddRaftVoterRequest
from odradek.protocol.api.describe_quorum import QuorumListener
from odradek.protocol.api.remove_raft_voter import RemoveRaftVoterRequest
from odradek.protocol.api.update_raft_voter import UpdateRaftVoterRequest
from odradek.raft.effects import UpdateVoter
from odradek.raft.raft_records import KRAFT_VERSIONS
from odradek.raft.replicas import UNKNOWN_DIRECTORY, QuorumEndpoint, Voter, VoterSet

if TYPE_CHECKING:
    from odradek.broker.broker import Broker

logger = logging.getLogger(__name__)

RETRY_MS: Final = 1_000
TIMEOUT_MS: Final = 10_000
AUTO_JOIN_VOTERS_MAX: Final = 3
"""So many nodes become voters without being asked for."""

Change = AddRaftVoterRequest | RemoveRaftVoterRequest | UpdateRaftVoterRequest


def next_voter_change(
    me: Voter, voters: VoterSet, *, joins: bool, brokers: int, cluster_id: str, epoch: int
) -> Change | None:
    """Return what a node asks for, None for nothing. `me`: its key and where others reach it.

    `joins`: it becomes a voter by itself. `brokers`: the number of those that are not fenced.
    """
    if any(each.key.directory_id == UNKNOWN_DIRECTORY for each in voters):
        return None
    present = voters.get(me.key.id)
    listeners = [
        QuorumListener(name=at.listener, host=at.host, port=at.port) for at in me.endpoints
    ]
    if present is not None and present.key == me.key:
        if present.endpoints == me.endpoints:
            return None
        return UpdateRaftVoterRequest(
            cluster_id=cluster_id,
            current_leader_epoch=epoch,
            voter_id=me.key.id,
            voter_directory_id=me.key.directory_id,
            listeners=listeners,
            k_raft_version_feature=KRAFT_VERSIONS,
        )
    if not joins:
        return None
    if present is not None:
        return RemoveRaftVoterRequest(
            cluster_id=cluster_id,
            voter_id=present.key.id,
            voter_directory_id=present.key.directory_id,
        )
    if not len(voters) < AUTO_JOIN_VOTERS_MAX <= brokers:
        return None
    return AddRaftVoterRequest(
        cluster_id=cluster_id,
        timeout_ms=TIMEOUT_MS,
        voter_id=me.key.id,
        voter_directory_id=me.key.directory_id,
        listeners=listeners,
        ack_when_committed=False,
    )


class QuorumMembership:
    """The membership of one node. Owner thread."""

    def __init__(
        self,
        broker: Broker,
        channel: ControllerChannel,
        endpoints: tuple[QuorumEndpoint, ...],
        *,
        joins: bool,
    ) -> None:
        """`channel`: to the active controller. `endpoints`: where other nodes reach this one."""
        self._broker = broker
        self._channel = channel
        self._me = Voter(broker.metadata.raft.core.me, endpoints)
        self._joins = joins
        self._call: ControllerCall | None = None
        self._not_before_ms = 0
        self._alarm = Alarm(broker.timer, self.look)
        self._closed = False
        self._warned = False

    def look(self) -> None:
        """Ask for what is wanted now, if anything: call it when voters or brokers have changed."""
        broker = self._broker
        core = broker.metadata.raft.core
        if self._closed or self._call is not None or core.leader_id is None:
            return
        change = next_voter_change(
            self._me,
            core.log.voters,
            joins=self._joins,
            brokers=sum(not each.fenced for each in broker.image.brokers.values()),
            cluster_id=broker.directory.meta.cluster_id,
            epoch=core.epoch,
        )
        if change is None:
            self._warn_if_replaced(core.log.voters)
        elif (now_ms := broker.timer.now_ms) < self._not_before_ms:
            self._alarm.set_for(self._not_before_ms)
        else:
            self._not_before_ms = now_ms + RETRY_MS
            if core.is_leader:
                self._change_own_address(change)
            else:
                self._call = self._channel.send(change, self._ended, TIMEOUT_MS)
            self._alarm.set_for(self._not_before_ms)

    def close(self) -> None:
        """Ask for nothing more."""
        self._closed = True
        self._alarm.cancel()
        if self._call is not None:
            self._call.cancel()

    def _warn_if_replaced(self, voters: VoterSet) -> None:
        present = voters.get(self._me.key.id)
        replaced = present is not None and not present.key.matches(self._me.key)
        if replaced and not self._warned:
            logger.warning(
                "node %d is a voter of the quorum with another data directory, so this one does "
                "not vote. What to do: remove the voter %s (kafka-metadata-quorum "
                "remove-controller), then add this one, or set "
                "controller.quorum.auto.join.enable",
                self._me.key.id,
                present.key if present is not None else "",
            )
        self._warned = replaced

    def _change_own_address(self, change: Change) -> None:
        """Record the address of this node, which is the leader."""
        if isinstance(change, UpdateRaftVoterRequest):
            self._broker.metadata.raft.change_voters(UpdateVoter(lambda *_: None, self._me))

    def _ended(self, call: ControllerCall) -> None:
        self._call = None
        if call.error is not None or call.is_here:
            logger.debug("a change of the quorum's voters was not answered: %s", call.error)
        elif call.response is not None and call.response.error_code:
            error = error_code(call.response.error_code)
            logger.info("the quorum does not change its voters yet: %s", error.name)
        self.look()
