"""BatchCompletion: the end, the retry or the split of a batch, by the outcome of its request.

    outcome                                     what happens
    NONE                                        written; futures get their offsets
    DUPLICATE_SEQUENCE_NUMBER                   written before at an unknown place: offset -1
    MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE    split, unless it is a single record
    retriable, by the table of errors           retried, within `retries` and delivery.timeout.ms
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    UNKNOWN_PRODUCER_ID                         with idempotence: retried, perhaps in a new epoch
    anything else                               failed, with an error that says what to do

After an error the batch may or may not be written, unless the broker says that it misses an earlier
batch, or refuses the batch before it looks at the log. The message of an error says which of the
two it is: records that are certainly not written can be sent again without duplicates.

A batch that was done before its response came only frees its memory, and its outcome goes to the
transaction manager. The others free their memory before callbacks run: a callback that learns of a
written record finds room for the next one.
"""

from __future__ import annotations

import logging
from typing import Final

from odradek.client.errors import DeliveryTimeout, InvalidRecord, KafkaError, error_for
from odradek.client.producer.metrics import ProducerMetrics
from odradek.client.producer.produce_request import Outcome
from odradek.client.producer.producer_batch import ProducerBatch
from odradek.client.producer.record_accumulator import RecordAccumulator
from odradek.client.producer.transaction_manager import SEQUENCE_ERRORS, TransactionManager
from odradek.model.env import Clock
from odradek.model.errors import ErrorCode
from odradek.network_client.errors import ADVICE_MARK

log = logging.getLogger(__name__)

WRITTEN: Final = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
KEPT = "; sent before without an answer, they can only be sent again under the same numbers"


class BatchCompletion:
    """Ends, retries and splits the batches of one producer. Owner thread only."""

    def __init__(
        self,
        accumulator: RecordAccumulator,
        manager: TransactionManager | None,
        metrics: ProducerMetrics,
        retries: int,
        clock: Clock,
    ) -> None:
        self._accumulator = accumulator
        self._manager = manager
        self._metrics = metrics
        self._retries = retries
        self._clock = clock
        self._delivery_timeout_ms = accumulator.settings.delivery_timeout_ms

    def request_ended(self, batch: ProducerBatch, outcome: Outcome, now_ms: int) -> None:
        """Handle the outcome of the request that carried the batch."""
        error = outcome.error
        update_doubt(batch, error)
        written = error in WRITTEN
        if written and self._manager is not None:
            self._manager.handle_completed_batch(batch)
        if batch.done:
            self._accumulator.deallocate(batch)
        elif written:
            self._accumulator.deallocate(batch)
            batch.complete(outcome.base_offset, outcome.log_append_time_ms)
        elif error in TOO_LARGE and batch.count > 1:
            self._split(batch, outcome)
        elif self._may_retry(batch, outcome, now_ms):
            self._retry(batch, outcome, now_ms)
        elif may_succeed_later(error) and batch.has_expired(self._delivery_timeout_ms, now_ms):
            batch.last_error = reason_of(batch, outcome)
            self._give_up(batch)
        else:
            what = f"sending {batch.count} records to {batch.topic_partition}"
            text = error_text(outcome)
            if batch.in_doubt:
                text += f"; {whether_written(batch)}"
                text += "" if leaves_doubt(error) else " by an earlier attempt"
            self._fail(batch, error_for(error, what, text), outcome)

    def _split(self, batch: ProducerBatch, outcome: Outcome) -> None:
        batch.last_error = reason_of(batch, outcome)
        parts = self._accumulator.split_and_reenqueue(batch)
        self._metrics.batch_split.record(1, self._clock.monotonic_ms())
        log.info(
            "a batch of %d records for %s is too large for its broker; sending it as %d batches. "
            "What to do: lower batch.size, or raise the topic's max.message.bytes",
            batch.count,
            batch.topic_partition,
            parts,
        )

    def _may_retry(self, batch: ProducerBatch, outcome: Outcome, now_ms: int) -> bool:
        if batch.has_expired(self._delivery_timeout_ms, now_ms) or batch.attempts >= self._retries:
            return False
        if self._manager is None:
            return outcome.error.retriable
        return self._manager.can_retry(batch, outcome.error, outcome.log_start_offset)

    def _retry(self, batch: ProducerBatch, outcome: Outcome, now_ms: int) -> None:
        batch.last_error = reason_of(batch, outcome)
        self._accumulator.reenqueue(batch, now_ms)
        self._metrics.batch_retried(batch, now_ms)
        log.debug("%s failed: %s; retrying", batch, batch.last_error)

    def _fail(self, batch: ProducerBatch, error: KafkaError, outcome: Outcome | None) -> None:
        """Fail a batch without another attempt."""
        if self._manager is not None:
            self._manager.handle_failed_batch(batch)
            self._manager.fail_transaction(error)
        self._metrics.batch_failed(batch, self._clock.monotonic_ms())
        record_errors: dict[int, KafkaError] | None = None
        if outcome is not None and outcome.record_errors:
            name = batch.topic_partition
            record_errors = {
                index: error_for(outcome.error, f"record {index} of a batch for {name}", text)
                for index, text in outcome.record_errors.items()
            }
            error = InvalidRecord(
                f"sending {batch.count} records to {name}: {whether_written(batch)}, because "
                "others of the same batch are wrong. What to do: correct those, and send these "
                "again.",
                outcome.error,
            )
        self._accumulator.deallocate(batch)
        batch.fail(error, record_errors)

    def expire(self, batch: ProducerBatch) -> None:
        """Fail a batch, waiting or in flight, that is older than `delivery.timeout.ms`."""
        if not batch.last_error:
            no_response = "the answer did not come"
            batch.last_error = no_response if batch.in_flight else "it could not be sent"
        self._give_up(batch)

    def _give_up(self, batch: ProducerBatch) -> None:
        self._metrics.record_expired_total += batch.count
        error = DeliveryTimeout(
            f"{batch.count} records for {batch.topic_partition} were not acknowledged within "
            f"delivery.timeout.ms={self._delivery_timeout_ms}: {batch.last_error}; "
            f"{whether_written(batch)}. What to do: check the broker, or raise delivery.timeout.ms."
        )
        self._fail(batch, error, None)

    def abort(self, batch: ProducerBatch, error: KafkaError) -> None:
        """Fail a batch because the producer ends or cannot go on."""
        if not batch.done:
            self._fail(batch, error, None)


def update_doubt(batch: ProducerBatch, error: ErrorCode) -> None:
    """Note if the batch may have been written, by the error of its last attempt."""
    if error in SEQUENCE_ERRORS:
        batch.may_be_written = batch.may_arrive
    elif leaves_doubt(error):
        batch.may_be_written = True
    else:
        batch.may_arrive = False  # The broker would refuse it again.


def may_succeed_later(error: ErrorCode) -> bool:
    """True if the same batch may succeed later."""
    return error.retriable or error in SEQUENCE_ERRORS


def leaves_doubt(error: ErrorCode) -> bool:
    """True if after this error the batch may or may not be written."""
    return may_succeed_later(error) or error == ErrorCode.UNKNOWN_SERVER_ERROR


def error_text(outcome: Outcome) -> str:
    """Return the text of an outcome without its advice, for a message that goes on."""
    return (outcome.text or outcome.error.text).partition(ADVICE_MARK)[0].rstrip(".")


def reason_of(batch: ProducerBatch, outcome: Outcome) -> str:
    """Return why the batch is not acknowledged yet."""
    text = f"{outcome.error.name}: {error_text(outcome)}"
    stays = outcome.error in SEQUENCE_ERRORS and batch.may_arrive and not batch.is_unwritten
    return text + KEPT if stays else text


def whether_written(batch: ProducerBatch) -> str:
    """Return the part of a message that says whether the records may be written."""
    doubt = "they may or may not have been written"
    return doubt if batch.in_doubt else "they were not written"
