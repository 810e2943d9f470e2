"""The last stable offset: open transactions keep it down, and ended ones not yet replicated."""

from __future__ import annotations

from random import Random

from odradek.log.open_transactions import NO_OFFSET, OpenTransactions


def test_without_transactions_nothing_is_unstable() -> None:
    transactions = OpenTransactions()
    assert transactions.first_unstable == NO_OFFSET
    transactions.replicated_to(100)
    assert transactions.first_unstable == NO_OFFSET


def test_the_first_open_transaction_holds_the_last_stable_offset() -> None:
    transactions = OpenTransactions()
    transactions.begin(1, 10)
    transactions.begin(2, 20)
    assert (transactions.first_unstable, transactions.producer_ids) == (10, [1, 2])


def test_an_ended_transaction_holds_it_until_its_marker_is_replicated() -> None:
    transactions = OpenTransactions()
    transactions.begin(1, 10)
    assert transactions.end(10, 15) == 16
    assert (transactions.first_unstable, transactions.has_unreplicated) == (10, True)
    transactions.replicated_to(15)
    assert transactions.first_unstable == 10, "the marker itself is not replicated yet"
    transactions.replicated_to(16)
    assert (transactions.first_unstable, transactions.has_unreplicated) == (NO_OFFSET, False)


def test_the_end_of_a_transaction_tells_what_was_undecided_after_it() -> None:
    transactions = OpenTransactions()
    transactions.begin(1, 10)
    transactions.begin(2, 20)
    transactions.begin(3, 30)
    assert transactions.end(20, 40) == 10
    assert transactions.end(10, 41) == 30
    assert transactions.end(30, 42) == 43


def test_random_histories_are_those_of_a_plain_model() -> None:
    random = Random(13)
    for _ in range(200):
        transactions, opened, ended = OpenTransactions(), list[int](), list[tuple[int, int]]()
        offset = high_watermark = 0
        for _ in range(60):
            offset += random.randint(1, 3)
            step = random.random()
            if step < 0.4:
                transactions.begin(offset, offset)
                opened.append(offset)
            elif step < 0.7 and opened:
                first = opened.pop(random.randrange(len(opened)))
                undecided = transactions.end(first, offset)
                assert undecided == min([*opened, offset + 1])
                ended.append((offset, first))
            else:
                high_watermark = random.randint(high_watermark, offset)
                transactions.replicated_to(high_watermark)
            ended = [(marker, first) for marker, first in ended if marker >= high_watermark]
            unstable = min([*opened, *(first for _, first in ended)], default=NO_OFFSET)
            assert transactions.first_unstable == unstable
