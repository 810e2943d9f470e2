"""What the leader of a partition knows of its followers, and which replicas are in sync.

A `Leadership` is made when this broker becomes the leader of a partition that has other replicas.
It decides; the partition has the log, `alter_partition_manager` talks to the controller.

**A follower** tells with each fetch how far it has fetched and how far its log is durable. The
durable end counts here, for the high watermark and for being in sync: an acknowledgement is on the
disk of every in-sync replica. (With `log.durability=os` the fetch offset counts, as in Kafka.)

**Caught up.** A fetch notes the leader's log end and the time; when the durable end has reached
that end, the follower was caught up at that time. A follower that always is a little behind, but
never by more than `replica.lag.time.max.ms`, stays in sync.

**The ISR** changes in two steps, because the controller decides:

                    propose_expansion / propose_shrinkage           committed(isr)
        committed ──────────────────────────────────────► pending ─────────────────► committed
                                                             └────── withdrawn ─────────┘

While a change is pending the *maximal* ISR counts: a replica from its proposal on, and until its
removal is committed. So the high watermark never passes a replica that the controller may elect.

**The high watermark** is the least durable end of the maximal ISR, the leader's too. It also waits
for a replica that is about to join: one that has caught up and may join. It stands while the
committed ISR is below `min.insync.replicas` (KIP-966): what fewer replicas have may be lost.

**Cut off.** A leader that hears neither from the controller nor from the broker of a member of its
ISR (a follower that has everything tells nothing of this partition) can commit nothing and change
nothing, and others may have elected another leader. Its clients are told to look for that one
(NOT_LEADER_OR_FOLLOWER), and its coordinators end. In Kafka they get REQUEST_TIMED_OUT, and look
again when their metadata is `metadata.max.age.ms` old. What is committed can still be read from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

NO_OFFSET: Final = -1
NO_BROKER_EPOCH: Final = -1
NEVER_MS: Final = -(1 << 62)


class Replica:
    """A follower as its leader knows it; offsets are -1 before its first fetch in this epoch."""

    __slots__ = (
        "_mark_end",
        "_mark_ms",
        "broker_epoch",
        "broker_id",
        "durable_end",
        "fetch_offset",
        "last_caught_up_ms",
        "log_start_offset",
    )

    def __init__(self, broker_id: int, last_caught_up_ms: int) -> None:
        self.broker_id = broker_id
        self.broker_epoch = NO_BROKER_EPOCH
        self.fetch_offset = NO_OFFSET
        self.durable_end = NO_OFFSET
        self.log_start_offset = NO_OFFSET
        self.last_caught_up_ms = last_caught_up_ms
        self._mark_end = NO_OFFSET  # the leader's log end at the fetch of this time
        self._mark_ms = NEVER_MS

    def update(
        self,
        fetch_offset: int,
        durable_end: int,
        log_start_offset: int,
        broker_epoch: int,
        leader_end: int,
        now_ms: int,
    ) -> None:
        """Take what a fetch tells; `leader_end` is the leader's log end now."""
        self.fetch_offset = fetch_offset
        self.durable_end = durable_end
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        if durable_end >= leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
            self._mark_end, self._mark_ms = leader_end, now_ms
        elif self._mark_end < 0 or durable_end >= self._mark_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self._mark_ms)
            self._mark_end, self._mark_ms = leader_end, now_ms

    def leave(self) -> None:
        """Count as behind until it has caught up again: it is out of the ISR."""
        self.last_caught_up_ms = self._mark_ms = NEVER_MS
        self._mark_end = NO_OFFSET

    def is_caught_up(self, leader_end: int, now_ms: int, lag_ms: int) -> bool:
        """True if it has everything, or had everything not longer ago than `lag_ms`."""
        return self.durable_end >= leader_end or now_ms - self.last_caught_up_ms <= lag_ms


class IsrProposal(NamedTuple):
    """A change of the ISR that the leader asks for: (broker id, broker epoch) of each member.

    `is_damaged`, `has_no_room`: what a replica, leader or not, asks for: to be out of it, as its
    log is damaged, or its disk is full.
    """

    isr: tuple[tuple[int, int], ...]
    leader_epoch: int
    partition_epoch: int
    leader_recovery_state: int = 0
    is_damaged: bool = False
    has_no_room: bool = False


class Leadership:
    """The followers and the ISR of one partition, in one leader epoch.

    `may_join(broker id, broker epoch)`: the controller would take this replica into the ISR: its
    broker is registered with this epoch, not fenced and not shutting down (KIP-841, KIP-903).
    `is_alive(broker id)`: it is registered and not fenced. `session_ended()`: the controller has
    not been heard for so long that it may have fenced this broker.
    """

    __slots__ = (
        "_began_ms",
        "_heard_ms",
        "_is_alive",
        "_now_ms",
        "_session_ended",
        "_silent_ms",
        "adding",
        "epoch_start",
        "isr",
        "lag_ms",
        "leader_epoch",
        "leader_recovery_state",
        "local_id",
        "maximal_isr",
        "may_join",
        "min_isr",
        "partition_epoch",
        "pending",
        "replicas",
    )

    def __init__(
        self,
        local_id: int,
        leader_epoch: int,
        epoch_start: int,
        *,
        min_isr: int,
        lag_ms: int,
        may_join: Callable[[int, int], bool],
        is_alive: Callable[[int], bool],
        session_ended: Callable[[], bool],
        silent_ms: int,
        now_ms: Callable[[], int],
        heard_ms: Mapping[int, int],
    ) -> None:
        """`epoch_start`: the leader's log end when it began to lead. `silent_ms`: a follower that
        does not fetch for so long is silent. `now_ms`: monotonic time. `heard_ms`: when each broker
        last fetched anything from this one.
        """
        self._now_ms = now_ms
        self._began_ms = now_ms()
        self._heard_ms = heard_ms
        self._session_ended = session_ended
        self._silent_ms = silent_ms
        self.local_id = local_id
        self.leader_epoch = leader_epoch
        self.epoch_start = epoch_start
        self.min_isr = min_isr
        self.lag_ms = lag_ms
        self.may_join = may_join
        self._is_alive = is_alive
        self.replicas: dict[int, Replica] = {}
        self.adding = 0
        """How many of the replicas a reassignment adds."""
        self.isr: tuple[int, ...] = ()
        self.maximal_isr: frozenset[int] = frozenset()
        self.partition_epoch = -1
        self.leader_recovery_state = 0
        self.pending: IsrProposal | None = None

    # -- what the controller has committed -------------------------------------------------------

    def assign(
        self, replicas: Iterable[int], isr: Iterable[int], adding: Iterable[int] = ()
    ) -> None:
        """Take the replicas of a committed change. Members of the ISR count as caught up now, so
        that a new leader gives its followers time for their first fetch. `adding`: those that a
        reassignment adds.
        """
        isr, now_ms = tuple(isr), self._now_ms()
        states = {}
        for broker_id in replicas:
            if broker_id != self.local_id:
                known = self.replicas.get(broker_id)
                caught_up_ms = now_ms if broker_id in isr else NEVER_MS
                states[broker_id] = known or Replica(broker_id, caught_up_ms)
        self.replicas = states
        self.adding = len(set(adding))

    def committed(
        self, isr: Iterable[int], partition_epoch: int, leader_recovery_state: int = 0
    ) -> bool:
        """Take the committed ISR, which ends a pending change. False if it is an older one."""
        if partition_epoch < self.partition_epoch:
            return False
        before, self.isr = self.isr, tuple(isr)
        for broker_id in before:
            if broker_id not in self.isr and broker_id in self.replicas:
                self.replicas[broker_id].leave()
        self.maximal_isr = frozenset(self.isr)
        self.partition_epoch = partition_epoch
        self.leader_recovery_state = leader_recovery_state
        self.pending = None
        return True

    def withdrawn(self, proposal: IsrProposal) -> None:
        """Drop a pending change that the controller certainly did not make."""
        if self.pending is proposal:
            self.pending = None
            self.maximal_isr = frozenset(self.isr)

    # -- the in-sync replicas --------------------------------------------------------------------

    @property
    def effective_min_isr(self) -> int:
        """`min.insync.replicas`, at most the number of replicas. Those that are being added do not
        count: a partition of one replica that grows to three would take no records until the next
        one has all the others. (In Kafka they count.)
        """
        return max(1, min(self.min_isr, len(self.replicas) + 1 - self.adding))

    @property
    def is_under_min_isr(self) -> bool:
        return len(self.isr) < self.effective_min_isr

    def is_cut_off(self) -> bool:
        """True if neither the controller nor some in-sync replica is heard: see the module."""
        if not self._session_ended():
            return False
        since_ms = self._now_ms() - self._silent_ms
        return any(
            broker_id in self.replicas
            and max(self._began_ms, self._heard_ms.get(broker_id, NEVER_MS)) <= since_ms
            for broker_id in self.isr
        )

    def committed_end(self, leader_end: int) -> int:
        """The end of what is committed, of a leader whose own (durable) end is `leader_end`.

        -1 while the ISR is below its minimum.
        """
        if self.is_under_min_isr:
            return NO_OFFSET
        end, now_ms = leader_end, self._now_ms()
        for replica in self.replicas.values():
            if replica.durable_end < end and (
                replica.broker_id in self.maximal_isr
                or (
                    replica.is_caught_up(leader_end, now_ms, self.lag_ms)
                    and self.may_join(replica.broker_id, replica.broker_epoch)
                )
            ):
                end = replica.durable_end
        return end

    def low_watermark(self, leader_start: int) -> int:
        """The least log start of the live and of the in-sync replicas, the leader's too; -1 before
        the first fetch of one of them.

        -1 while the ISR is below its minimum, too: one that has left it may be elected (KIP-966),
        and would show deleted records again. (Kafka waits for live replicas only.)
        """
        if self.is_under_min_isr:
            return NO_OFFSET
        starts = [
            replica.log_start_offset
            for replica in self.replicas.values()
            if replica.broker_id in self.isr or self._is_alive(replica.broker_id)
        ]
        return min([leader_start, *starts])

    def propose_expansion(
        self, replica: Replica, leader_end: int, high_watermark: int, log_start: int
    ) -> IsrProposal | None:
        """Propose a replica that has reached the high watermark and this leader's first offset, and
        whose log would start where the leader's does after a power failure, too: as a leader it
        must not show records that were deleted while it was down.

        It must have caught up as well: below the minimum ISR the high watermark stands, and one
        that has reached no more than that would be removed again at once.
        """
        if (
            self.pending is not None
            or replica.broker_id in self.isr
            or replica.durable_end < max(high_watermark, self.epoch_start)
            or replica.log_start_offset < log_start
            or not replica.is_caught_up(leader_end, self._now_ms(), self.lag_ms)
            or not self.may_join(replica.broker_id, replica.broker_epoch)
        ):
            return None
        self.maximal_isr = frozenset((*self.isr, replica.broker_id))
        return self._propose((*self.isr, replica.broker_id))

    def propose_shrinkage(self, leader_end: int) -> IsrProposal | None:
        """Propose the ISR without the replicas that have not caught up for too long."""
        if self.pending is not None:
            return None
        now_ms = self._now_ms()
        in_sync = tuple(
            broker_id
            for broker_id in self.isr
            if broker_id == self.local_id
            or (
                broker_id in self.replicas
                and self.replicas[broker_id].is_caught_up(leader_end, now_ms, self.lag_ms)
            )
        )
        return self._propose(in_sync) if len(in_sync) < len(self.isr) else None

    def propose_change(
        self, leader_end: int, high_watermark: int, log_start: int
    ) -> IsrProposal | None:
        """Propose to remove who does not keep up, else a replica that may join."""
        proposal = self.propose_shrinkage(leader_end)
        for replica in self.replicas.values():
            if proposal is None:
                proposal = self.propose_expansion(replica, leader_end, high_watermark, log_start)
        return proposal

    def _propose(self, isr: tuple[int, ...]) -> IsrProposal:
        members = tuple((broker_id, self._broker_epoch(broker_id)) for broker_id in isr)
        # By proposing anything a leader says that it has recovered from an unclean election: that
        # is the default of `IsrProposal`.
        self.pending = IsrProposal(members, self.leader_epoch, self.partition_epoch)
        return self.pending

    def _broker_epoch(self, broker_id: int) -> int:
        replica = self.replicas.get(broker_id)
        return NO_BROKER_EPOCH if replica is None else replica.broker_epoch
