"""Where records go that have neither key nor partition."""

from __future__ import annotations

from collections import Counter

from odradek.client.producer.partitioner import BuiltInPartitioner


class Numbers:
    """Chance that a test says."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = list(numbers)

    def getrandbits(self, bits: int) -> int:
        return self.numbers.pop(0) if self.numbers else 0


def partitioner(count: int, *numbers: int, sticky: int = 100) -> BuiltInPartitioner:
    made = BuiltInPartitioner(sticky, Numbers(*numbers))
    made.update_partitions(count, list(range(count)))
    return made


def test_it_stays_until_a_batch_has_been_filled():
    p = partitioner(3, 1, 2)
    assert p.peek() == 1
    assert not p.update(99, True)
    assert p.peek() == 1
    assert p.update(1, True)
    assert p.peek() == 2


def test_it_does_not_leave_a_batch_half_full_unless_it_has_sent_twice_as_much():
    p = partitioner(3, 1, 2)
    p.peek()
    assert not p.update(150, False)
    assert p.update(50, False)
    assert p.peek() == 2


def test_a_partition_without_a_leader_is_not_chosen():
    p = BuiltInPartitioner(100, Numbers(0, 1, 2, 3))
    p.update_partitions(4, [1, 3])
    assert [p.next_partition() for _ in range(4)] == [1, 3, 1, 3]


def test_while_no_partition_has_a_leader_all_are_chosen():
    p = BuiltInPartitioner(100, Numbers(0, 1, 2))
    p.update_partitions(3, [])
    assert [p.next_partition() for _ in range(3)] == [0, 1, 2]


def test_a_long_queue_is_chosen_less_often():
    """Queues of 0, 3 and 1 batches have weights 4, 1 and 3."""
    p = partitioner(3, *range(8))
    p.update_load_stats([0, 3, 1], [0, 1, 2])
    assert Counter(p.next_partition() for _ in range(8)) == {0: 4, 1: 1, 2: 3}


def test_equal_queues_need_no_weights():
    p = partitioner(3)
    p.update_load_stats([2, 2, 2], [0, 1, 2])
    assert p.load_stats is None


def test_a_partition_that_is_left_out_is_not_chosen_although_queues_are_equal():
    p = partitioner(3, *range(6))
    p.update_load_stats([0, 0], [0, 2])
    assert Counter(p.next_partition() for _ in range(6)) == {0: 3, 2: 3}


def test_a_topic_that_shrank_is_left_where_it_has_no_more_partitions():
    p = partitioner(4, 3, 1)
    assert p.peek() == 3
    p.update_partitions(2, [0, 1])
    assert p.peek() == 1
