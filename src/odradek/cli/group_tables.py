"""Groups as tables: how far they are in each partition, and who reads it.

A member that has nothing to read has a row all the same, without a partition. Of a group of a
protocol that DescribeGroups does not know (KIP-848) the members are not told, the rest is.
"""

from __future__ import annotations

from odradek import Admin
from odradek.cli.output import Listing, counted
from odradek.client.admin.results import Group, GroupDescription, Member
from odradek.client.errors import GroupNotFound
from odradek.model.topics import TopicPartition

HOW_FAR = ("group", "topic", "partition", "committed", "end", "lag")
WHO = ("member", "client", "host", "state", "assignor")


def found_group(cluster: Admin, name: str) -> GroupDescription | Group:
    """The group; as it is listed if it cannot be described. Raises `GroupNotFound`."""
    try:
        return cluster.group(name)
    except GroupNotFound:
        listed = next((each for each in cluster.groups() if each.group_id == name), None)
        if listed is None:
            raise
        return listed


def summary(found: GroupDescription | Group) -> str:
    """The group in one line."""
    if isinstance(found, Group):
        kind = f", of type {found.type}" if found.type else ""
        return f"{found.group_id}: {found.state}{kind}: its members are not told"
    members = counted(len(found.members), "member")
    return f"{found.group_id}: {found.state}, {members}, {found.assignor or '-'}"


def lag_table(cluster: Admin, name: str, *, lag_only: bool) -> Listing:
    """One row a partition."""
    listing = listing_of(name, HOW_FAR)
    for row in lag_rows(cluster, name, lag_only=lag_only).values():
        listing.add(*row)
    return listing


def description_table(
    cluster: Admin, found: GroupDescription | Group, *, lag_only: bool
) -> Listing:
    """One row a partition with who reads it, and one for each member that reads none."""
    name = found.group_id
    listing = listing_of(name, (*HOW_FAR, *WHO))
    members = () if isinstance(found, Group) else found.members
    readers = {each: member for member in members for each in member.assignment}
    group = (found.state, None if isinstance(found, Group) else found.assignor or None)
    for each, row in lag_rows(cluster, name, lag_only=lag_only).items():
        listing.add(*row, *who(readers.get(each)), *group)
    for member in members:
        if not member.assignment and not lag_only:
            listing.add(name, None, None, None, None, None, *who(member), *group)
    return listing


def lag_rows(
    cluster: Admin, name: str, *, lag_only: bool
) -> dict[TopicPartition, tuple[object, ...]]:
    """How far it is, by partition: the columns `HOW_FAR`."""
    return {
        each: (name, each.topic, each.partition, lag.committed, lag.end, lag.lag)
        for each, lag in cluster.lag(name).items()
        if lag.lag or not lag_only
    }


def who(member: Member | None) -> tuple[object, ...]:
    """Member, client, host."""
    if member is None:
        return (None, None, None)
    return (member.instance_id or member.member_id, member.client_id, member.host)


def listing_of(name: str, columns: tuple[str, ...]) -> Listing:
    return Listing(columns, empty=f"{name}: nothing committed, nothing read.")
