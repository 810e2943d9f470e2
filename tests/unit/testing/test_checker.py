"""The checker reports each kind of violation, and nothing else."""

from typing import Any

from odradek.model.topics import TopicPartition
from odradek.testing.checker import Checker, Clocks, RetentionRule
from odradek.testing.history import Content, History, Read, SentBatch, Start, TopicDeletion, Trim

TP = TopicPartition("t", 0)


def content(text: str) -> Content:
    return Content(None, text.encode(), (), 1000)


class HistoryBuilder:
    """Builds a history step by step, one nanosecond apart."""

    def __init__(self) -> None:
        self.history, self.now = History(), 0

    def send(self, *texts: str, at: int = -1, **other: Any) -> SentBatch:
        """Add a batch, acknowledged at offset `at` (or not, if -1)."""
        self.now += 2
        values = {"acks": -1, "idempotent": True, "in_order": True, "attempts": 1} | other
        send = SentBatch(
            producer="p",
            partition=TP,
            contents=[content(text) for text in texts],
            invoked_ns=self.now,
            outcome="ok" if at >= 0 else "info",
            base_offset=at,
            ended_ns=self.now + 1,
            losses=self.history.losses,
            **values,
        )
        self.history.sends.append(send)
        return send

    def read(self, *texts: str, start: int = 0, final: bool = False, high: int = -1) -> None:
        """Add a fetch that returned these records, at consecutive offsets from `start`."""
        self.now += 2
        records = [(start + i, content(text)) for i, text in enumerate(texts)]
        high = start + len(texts) if high < 0 else high
        reader = "final" if final else "r"
        self.history.reads.append(
            Read(reader, TP, self.now, self.history.losses, records, high, final)
        )

    def lose_power(self) -> None:
        self.history.losses += 1

    def verdict(self, durability: str = "fsync") -> list[str]:
        return Checker(self.history, durability).check()


def test_a_correct_history_has_no_violation() -> None:
    story = HistoryBuilder()
    story.send("a", "b", at=0)
    story.read("a")
    story.send("c", at=2)
    story.lose_power()
    story.send("unknown")
    story.read("a", "b", "c", "unknown", final=True)
    assert story.verdict() == []


def test_a_missing_acknowledged_record_is_a_violation() -> None:
    story = HistoryBuilder()
    story.send("a", at=0)
    story.send("b", at=1)
    story.read("a", final=True)
    checker = Checker(story.history, "fsync")
    (line,) = checker.check()
    assert "t-0@1: lost b'b', acked (acks=-1)" in line
    assert checker.lost == 1


def test_records_that_a_power_failure_may_lose_depend_on_acks_and_durability() -> None:
    for acks, durability, lines in ((1, "fsync", 0), (-1, "os", 0), (1, "os", 0), (-1, "fsync", 1)):
        story = HistoryBuilder()
        story.send("a", at=0, acks=acks)
        story.lose_power()
        story.read(final=True)
        assert len(story.verdict(durability)) == lines, (acks, durability)


def test_a_kill_may_lose_no_record() -> None:
    for acks, durability in ((1, "fsync"), (-1, "os"), (1, "os"), (-1, "fsync")):
        story = HistoryBuilder()
        story.send("a", at=0, acks=acks)
        story.read(final=True)
        assert len(story.verdict(durability)) == 1, (acks, durability)


def test_a_read_record_must_be_as_durable_as_an_acknowledged_one() -> None:
    story = HistoryBuilder()
    story.send("a")
    story.read("a")
    story.lose_power()
    story.read(final=True)
    (line,) = story.verdict("fsync")
    assert "r read b'a'" in line
    assert story.verdict("os") == []


def test_a_record_that_was_never_sent_is_a_violation() -> None:
    story = HistoryBuilder()
    story.send("a", at=0)
    story.read("a", "forged", final=True)
    (line,) = story.verdict()
    assert "never sent" in line


def test_duplicates_of_an_idempotent_producer() -> None:
    story = HistoryBuilder()
    story.send("a", at=0, attempts=2)
    story.read("a", "a", final=True)
    (line,) = story.verdict()
    assert "b'a' is there 2 times" in line


def test_a_plain_producer_may_duplicate_as_often_as_it_sent() -> None:
    story = HistoryBuilder()
    story.send("a", at=0, attempts=2, idempotent=False)
    story.read("a", "a", final=True)
    assert story.verdict() == []
    story.history.sends[0].attempts = 1
    assert len(story.verdict()) == 1


def test_a_failed_record_in_the_log_is_a_violation() -> None:
    story = HistoryBuilder()
    story.send("a", idempotent=False).outcome = "fail"
    story.read("a", final=True)
    assert len(story.verdict()) == 1


def test_order_of_one_producer_and_real_time() -> None:
    story = HistoryBuilder()
    story.send("b", at=1)
    story.send("a", at=0)
    story.read("a", "b", final=True)
    order, real_time = story.verdict()
    assert "p sent b'b' before b'a'" in order
    assert "1 was acked before it was sent" in real_time


def test_concurrent_batches_have_no_order_in_real_time() -> None:
    story = HistoryBuilder()
    first = story.send("b", at=1, in_order=False)
    story.send("a", at=0, in_order=False)
    first.ended_ns = story.now + 10
    story.read("a", "b", final=True)
    assert story.verdict() == []


def test_two_values_at_one_offset_are_a_violation() -> None:
    story = HistoryBuilder()
    story.send("a")
    story.send("b", at=0)
    story.read("a")
    story.read("b", final=True)
    assert any("r read b'a'" in line for line in story.verdict())


def test_the_high_watermark_never_goes_back_and_bounds_reads() -> None:
    story = HistoryBuilder()
    story.send("a", "b", at=0)
    story.read("a", high=2)
    story.read("b", start=1, high=1)
    story.read("a", "b", final=True)
    back, above = story.verdict()
    assert "from 2 to 1" in back
    assert "at or above the high watermark 1" in above


def test_surprises_are_violations_except_allowed_losses_after_a_power_failure() -> None:
    story = HistoryBuilder()
    story.history.surprise("lost", "a sequence")
    story.history.surprise("corrupt", "a batch")
    assert len(story.verdict("os")) == 2
    story.lose_power()
    assert story.verdict("os") == ["corrupt: a batch"]
    assert len(story.verdict("fsync")) == 2


# What may be gone, and what may not be there any more.


def start(story: HistoryBuilder, offset: int, *, final: bool = True) -> None:
    story.now += 2
    story.history.starts.append(Start(TP, offset, story.now, story.now, final))


def trim(
    story: HistoryBuilder, target: int, *, outcome: str = "ok", low: int | None = None
) -> None:
    story.now += 2
    low = target if low is None else low
    ended = Trim(TP, target, story.now, outcome, low if outcome == "ok" else -1, story.now + 1)
    story.history.trims.append(ended)


def three_acked() -> HistoryBuilder:
    story = HistoryBuilder()
    for offset, text in enumerate("abc"):
        story.send(text, at=offset)
    return story


def test_only_deleted_records_may_be_missing() -> None:
    for outcome in ("ok", "info"):
        story = three_acked()
        trim(story, 2, outcome=outcome)
        start(story, 2)
        story.read("c", start=2, final=True)
        assert story.verdict() == [], outcome
    story = three_acked()
    trim(story, 1)
    start(story, 2)
    story.read("c", start=2, final=True)
    (line,) = story.verdict()
    assert "t-0@1: lost b'b'" in line


def test_only_records_before_the_log_start_may_be_missing() -> None:
    story = three_acked()
    trim(story, 2, outcome="info")
    start(story, 0)
    story.read("a", final=True)
    story.read("c", start=2, final=True)
    (line,) = story.verdict()
    assert "t-0@1: lost b'b'" in line


def test_deleted_records_that_come_back_are_a_violation() -> None:
    story = three_acked()
    trim(story, 2)
    start(story, 1, final=False)
    story.now += 2
    record = [(1, content("b"))]
    asked = story.now
    story.history.reads.append(Read("r", TP, asked, 0, record, 3, False, asked, position=1))
    start(story, 2)
    story.read("c", start=2, final=True)
    first, second = story.verdict()
    assert "@1: fetched by r" in first
    assert "starts at 1" in second


def test_a_power_failure_may_undo_a_deletion_that_was_only_in_the_cache() -> None:
    for durability, lines in (("os", 0), ("fsync", 1)):
        story = three_acked()
        trim(story, 2)
        story.now += 2
        story.history.lose_power(story.now)
        start(story, 0)
        story.read("a", "b", "c", final=True)
        assert len(story.verdict(durability)) == lines, durability


def test_a_low_watermark_below_the_deleted_offset_is_a_violation() -> None:
    story = three_acked()
    trim(story, 2, low=1)
    start(story, 1)
    story.read("b", "c", start=1, final=True)
    (line,) = story.verdict()
    assert "the low watermark is 1" in line


def removed(story: HistoryBuilder, rule: RetentionRule, clocks: Clocks) -> list[str]:
    return Checker(story.history, "fsync", {TP.topic: rule}, clocks).check()


def test_retention_may_remove_only_old_records() -> None:
    rule = RetentionRule(ms=500)
    for latest_ms, lines in ((1501, 0), (1500, 1)):
        story = three_acked()
        start(story, 1)
        story.read("b", "c", start=1, final=True)
        found = removed(story, rule, Clocks(latest_ms))
        assert len(found) == lines, latest_ms


def test_retention_by_size_must_keep_the_configured_bytes() -> None:
    for left, lines in ((100, 0), (99, 1)):
        story = three_acked()
        start(story, 1)
        story.now += 2
        records = [(1, content("b")), (2, content("c"))]
        read = Read("final", TP, story.now, 0, records, 3, True, position=1, size=left)
        story.history.reads.append(read)
        found = removed(story, RetentionRule(bytes=100), Clocks(1000))
        assert len(found) == lines, left


def test_records_kept_too_long_are_a_violation() -> None:
    story = three_acked()
    start(story, 0)
    story.read("a", "b", "c", final=True)
    assert removed(story, RetentionRule(ms=500), Clocks(1500, 1500)) == []
    assert len(removed(story, RetentionRule(ms=500), Clocks(1501, 1501))) == 3
    assert removed(story, RetentionRule(ms=500), Clocks(1501, None)) == []


def test_a_deleted_topic_may_lose_records_and_must_not_answer() -> None:
    story = three_acked()
    story.history.topic_deletions[TP.topic] = TopicDeletion(story.now)
    assert story.verdict() == []
    story.history.topic_deletions[TP.topic].confirmed_ns = story.now
    asked = story.now + 1
    story.history.reads.append(Read("r", TP, asked, 0, [], 3, False, asked, position=3))
    late = story.send("d", at=3)
    late.last_sent_ns = asked
    first, second = story.verdict()
    assert "read at" in first
    assert "acked at" in second


def test_an_answer_of_a_damaged_partition_is_a_violation() -> None:
    story = three_acked()
    story.history.damaged[TP] = story.now + 1
    assert story.verdict() == []
    asked = story.now + 2
    story.history.reads.append(Read("r", TP, asked, 0, [], 3, False, asked, position=3))
    (line,) = story.verdict()
    assert "though it is damaged" in line
