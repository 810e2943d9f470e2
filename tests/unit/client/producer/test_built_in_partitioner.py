"""The partition of records without key and partition."""

from __future__ import annotations

from collections import Counter

from odradek.client.producer.partitioner import BuiltInPartitioner


class Numbers:
    """Random numbers that a test sets."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = list(numbers)

    def getrandbits(self, bits: int) -> int:
        return self.numbers.pop(0) if self.numbers else 0


def partitioner(count: int, *numbers: int, sticky: int = 100) -> BuiltInPartitioner:
    made = BuiltInPartitioner(sticky, Numbers(*numbers))
    made.update_partitions(count, list(range(count)))
    return made


def test_the_partition_stays_until_a_batch_is_filled():
    p = partitioner(3, 1, 2)
    assert p.peek() == 1
    assert not p.update(99, True)
    assert p.peek() == 1
    assert p.update(1, True)
    assert p.peek() == 2


def test_a_half_full_batch_is_left_only_after_twice_the_batch_size():
    p = partitioner(3, 1, 2)
    p.peek()
    assert not p.update(150, False)
    assert p.update(50, False)
    assert p.peek() == 2


def test_a_partition_without_a_leader_is_not_chosen():
    p = BuiltInPartitioner(100, Numbers(0, 1, 2, 3))
    p.update_partitions(4, [1, 3])
    assert [p.next_partition() for _ in range(4)] == [1, 3, 1, 3]


def test_without_leaders_all_partitions_are_chosen():
    p = BuiltInPartitioner(100, Numbers(0, 1, 2))
    p.update_partitions(3, [])
    assert [p.next_partition() for _ in range(3)] == [0, 1, 2]


def test_a_partition_with_a_longer_queue_is_chosen_less_often():
    """Queues of 0, 3 and 1 batches have weights 4, 1 and 3."""
    p = partitioner(3, *range(8))
    p.update_load_stats([0, 3, 1], [0, 1, 2])
    assert Counter(p.next_partition() for _ in range(8)) == {0: 4, 1: 1, 2: 3}


def test_equal_queues_need_no_weights():
    p = partitioner(3)
    p.update_load_stats([2, 2, 2], [0, 1, 2])
    assert p.load_stats is None


def test_an_excluded_partition_is_not_chosen_although_queues_are_equal():
    p = partitioner(3, *range(6))
    p.update_load_stats([0, 0], [0, 2])
    assert Counter(p.next_partition() for _ in range(6)) == {0: 3, 2: 3}


def test_a_partition_that_no_longer_exists_is_left():
    p = partitioner(4, 3, 1)
    assert p.peek() == 3
    p.update_partitions(2, [0, 1])
    assert p.peek() == 1
