"""The random numbers of the simulator: fixed for a seed, with one stream per purpose."""

from odradek.testing.prng import SplitMix64, stream


def test_the_sequence_is_that_of_the_published_generator() -> None:
    chance = SplitMix64(1234567)
    assert [chance.next64() for _ in range(3)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


def test_streams_depend_on_seed_and_name_only() -> None:
    first = [stream(7, "link").next64(), stream(7, "disk").next64(), stream(8, "link").next64()]
    again = [stream(7, "link").next64(), stream(7, "disk").next64(), stream(8, "link").next64()]
    assert first == again
    assert len(dict.fromkeys(first)) == 3


def test_numbers_stay_in_their_range_and_reach_its_ends() -> None:
    chance = stream(1, "range")
    drawn = [chance.between(3, 5) for _ in range(200)]
    assert sorted(dict.fromkeys(drawn)) == [3, 4, 5]
    assert all(chance.getrandbits(128) < 1 << 128 for _ in range(50))
    assert max(chance.getrandbits(3) for _ in range(100)) == 7


def test_a_rate_in_thousandths_is_that_share_of_the_draws() -> None:
    chance = stream(1, "rate")
    assert sum(chance.chance(0) for _ in range(100)) == 0
    assert sum(chance.chance(1000) for _ in range(100)) == 100
    assert 400 < sum(chance.chance(500) for _ in range(1000)) < 600


def test_shuffle_keeps_every_item() -> None:
    items = list(range(50))
    stream(1, "shuffle").shuffle(items)
    assert items != list(range(50))
    assert sorted(items) == list(range(50))
