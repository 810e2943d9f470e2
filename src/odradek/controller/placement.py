"""Which brokers get the replicas of new partitions.

Brokers of one rack are shuffled, then racks take turns, so that neighbours in the resulting ring
stand in different racks. Partition *i* takes consecutive brokers of the ring from a start that
moves on by one per partition (leaders are spread evenly), and by one more each time round (the
followers of one broker's partitions are spread too). Fenced brokers hold replicas only where there
are too few others, and never the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from odradek.controller.registrations import BrokerRegistration
from odradek.model.env import Random


def place(
    brokers: Iterable[BrokerRegistration], partitions: int, factor: int, random: Random
) -> list[tuple[int, ...]]:
    """Replicas for each of `partitions`, the preferred leader first.

    The caller has checked that there are `factor` brokers and one of them is not fenced.
    """
    registered = sorted(brokers, key=lambda broker: broker.id)
    active = _ring([broker for broker in registered if not broker.fenced], random)
    fenced = _ring([broker for broker in registered if broker.fenced], random)
    start = random.getrandbits(31)
    return [_replicas(active, fenced, start, number, factor) for number in range(partitions)]


def _replicas(
    active: Sequence[int], fenced: Sequence[int], start: int, number: int, factor: int
) -> tuple[int, ...]:
    size = len(active)
    first = (start + number) % size
    shift = number // size % (size - 1) if size > 1 else 0
    others = [(first + 1 + (shift + step) % (size - 1)) % size for step in range(size - 1)]
    chosen = [active[position] for position in (first, *others)][:factor]
    missing = factor - len(chosen)
    return (*chosen, *(fenced[(start + number + step) % len(fenced)] for step in range(missing)))


def _ring(brokers: Sequence[BrokerRegistration], random: Random) -> list[int]:
    racks: dict[str, list[int]] = {}
    for broker in brokers:
        racks.setdefault(broker.rack or "", []).append(broker.id)
    queues = [_shuffled(racks[rack], random) for rack in sorted(racks)]
    rounds = max((len(queue) for queue in queues), default=0)
    return [queue[turn] for turn in range(rounds) for queue in queues if turn < len(queue)]


def _shuffled(items: Sequence[int], random: Random) -> list[int]:
    keyed = sorted((random.getrandbits(32), item) for item in items)
    return [item for _, item in keyed]
