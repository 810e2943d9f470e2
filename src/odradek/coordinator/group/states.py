"""The states of a classic group, and the ways between them.

                     ┌───────────────── no member left ─────────────────┐
                     ▼                                                   │
(new) ──► Empty ──► PreparingRebalance ──► CompletingRebalance ──► Stable
                     ▲       all joined,        │  leader's assignment  │
                     │       or out of time     │                       │
                     └──────────────────────────┴───────────────────────┘
                        a member joins, leaves, fails, or asks for another protocol

Dead: deleted, or this broker no longer coordinates it.
"""

from __future__ import annotations

from enum import Enum


class GroupState(Enum):
    """The value is how ListGroups and DescribeGroups write it."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


CAN_REBALANCE = frozenset({GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE})
"""From where a rebalance begins; one that is being prepared goes on."""
