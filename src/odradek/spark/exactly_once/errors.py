"""The errors of the exactly-once sink: each stops the query, and says what is in the topics, what
is not, and the way out."""

from __future__ import annotations


class ExactlyOnceError(RuntimeError):
    """The exactly-once sink cannot go on without a decision of its user."""


class LedgerGone(ExactlyOnceError):
    """The ledger says nothing about a query that it has to know."""


class LedgerAhead(ExactlyOnceError):
    """The ledger has decided a later micro-batch than the one to be written."""


class LedgerDamaged(ExactlyOnceError):
    """The ledger has something that this version does not understand."""


class LedgerNotCompacted(ExactlyOnceError):
    """The ledger topic would delete decisions, or keep too many."""


class TransactionsMissing(ExactlyOnceError):
    """The brokers have no transactions, or too old ones."""


class TransactionTimeoutTooLong(ExactlyOnceError):
    """The brokers do not let a transaction be open for as long as the options ask for."""


class PrefixInUse(ExactlyOnceError):
    """The ledger's entry is of another streaming query, which has the same prefix."""


class ReplacedDriver(ExactlyOnceError):
    """Another driver writes with the same prefix, and has shut this one out."""


class RowsMissing(ExactlyOnceError):
    """Rows of a decided micro-batch are not in the topics, or nobody can tell."""
