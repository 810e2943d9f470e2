"""EndTxn (key 26, versions 0 to 5): commit or abort a transaction.

- 2: PRODUCER_FENCED. 3: flexible. 4: TRANSACTION_ABORTABLE (KIP-890).
- 5: each transaction ends with a new epoch, which is returned; a client that sends it follows
  `transaction.version` 2.
"""

from __future__ import annotations

from odradek.protocol.schema import field, i16, i32, i64, message


@message(api=26, versions=(0, 5), flexible=3)
class EndTxnRequest:
    """End the transaction of this producer."""

    transactional_id: str
    producer_id: i64
    producer_epoch: i16
    committed: bool = field(doc="True to commit, False to abort.")


@message(api=26, versions=(0, 5), flexible=3)
class EndTxnResponse:
    """The error, or the id and epoch of the next transaction."""

    throttle_time_ms: i32 = 0
    error_code: i16
    producer_id: i64 = field(default=-1, since=5, ignorable=True)
    producer_epoch: i16 = field(default=-1, since=5, ignorable=True)
