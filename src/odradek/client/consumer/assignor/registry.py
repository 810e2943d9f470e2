"""Which assignors there are by name, and how `partition.assignment.strategy` names them.

An entry of that setting is a name (`range`), the Java client's class name for it, a class derived
from `PartitionAssignor`, or an instance of one.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.client.consumer.assignor.cooperative_sticky import CooperativeStickyAssignor
from odradek.client.consumer.assignor.partition_assignor import (
    PartitionAssignor,
    RebalanceProtocol,
)
from odradek.client.consumer.assignor.range import RangeAssignor
from odradek.client.consumer.assignor.roundrobin import RoundRobinAssignor
from odradek.client.consumer.assignor.sticky import StickyAssignor

BUILT_IN: dict[str, type[PartitionAssignor]] = {
    made.name: made
    for made in (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)
}
JAVA_PACKAGE = "org.apache.kafka.clients.consumer."
DEFAULT_STRATEGY = ("range", "cooperative-sticky")
"""Kafka's default: range, and one rolling restart away from cooperative rebalances."""


def assignors(
    strategy: Iterable[str | type[PartitionAssignor] | PartitionAssignor],
) -> list[PartitionAssignor]:
    """New assignors (or the instances given), in the order of preference.

    Raises `ValueError` for an unknown name, for none at all, and for two of one name.
    """
    made = [assignor(entry) for entry in strategy]
    names = [each.name for each in made]
    if not made:
        raise ValueError("partition.assignment.strategy names no assignor")
    if len(set(names)) < len(names):
        raise ValueError(f"partition.assignment.strategy names an assignor twice: {names}")
    return made


def assignor(entry: str | type[PartitionAssignor] | PartitionAssignor) -> PartitionAssignor:
    """One entry of the setting."""
    if isinstance(entry, PartitionAssignor):
        return entry
    if not isinstance(entry, str):
        return entry()
    by_class = {JAVA_PACKAGE + cls.__name__: cls for cls in BUILT_IN.values()}
    found = BUILT_IN.get(entry) or by_class.get(entry)
    if found is None:
        raise ValueError(
            f"partition.assignment.strategy: there is no assignor {entry!r}; "
            f"there are {', '.join(BUILT_IN)}"
        )
    return found()


def rebalance_protocol(strategy: Iterable[PartitionAssignor]) -> RebalanceProtocol:
    """The highest protocol that all of a consumer's assignors support.

    Raises `ValueError` if there is none.
    """
    common = set(RebalanceProtocol)
    for each in strategy:
        common &= set(each.supported_protocols)
    if not common:
        raise ValueError("the assignors have no rebalance protocol in common")
    return max(common)
