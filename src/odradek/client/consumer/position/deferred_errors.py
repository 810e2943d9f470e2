"""DeferredErrors: errors of fetching that wait until the application reaches their offset.

Fetching runs ahead of the application. When fetching cannot go on (the offset is out of range, the
log was truncated, access is denied), the records before that offset are still good. Fetching of the
partition is then deferred, and a failed `CompletedFetch` is queued behind the records:

    engine's thread        defer ─► incoming: ... records, records, failure
    application's thread   ... ─► reaches the failure: its error, if it has one, is raised
    engine's thread        `then`: reset, go back to the divergence, or try again after a back-off

If the position moved meanwhile (seek, rebalance), the failure is void like everything fetched
before. A waiting application is woken, because no records may follow.

Compiled; runs on the engine's thread.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from odradek.client.consumer.fetch.completed_fetch import CompletedFetch
from odradek.client.consumer.position.subscription_state import (
    FetchPosition,
    PartitionState,
    SubscriptionState,
)
from odradek.client.engine import Engine
from odradek.client.errors import KafkaError, LogTruncated, OffsetOutOfRange
from odradek.config.offset_reset import NONE
from odradek.model.errors import ErrorCode

log = logging.getLogger(__name__)

RESET_ADVICE = "seek to where reading should go on, or set auto.offset.reset"


class DeferredErrors:
    """Queues failures for the application.

    `post` schedules a function on the engine's thread and may be called from any thread. `arrived`
    is called when `incoming` has something for the application.
    """

    def __init__(
        self,
        engine: Engine,
        subscriptions: SubscriptionState,
        incoming: deque[CompletedFetch],
        post: Callable[[Callable[[], None]], object],
        arrived: Callable[[], object],
    ) -> None:
        self._engine = engine
        self._subscriptions = subscriptions
        self._incoming = incoming
        self._post = post
        self._arrived = arrived

    def defer(
        self, state: PartitionState, error: KafkaError | None, then: Callable[[], object]
    ) -> None:
        """When the application reaches the fetch position, raise `error` if it is given, then run
        `then`.
        """
        position = state.position
        generation = position.generation
        state.deferred = True

        def decide() -> None:
            if position.generation == generation:
                state.deferred = False
                then()
                self._subscriptions.on_change()

        def take() -> KafkaError | None:
            self._post(decide)
            return error

        fetch = CompletedFetch(position, b"", 0, 0, state.fetch.offset, None, False)
        fetch.failure = take
        self._incoming.append(fetch)
        self._arrived()

    def defer_error(self, state: PartitionState, error: KafkaError) -> None:
        """Raise `error` when the application reaches it, then try again after a back-off."""
        self.defer(state, error, lambda: self.back_off(state))

    def back_off(self, state: PartitionState) -> None:
        """Send no request about the partition for a while; the time grows with each failure."""
        wait_ms = self._engine.backoff.backoff_ms(state.failures)
        state.failures += 1
        state.next_retry_ms = self._engine.now_ms + wait_ms

    def out_of_range(self, state: PartitionState) -> None:
        """Handle a fetch offset that the leader does not have."""
        partition, offset = state.topic_partition, state.fetch.offset
        reset = self._subscriptions.default_reset
        if reset == NONE:
            text = (
                f"{partition}: offset {offset} is out of range: the log begins behind it or ends "
                f"before it. What to do: {RESET_ADVICE}"
            )
            error = OffsetOutOfRange(text, ErrorCode.OFFSET_OUT_OF_RANGE)
            error.offsets = {partition: offset}
            self.defer_error(state, error)
            return
        log.info("%s: offset %d is out of range, resetting to %s", partition, offset, reset)
        self.defer(state, None, lambda: state.request_reset(reset))

    def truncated(self, state: PartitionState, end_offset: int, epoch: int) -> None:
        """Handle a truncation: the records read disagree with the leader's log from `end_offset`
        on.

        `epoch` is the epoch of the last record that agrees; -1 for both if none is known to agree.
        """
        partition, at = state.topic_partition, state.fetch
        text = (
            f"{partition}: the log was truncated: records read up to offset {at.offset} (epoch "
            f"{at.offset_epoch}) are no longer in it"
        )
        if end_offset >= 0:
            text += f" from offset {end_offset} on"
        reset = self._subscriptions.default_reset
        if reset == NONE:
            error = LogTruncated(f"{text}. What to do: {RESET_ADVICE}")
            error.offsets = {partition: end_offset}
            self.defer_error(state, error)
            return
        log.warning("%s", text)
        if end_offset < 0:
            self.defer(state, None, lambda: state.request_reset(reset))
        else:
            there = FetchPosition(end_offset, epoch)
            self.defer(state, None, lambda: state.seek(there))
