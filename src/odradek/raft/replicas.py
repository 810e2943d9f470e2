"""The replicas of the metadata quorum: their keys, the voter set, and what a majority is.

A voter is known by its id and the id of its data directory (KIP-853). A node whose disk was wiped
comes back with another directory id, so it is not the voter that it was and cannot vote twice in
one epoch.

A voter that the settings name has no known directory. If its directory is empty at a start, it is a
*new voter*: it may be new with its quorum, or it may have voted and acknowledged records on a disk
that is lost. Nobody can tell, so what it says counts only if all voters say the same
(`VoterSet.decide`), until a leader that a majority without it follows has brought it up to date.
One that has everything then is among those who decide: what a majority has acknowledged is not
undone by voters that have forgotten it. So the first election of such a quorum needs all voters.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

UNKNOWN_DIRECTORY: Final = UUID(int=0)
"""The directory id of a voter that was configured by its id alone."""


class ReplicaKey(NamedTuple):
    """A replica's node id and the id of its data directory."""

    id: int
    directory_id: UUID = UNKNOWN_DIRECTORY

    def matches(self, other: ReplicaKey) -> bool:
        """True if both are the same replica, as far as both directory ids are known."""
        if self.id != other.id:
            return False
        known = UNKNOWN_DIRECTORY not in (self.directory_id, other.directory_id)
        return not known or self.directory_id == other.directory_id

    def __str__(self) -> str:
        return f"{self.id}({self.directory_id.hex[:8]})"


class QuorumEndpoint(NamedTuple):
    """An address at which a replica's quorum requests are served."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Voter:
    """A member of the voter set."""

    key: ReplicaKey
    endpoints: tuple[QuorumEndpoint, ...] = ()


class VoterSet:
    """The voters of the quorum, immutable. A change makes another set."""

    __slots__ = ("_voters",)

    def __init__(self, voters: Iterable[Voter] = ()) -> None:
        self._voters: dict[int, Voter] = {}
        for voter in voters:
            if voter.key.id in self._voters:
                raise ValueError(f"voter {voter.key.id} is given twice")
            self._voters[voter.key.id] = voter

    def __contains__(self, key: ReplicaKey) -> bool:
        voter = self._voters.get(key.id)
        return voter is not None and voter.key.matches(key)

    def __iter__(self) -> Iterator[Voter]:
        return iter(self._voters.values())

    def __len__(self) -> int:
        return len(self._voters)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self._voters == other._voters

    def __hash__(self) -> int:
        return hash(frozenset(self._voters.values()))

    def __repr__(self) -> str:
        return f"VoterSet({', '.join(str(voter.key) for voter in self)})"

    @property
    def ids(self) -> frozenset[int]:
        """The node ids of the voters."""
        return frozenset(self._voters)

    @property
    def majority(self) -> int:
        """The least number of voters that is more than half of them."""
        return len(self._voters) // 2 + 1

    def get(self, voter_id: int) -> Voter | None:
        """Return the voter with this node id, or None."""
        return self._voters.get(voter_id)

    def others(self, me: ReplicaKey) -> list[Voter]:
        """Return the voters except `me`."""
        return [voter for voter in self if not voter.key.matches(me)]

    def has_majority(self, ids: Iterable[int]) -> bool:
        """True if the voters among `ids` are a majority."""
        return len(self._voters.keys() & set(ids)) >= self.majority

    def decide(self, ids: Iterable[int], new: Collection[int] = ()) -> bool:
        """True if the voters among `ids` decide: those that are not `new` are a majority, or they
        are all voters.
        """
        found = self._voters.keys() & set(ids)
        old = len(found.difference(new))
        return old >= self.majority or 0 < len(found) == len(self._voters)

    def majority_value(self, values: Mapping[int, int], missing: int) -> int:
        """Return the largest value that a majority has reached; `missing` counts for the rest."""
        if not self._voters:
            return missing
        ordered = sorted((values.get(voter_id, missing) for voter_id in self._voters), reverse=True)
        return ordered[self.majority - 1]

    def with_voter(self, voter: Voter) -> VoterSet:
        """Return a set with `voter` added, or in the place of the one with its node id."""
        return VoterSet({**self._voters, voter.key.id: voter}.values())

    def without(self, voter_id: int) -> VoterSet:
        """Return a set without the voter of this node id."""
        return VoterSet(voter for voter in self if voter.key.id != voter_id)
