"""The sites of a simulation: faults that take effect, and rare steps of protocols, by name.

A run counts each site that it reaches (`Scheduler.reach`). If no seed reaches a site, the code that
handles it is not tested. `make sim` ends with the table of all sites; a site of `*_SITES` that was
not reached has a count of zero.

Names are `what: detail`. The details of answers are Kafka's names of errors, so that new ones
appear by themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

MACHINE_SITES = (
    "disk: EIO sync",
    "disk: EIO write",
    "disk: crash after an effect",
    "disk: crash before an effect",
    "disk: crash within an effect",
    "disk: full",
    "machine: boot failed",
    "machine: kill",
    "machine: power loss",
    "machine: stopped",
    "network: data lost",
    "network: refused",
    "network: reset",
    "process: late",
)
BROKER_SITES = (
    *MACHINE_SITES,
    "disk: EIO read",
    "machine: unplugged",
    "producer: KAFKA_STORAGE_ERROR",
    "producer: UNKNOWN_TOPIC_OR_PARTITION",
    "producer: batches sent again",
    "producer: no answer",
    "reader: KAFKA_STORAGE_ERROR",
    "reader: OFFSET_OUT_OF_RANGE",
    "reader: a session starts over",
    "reader: no answer",
)
LINK_SITES = (
    "network: connecting times out",
    "network: connecting waits for a cut",
    "network: data held",
)
CLUSTER_SITES = (
    *MACHINE_SITES,
    *LINK_SITES,
    "client: another leader after NOT_LEADER_OR_FOLLOWER",
    "client: asks for leaders",
    "cluster: a clean stop",
    "cluster: a rolling restart ends",
)
QUORUM_SITES = (
    *MACHINE_SITES,
    *LINK_SITES,
    "quorum: Candidate to Follower",
    "quorum: Candidate to Leader",
    "quorum: Candidate to Prospective",
    "quorum: Follower to Prospective",
    "quorum: Follower to Unattached",
    "quorum: Leader to Resigned",
    "quorum: Leader to Unattached",
    "quorum: Prospective to Candidate",
    "quorum: Prospective to Follower",
    "quorum: Unattached to Prospective",
    "quorum: a change of voters is committed",
    "quorum: a change of voters is refused",
    "quorum: a proposal's outcome is unknown",
    "quorum: a snapshot is installed",
    "quorum: a snapshot is taken",
    "quorum: the log is truncated",
)


def table(runs: Sequence[Counter[str]], expected: Sequence[str] = ()) -> list[str]:
    """Return the sites as lines: how many of the runs reached each, and how often in all."""
    names = sorted({*expected, *(name for run in runs for name in run)})
    width = max((len(name) for name in names), default=0)
    lines = []
    for name in names:
        reached, hits = sum(run[name] > 0 for run in runs), sum(run[name] for run in runs)
        lines.append(f"{name:<{width}}  {reached:>5} of {len(runs)} seeds  {hits:>7} times")
    return lines


def unreached(runs: Sequence[Counter[str]], expected: Sequence[str]) -> list[str]:
    """Return the expected sites that no run has reached."""
    return [name for name in expected if not any(run[name] for run in runs)]
