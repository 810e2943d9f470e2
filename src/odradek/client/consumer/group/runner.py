"""GroupRunner: carries out what the consumer coordinator asks for, over an engine.

    Send          NetworkClient, on a connection of the coordinator's own  ─► answered
    WatchTopics   Metadata: topics of interest                             ─► cluster_seen
    next_ms       one alarm                                                ─► ticked
    Resolve       the waiter
    Callback,     `for_application`: a face takes them in the application's thread, calls the
    Raise         listener or raises, and says `callback_returned`
    RequestPoll    `wanted()`: a face's next poll, or the one that waits, must call `poll`

A face's poll, once it is wanted:

    group.poll()                                     on the engine's thread, as all calls
    while there is something for_application:        in the application's
        a Callback: call the listener, group.callback_returned(what it raised)
        a Raise: raise

`unsubscribe` and `close` may have something for the application until their waiters are done. The
engine's thread only, but for `for_application`, `polls_seen` and `waits`.

NoGroup: in the place of a `GroupRunner` where there is none.

Who subscribes without a group reads all partitions of the topics alone, also those that are added
later. Nothing is committed, nobody else is asked, and the listener hears of every partition once.
This is what kafka-python and aiokafka do; Kafka's own client refuses.

The engine's thread only, but for `for_application`.

The group's side of a consumer: a `GroupRunner` if it has a group, else what stands there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence

from odradek.client.consumer.assignor.partition_assignor import PartitionAssignor
from odradek.client.consumer.group.commits import CommittedOffsets, Offsets
from odradek.client.consumer.group.coordinator import ConsumerCoordinator, MembershipOperation
from odradek.client.consumer.group.member import (
    CallListener,
    Effect,
    GroupCall,
    GroupConfig,
    Raise,
    RebalanceEvent,
    RequestPoll,
    Resolve,
    Send,
    WatchTopics,
)
from odradek.client.consumer.group.membership import Heartbeat
from odradek.client.consumer.position.subscription_state import SubscriptionState, SubscriptionType
from odradek.client.engine import Engine
from odradek.client.errors import Disconnected, InvalidGroupId
from odradek.client.metadata.cluster_image import ClusterImage, Node
from odradek.client.net.alarm import Alarm
from odradek.client.net.in_flight_requests import ClientRequest
from odradek.client.waiter import Waiter, completed, failed
from odradek.config.consumer import ConsumerConfig
from odradek.model.topics import TopicPartition


class GroupRunner:
    """One consumer's coordinator at work. `wanted` is told when the application must poll."""

    def __init__(
        self, engine: Engine, coordinator: ConsumerCoordinator, wanted: Callable[[], object]
    ) -> None:
        self.engine = engine
        self.coordinator = coordinator
        self.for_application: deque[CallListener | Raise] = deque()
        self.heartbeat: Heartbeat = coordinator.membership.heartbeat
        self._wanted = wanted
        self._alarm = Alarm(engine.timer, self._rung)
        self._all_topics_version = 0
        """The image from which on all topics are known, for a pattern."""
        engine.metadata.listen(self._image_changed)

    # Of the application's thread.

    def application_polled(self) -> None:
        """The application polled, and needed nothing of the engine."""
        self.heartbeat.last_poll_ms = self.engine.env.clock.monotonic_ms()

    def set_waiting(self, waiting: bool) -> None:
        """The application begins or ends waiting inside a poll."""
        self.application_polled()
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

    def committed(
        self, partitions: Collection[TopicPartition], timeout_ms: int
    ) -> Waiter[CommittedOffsets]:
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
        inside: CallListener | None = None,
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
            case CallListener() | Raise():
                self.for_application.append(effect)
                self._wanted()
            case Resolve():
                effect.carry_out()
            case WatchTopics():
                self._watch()
            case RequestPoll():
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


NEEDS_GROUP = "give the consumer a group.id"


class NoGroup:
    """Assigns by itself. `wanted` is told when the application must poll."""

    def __init__(
        self,
        engine: Engine,
        subscriptions: SubscriptionState,
        exclude_internal_topics: bool,
        wanted: Callable[[], object],
    ) -> None:
        self.engine = engine
        self.for_application: deque[CallListener | Raise] = deque()
        self._subscriptions = subscriptions
        self._exclude_internal_topics = exclude_internal_topics
        self._wanted = wanted
        engine.metadata.listen(self._image_changed)

    def application_polled(self) -> None:
        """Nobody minds how often the application polls."""

    def set_waiting(self, waiting: bool) -> None:
        """Nor whether it waits in a poll."""

    def poll(self) -> None:
        """Nothing happens in a poll but what `for_application` has."""

    def callback_returned(self, error: BaseException | None) -> None:
        """What the listener raises, the application's poll raises."""
        if error is not None:
            self.for_application.append(Raise(error))

    def subscription_changed(self) -> None:
        """The application subscribed."""
        subscriptions = self._subscriptions
        by_pattern = subscriptions.type is SubscriptionType.AUTO_PATTERN
        self.engine.metadata.set_topics(subscriptions.metadata_topics, by_pattern)
        self._image_changed(self.engine.metadata.image)

    def _image_changed(self, image: ClusterImage) -> None:
        subscriptions = self._subscriptions
        if not subscriptions.is_auto_assigned:
            return
        if subscriptions.type is SubscriptionType.AUTO_PATTERN:
            subscriptions.subscribe_from_pattern(
                name
                for name, info in image.topics.items()
                if subscriptions.matches(name)
                and not (info.internal and self._exclude_internal_topics)
            )
        assigned = subscriptions.assigned_partitions
        wanted = image.partitions(sorted(subscriptions.subscription))
        # A topic that is not known for a moment is still being read.
        kept = [p for p in assigned if p.topic in subscriptions.subscription and p not in wanted]
        new = [p for p in wanted if p not in assigned]
        if new or len(kept) + len(wanted) != len(assigned):
            subscriptions.assign_from_subscribed([*kept, *wanted])
        if new:
            self.for_application.append(CallListener(RebalanceEvent.ASSIGNED, new))
            self._wanted()

    def commit(self, offsets: Offsets, timeout_ms: int | None = None) -> Waiter[None]:
        """There is nowhere to commit to."""
        return failed(InvalidGroupId(f"nothing can be committed. What to do: {NEEDS_GROUP}"))

    def committed(
        self, partitions: Collection[TopicPartition], timeout_ms: int
    ) -> Waiter[CommittedOffsets]:
        """Nothing is."""
        return completed(dict.fromkeys(partitions))

    def metrics(self) -> dict[str, float]:
        """Nothing happens that could be watched."""
        return {}

    def unsubscribe(self) -> Waiter[None]:
        """Want nothing."""
        self._subscriptions.unsubscribe()
        self.engine.metadata.set_topics(())
        return completed(None)

    def close(self, timeout_ms: int, *, inside: CallListener | None = None) -> Waiter[None]:
        """Nobody has to know."""
        return completed(None)


def make_group(
    engine: Engine,
    config: ConsumerConfig,
    subscriptions: SubscriptionState,
    strategy: Sequence[PartitionAssignor],
    wanted: Callable[[], object],
) -> GroupRunner | NoGroup:
    """The group's side of a consumer."""
    if config.group_id is None:
        return NoGroup(engine, subscriptions, config.exclude_internal_topics, wanted)
    settings = GroupConfig(
        group_id=config.group_id,
        group_instance_id=config.group_instance_id,
        session_timeout_ms=config.session_timeout_ms,
        heartbeat_interval_ms=config.heartbeat_interval_ms,
        max_poll_interval_ms=config.max_poll_interval_ms,
        enable_auto_commit=config.enable_auto_commit,
        auto_commit_interval_ms=config.auto_commit_interval_ms,
        retry_backoff_ms=config.retry_backoff_ms,
        retry_backoff_max_ms=config.retry_backoff_max_ms,
        request_timeout_ms=config.request_timeout_ms,
        exclude_internal_topics=config.exclude_internal_topics,
        client_rack=config.client_rack or None,
    )
    coordinator = ConsumerCoordinator(
        settings,
        subscriptions,
        strategy,
        engine.env.random,
        engine.now_ms,
    )
    return GroupRunner(engine, coordinator, wanted)
