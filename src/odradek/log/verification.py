"""Verification guards: they let a transaction's first batch in only if its coordinator knows of it.

Else an aborted transaction could begin again in the partition, with nobody to end it (KIP-890):

    guard   a leader notes that it asks the coordinator about a producer   `start`
    ask     the coordinator has the partition in the open transaction
    append  the batch is taken if the same guard still stands              `stands`

A marker or a transactional batch of the producer removes its guard. So the answer of a coordinator
that was sent before the transaction ended cannot open another one.

A guard also has the lowest sequence that was asked about in its epoch. A batch with a higher one is
out of order: the lower one would be refused for ever after it.
"""

from __future__ import annotations

from odradek.protocol.record_batch import RecordBatchHeader


class VerificationGuard:
    """One verification of a producer, told apart from others by its identity.

    `supports_epoch_bump`: each transaction has its own epoch (transaction version 2).
    """

    __slots__ = ("lowest_sequence", "producer_epoch", "silent_since_ms", "supports_epoch_bump")

    def __init__(self, producer_epoch: int, sequence: int, supports_epoch_bump: bool) -> None:
        self.producer_epoch = producer_epoch
        self.lowest_sequence = sequence
        self.supports_epoch_bump = supports_epoch_bump
        self.silent_since_ms = -1  # monotonic; not before the first pass

    def ask_again(self, producer_epoch: int, sequence: int) -> None:
        """Take another batch that waits for this verification."""
        if producer_epoch > self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.lowest_sequence = sequence
        elif producer_epoch == self.producer_epoch and sequence < self.lowest_sequence:
            self.lowest_sequence = sequence

    def allows(self, header: RecordBatchHeader, has_batches: bool) -> bool:
        """True if the batch's sequence may come next, as far as the guard knows."""
        sequence = header.base_sequence
        if self.supports_epoch_bump and sequence != 0 and not has_batches:
            return False
        return sequence <= self.lowest_sequence


class VerificationGuards:
    """The guards of one log, by producer id."""

    __slots__ = ("_guards",)

    def __init__(self) -> None:
        self._guards: dict[int, VerificationGuard] = {}

    def __len__(self) -> int:
        return len(self._guards)

    def get(self, producer_id: int) -> VerificationGuard | None:
        """Return the guard of a producer, or None."""
        return self._guards.get(producer_id)

    def start(
        self, producer_id: int, producer_epoch: int, sequence: int, supports_epoch_bump: bool
    ) -> VerificationGuard:
        """Return the guard of a producer, a new one if there is none."""
        guard = self._guards.get(producer_id)
        if guard is None:
            guard = VerificationGuard(producer_epoch, sequence, supports_epoch_bump)
            self._guards[producer_id] = guard
        else:
            guard.ask_again(producer_epoch, sequence)
        return guard

    def stands(self, producer_id: int, guard: VerificationGuard | None) -> bool:
        """True if this is the guard of the producer."""
        return guard is not None and self._guards.get(producer_id) is guard

    def withdraw(self, producer_id: int, guard: VerificationGuard) -> None:
        """Remove this guard, unless it was removed before."""
        if self.stands(producer_id, guard):
            del self._guards[producer_id]

    def remove(self, producer_id: int) -> None:
        """Remove the guard of a producer, if it has one."""
        self._guards.pop(producer_id, None)

    def expire(self, monotonic_ms: int, expiration_ms: int) -> None:
        """Remove the guards whose batches never came."""
        silent = []
        for producer_id, guard in self._guards.items():
            if guard.silent_since_ms < 0:
                guard.silent_since_ms = monotonic_ms
            elif monotonic_ms - guard.silent_since_ms >= expiration_ms:
                silent.append(producer_id)
        for producer_id in silent:
            del self._guards[producer_id]
