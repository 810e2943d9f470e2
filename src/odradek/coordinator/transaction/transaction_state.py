"""The states of a transactional id, and the outcome of each event in each state: `TRANSITIONS`.

                 InitProducerId                    first partition or group
    (no id) ───────────────────► EMPTY ──────────────────────────────────► ONGOING
                                   ▲                                       │     │
                                   │ InitProducerId                 commit │     │ abort, timeout,
                                   │                                       ▼     ▼ InitProducerId
       ┌─── COMPLETE_COMMIT ◄──────┼───── markers written ───── PREPARE_COMMIT   PREPARE_ABORT
       │    COMPLETE_ABORT  ◄──────┘                                      (markers are sent)
       └─► ONGOING, by the next transaction

The outcome of a transaction is decided when the record of PREPARE_COMMIT or PREPARE_ABORT is
committed; then the id goes on to COMPLETE, whichever coordinator leads. Until it has got there, the
outcome of every request is CONCURRENT_TRANSACTIONS; most requests wait instead (see `coordinator`).

No id has Kafka's states DEAD and PREPARE_EPOCH_FENCE: a tombstone deletes an id that expires, and
the record that aborts a transaction fences its producer.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Final

from odradek.model.errors import ErrorCode


class TransactionState(IntEnum):
    """The numbers are those of the records; `text` is the name in answers."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def text(self) -> str:
        """The name as clients see it: `PrepareCommit`."""
        return self.name.title().replace("_", "")


EMPTY: Final = TransactionState.EMPTY
ONGOING: Final = TransactionState.ONGOING
PREPARE_COMMIT: Final = TransactionState.PREPARE_COMMIT
PREPARE_ABORT: Final = TransactionState.PREPARE_ABORT
COMPLETE_COMMIT: Final = TransactionState.COMPLETE_COMMIT
COMPLETE_ABORT: Final = TransactionState.COMPLETE_ABORT
DEAD: Final = TransactionState.DEAD

KEPT: Final = (EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT)
"""The states that an id may have, which are the columns of the table."""
ENDING: Final = (PREPARE_COMMIT, PREPARE_ABORT)
"""The outcome is decided; markers are being written."""
STATE_NAMES: Final = frozenset(state.text for state in TransactionState)


TIMEOUT: Final = "transaction"
"""The timer of an open transaction has the key `(TIMEOUT, transactional id)`."""


class Event(Enum):
    """An event of a transactional id.

    An EndTxn below version 5 leaves the epoch as it is; one of version 5 bumps it. An EndTxn of
    version 5 is repeated if it has the epoch before the bump.
    """

    INIT_PRODUCER_ID = "InitProducerId"
    ADD_PARTITIONS = "AddPartitionsToTxn, AddOffsetsToTxn"
    COMMIT = "EndTxn 0-4, commit"
    ABORT = "EndTxn 0-4, abort"
    COMMIT_AND_BUMP = "EndTxn 5, commit"
    ABORT_AND_BUMP = "EndTxn 5, abort"
    COMMIT_AGAIN = "EndTxn 5, commit, repeated"
    ABORT_AGAIN = "EndTxn 5, abort, repeated"
    MARKERS_WRITTEN = "all markers are written"
    TIMED_OUT = "the transaction's timeout has passed"
    EXPIRED = "transactional.id.expiration.ms has passed"


WAIT: Final = ErrorCode.CONCURRENT_TRANSACTIONS
WRONG: Final = ErrorCode.INVALID_TXN_STATE
FENCED: Final = ErrorCode.PRODUCER_FENCED
DONE: Final = ErrorCode.NONE
"""Nothing changes: it was done before, or there is nothing to do."""

Outcome = TransactionState | ErrorCode

# fmt: off
TRANSITIONS: Final[dict[Event, tuple[Outcome, ...]]] = {
    #                       EMPTY          ONGOING         PREPARE_COMMIT   PREPARE_ABORT
    #                       COMPLETE_COMMIT                COMPLETE_ABORT
    Event.INIT_PRODUCER_ID: (EMPTY,         PREPARE_ABORT,  WAIT,            WAIT,
                             EMPTY,                         EMPTY),
    Event.ADD_PARTITIONS:   (ONGOING,       ONGOING,        WAIT,            WAIT,
                             ONGOING,                       ONGOING),
    Event.COMMIT:           (WRONG,         PREPARE_COMMIT, WAIT,            WAIT,
                             DONE,                          WRONG),
    Event.ABORT:            (WRONG,         PREPARE_ABORT,  WAIT,            WAIT,
                             WRONG,                         DONE),
    Event.COMMIT_AND_BUMP:  (WRONG,         PREPARE_COMMIT, WAIT,            WAIT,
                             WRONG,                         WRONG),
    Event.ABORT_AND_BUMP:   (PREPARE_ABORT, PREPARE_ABORT,  WAIT,            WAIT,
                             PREPARE_ABORT,                 PREPARE_ABORT),
    Event.COMMIT_AGAIN:     (FENCED,        FENCED,         WAIT,            WAIT,
                             DONE,                          WRONG),
    Event.ABORT_AGAIN:      (FENCED,        FENCED,         WAIT,            WAIT,
                             WRONG,                         DONE),
    Event.MARKERS_WRITTEN:  (DONE,          DONE,           COMPLETE_COMMIT, COMPLETE_ABORT,
                             DONE,                          DONE),
    Event.TIMED_OUT:        (DONE,          PREPARE_ABORT,  DONE,            DONE,
                             DONE,                          DONE),
    Event.EXPIRED:          (DEAD,          DONE,           DONE,            DONE,
                             DEAD,                          DEAD),
}
# fmt: on


def outcome(event: Event, state: TransactionState) -> Outcome:
    """The state that an event leads to, or the error that answers it."""
    return TRANSITIONS[event][state]
