"""The built-in assignors by name, and how `partition.assignment.strategy` names them.

The setting takes the built-in ones; the consumer's `assignors` argument replaces it for users' own.
An entry is a name (`range`), the Java client's class name, a class derived from
`PartitionAssignor`, or an instance.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.client.consumer.assignor.partition_assignor import (
    PartitionAssignor,
    RebalanceProtocol,
)
from odradek.client.consumer.assignor.range_roundrobin import RangeAssignor, RoundRobinAssignor
from odradek.client.consumer.assignor.sticky import CooperativeStickyAssignor, StickyAssignor
from odradek.config.setting import ConfigError

BUILT_IN: dict[str, type[PartitionAssignor]] = {
    made.name: made
    for made in (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)
}
JAVA_PACKAGE = "org.apache.kafka.clients.consumer."
AssignorLike = str | type[PartitionAssignor] | PartitionAssignor


def assignors(
    strategy: Iterable[AssignorLike],
) -> list[PartitionAssignor]:
    """Return new assignors (or the instances given), in the order of preference.

    Raises `ConfigError` for an entry that is no assignor, for an empty list, and for two entries of
    one name.
    """
    made = [assignor(entry) for entry in strategy]
    names = [each.name for each in made]
    if not made:
        raise ConfigError("partition.assignment.strategy names no assignor")
    if len(set(names)) < len(names):
        raise ConfigError(f"partition.assignment.strategy names an assignor twice: {names}")
    return made


def assignor(entry: AssignorLike) -> PartitionAssignor:
    """Return the assignor of one entry."""
    if isinstance(entry, PartitionAssignor):
        return entry
    if isinstance(entry, type) and issubclass(entry, PartitionAssignor):
        return entry()
    if not isinstance(entry, str):
        raise ConfigError(f"an assignor is a name, or a PartitionAssignor, not {entry!r}")
    by_class = {JAVA_PACKAGE + cls.__name__: cls for cls in BUILT_IN.values()}
    found = BUILT_IN.get(entry) or by_class.get(entry)
    if found is None:
        raise ConfigError(
            f"partition.assignment.strategy: there is no assignor {entry!r}; "
            f"there are {', '.join(BUILT_IN)}"
        )
    return found()


def rebalance_protocol(strategy: Iterable[PartitionAssignor]) -> RebalanceProtocol:
    """Return the highest protocol that all of a consumer's assignors support.

    Raises `ConfigError` if there is none.
    """
    common = set(RebalanceProtocol)
    for each in strategy:
        common &= set(each.supported_protocols)
    if not common:
        raise ConfigError("the assignors have no rebalance protocol in common")
    return max(common)
