"""ConsumerGroup: carries out what the consumer coordinator asks for, over an engine.

    Send          NetworkClient, on a connection of the coordinator's own  ─► answered
    WatchTopics   Metadata: topics of interest                             ─► cluster_seen
    next_ms       one alarm                                                ─► ticked
    Resolve       the waiter
    Callback,     `for_application`: a face takes them in the application's thread, calls the
    Raise         listener or raises, and says `callback_returned`
    PollWanted    `wanted()`: a face's next poll, or the one that waits, must call `poll`

A face's poll, once it is wanted:

    group.poll()                                     on the engine's thread, as all calls
    while there is something for_application:        in the application's
        a Callback: call the listener, group.callback_returned(what it raised)
        a Raise: raise

`unsubscribe` and `close` may have something for the application until their waiters are done. The
engine's thread only, but for `for_application`, `polls_seen` and `waits`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection

from odradek.client.alarm import Alarm
from odradek.client.cluster_image import ClusterImage, Node
from odradek.client.consumer.closing import MembershipOperation
from odradek.client.consumer.commits import Offsets
from odradek.client.consumer.committed_offsets import Found
from odradek.client.consumer.consumer_coordinator import ConsumerCoordinator
from odradek.client.consumer.group_effects import (
    Callback,
    Effect,
    GroupCall,
    PollWanted,
    Raise,
    Resolve,
    Send,
    WatchTopics,
)
from odradek.client.consumer.heartbeat import Heartbeat
from odradek.client.consumer.subscription_state import SubscriptionType
from odradek.client.engine import Engine
from odradek.client.errors.own import Disconnected
from odradek.client.in_flight_requests import ClientRequest
from odradek.client.waiter import Waiter
from odradek.model.topics import TopicPartition


class ConsumerGroup:
    """One consumer's coordinator at work. `wanted` is told when the application must poll."""

    def __init__(
        self, engine: Engine, coordinator: ConsumerCoordinator, wanted: Callable[[], object]
    ) -> None:
        self.engine = engine
        self.coordinator = coordinator
        self.for_application: deque[Callback | Raise] = deque()
        self.heartbeat: Heartbeat = coordinator.membership.heartbeat
        self._wanted = wanted
        self._alarm = Alarm(engine.timer, self._rung)
        self._all_topics_version = 0
        """The image from which on all topics are known, for a pattern."""
        engine.metadata.listen(self._image_changed)

    # Of the application's thread.

    def polls_seen(self) -> None:
        """The application polled, and needed nothing of the engine."""
        self.heartbeat.last_poll_ms = self.engine.env.clock.monotonic_ms()

    def waits(self, waiting: bool) -> None:
        """The application begins or ends waiting inside a poll."""
        self.polls_seen()
        self.heartbeat.application_waits = waiting

    # What a face asks for.

    def poll(self) -> None:
        """The application polls, and waits in this call."""
        self.coordinator.polled(self.engine.now_ms)
        self._run()

    def callback_returned(self, error: BaseException | None) -> None:
        """The listener was called."""
        self.coordinator.callback_returned(error, self.engine.now_ms)
        self._run()

    def subscription_changed(self) -> None:
        """The application subscribed."""
        self.coordinator.subscription_changed(self.engine.now_ms)
        self._run()

    def commit(self, offsets: Offsets, timeout_ms: int | None = None) -> Waiter[None]:
        """Commit, trying for so long; without a time, once."""
        now_ms = self.engine.now_ms
        deadline_ms = None if timeout_ms is None else now_ms + timeout_ms
        waiter = self.coordinator.commit(offsets, now_ms, deadline_ms)
        self._run()
        return waiter

    def committed(self, partitions: Collection[TopicPartition], timeout_ms: int) -> Waiter[Found]:
        """What the group has committed."""
        now_ms = self.engine.now_ms
        waiter = self.coordinator.committed(partitions, now_ms, now_ms + timeout_ms)
        self._run()
        return waiter

    def metrics(self) -> dict[str, float]:
        """What there is to watch of the group's side."""
        metrics = self.coordinator.member.metrics
        return metrics.snapshot(self.heartbeat.last_poll_ms, self.engine.now_ms)

    def unsubscribe(self) -> Waiter[None]:
        """Leave the group, and want nothing."""
        waiter = self.coordinator.unsubscribe(self.engine.now_ms)
        self._run()
        return waiter

    def close(
        self,
        timeout_ms: int,
        operation: MembershipOperation = MembershipOperation.DEFAULT,
        inside: Callback | None = None,
    ) -> Waiter[None]:
        """Take leave of the group, within this time; it may be inside a call of the listener."""
        now_ms = self.engine.now_ms
        waiter = self.coordinator.close(now_ms, now_ms + timeout_ms, operation, inside)
        waiter.add_callback(lambda _: self._alarm.cancel())
        self._run()
        return waiter

    # What the engine has to say.

    def _rung(self) -> None:
        self.coordinator.ticked(self.engine.now_ms)
        self._run()

    def _answered(self, call: GroupCall, request: ClientRequest) -> None:
        if self.engine.closed:
            return
        now_ms = self.engine.now_ms
        self.coordinator.answered(call, request.response, request.error, now_ms)
        self._run()

    def _image_changed(self, image: ClusterImage) -> None:
        self._tell_of_topics(image)
        self._run()

    def _tell_of_topics(self, image: ClusterImage) -> None:
        """Topics that answer with an error do not exist, or not yet."""
        topics = [info for info in image.topics.values() if not info.error and info.count]
        counts = {info.name: info.count for info in topics}
        internal = {info.name for info in topics if info.internal}
        known = not self.engine.metadata.interest.new_names()
        up_to_date = known and image.version >= self._all_topics_version
        self.coordinator.cluster_seen(counts, internal, self.engine.now_ms, up_to_date=up_to_date)

    # Effects.

    def _run(self) -> None:
        """Carry out what there is to do, and set the alarm."""
        effects = self.coordinator.take_effects()
        while effects:
            for effect in effects:
                self._carry_out(effect)
            effects = self.coordinator.take_effects()
        if not self.engine.closed:
            self._alarm.set_for(self.coordinator.next_ms)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Send(call):
                self._send(call)
            case Callback() | Raise():
                self.for_application.append(effect)
                self._wanted()
            case Resolve():
                effect.carry_out()
            case WatchTopics():
                self._watch()
            case PollWanted():
                self._wanted()

    def _send(self, call: GroupCall) -> None:
        client = self.engine.client
        if call.node is not None:
            node_id = client.coordinator(Node(call.node.id, call.node.host, call.node.port))
        else:
            least_loaded = client.least_loaded_node()
            if least_loaded is None:
                self.engine.env.call_soon(lambda: self._no_node(call))
                return
            node_id = least_loaded

        def answered(request: ClientRequest) -> None:
            self._answered(call, request)

        client.send(node_id, call.builder, answered, timeout_ms=call.timeout_ms)

    def _no_node(self, call: GroupCall) -> None:
        if not self.engine.closed:
            trouble = self.engine.metadata.trouble
            why = f": {trouble}" if trouble else ""
            error = Disconnected(f"no broker of the cluster can be reached at the moment{why}")
            self.coordinator.answered(call, None, error, self.engine.now_ms)
            self._run()

    def _watch(self) -> None:
        """The topics of interest may be others now; if they are known already, say so."""
        subscriptions, metadata = self.coordinator.subscriptions, self.engine.metadata
        all_topics = subscriptions.type is SubscriptionType.AUTO_PATTERN
        if all_topics and not metadata.interest.all_topics:
            self._all_topics_version = metadata.image.version + 1
        metadata.set_topics(subscriptions.metadata_topics, all_topics)
        self._tell_of_topics(metadata.image)
