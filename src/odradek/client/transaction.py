"""Transactions, for producers and the admin client, which do not import each other: their version,
and open ones.

A transaction that was detached from its producer (`OpenTransaction`) can be ended by whoever has
these four values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

TRANSACTION_VERSION: Final = "transaction.version"
"""The feature whose level says how transactions work on the cluster."""
VERSION_1: Final = 1
"""A client adds partitions before it writes to them, and the epoch stays after a transaction."""
VERSION_2: Final = 2
"""Writing adds the partition, and each end of a transaction bumps the epoch (KIP-890)."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """An open transaction without a producer. Its records are acknowledged; only its end is left to
    be decided, before the coordinator aborts it after `transaction.timeout.ms`."""

    transactional_id: str
    producer_id: int
    epoch: int
    transaction_version: int
    """`VERSION_1` or `VERSION_2`: how the transaction was begun, and so has to be ended."""
