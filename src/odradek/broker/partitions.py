"""Applies committed metadata to the partitions of this broker.

New topics get their logs opened or created, deleted topics have theirs deleted, changed settings
reach logs and batch rules. A damaged log takes its partition offline and no other; one that the
disk refuses for now (it is full, for example) is tried again until it opens.

Up to `OPEN_AT_ONCE` partitions are opened in the event that commits them. The rest is queued in a
`TimeSlicedQueue`: opening 10,000 logs would block all other requests. Requests for a queued
partition are answered as for an unknown one, and the response to its creation waits. Files are
removed one partition after the other, so that a large topic does not occupy all workers.

A replica whose log is damaged asks the controller to be out of the ISR and of the eligible leader
replicas. Then nothing depends on its files: they are set aside, and the partition is fetched anew.
A start waits until it cannot be elected any more, or is the only one that could be: the controller
elects no broker that is fenced. One whose disk
is full asks for the same, unless it is the last in sync, but keeps its files: it is a follower that
fetches until it has room, and joins again.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from uuid import UUID

from odradek.broker.background import SerialOffload
from odradek.broker.broker import Broker
from odradek.broker.shutdown import Progress
from odradek.broker.stray_logs import StrayLogs
from odradek.config.broker import BrokerConfig
from odradek.config.topic import TopicConfig
from odradek.controller.image import NO_LEADER, PartitionRegistration, TopicImage
from odradek.log.fence import REFUSED_FOR_NOW, LogDamaged, LogDirFailure
from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.model.env import Clock, Random
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicIdPartition, TopicPartition
from odradek.protocol.compression import CompressionType
from odradek.protocol.validate import KEEP_CODEC, BatchRules
from odradek.replication.partition import Partition

log = logging.getLogger(__name__)

OPEN_RETRY_MS = 5_000
LEAVE_AGAIN_MS = 1_000
"""A replica without room asks at most once in this time to be out of the ISR."""
ASK_AGAIN_MS = 5_000
"""How often a start asks the controller again not to count on a damaged replica."""
PROGRESS_MS = 1_000
TORN_LOGGED = STRAYS_LOGGED = 20
"""Truncated and stray logs that a start reports one by one; it reports the number of all others."""
MANY_OPENED = 1_000
OPEN_AT_ONCE = 64
"""Partitions that are opened, or whose files are renamed, within one round of the loop."""


class Partitions:
    """Applies metadata images to the replica manager and the data directory. Owner thread."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._removals = SerialOffload(broker.env.offload)
        self._queue = TimeSlicedQueue(broker.clock, broker.env.call_soon)
        self._left_in_round = OPEN_AT_ONCE
        self._configs: dict[str, TopicConfig] = {}  # of topics that are being opened
        self._shared: tuple[TopicConfig, LogConfig, BatchRules] | None = None
        self._throttled: tuple[UUID, TopicConfig] | None = None  # what was set last
        self._stopped = False
        self._starting = True
        self._after_damaged: Callable[[], None] | None = None
        """The call that waits until the controller elects no damaged replica."""
        self._opened = 0
        """Logs that were opened since `Env.many_made` was called."""
        self._torn_at_start = 0
        self._refused: dict[TopicIdPartition, None] = {}
        self._setting_aside: dict[TopicIdPartition, None] = {}
        self._strays = StrayLogs(broker.directory, broker.node_id)
        broker.metadata.subscribers.append(self._strays.metadata_replayed)
        self._asked_to_leave_ms: dict[TopicIdPartition, int] = {}
        broker.replicas.on_damaged = self._found_damaged
        broker.replicas.on_no_room = self._found_full

    def open_all(self, progress: Progress | None = None) -> None:
        """Open all partitions that this broker leads, at the start, before requests are served.

        Blocks. After a second, and every second from then on, `progress` is called with the number
        of logs that are open, and of all logs.
        """
        for topic in self._broker.image.topics.values():
            self.topic_changed(topic)
        clock, replicas = self._broker.clock, self._broker.replicas
        told_ms = clock.monotonic_ms()
        while not self._queue.is_empty:
            self._queue.run_next()
            now_ms = clock.monotonic_ms()
            if progress is not None and now_ms - told_ms >= PROGRESS_MS:
                told_ms = now_ms
                progress(len(replicas.by_id), len(replicas.by_id) + self._queue.size)
        self._end_start()

    def open_in_loop(self, opened: Callable[[], None]) -> None:
        """Open all partitions of this broker in slices, while committed metadata goes on to be
        applied; then call `opened`. For a node of several, which serves other nodes meanwhile.
        """
        for topic in self._broker.image.topics.values():
            self._queue.add(partial(self._open_topic, topic.id))
        self._queue.add(partial(self._all_opened, opened))

    def _open_topic(self, topic_id: UUID) -> None:
        topic = self._broker.image.topic_by_id(topic_id)
        if topic is not None and not self._stopped:
            self.topic_changed(topic)

    def _all_opened(self, opened: Callable[[], None]) -> None:
        if self._stopped:
            return
        if self._queue.is_empty:
            self._end_start()
            opened()
        else:  # the topics before it have queued their partitions behind it
            self._queue.add(partial(self._all_opened, opened))

    def when_no_damaged_one_may_lead(self, act: Callable[[], None]) -> None:
        """Call `act` when the controller can elect no replica here whose log is damaged, but for
        those without which nobody could lead.
        """
        self._after_damaged = act
        self._look_for_damaged()
        if self._after_damaged is not None:
            self._broker.timer.call_later(ASK_AGAIN_MS, self._ask_again_for_damaged)

    def _look_for_damaged(self) -> None:
        act = self._after_damaged
        if act is None or self._stopped or any(map(self._must_leave, self._broker.replicas)):
            return
        self._after_damaged = None
        act()

    def _ask_again_for_damaged(self) -> None:
        """Say what still waits for the controller, and ask again: a controller of another version
        may have refused."""
        if self._after_damaged is None or self._stopped:
            return
        waiting = [each for each in self._broker.replicas if self._must_leave(each)]
        log.warning(
            "the controller could still elect %d damaged replicas of this broker, %s first; this "
            "broker stays fenced until they have left the in-sync and eligible replicas",
            len(waiting),
            waiting[0].topic_partition if waiting else "none",
        )
        for partition in waiting:
            self._broker.replicas.leave_isr(partition, is_damaged=True)
        self._broker.timer.call_later(ASK_AGAIN_MS, self._ask_again_for_damaged)

    def _must_leave(self, partition: Partition) -> bool:
        """True if a partition is damaged, and this replica could lead it, as another one could."""
        if not partition.failure or not self._is_damaged(partition):
            return False
        number = partition.topic_partition.partition
        registration = self._broker.image.partition(partition.topic_id, number)
        return (
            registration is not None
            and self._broker.node_id in registration.eligible
            and len(registration.eligible) > 1
        )

    def _end_start(self) -> None:
        if self._torn_at_start > TORN_LOGGED:
            further = self._torn_at_start - TORN_LOGGED
            log.warning("%d further logs were truncated after an unclean stop", further)
        self._starting = False
        self._delete_strays()

    def stop(self) -> None:
        """Rename the files of deleted partitions now. Partitions that are queued to be opened, and
        files queued to be removed, are left for the next start.
        """
        self._stopped = True
        self._queue.run_all()
        self._removals.drop_queued()

    def topics_created(self, topics: Iterable[TopicImage]) -> None:
        """Open the partitions of new topics, those that this broker leads first.

        All brokers do this at the same time, and a follower whose leader is not there backs off.
        """
        created = [(topic, self.config_of(topic.name)) for topic in topics]
        for led in (True, False):
            for topic, config in created:
                for number, registration in topic.partitions.items():
                    if (registration.leader == self._broker.node_id) is led:
                        self._partition_changed(topic, number, registration, config)

    def topic_changed(self, topic: TopicImage) -> None:
        """A topic is there when this broker starts."""
        config = self.config_of(topic.name)
        for number, registration in topic.partitions.items():
            self._partition_changed(topic, number, registration, config)

    def partitions_changed(self, keys: Iterable[tuple[UUID, int]]) -> None:
        """Some partitions are new, or have other replicas, leaders or in-sync replicas."""
        image, configs = self._broker.image, dict[UUID, TopicConfig]()
        for topic_id, number in keys:
            topic = image.topic_by_id(topic_id)
            if topic is None:
                continue
            config = configs.get(topic_id)
            if config is None:
                config = configs[topic_id] = self.config_of(topic.name)
            self._partition_changed(topic, number, topic.partitions[number], config)
        self._look_for_damaged()

    def _partition_changed(
        self,
        topic: TopicImage,
        number: int,
        registration: PartitionRegistration,
        config: TopicConfig,
    ) -> None:
        replicas, node_id = self._broker.replicas, self._broker.node_id
        known = replicas.by_id.get((topic.id, number))
        if known is not None:
            if node_id not in registration.replicas:
                self._remove(topic.id, number, known, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            elif known.failure and self._is_damaged(known):
                replicas.apply(known, registration, config.min_insync_replicas)
                self._give_up_log(known, registration)
            else:
                replicas.apply(known, registration, config.min_insync_replicas)
            return
        if registration.leader == node_id or (
            replicas.replication is not None and node_id in registration.replicas
        ):
            if self._fits_in_this_round():
                self._open_replica(topic, number, registration, config)
            else:
                opening = self._broker.opening
                opening[topic.id] = opening.get(topic.id, 0) + 1
                self._configs.setdefault(topic.name, config)
                self._queue.add(partial(self._open_queued, topic.id, number))

    def _fits_in_this_round(self) -> bool:
        """True if nothing is queued and this round has not reached `OPEN_AT_ONCE`; counts one."""
        if self._left_in_round == 0 or not self._queue.is_empty:
            return False
        if self._left_in_round == OPEN_AT_ONCE:
            self._broker.env.call_soon(self._start_round)
        self._left_in_round -= 1
        return True

    def _start_round(self) -> None:
        self._left_in_round = OPEN_AT_ONCE

    def _open_queued(self, topic_id: UUID, number: int) -> None:
        opening, topic = self._broker.opening, self._broker.image.topic_by_id(topic_id)
        try:
            known = (topic_id, number) in self._broker.replicas.by_id  # queued twice
            if topic is not None and not known and not self._stopped:
                config = self._configs.get(topic.name)
                if config is None:
                    config = self._configs[topic.name] = self.config_of(topic.name)
                self._open_replica(topic, number, topic.partitions[number], config)
        finally:
            opening[topic_id] -= 1
            if opening[topic_id] == 0:
                del opening[topic_id]
                self._configs.clear()
                self._broker.commit_advanced()

    def _open_replica(
        self,
        topic: TopicImage,
        number: int,
        registration: PartitionRegistration,
        config: TopicConfig,
    ) -> None:
        replicas = self._broker.replicas
        key = TopicPartition(topic.name, number)
        settings, rules = self._settings_of(config)
        is_led_elsewhere = registration.leader not in (NO_LEADER, self._broker.node_id)
        opened = self._open(TopicIdPartition(topic.id, number), key, settings, is_led_elsewhere)
        if opened is None:
            added = replicas.add_offline(key, topic.id)
            replicas.apply(added, registration, config.min_insync_replicas)
            if self._is_damaged(added):
                self._give_up_log(added, registration)
        else:
            added = replicas.open(key, topic.id, opened, rules)
            self._set_throttled(topic.id, config)
            replicas.apply(added, registration, config.min_insync_replicas)
        self._opened += 1
        if self._opened == MANY_OPENED:
            self._opened = 0
            self._broker.env.many_made()

    def _open(
        self,
        key: TopicIdPartition,
        name: TopicPartition,
        settings: LogConfig,
        is_led_elsewhere: bool,
    ) -> Log | None:
        broker = self._broker
        try:
            opened, found = broker.directory.open_and_report(
                key, settings, broker.clock.wall_ms(), is_led_elsewhere
            )
            if found.torn:
                self._torn_at_start += self._starting
                if not self._starting or self._torn_at_start <= TORN_LOGGED:
                    log.warning(
                        "the log of %s was %s", name, found.truncation(opened.log_end_offset)
                    )
            if found.rebuilt_transactions:
                log.warning(
                    "the indexes of aborted transactions of %s were lost or damaged on the disk, "
                    "and made again from its log",
                    name,
                )
            return opened
        except LogDirFailure as failure:
            broker.replicas.fail_directory(failure)
        except (LogDamaged, OSError) as error:
            log.critical("partition %s is offline: %s", name, error)
            if isinstance(error, OSError) and error.errno in REFUSED_FOR_NOW:
                self._retry_later(key)
        return None

    def _retry_later(self, key: TopicIdPartition) -> None:
        if not self._refused:
            self._broker.timer.call_later(OPEN_RETRY_MS, self._retry_refused)
        self._refused[key] = None

    def _retry_refused(self) -> None:
        """Queue the partitions that the disk refused to open."""
        refused, self._refused = self._refused, {}
        for key in refused:
            self._queue.add(partial(self._open_refused, key))

    def _open_refused(self, key: TopicIdPartition) -> None:
        """Open a partition that the disk refused, if it still exists and is offline."""
        topic = self._broker.image.topic_by_id(key.topic_id)
        known = self._broker.replicas.by_id.get(key)
        if topic is None or known is None or not known.failure or self._stopped:
            return
        registration = topic.partitions[key.partition]
        self._open_replica(topic, key.partition, registration, self.config_of(topic.name))

    def topic_deleted(self, topic: TopicImage) -> None:
        """Remove the partitions of a deleted topic; a worker removes their files."""
        replicas = self._broker.replicas
        self._throttled = None
        if replicas.replication is not None:
            replicas.replication.leader_quota.forget(topic.id)
            replicas.replication.follower_quota.forget(topic.id)
        for number in topic.partitions:
            partition = replicas.by_id.get((topic.id, number))
            if partition is not None:
                self._remove(topic.id, number, partition)
            elif self._starting and (topic.id, number) in self._broker.directory.partitions:
                # Its log was still to be opened.
                self._queue.add(partial(self._remove_files, TopicIdPartition(topic.id, number)))
        self._look_for_damaged()

    def _remove(
        self,
        topic_id: UUID,
        number: int,
        partition: Partition,
        reason: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ) -> None:
        self._broker.replicas.remove(partition.topic_partition, reason)
        key = TopicIdPartition(topic_id, number)
        self._asked_to_leave_ms.pop(key, None)
        if self._fits_in_this_round():
            self._remove_files(key)
        else:
            self._queue.add(partial(self._remove_files, key))

    def _is_damaged(self, partition: Partition) -> bool:
        """True if the partition is offline because of its own log, which will not be better."""
        number = partition.topic_partition.partition
        return (
            not self._broker.replicas.directory_failed
            and TopicIdPartition(partition.topic_id, number) not in self._refused
        )

    def _found_damaged(self, partition: Partition) -> None:
        """The log of a partition was found damaged while it was in use."""
        number = partition.topic_partition.partition
        registration = self._broker.image.partition(partition.topic_id, number)
        if registration is not None and self._broker.replicas.replication is not None:
            self._give_up_log(partition, registration)

    def _give_up_log(self, partition: Partition, registration: PartitionRegistration) -> None:
        """Begin a damaged log anew if another broker leads and the controller does not count on
        this one; else ask for that, unless this replica is the last one in sync.
        """
        node_id = self._broker.node_id
        if node_id in registration.eligible:
            if len(registration.eligible) > 1:
                self._broker.replicas.leave_isr(partition, is_damaged=True)
        elif registration.leader not in (NO_LEADER, node_id):
            number = partition.topic_partition.partition
            self._set_aside(TopicIdPartition(partition.topic_id, number))

    def _found_full(self, partition: Partition) -> None:
        """The disk had no room for records of a partition: let the others in sync go on without
        this replica, which joins them again when it has caught up. The last one stays.
        """
        broker = self._broker
        number = partition.topic_partition.partition
        key = TopicIdPartition(partition.topic_id, number)
        registration = broker.image.partition(*key)
        if broker.replicas.replication is None or registration is None or self._stopped:
            return
        now_ms = broker.clock.monotonic_ms()
        asked_ms = self._asked_to_leave_ms.get(key)
        if asked_ms is not None and now_ms - asked_ms < LEAVE_AGAIN_MS:
            return
        if broker.node_id in registration.isr and len(registration.isr) > 1:
            self._asked_to_leave_ms[key] = now_ms
            broker.replicas.leave_isr(partition, is_damaged=False)

    def _set_aside(self, key: TopicIdPartition) -> None:
        """Set the damaged log of a partition aside, then open a new one."""
        directory, offload = self._broker.directory, self._broker.env.offload
        if key in self._setting_aside:
            return
        self._setting_aside[key] = None

        def renamed(_: object) -> None:
            offload.submit(directory.begin_anew(key), begin, failed)

        def begin(_: object) -> None:
            del self._setting_aside[key]
            self._queue.add(partial(self._open_refused, key))

        def failed(error: BaseException) -> None:
            log.error("the damaged log %s could not be set aside: %s", key, error)
            del self._setting_aside[key]

        log.warning("the damaged log %s is set aside and fetched anew from the leader", key)
        try:
            offload.submit(directory.set_aside(key), renamed, failed)
        except OSError as error:
            failed(error)

    def _remove_files(self, key: TopicIdPartition) -> None:
        try:
            work = self._broker.directory.delete_log(key)
        except OSError as error:
            log.error("deleting the files of %s failed: %s; they are left in place", key, error)
            return
        self._removals.submit(
            work,
            lambda _: None,
            lambda error: log.error("removing the files of %s failed: %s", key, error),
        )

    def _delete_strays(self) -> None:
        """Queue the deletion of the logs that this broker does not replicate any more, and log
        those that nothing explains.
        """
        image, strays = self._broker.image, self._strays
        self._broker.metadata.subscribers.remove(strays.metadata_replayed)
        deletable, unexplained = strays.look(image)
        for key in deletable[:STRAYS_LOGGED]:
            log.warning("the log %s is deleted: %s", key, strays.reason(key, image))
        if len(deletable) > STRAYS_LOGGED:
            further = len(deletable) - STRAYS_LOGGED
            log.warning(
                "%d further logs are deleted: of deleted topics, or with replicas on other brokers",
                further,
            )
        for key in deletable:
            self._queue.add(partial(self._delete_stray, key))
        for key in unexplained:
            log.warning(
                "the log %s belongs to no topic; it is left in place: remove it by hand", key
            )

    def _delete_stray(self, key: TopicIdPartition) -> None:
        """Delete a stray log, unless this broker has become a replica again meanwhile."""
        if self._strays.reason(key, self._broker.image):
            self._remove_files(key)

    def configs_changed(self, names: Iterable[str] | None = None) -> None:
        """Apply the settings of these topics to their partitions; None: of all topics."""
        self._configs.clear()
        self._shared = None
        selected = None if names is None else set(names)
        configs: dict[str, TopicConfig] = {}
        for partition in self._broker.replicas:
            name = partition.topic_partition.topic
            if partition.failure or (selected is not None and name not in selected):
                continue
            config = configs.get(name)
            if config is None:
                config = configs[name] = self.config_of(name)
            settings, partition.rules = self._settings_of(config)
            self._set_throttled(partition.topic_id, config)
            self._broker.replicas.set_min_isr(partition, config.min_insync_replicas)
            partition.log.configure(settings)

    def _settings_of(self, config: TopicConfig) -> tuple[LogConfig, BatchRules]:
        """The settings of a partition's log and of its batches. The partitions of a topic share
        them, unless each log has a jitter of its own.
        """
        shared = self._shared
        if shared is None or shared[0] is not config or config.segment_jitter_ms > 0:
            own = log_config(config, self._broker.config, self._broker.random)
            self._shared = shared = config, own, batch_rules(config)
        return shared[1:]

    def _set_throttled(self, topic_id: UUID, config: TopicConfig) -> None:
        """Set which replicas of a topic are throttled; without followers none is.

        Partitions of one topic that come one after the other do it once.
        """
        replication, throttled = self._broker.replicas.replication, self._throttled
        known = throttled is not None and throttled[0] == topic_id and throttled[1] is config
        if replication is not None and not known:
            self._throttled = topic_id, config
            leaders = config.leader_replication_throttled_replicas
            followers = config.follower_replication_throttled_replicas
            replication.leader_quota.set_replicas(topic_id, leaders)
            replication.follower_quota.set_replicas(topic_id, followers)

    def config_of(self, name: str) -> TopicConfig:
        """The effective settings of a topic. Invalid ones are left out and logged, so that the
        topic works with the others.
        """
        overrides = self._broker.image.topic_config(name)
        config, problems = self._broker.topic_configs.usable(overrides)
        for problem in problems:
            log.error("a setting of topic %s is not applied: %s", name, problem)
        return config


SLICE_JOBS = 64
"""A new log opens in some 30 us. Each slice has a fetcher tell its leader the partitions of that
slice, so short ones cost more requests than they save time.
"""
SLICE_MS = 5


class TimeSlicedQueue:
    """A queue of jobs for the owner thread, run a few in each round of the loop, in order.

    A round runs at most `SLICE_JOBS` jobs, and stops after `SLICE_MS`. An exception of a job goes
    to the loop; the jobs behind it still run.
    """

    def __init__(self, clock: Clock, call_soon: Callable[[Callable[[], None]], None]) -> None:
        self._clock = clock
        self._call_soon = call_soon
        self._jobs: deque[Callable[[], None]] = deque()
        self._scheduled = False

    @property
    def is_empty(self) -> bool:
        return not self._jobs

    def add(self, job: Callable[[], None]) -> None:
        self._jobs.append(job)
        self._schedule()

    def _schedule(self) -> None:
        if self._jobs and not self._scheduled:
            self._scheduled = True
            self._call_soon(self._run_slice)

    def _run_slice(self) -> None:
        self._scheduled = False
        end_ms = self._clock.monotonic_ms() + SLICE_MS
        try:
            for _ in range(min(SLICE_JOBS, len(self._jobs))):
                self._jobs.popleft()()
                if self._clock.monotonic_ms() >= end_ms:
                    break
        finally:
            self._schedule()

    @property
    def size(self) -> int:
        return len(self._jobs)

    def run_next(self) -> None:
        """Run the first job now."""
        self._jobs.popleft()()

    def run_all(self) -> None:
        """Run all jobs now."""
        while self._jobs:
            self.run_next()


CODECS = {
    "uncompressed": CompressionType.NONE,
    "gzip": CompressionType.GZIP,
    "snappy": CompressionType.SNAPPY,
    "lz4": CompressionType.LZ4,
    "zstd": CompressionType.ZSTD,
}

GZIP_DEFAULT_LEVEL = -1


def log_config(topic: TopicConfig, broker: BrokerConfig, random: Random) -> LogConfig:
    """The settings of a partition's log; the jitter of its segments is drawn here."""
    jitter = topic.segment_jitter_ms
    compact = "compact" in topic.cleanup_policy
    return LogConfig(
        segment_bytes=topic.roll_bytes,
        segment_ms=min(topic.segment_ms, topic.max_compaction_lag_ms)
        if compact
        else topic.segment_ms,
        segment_jitter_ms=random.getrandbits(62) % jitter if jitter > 0 else 0,
        segment_index_bytes=topic.segment_index_bytes,
        index_interval_bytes=topic.index_interval_bytes,
        retention_ms=topic.retention_ms,
        retention_bytes=topic.retention_bytes,
        delete="delete" in topic.cleanup_policy,
        compact=compact,
        delete_retention_ms=topic.delete_retention_ms,
        min_cleanable_dirty_ratio=topic.min_cleanable_dirty_ratio,
        min_compaction_lag_ms=topic.min_compaction_lag_ms,
        max_compaction_lag_ms=topic.max_compaction_lag_ms,
        file_delete_delay_ms=topic.file_delete_delay_ms,
        flush_messages=topic.flush_messages,
        flush_ms=topic.flush_ms,
        producer_id_expiration_ms=broker.producer_id_expiration_ms,
    )


def batch_rules(topic: TopicConfig) -> BatchRules:
    """The rules for validating a produced batch."""
    codec = CODECS.get(topic.compression_type)
    gzip_level = topic.compression_gzip_level
    levels = {
        CompressionType.GZIP: None if gzip_level == GZIP_DEFAULT_LEVEL else gzip_level,
        CompressionType.LZ4: topic.compression_lz4_level,
        CompressionType.ZSTD: topic.compression_zstd_level,
    }
    return BatchRules(
        max_message_bytes=topic.max_message_bytes,
        log_append_time=topic.message_timestamp_type == "LogAppendTime",
        timestamp_before_max_ms=topic.message_timestamp_before_max_ms,
        timestamp_after_max_ms=topic.message_timestamp_after_max_ms,
        compacted="compact" in topic.cleanup_policy,
        codec=KEEP_CODEC if codec is None else codec,
        level=None if codec is None else levels.get(codec),
    )
