"""A leader's followers: lag, the in-sync replicas and their changes, the committed end."""

from __future__ import annotations

from odradek.replication.leadership import Leadership, Replica

LAG_MS = 30_000
SILENT_MS = 4_500
UNKNOWN = -1


class Leading:
    """Broker 1 leads, from offset 10 on; 2 and 3 follow. `now_ms` is the time."""

    def __init__(self, isr: tuple[int, ...] = (1, 2, 3), min_isr: int = 1) -> None:
        self.now_ms = 0
        self.fenced: set[int] = set()
        self.session_ended = False
        self.heard_ms: dict[int, int] = {}
        self.leadership = Leadership(
            1,
            5,
            10,
            min_isr=min_isr,
            lag_ms=LAG_MS,
            may_join=lambda broker, _: broker not in self.fenced,
            is_alive=lambda broker: broker not in self.fenced,
            session_ended=lambda: self.session_ended,
            silent_ms=SILENT_MS,
            now_ms=lambda: self.now_ms,
            heard_ms=self.heard_ms,
        )
        self.leadership.assign((1, 2, 3), isr)
        self.leadership.committed(isr, 7)

    def fetch(self, broker: int, durable: int, end: int, *, log_start: int = 0) -> Replica:
        self.heard_ms[broker] = self.now_ms
        replica = self.leadership.replicas[broker]
        replica.update(durable, durable, log_start, 100 + broker, end, self.now_ms)
        return replica


def test_the_committed_end_is_the_least_durable_end_of_the_isr():
    leading = Leading()
    leading.fetch(2, 30, 40)
    assert leading.leadership.committed_end(40) == UNKNOWN, "3 has not told its end"
    leading.fetch(3, 20, 40)
    assert leading.leadership.committed_end(40) == 20
    leading.fetch(3, 50, 50)
    assert leading.leadership.committed_end(40) == 30
    assert leading.leadership.committed_end(25) == 25, "its own end counts too"


def test_a_replica_out_of_sync_holds_nothing_up():
    leading = Leading(isr=(1, 2))
    leading.fetch(2, 30, 40)
    leading.fetch(3, 5, 40)
    assert leading.leadership.committed_end(40) == 30


def test_the_committed_end_waits_for_a_caught_up_replica_that_may_join():
    leading = Leading(isr=(1, 2))
    leading.fetch(2, 50, 50)
    leading.fetch(3, 40, 40)
    assert leading.leadership.committed_end(50) == 40
    leading.fenced.add(3)
    assert leading.leadership.committed_end(50) == 50


def test_the_committed_end_stands_while_the_isr_is_below_its_minimum():
    leading = Leading(isr=(1,), min_isr=2)
    assert leading.leadership.committed_end(40) == UNKNOWN
    leading.leadership.committed((1, 2), 8)
    leading.fetch(2, 40, 40)
    assert leading.leadership.committed_end(40) == 40


def test_replicas_that_are_being_added_do_not_count_for_the_minimum_yet():
    leading = Leading(isr=(1,), min_isr=2)
    assert leading.leadership.is_under_min_isr
    leading.leadership.assign((1, 2, 3), (1,), adding=(2, 3))
    assert not leading.leadership.is_under_min_isr
    assert leading.leadership.committed_end(40) == 40
    leading.leadership.assign((1, 2, 3), (1,))
    assert leading.leadership.is_under_min_isr


def test_the_minimum_is_at_most_the_number_of_replicas():
    leading = Leading(isr=(1, 2), min_isr=5)
    assert leading.leadership.effective_min_isr == 3
    leading.leadership.assign((1,), (1,))
    assert leading.leadership.effective_min_isr == 1


def test_a_replica_joins_when_it_has_the_high_watermark_and_the_first_offset_of_the_epoch():
    leading = Leading(isr=(1, 2))
    decide = leading.leadership
    assert decide.propose_expansion(leading.fetch(3, 9, 40), 40, 5, 0) is None, "before the epoch"
    assert decide.propose_expansion(leading.fetch(3, 12, 40), 40, 20, 0) is None, (
        "below the watermark"
    )
    proposal = decide.propose_expansion(leading.fetch(3, 40, 50), 50, 20, 0)
    assert proposal is not None
    assert proposal.isr == ((1, -1), (2, -1), (3, 103))
    assert (proposal.leader_epoch, proposal.partition_epoch) == (5, 7)


def test_a_replica_that_would_be_removed_again_at_once_is_not_proposed():
    leading = Leading(isr=(1,), min_isr=2)
    leading.now_ms = LAG_MS + 1
    leading.fetch(2, 20, 60)
    leading.fetch(3, 60, 60)
    proposal = leading.leadership.propose_change(60, 20, 0)
    assert proposal is not None
    assert proposal.isr == ((1, -1), (3, 103)), "2 has the high watermark, and lags behind"


def test_a_replica_joins_when_its_log_starts_where_the_leaders_does():
    leading = Leading(isr=(1, 2))
    decide = leading.leadership
    assert decide.propose_expansion(leading.fetch(3, 40, 40, log_start=7), 40, 20, 8) is None
    assert decide.propose_expansion(leading.fetch(3, 40, 40, log_start=8), 40, 20, 8) is not None


def test_a_replica_that_the_controller_would_refuse_is_not_proposed():
    leading = Leading(isr=(1, 2))
    leading.fenced.add(3)
    assert leading.leadership.propose_expansion(leading.fetch(3, 40, 40), 40, 20, 0) is None


def test_a_replica_counts_from_its_proposal_on():
    leading = Leading(isr=(1, 2))
    leading.fetch(2, 60, 60)
    leading.leadership.propose_expansion(leading.fetch(3, 40, 40), 40, 40, 0)
    leading.now_ms = 10 * LAG_MS
    assert leading.leadership.committed_end(60) == 40
    leading.leadership.committed((1, 2, 3), 8)
    assert leading.leadership.committed_end(60) == 40


def test_a_replica_counts_until_its_removal_is_committed():
    leading = Leading()
    leading.now_ms = LAG_MS + 1
    leading.fetch(2, 60, 60)
    proposal = leading.leadership.propose_shrinkage(60)
    assert proposal is not None
    assert [broker for broker, _ in proposal.isr] == [1, 2]
    assert leading.leadership.committed_end(60) == UNKNOWN
    leading.leadership.committed((1, 2), 8)
    assert leading.leadership.committed_end(60) == 60


def test_a_replica_that_left_the_isr_is_not_waited_for_until_it_has_caught_up():
    leading = Leading()
    leading.fetch(2, 40, 40)
    leading.fetch(3, 40, 40)
    leading.fetch(2, 50, 50)
    assert leading.leadership.committed_end(50) == 40
    leading.leadership.committed((1, 2), 8)
    leading.fetch(3, 40, 50)
    assert leading.leadership.committed_end(50) == 50


def test_one_change_is_pending_at_a_time():
    leading = Leading(isr=(1, 2))
    leading.now_ms = LAG_MS + 1
    assert leading.leadership.propose_shrinkage(60) is not None
    assert leading.leadership.propose_expansion(leading.fetch(3, 60, 60), 60, 20, 0) is None
    assert leading.leadership.propose_shrinkage(60) is None


def test_a_change_that_was_refused_may_be_proposed_again():
    leading = Leading(isr=(1, 2))
    proposal = leading.leadership.propose_expansion(leading.fetch(3, 60, 60), 60, 20, 0)
    assert proposal is not None
    assert leading.leadership.maximal_isr == {1, 2, 3}
    leading.leadership.withdrawn(proposal)
    assert leading.leadership.maximal_isr == {1, 2}
    assert leading.leadership.propose_expansion(leading.fetch(3, 60, 60), 60, 20, 0) is not None


def test_an_older_isr_than_the_known_one_changes_nothing():
    leading = Leading()
    leading.leadership.committed((1, 2), 9)
    assert not leading.leadership.committed((1, 2, 3), 8)
    assert leading.leadership.isr == (1, 2)


def test_a_replica_always_a_little_behind_stays_in_sync():
    leading = Leading()
    for second in range(200):
        leading.now_ms = second * 1000
        for broker in (2, 3):
            leading.fetch(broker, max(0, second - 3), second)
        assert leading.leadership.propose_shrinkage(second) is None


def test_a_replica_whose_durable_end_does_not_move_leaves_although_it_fetches():
    leading = Leading()
    for second in range(40):
        leading.now_ms = second * 1000
        leading.fetch(2, second, second)
        leading.leadership.replicas[3].update(second, 5, 0, 103, second, leading.now_ms)
    proposal = leading.leadership.propose_shrinkage(40)
    assert proposal is not None
    assert [broker for broker, _ in proposal.isr] == [1, 2]


def test_a_replica_with_everything_stays_however_long_nothing_is_written():
    leading = Leading()
    leading.fetch(2, 40, 40)
    leading.fetch(3, 40, 40)
    leading.now_ms = 100 * LAG_MS
    assert leading.leadership.propose_shrinkage(40) is None


def test_the_low_watermark_is_the_least_log_start_of_the_live_and_in_sync_replicas():
    leading = Leading()
    assert leading.leadership.low_watermark(8) == UNKNOWN
    leading.fetch(2, 40, 40, log_start=6)
    leading.fetch(3, 40, 40, log_start=2)
    assert leading.leadership.low_watermark(8) == 2
    leading.fenced.add(3)
    assert leading.leadership.low_watermark(8) == 2, "3 is still in sync and may be elected"
    leading.leadership.committed((1, 2), 8)
    assert leading.leadership.low_watermark(8) == 6


def test_there_is_no_low_watermark_while_the_isr_is_below_its_minimum():
    leading = Leading(isr=(1, 2), min_isr=2)
    leading.fenced.add(3)
    leading.fetch(2, 40, 40, log_start=6)
    assert leading.leadership.low_watermark(8) == 6
    leading.leadership.committed((1,), 8)
    assert leading.leadership.low_watermark(8) == UNKNOWN, "2 may be elected"


def test_a_leader_is_cut_off_that_hears_neither_the_controller_nor_a_replica_in_sync():
    leading = Leading(isr=(1, 2))
    leading.now_ms = SILENT_MS
    assert not leading.leadership.is_cut_off(), "the controller is heard, and removes who is silent"
    leading.session_ended = True
    assert leading.leadership.is_cut_off()
    leading.fetch(2, 10, 40)
    assert not leading.leadership.is_cut_off(), "3 is not in sync: nothing waits for it"
    leading.now_ms += SILENT_MS
    assert leading.leadership.is_cut_off()
    leading.leadership.committed((1,), 8)
    assert not leading.leadership.is_cut_off(), "nobody else can be elected"
