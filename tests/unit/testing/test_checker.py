"""Each promise of a broker, broken once: the checker says so, and says nothing else."""

from odradek.model.ids import TopicPartition
from odradek.testing.checker import Checker
from odradek.testing.history import Content, History, Read, Send

TP = TopicPartition("t", 0)


def content(text: str) -> Content:
    return Content(None, text.encode(), (), 1000)


class Story:
    """A history told step by step; each step is one nanosecond later."""

    def __init__(self) -> None:
        self.history, self.now = History(), 0

    def send(self, *texts: str, at: int = -1, **other: object) -> Send:
        """A batch, acknowledged at offset `at` (or not, if -1)."""
        self.now += 2
        values = {"acks": -1, "idempotent": True, "in_order": True, "attempts": 1} | other
        send = Send(
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
        """A fetch that returned these records, side by side from `start`."""
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


def test_a_kept_word() -> None:
    story = Story()
    story.send("a", "b", at=0)
    story.read("a")
    story.send("c", at=2)
    story.lose_power()
    story.send("unknown")
    story.read("a", "b", "c", "unknown", final=True)
    assert story.verdict() == []


def test_lost() -> None:
    story = Story()
    story.send("a", at=0)
    story.send("b", at=1)
    story.read("a", final=True)
    checker = Checker(story.history, "fsync")
    (line,) = checker.check()
    assert "t-0@1: lost b'b', acked (acks=-1)" in line
    assert checker.lost == 1


def test_what_a_power_failure_may_take_depends_on_acks_and_durability() -> None:
    for acks, durability, lines in ((1, "fsync", 0), (-1, "os", 0), (1, "os", 0), (-1, "fsync", 1)):
        story = Story()
        story.send("a", at=0, acks=acks)
        story.lose_power()
        story.read(final=True)
        assert len(story.verdict(durability)) == lines, (acks, durability)


def test_a_kill_may_take_nothing() -> None:
    for acks, durability in ((1, "fsync"), (-1, "os"), (1, "os"), (-1, "fsync")):
        story = Story()
        story.send("a", at=0, acks=acks)
        story.read(final=True)
        assert len(story.verdict(durability)) == 1, (acks, durability)


def test_what_was_read_is_as_durable_as_what_was_acked() -> None:
    story = Story()
    story.send("a")
    story.read("a")
    story.lose_power()
    story.read(final=True)
    (line,) = story.verdict("fsync")
    assert "r read b'a'" in line
    assert story.verdict("os") == []


def test_never_sent_and_altered() -> None:
    story = Story()
    story.send("a", at=0)
    story.read("a", "forged", final=True)
    (line,) = story.verdict()
    assert "never sent" in line


def test_duplicates_of_an_idempotent_producer() -> None:
    story = Story()
    story.send("a", at=0, attempts=2)
    story.read("a", "a", final=True)
    (line,) = story.verdict()
    assert "b'a' is there 2 times" in line


def test_a_plain_producer_may_duplicate_as_often_as_it_sent() -> None:
    story = Story()
    story.send("a", at=0, attempts=2, idempotent=False)
    story.read("a", "a", final=True)
    assert story.verdict() == []
    story.history.sends[0].attempts = 1
    assert len(story.verdict()) == 1


def test_what_surely_failed_is_not_there() -> None:
    story = Story()
    story.send("a", idempotent=False).outcome = "fail"
    story.read("a", final=True)
    assert len(story.verdict()) == 1


def test_order_of_one_producer_and_real_time() -> None:
    story = Story()
    story.send("b", at=1)
    story.send("a", at=0)
    story.read("a", "b", final=True)
    order, real_time = story.verdict()
    assert "p sent b'b' before b'a'" in order
    assert "1 was acked before it was sent" in real_time


def test_batches_under_way_together_have_no_order_in_real_time() -> None:
    story = Story()
    first = story.send("b", at=1, in_order=False)
    story.send("a", at=0, in_order=False)
    first.ended_ns = story.now + 10
    story.read("a", "b", final=True)
    assert story.verdict() == []


def test_one_offset_has_one_value() -> None:
    story = Story()
    story.send("a")
    story.send("b", at=0)
    story.read("a")
    story.read("b", final=True)
    assert any("r read b'a'" in line for line in story.verdict())


def test_the_high_watermark_never_goes_back_and_bounds_reads() -> None:
    story = Story()
    story.send("a", "b", at=0)
    story.read("a", high=2)
    story.read("b", start=1, high=1)
    story.read("a", "b", final=True)
    back, above = story.verdict()
    assert "from 2 to 1" in back
    assert "at or above the high watermark 1" in above


def test_surprises_count_unless_the_power_took_what_was_not_promised() -> None:
    story = Story()
    story.history.surprise("lost", "a sequence")
    story.history.surprise("corrupt", "a batch")
    assert len(story.verdict("os")) == 2
    story.lose_power()
    assert story.verdict("os") == ["corrupt: a batch"]
    assert len(story.verdict("fsync")) == 2
