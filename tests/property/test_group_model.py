"""A group with members that join, leave, delay and crash, a slow or full disk, and broker restarts.

- One generation never assigns a partition to two members.
- The group's state is that of the log: a restarted broker has the group of its last record, and so
  has a broker that lost the partition and got it back. Confirmed offsets are kept.
- No request waits forever: well-behaved members agree on a generation, and silent ones are removed.
- Every request is answered exactly once, also if a member repeats it before the response.
- A generation has one leader, the next one has a higher number, and removed members leave no timer.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from odradek.coordinator.group.classic_group import ClassicGroup, GroupState
from property.group_model import GROUP, PARTITIONS, FlakyMember, Ledger
from transcripts.group_stage import Stage

WHO = st.integers(0, 4)
LONGEST_MS = 400_000
"""Longer than any session timeout, rebalance timeout and the time a new member has to join."""


class GroupMachine(RuleBasedStateMachine):
    """Two static and three dynamic members that support different protocols."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.generation = 0
        self.committed = 0
        self.stage = Stage(group_initial_rebalance_delay_ms=3000, group_max_size=4)
        both, only = ("range", "sticky"), ("range",)
        said: list[tuple[str, str | None, tuple[str, ...]]]
        said = [("a", None, both), ("b", None, only), ("c", None, ("sticky", "range"))]
        said += [("d", "seat-1", both), ("e", "seat-2", only)]
        self.members = [
            FlakyMember(self.stage, self.ledger, name, instance, spoken)
            for name, instance, spoken in said
        ]

    # -- operations -----------------------------------------------------------------------------

    @rule(who=WHO, version=st.sampled_from([3, 8, 9]))
    def joins(self, who: int, version: int) -> None:
        self.members[who].join(version)

    @rule(who=WHO, times=st.integers(2, 20))
    def joins_again_and_again(self, who: int, times: int) -> None:
        for _ in range(times):
            self.members[who].join()

    @rule(who=WHO, times=st.integers(2, 20))
    def syncs_again_and_again(self, who: int, times: int) -> None:
        for _ in range(times):
            self.members[who].sync()

    @rule(who=WHO)
    def commits(self, who: int) -> None:
        self.committed += 1
        self.members[who].commit(self.committed)

    @rule(who=WHO)
    def syncs(self, who: int) -> None:
        self.members[who].sync()

    @rule(who=WHO)
    def syncs_late(self, who: int) -> None:
        self.members[who].sync_late()

    @rule(who=WHO)
    def beats(self, who: int) -> None:
        self.members[who].beat()

    @rule(who=WHO)
    def does_what_is_next(self, who: int) -> None:
        self.members[who].do_what_is_next()

    @rule(who=WHO)
    def leaves(self, who: int) -> None:
        self.members[who].leave()

    @rule(who=WHO)
    def process_begins_anew(self, who: int) -> None:
        self.members[who].begin_anew()

    @rule(who=WHO, says=st.sampled_from([b"topics", b"more topics"]))
    def wants_other_topics(self, who: int, says: bytes) -> None:
        self.members[who].says = says

    @rule(ms=st.sampled_from([1, 1_000, 3_000, 9_000, 10_000, 31_000]))
    def time_passes(self, ms: int) -> None:
        self.stage.pass_time(ms)

    @rule(who=st.sets(WHO, min_size=2), rounds=st.integers(1, 6))
    def some_are_good_for_a_while(self, who: set[int], rounds: int) -> None:
        for _ in range(rounds):
            for each in sorted(who):
                self.members[each].do_what_is_next()
            self.stage.pass_time(2_000)

    @rule()
    def disk_gets_slow(self) -> None:
        self.stage.slow = True

    @rule()
    def disk_gets_full(self) -> None:
        self.stage.disk.full = True

    @rule()
    def disk_is_well(self) -> None:
        self.stage.slow = self.stage.disk.full = False
        self.stage.run_until_idle()

    @rule()
    def runs_until_idle(self) -> None:
        self.stage.run_until_idle()

    @precondition(lambda self: not self.stage.disk.full)
    @rule()
    def broker_is_killed(self) -> None:
        self.restart()

    @rule()
    def partition_is_given_away_and_comes_back(self) -> None:
        """Move the partition away and back; pending requests are answered at once."""
        self.disk_is_well()
        kept = self.kept()
        self.stage.groups.runtime.opened(self.stage.partition)
        self.stage.run_until_idle()
        assert not self.ledger.unanswered
        self.as_kept(kept)

    # -- invariants ------------------------------------------------------------------------------

    @invariant()
    def the_group_is_in_order(self) -> None:
        group = self.group()
        if group is None:
            return
        members = group.members
        assert (group.leader in members) == bool(members)
        assert group.static_members == {
            each.group_instance_id: each.id for each in members.values() if each.is_static
        }
        assert group.awaiting_join == sum(each.join is not None for each in members.values())
        assert group.pending_joins.isdisjoint(members)
        assert group.pending_syncs.keys() <= members.keys()
        counts = Counter(name for each in members.values() for name in each.protocol_names)
        assert +group._protocol_counts == counts
        assert not members or len(members) in counts.values()
        if group.state is not GroupState.PREPARING_REBALANCE:
            assert group.awaiting_join == 0
            assert bool(members) == (group.state is not GroupState.EMPTY)
        if group.state is not GroupState.COMPLETING_REBALANCE:
            assert not any(each.sync for each in members.values())

    @invariant()
    def generations_go_up(self) -> None:
        group = self.group()
        generation = 0 if group is None else group.generation
        assert generation >= self.generation
        self.generation = generation

    @invariant()
    def no_timer_is_left_of_who_is_gone(self) -> None:
        group = self.group()
        known = set() if group is None else group.members.keys() | group.pending_joins
        for kind, *whose in self.stage.shard_timers():
            if kind == "heartbeat":
                assert whose[1] in known
            elif kind == "join":
                assert group is not None and group.state is GroupState.PREPARING_REBALANCE
            elif kind == "sync":
                assert group is not None and group.pending_syncs

    @invariant()
    def whoever_may_be_silent_is_watched(self) -> None:
        """Every member, every pending id and every rebalance has a timer.

        Except members that wait for the others and sent nothing for a session.
        """
        group = self.group()
        if group is None:
            return
        timers = self.stage.shard_timers()
        for member in group.members.values():
            assert ("heartbeat", GROUP, member.id) in timers or member.is_alive_without_heartbeat
        for member_id in group.pending_joins:
            assert ("heartbeat", GROUP, member_id) in timers
        if group.state is GroupState.PREPARING_REBALANCE:
            assert ("join", GROUP) in timers
        if group.state is GroupState.COMPLETING_REBALANCE or group.pending_syncs:
            assert ("sync", GROUP) in timers

    def group(self) -> ClassicGroup | None:
        return self.stage.shard.groups.get(GROUP)

    def restart(self) -> None:
        """Restart the broker; the group's state is that of the log's last records."""
        self.stage.run_until_idle()
        kept = self.kept()
        self.stage.crash()
        self.stage.open()
        self.stage.run_until_idle()
        self.as_kept(kept)

    def kept(self) -> tuple[object, ...]:
        """Return the group's persistent state (none during a rebalance) and its offsets."""
        group = self.group()
        stable = (GroupState.STABLE, GroupState.EMPTY)
        said = None if group is None or group.state not in stable else kept_of(group)
        return said, self.offsets()

    def as_kept(self, kept: tuple[object, ...]) -> None:
        """Return the group's state after replaying the log."""
        group = self.group()
        said, offsets = kept
        assert self.offsets() == offsets
        assert said is None or (group is not None and kept_of(group) == said)
        self.generation = 0 if group is None else group.generation
        self.ledger.broker_died(self.generation)

    def offsets(self) -> dict[int, int]:
        """Return the committed offsets by partition."""
        found = self.stage.shard.offsets.of_group(GROUP).get("t", {})
        return {partition: value.offset for partition, value in found.items()}

    def teardown(self) -> None:
        """End all faults: the good members agree, then all fall silent."""
        self.disk_is_well()
        good = self.members[:4]
        for _ in range(60):
            for member in good:
                member.do_what_is_next()
            self.stage.pass_time(4_000)
        group = self.group()
        assert group is not None
        assert group.state is GroupState.STABLE, [each.__dict__ for each in good]
        assert sorted(b"".join(each.assignment or b"" for each in good)) == list(PARTITIONS)
        assert not self.ledger.unanswered
        kept = self.offsets()
        assert all(kept[each] >= offset for each, offset in self.ledger.confirmed.items())
        self.restart()
        self.stage.pass_time(LONGEST_MS)
        group = self.group()
        assert group is None or group.state is GroupState.EMPTY
        assert group is None or not group.pending_joins
        assert not self.ledger.unanswered
        assert {kind for kind, *_ in self.stage.shard_timers()} == {"expire-offsets"}


def kept_of(group: ClassicGroup) -> tuple[object, ...]:
    """Return the state that must survive a restart."""
    return (
        group.state,
        group.generation,
        group.protocol_type,
        group.protocol,
        group.leader,
        [
            (
                each.id,
                each.group_instance_id,
                each.client_id,
                each.session_timeout_ms,
                each.rebalance_timeout_ms,
                each.metadata(group.protocol or ""),
                each.assignment,
            )
            for each in group.members.values()
        ],
    )


TestGroup = GroupMachine.TestCase
TestGroup.settings = settings(max_examples=50, stateful_step_count=50)
