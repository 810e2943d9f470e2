"""What has to wait until the application has come to where fetching stands.

Fetching runs ahead. When it finds that it cannot go on (the offset is out of range, the log was
truncated, something is not allowed), what the application was not handed yet is still good. So
fetching of the partition is *held*, and a failure is queued behind what was fetched:

    engine's thread      hold ─► incoming: ... records, records, failure
    application's        ... ─► the failure's turn: its error, if any, is raised
    engine's thread      `then`: reset, go back to the divergence, or try again after a back-off

If the position was moved meanwhile (seek, rebalance) the failure is void like everything else that
was fetched before. An application that waits is woken for it: nothing else may come.
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
    """`post` runs a function on the engine's thread soon, from whatever thread; `arrived` is called
    when `incoming` has something for the application.
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
        """When the application has come here, raise `error` if there is one, and do `then`."""
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

        fetch = CompletedFetch(position, b"", 0, 0, state.fetch.offset)
        fetch.failure = take
        self._incoming.append(fetch)
        self._arrived()

    def defer_error(self, state: PartitionState, error: KafkaError) -> None:
        """Raise it in turn, and try again after a while."""
        self.defer(state, error, lambda: self.back_off(state))

    def back_off(self, state: PartitionState) -> None:
        """Leave the partition alone for a while, longer with each failure."""
        wait_ms = self._engine.backoff.backoff_ms(state.failures)
        state.failures += 1
        state.next_retry_ms = self._engine.now_ms + wait_ms

    def out_of_range(self, state: PartitionState) -> None:
        """The leader does not have the offset that fetching has come to."""
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
        """What was read does not agree with the leader's log, but up to `end_offset`, whose last
        record is of `epoch`; -1 if nothing is known to agree.
        """
        partition, at = state.topic_partition, state.fetch
        text = (
            f"{partition}: the log was truncated: what was read up to offset {at.offset} (epoch "
            f"{at.offset_epoch}) is no longer there"
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
