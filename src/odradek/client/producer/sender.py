"""Sender: sends the accumulator's batches to their leaders, and handles the responses.

    run ─► ready nodes ─► drain ─► one Produce request per node ─► responses ─► BatchCompletion
     ▲                                                                               │
     │ woken by: a full or a new batch · a node that became ready ·                  │
     └─ responses · metadata · the alarm (linger, back-off, expiry)  ◄── again ──────┘

Each batch ends exactly once. Its callbacks run then, on the owner thread, in the order of its
records; batches of a partition that succeed or expire do so in order. A batch older than
`delivery.timeout.ms` fails wherever it is. If a request carries it at that moment, the response
comes too late for the callbacks, but not for the sequence numbers, and the memory is held until
then.

Order. With idempotence, sequence numbers keep the order through retries (`transaction_manager`).
Without, and with one request in flight per connection, a partition is muted while a batch of it is
in flight; with more, a later batch may overtake one that is sent again, as in Kafka.

If a broker names a new leader in its response (KIP-951), the batch goes there at once; otherwise
the sender requests metadata and waits for the back-off.

Owner thread only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from odradek.client.engine import Engine
from odradek.client.errors import (
    ClientClosed,
    KafkaError,
    RequestTimeout,
    UnsupportedVersion,
    error_for,
)
from odradek.client.producer.batch_completion import BatchCompletion
from odradek.client.producer.metrics import ProducerMetrics
from odradek.client.producer.produce_request import WRITTEN_UNSEEN, Outcome, ProduceBatches
from odradek.client.producer.producer_batch import ProducerBatch
from odradek.client.producer.record_accumulator import NEVER_MS, RecordAccumulator
from odradek.client.producer.settings import SenderSettings
from odradek.client.producer.transaction_manager import TransactionManager
from odradek.client.waiter import spawn
from odradek.model.errors import ErrorCode
from odradek.network_client.alarm import Alarm
from odradek.network_client.in_flight_requests import ClientRequest
from odradek.network_client.network_client import ConnectionListener
from odradek.protocol.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

log = logging.getLogger(__name__)

INT_MAX = 2**31 - 1
TIMED_OUT = ErrorCode.REQUEST_TIMED_OUT


class Sender(ConnectionListener):
    """The sender of one producer; runs from `start` on."""

    def __init__(
        self,
        engine: Engine,
        accumulator: RecordAccumulator,
        settings: SenderSettings,
        metrics: ProducerMetrics,
    ) -> None:
        self.accumulator = accumulator
        self.manager: TransactionManager | None = accumulator.transaction_manager
        self.settings = settings
        self.metrics = metrics
        self.in_flight: dict[ProducerBatch, None] = {}
        """The batches that requests carry, in the order of sending."""
        self._completion = BatchCompletion(
            accumulator, self.manager, metrics, settings.retries, engine.env.clock
        )
        self._engine = engine
        self._client = engine.client
        self._metadata = engine.metadata
        self._alarm = Alarm(engine.timer, self.run)
        self._keeps_order = settings.max_in_flight == 1 and self.manager is None
        self._obtaining = False
        self._will_run = False
        self.after_run: Callable[[], None] | None = None
        """Called at the end of each run: what `transaction_steps` has to do then."""

    def start(self) -> None:
        self._client.listen(self)
        self._metadata.listen(lambda image: self.run_soon())
        self.run_soon()

    # The loop.

    def run_soon(self) -> None:
        """Run once after the current event, however often this is called."""
        if not self._will_run:
            self._will_run = True
            self._engine.env.call_soon(self._run_now)

    def _run_now(self) -> None:
        self._will_run = False
        self.run()

    def node_ready(self, node_id: int) -> None:
        self.run_soon()

    def node_disconnected(self, node_id: int, error: KafkaError) -> None:
        self.run_soon()

    def run(self) -> None:
        """Send ready batches, fail expired ones, and set the alarm for the next check."""
        if self._engine.closed:
            return
        if self._metadata.fatal is not None and self.accumulator.closed is not self._metadata.fatal:
            self.fail_all(self._metadata.fatal)
        now_ms = self._engine.env.clock.monotonic_ms()
        self.accumulator.pool.serve()
        if self.manager is not None:
            self._resolve_sequences(self.manager)
        delay_ms = self._send_data(now_ms)
        # A run too early does nothing, and is cheaper than setting the alarm each time.
        if self.accumulator.has_undrained or self.in_flight:
            self._expire(now_ms)
            due_ms = min(now_ms + delay_ms, self._next_expiry_ms())
            if due_ms < self._alarm.at_ms:
                self._alarm.set_for(due_ms)
        if self.after_run is not None:
            self.after_run()

    def _send_data(self, now_ms: int) -> int:
        """Send until nothing more can be sent; return the ms until something else is ready."""
        while self.accumulator.has_undrained:
            check = self.accumulator.ready(now_ms)
            if check.unknown_leader_topics:
                for topic in check.unknown_leader_topics:
                    self._metadata.add_topic(topic)
                self._metadata.request_update()
            nodes = [node for node in check.ready_nodes if self._is_ready(node, now_ms)]
            drained = self.accumulator.drain(nodes, self.settings.max_request_bytes, now_ms)
            sent = False
            for node, batches in drained.items():
                if batches:
                    self._send(node, batches, now_ms)
                    sent = True
            if not sent:
                return check.next_check_delay_ms
        return NEVER_MS

    def _is_ready(self, node_id: int, now_ms: int) -> bool:
        ready = self._client.ready(node_id)
        self.accumulator.update_node_latency(node_id, now_ms, ready)
        return ready

    def _send(self, node_id: int, batches: list[ProducerBatch], now_ms: int) -> None:
        settings = self.settings
        for batch in batches:
            batch.in_flight = True
            self.in_flight[batch] = None
            if self._keeps_order:
                self.accumulator.mute(batch.topic_partition, True)
            if not batch.in_retry:
                self.metrics.batch_sent(batch, now_ms)
            self._metadata.add_topic(batch.topic_partition.topic)
        self.metrics.request_sent(batches, now_ms)
        produce = ProduceBatches(
            batches,
            settings.acks,
            settings.request_timeout_ms,
            self.accumulator.settings.codec,
            self._metadata.image,
            None if self.manager is None else self.manager.transaction,
        )
        self._client.send(
            node_id,
            produce.request(),
            lambda call: self._request_ended(call, produce),
            expects_response=settings.acks != 0,
        )

    # Responses.

    def _request_ended(self, call: ClientRequest, produce: ProduceBatches) -> None:
        now_ms = self._engine.env.clock.monotonic_ms()
        for batch in produce.batches:
            batch.in_flight = False
            del self.in_flight[batch]
            if self._keeps_order:
                self.accumulator.mute(batch.topic_partition, False)
        if call.error is not None:
            self._handle_failure(call, produce, now_ms)
        elif call.response is None:
            for batch in produce.batches:
                self._completion.request_ended(batch, WRITTEN_UNSEEN, now_ms)
        else:
            self._handle_response(call, produce, now_ms)
        self.run_soon()

    def _handle_failure(self, call: ClientRequest, produce: ProduceBatches, now_ms: int) -> None:
        error = call.error
        assert error is not None
        if call.was_sent:
            for batch in produce.batches:
                batch.response_lost()
        if isinstance(error, ClientClosed | UnsupportedVersion):
            for batch in produce.batches:
                self._completion.abort(batch, error)
            return
        timed_out = isinstance(error, RequestTimeout)
        code = ErrorCode.REQUEST_TIMED_OUT if timed_out else ErrorCode.NETWORK_EXCEPTION
        for batch in produce.batches:
            self._completion.request_ended(batch, Outcome(code, text=str(error)), now_ms)
        self._metadata.request_update()

    def _handle_response(self, call: ClientRequest, produce: ProduceBatches, now_ms: int) -> None:
        response = call.response
        self.metrics.request_latency.record(now_ms - call.sent_ms, now_ms)
        node_metrics = self._client.node_metrics(call.node_id)
        if node_metrics is not None:
            node_metrics.request_latency.record(now_ms - call.sent_ms, now_ms)
        self.metrics.produce_throttle_time.record(response.throttle_time_ms, now_ms)
        changes, nodes = produce.leader_changes(response)
        if changes and self._metadata.update_leaders(changes, nodes):
            self._client.update_nodes(self._metadata.image.nodes)
        refresh = False
        for batch, outcome in produce.outcomes(response):
            # A leader that cannot commit may be cut off: another broker may know who leads now.
            refresh = refresh or outcome.error.refresh_metadata or outcome.error == TIMED_OUT
            self._completion.request_ended(batch, outcome, now_ms)
        if refresh:
            self._metadata.request_update()

    def _expire(self, now_ms: int) -> None:
        expired = self.accumulator.expired_batches(now_ms)
        timeout_ms = self.accumulator.settings.delivery_timeout_ms
        for batch in self.in_flight:
            if not batch.done and batch.has_expired(timeout_ms, now_ms):
                expired.append(batch)
        for batch in in_order(expired):
            self._completion.expire(batch)
        if expired:
            self.run_soon()  # The batches behind them may be ready now.

    def _next_expiry_ms(self) -> int:
        timeout_ms = self.accumulator.settings.delivery_timeout_ms
        due_ms: int = self.accumulator.next_expiry_ms()
        for batch in self.in_flight:
            if not batch.done:
                due_ms = min(due_ms, batch.created_ms + timeout_ms)
        return due_ms

    # The producer id.

    def _resolve_sequences(self, manager: TransactionManager) -> None:
        manager.maybe_resolve_sequences()
        if manager.needs_producer_id and not self._obtaining:
            self._obtaining = True
            spawn(self._obtain_producer_id(manager)).add_callback(lambda _: self.run_soon())

    async def _obtain_producer_id(self, manager: TransactionManager) -> None:
        """Ask any broker for a producer id, until there is one or a fatal error."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=INT_MAX)
        attempts = 0
        try:
            while manager.needs_producer_id:
                error: KafkaError
                try:
                    node_id = await self._engine.any_node()
                    answer = await self._engine.call(node_id, request, InitProducerIdResponse)
                    if not answer.error_code:
                        manager.set_producer_id(answer.producer_id, answer.producer_epoch)
                        return
                    error = error_for(answer.error_code, "getting a producer id")
                except KafkaError as failure:
                    error = failure
                if not error.retriable:
                    self.fail_all(error)
                    return
                await self._engine.sleep(self._engine.backoff.backoff_ms(attempts))
                attempts += 1
        finally:
            self._obtaining = False

    # Closing.

    def fail_all(self, error: KafkaError) -> None:
        """Fail all batches and all later sends with a fatal error."""
        if self.manager is not None:
            self.manager.transition_to_fatal_error(error)
        self.accumulator.close(error)
        self.abort_incomplete(error)

    def abort_incomplete(self, error: KafkaError) -> None:
        """Fail all batches that are not done."""
        for batch in in_order([*self.in_flight, *self.accumulator.take_all()]):
            self._completion.abort(batch, error)


def in_order(batches: list[ProducerBatch]) -> list[ProducerBatch]:
    """Return the batches of each partition in the order of their records. A batch in flight may be
    older than a waiting one, or younger than one that waits to be sent again."""
    return sorted(batches, key=lambda batch: batch.ordinal)
