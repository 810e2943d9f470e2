"""GroupRunner: carries out the effects of the consumer coordinator over an engine.

    Send           NetworkClient, on a connection of the coordinator's own  ─► answered
    WatchTopics    Metadata: topics of interest                             ─► cluster_seen
    next_ms        one alarm                                                ─► ticked
    Resolve        the waiter
    CallListener,  `for_application`: the poll loop takes them on the application's thread, calls
    Raise          the listener or raises, and calls `callback_returned`
    RequestPoll    `poll_requested()`: the present poll, or the next one, calls `poll`

A requested poll:

    group.poll()                                     on the engine's thread, as all calls
    while there is something for_application:        on the application's thread
        a CallListener: call the listener, group.callback_returned(what it raised)
        a Raise: raise

`unsubscribe` and `close` may add to `for_application` until their waiters are done. Everything runs
on the engine's thread, except `for_application`, `application_polled` and `set_waiting`.

`NoGroup` takes the place of a `GroupRunner` for a consumer without a group (`make_group` chooses).
It then reads all partitions of the subscribed topics alone, also those that are added later.
Nothing can be committed, and the listener is called once for every partition. kafka-python and
aiokafka do the same; Kafka's own client refuses.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence

from odradek.client.consumer.assignor.partition_assignor import (
    ConsumerGroupMetadata,
    PartitionAssignor,
)
from odradek.client.consumer.group.commits import CommittedOffsets, Offsets
from odradek.client.consumer.group.coordinator import ConsumerCoordinator, MembershipOperation
from odradek.client.consumer.group.member import (
    CallListener,
    Effect,
    GroupCall,
    GroupRebalanceConfig,
    Raise,
    RebalanceEvent,
    RequestPoll,
    Resolve,
    SendGroupRequest,
    WatchTopics,
)
from odradek.client.consumer.group.membership import Heartbeat
from odradek.client.consumer.metrics import NOT_YET_MS, GroupMetrics
from odradek.client.consumer.position.subscription_state import SubscriptionState, SubscriptionType
from odradek.client.engine import Engine
from odradek.client.errors import Disconnected, InvalidGroupId, KafkaError
from odradek.client.metadata.cluster_image import ClusterImage
from odradek.client.waiter import Waiter, completed, failed
from odradek.config.consumer import ConsumerConfig
from odradek.model.node import Node
from odradek.model.topics import TopicPartition
from odradek.network_client.alarm import Alarm
from odradek.network_client.in_flight_requests import ClientRequest


class GroupRunner:
    """Runs one consumer's coordinator. Calls `poll_requested` when the application must poll."""

    def __init__(
        self, engine: Engine, coordinator: ConsumerCoordinator, poll_requested: Callable[[], object]
    ) -> None:
        self.engine = engine
        self.coordinator = coordinator
        self.for_application: deque[CallListener | Raise] = deque()
        self.heartbeat: Heartbeat = coordinator.membership.heartbeat
        self._poll_requested = poll_requested
        self._alarm = Alarm(engine.timer, self._alarm_rang)
        self._all_topics_version = 0
        """For a pattern: the metadata version from which on all topics are known."""
        engine.metadata.listen(self._image_changed)

    # The application's thread.

    def application_polled(self) -> None:
        """The application polled, and needed nothing of the engine. Any thread."""
        self.heartbeat.last_poll_ms = self.engine.env.clock.monotonic_ms()

    def set_waiting(self, waiting: bool) -> None:
        """The application begins or ends waiting inside a poll. Any thread."""
        self.application_polled()
        self.heartbeat.application_waits = waiting

    # Calls of the application.

    def poll(self) -> None:
        """The application polls, and waits in this call."""
        self.coordinator.polled(self.engine.now_ms)
        self._run()

    def callback_returned(self, error: BaseException | None) -> None:
        """The listener returned, or raised."""
        self.coordinator.callback_returned(error, self.engine.now_ms)
        self._run()

    def subscription_changed(self) -> None:
        self.coordinator.subscription_changed(self.engine.now_ms)
        self._run()

    def commit(self, offsets: Offsets, timeout_ms: int | None = None) -> Waiter[None]:
        """Commit offsets, trying until the timeout; without one, once."""
        now_ms = self.engine.now_ms
        deadline_ms = None if timeout_ms is None else now_ms + timeout_ms
        waiter = self.coordinator.commit(offsets, now_ms, deadline_ms)
        self._run()
        return waiter

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the member's place in its group, with which a transaction commits offsets. Raises
        the `KafkaError` that a commit would fail with."""
        coordinator = self.coordinator
        config = coordinator.member.config
        generation = coordinator.commits.transactional_signature()
        if isinstance(generation, KafkaError):
            raise generation
        is_member = not generation.is_reset
        return ConsumerGroupMetadata(
            config.group_id,
            generation.generation_id,
            generation.member_id,
            config.group_instance_id if is_member else None,
        )

    def observe_commits(self, on_commit: Callable[[Offsets], object]) -> None:
        """Call `on_commit`, on the engine's thread, with the offsets of each commit that
        succeeded."""
        self.coordinator.commits.on_commit = on_commit

    def committed(
        self, partitions: Collection[TopicPartition], timeout_ms: int
    ) -> Waiter[CommittedOffsets]:
        """Return the group's committed offsets."""
        now_ms = self.engine.now_ms
        waiter = self.coordinator.committed(partitions, now_ms, now_ms + timeout_ms)
        self._run()
        return waiter

    @property
    def metrics(self) -> GroupMetrics | None:
        """What this member did."""
        return self.coordinator.member.metrics

    @property
    def last_poll_ms(self) -> int:
        """When the application polled last, as far as the group knows."""
        return self.heartbeat.last_poll_ms

    def unsubscribe(self) -> Waiter[None]:
        """Leave the group and drop the subscription."""
        waiter = self.coordinator.unsubscribe(self.engine.now_ms)
        self._run()
        return waiter

    def close(
        self,
        timeout_ms: int,
        operation: MembershipOperation = MembershipOperation.DEFAULT,
        inside: CallListener | None = None,
    ) -> Waiter[None]:
        """Leave the group within the timeout. `inside` is the listener call that calls this, if one
        does.
        """
        now_ms = self.engine.now_ms
        waiter = self.coordinator.close(now_ms, now_ms + timeout_ms, operation, inside)
        waiter.add_callback(lambda _: self._alarm.cancel())
        self._run()
        return waiter

    # Events of the engine.

    def _alarm_rang(self) -> None:
        self.coordinator.ticked(self.engine.now_ms)
        self._run()

    def _answered(self, call: GroupCall, request: ClientRequest) -> None:
        if self.engine.closed:
            return
        now_ms = self.engine.now_ms
        self.coordinator.answered(call, request.response, request.error, now_ms)
        self._run()

    def _image_changed(self, image: ClusterImage) -> None:
        self._pass_topics(image)
        self._run()

    def _pass_topics(self, image: ClusterImage) -> None:
        """Pass the topics that exist to the coordinator. A topic with an error does not exist, or
        not yet.
        """
        topics = [info for info in image.topics.values() if not info.error and info.count]
        counts = {info.name: info.count for info in topics}
        internal = {info.name for info in topics if info.internal}
        known = not self.engine.metadata.topics_of_interest.new_names()
        up_to_date = known and image.version >= self._all_topics_version
        self.coordinator.cluster_seen(counts, internal, self.engine.now_ms, up_to_date=up_to_date)

    # Effects.

    def _run(self) -> None:
        """Carry out all effects, and set the alarm."""
        effects = self.coordinator.take_effects()
        while effects:
            for effect in effects:
                self._carry_out(effect)
            effects = self.coordinator.take_effects()
        if not self.engine.closed:
            self._alarm.set_for(self.coordinator.next_ms)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case SendGroupRequest(call):
                self._send(call)
            case CallListener() | Raise():
                self.for_application.append(effect)
                self._poll_requested()
            case Resolve():
                effect.carry_out()
            case WatchTopics():
                self._watch()
            case RequestPoll():
                self._poll_requested()

    def _send(self, call: GroupCall) -> None:
        client = self.engine.client
        if call.node is not None:
            node_id = client.coordinator(Node(call.node.id, call.node.host, call.node.port))
        else:
            least_loaded = client.least_loaded_node()
            if least_loaded is None:
                self.engine.env.call_soon(lambda: self._no_broker(call))
                return
            node_id = least_loaded

        def answered(request: ClientRequest) -> None:
            self._answered(call, request)

        client.send(node_id, call.builder, answered, timeout_ms=call.timeout_ms)

    def _no_broker(self, call: GroupCall) -> None:
        if not self.engine.closed:
            last_error = self.engine.metadata.last_error
            why = f": {last_error}" if last_error else ""
            error = Disconnected(f"no broker of the cluster can be reached at the moment{why}")
            self.coordinator.answered(call, None, error, self.engine.now_ms)
            self._run()

    def _watch(self) -> None:
        """Set the topics of interest; if their metadata is known, pass it to the coordinator at
        once.
        """
        subscriptions, metadata = self.coordinator.subscriptions, self.engine.metadata
        all_topics = subscriptions.type is SubscriptionType.AUTO_PATTERN
        if all_topics and not metadata.topics_of_interest.all_topics:
            self._all_topics_version = metadata.image.version + 1
        metadata.set_topics(subscriptions.metadata_topics, all_topics)
        self._pass_topics(metadata.image)


NEEDS_GROUP = "give the consumer a group.id"


class NoGroup:
    """Assigns all partitions itself. Calls `poll_requested` when the application must poll."""

    def __init__(
        self,
        engine: Engine,
        subscriptions: SubscriptionState,
        exclude_internal_topics: bool,
        poll_requested: Callable[[], object],
    ) -> None:
        self.engine = engine
        self.for_application: deque[CallListener | Raise] = deque()
        self._subscriptions = subscriptions
        self._exclude_internal_topics = exclude_internal_topics
        self._poll_requested = poll_requested
        engine.metadata.listen(self._image_changed)

    def application_polled(self) -> None:
        """Nothing depends on polls without a group."""

    def set_waiting(self, waiting: bool) -> None:
        """Nothing depends on polls without a group."""

    def poll(self) -> None:
        """Nothing to do but what is in `for_application`."""

    def callback_returned(self, error: BaseException | None) -> None:
        """Make the application's poll raise the listener's exception."""
        if error is not None:
            self.for_application.append(Raise(error))

    def subscription_changed(self) -> None:
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
        subscribed = image.partitions(sorted(subscriptions.subscription))
        # A topic that is missing from metadata for a moment is still read.
        kept = [
            p for p in assigned if p.topic in subscriptions.subscription and p not in subscribed
        ]
        new = [p for p in subscribed if p not in assigned]
        if new or len(kept) + len(subscribed) != len(assigned):
            subscriptions.assign_from_subscribed([*kept, *subscribed])
        if new:
            self.for_application.append(CallListener(RebalanceEvent.ASSIGNED, new))
            self._poll_requested()

    def commit(self, offsets: Offsets, timeout_ms: int | None = None) -> Waiter[None]:
        """Return a failed waiter: nothing can be committed without a group."""
        return failed(InvalidGroupId(f"nothing can be committed. What to do: {NEEDS_GROUP}"))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Raise `InvalidGroupId`: there is no group."""
        raise InvalidGroupId(f"nothing can be committed. What to do: {NEEDS_GROUP}")

    def observe_commits(self, on_commit: Callable[[Offsets], object]) -> None:
        """Nothing can be committed without a group."""

    def committed(
        self, partitions: Collection[TopicPartition], timeout_ms: int
    ) -> Waiter[CommittedOffsets]:
        """Return None for each partition."""
        return completed(dict.fromkeys(partitions))

    metrics: GroupMetrics | None = None
    """There is no group to count for."""
    last_poll_ms = NOT_YET_MS
    """Nobody asks for it without a group."""

    def unsubscribe(self) -> Waiter[None]:
        """Drop the subscription."""
        self._subscriptions.unsubscribe()
        self.engine.metadata.set_topics(())
        return completed(None)

    def close(self, timeout_ms: int, *, inside: CallListener | None = None) -> Waiter[None]:
        """Nothing to do: there is no group to leave."""
        return completed(None)


def make_group(
    engine: Engine,
    config: ConsumerConfig,
    subscriptions: SubscriptionState,
    strategy: Sequence[PartitionAssignor],
    poll_requested: Callable[[], object],
) -> GroupRunner | NoGroup:
    """Return the runner of the consumer's group; a `NoGroup` if it has none."""
    if config.group_id is None:
        return NoGroup(engine, subscriptions, config.exclude_internal_topics, poll_requested)
    coordinator = ConsumerCoordinator(
        GroupRebalanceConfig.of(config),
        subscriptions,
        strategy,
        engine.env.random,
        engine.now_ms,
    )
    return GroupRunner(engine, coordinator, poll_requested)
