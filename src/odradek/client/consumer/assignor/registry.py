"""Which assignors there are by name, and how `partition.assignment.strategy` names them.

The setting names those that are built in; a consumer's `assignors` argument takes its place where
users bring their own. An entry is a name (`range`), the Java client's class name for it, a class
derived from `PartitionAssignor`, or an instance of one.
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
    """New assignors (or the instances given), in the order of preference.

    Raises `ConfigError` for what is no assignor, for none at all, and for two of one name.
    """
    made = [assignor(entry) for entry in strategy]
    names = [each.name for each in made]
    if not made:
        raise ConfigError("partition.assignment.strategy names no assignor")
    if len(set(names)) < len(names):
        raise ConfigError(f"partition.assignment.strategy names an assignor twice: {names}")
    return made


def assignor(entry: AssignorLike) -> PartitionAssignor:
    """One entry of the setting."""
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
    """The highest protocol that all of a consumer's assignors support.

    Raises `ConfigError` if there is none.
    """
    common = set(RebalanceProtocol)
    for each in strategy:
        common &= set(each.supported_protocols)
    if not common:
        raise ConfigError("the assignors have no rebalance protocol in common")
    return max(common)
