"""What this broker leads, kept in step with the committed metadata.

Topics that appear get their logs opened or made, topics that go have theirs deleted, changed
settings reach logs and rules. Opening a damaged log takes that partition offline and no other;
one that the disk refuses for now (it is full, say) is tried again until it opens.

A few partitions are opened in the event that commits them. Of many the rest comes in slices
(`slices`): until one has come, requests for it are answered as for one that is not known, and the
answer to its creation waits. Files are removed one partition after the other, so that a large topic
leaves workers for those who wait.

Much work for the owner thread, a little per turn of its loop.

Creating 10,000 partitions is 20,000 system calls that each wait for nobody and together hold up
everybody. Here they wait in line; each turn does as many as fit in `TURN_MS`, at most `TURN_JOBS`,
and what else the loop has to do comes in between. Jobs run in the order they were added.

A topic's settings, in the form that its logs and its produce checks take them.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from uuid import UUID

from odradek.broker.background import InTurn
from odradek.broker.broker import Broker
from odradek.config.broker import BrokerConfig
from odradek.config.topic import TopicConfig
from odradek.controller.image import PartitionRegistration, TopicImage
from odradek.log.fence import REFUSED_FOR_NOW, LogDamaged, LogDirFailure
from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.model.env import Clock, Random
from odradek.model.topics import TopicIdPartition, TopicPartition
from odradek.protocol.compression import CompressionType
from odradek.protocol.validate import KEEP_CODEC, BatchRules

log = logging.getLogger(__name__)

OPEN_AGAIN_MS = 5_000
AT_ONCE = 64
"""Partitions that are opened, or whose files are renamed, within one turn of the loop."""


class Partitions:
    """Applies the image to the replica manager and the data directory. Owner thread."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._removals = InTurn(broker.env.offload)
        self._later = Slices(broker.clock, broker.env.call_soon)
        self._at_once = AT_ONCE
        self._configs: dict[str, TopicConfig] = {}  # of topics that are being opened
        self._stopped = False
        self._refused: dict[TopicIdPartition, None] = {}

    def open_all(self) -> None:
        """At the start, when nobody is served yet: every partition of the image that this broker
        leads.
        """
        for topic in self._broker.image.topics.values():
            self.topic_changed(topic)
        self._later.finish()
        self._tell_of_strays()

    def stop(self) -> None:
        """Deleted partitions lose their names now; what was to be opened, and what was to be
        removed, is left for the next start.
        """
        self._stopped = True
        self._later.finish()
        self._removals.drop_waiting()

    def topic_changed(self, topic: TopicImage) -> None:
        """A topic was created, has more partitions, or other leaders."""
        config = self.config_of(topic.name)
        for number, registration in topic.partitions.items():
            self._partition_changed(topic, number, registration, config)

    def _partition_changed(
        self,
        topic: TopicImage,
        number: int,
        registration: PartitionRegistration,
        config: TopicConfig,
    ) -> None:
        replicas = self._broker.replicas
        known = replicas.by_id.get((topic.id, number))
        if known is not None:
            known.leader_epoch = registration.leader_epoch
            return
        if registration.leader == self._broker.node_id:
            if self._may_do_now():
                self._lead(topic, number, registration, config)
            else:
                opening = self._broker.opening
                opening[topic.id] = opening.get(topic.id, 0) + 1
                self._configs.setdefault(topic.name, config)
                self._later.add(partial(self._open_in_turn, topic.id, number))

    def _may_do_now(self) -> bool:
        """Whether this is one of the few of this turn, and nothing is in line before it."""
        if self._at_once == 0 or not self._later.idle:
            return False
        if self._at_once == AT_ONCE:
            self._broker.env.call_soon(self._next_turn)
        self._at_once -= 1
        return True

    def _next_turn(self) -> None:
        self._at_once = AT_ONCE

    def _open_in_turn(self, topic_id: UUID, number: int) -> None:
        opening, topic = self._broker.opening, self._broker.image.topic_by_id(topic_id)
        try:
            known = (topic_id, number) in self._broker.replicas.by_id  # put in line twice
            if topic is not None and not known and not self._stopped:
                config = self._configs.get(topic.name)
                if config is None:
                    config = self._configs[topic.name] = self.config_of(topic.name)
                self._lead(topic, number, topic.partitions[number], config)
        finally:
            opening[topic_id] -= 1
            if opening[topic_id] == 0:
                del opening[topic_id]
                self._configs.clear()
                self._broker.commit_advanced()

    def _lead(
        self,
        topic: TopicImage,
        number: int,
        registration: PartitionRegistration,
        config: TopicConfig,
    ) -> None:
        replicas = self._broker.replicas
        key = TopicPartition(topic.name, number)
        opened = self._open(TopicIdPartition(topic.id, number), key, config)
        if opened is None:
            replicas.add_offline(key, topic.id)
        else:
            replicas.add(key, topic.id, opened, registration.leader_epoch, batch_rules(config))

    def _open(self, key: TopicIdPartition, name: TopicPartition, config: TopicConfig) -> Log | None:
        broker = self._broker
        settings = log_config(config, broker.config, broker.random)
        try:
            return broker.directory.open_log(key, settings, broker.clock.wall_ms())
        except LogDirFailure as failure:
            broker.replicas.fail_directory(failure)
        except (LogDamaged, OSError) as error:
            log.critical("partition %s is offline: %s", name, error)
            if isinstance(error, OSError) and error.errno in REFUSED_FOR_NOW:
                self._open_later(key)
        return None

    def _open_later(self, key: TopicIdPartition) -> None:
        if not self._refused:
            self._broker.timer.call_later(OPEN_AGAIN_MS, self._open_again)
        self._refused[key] = None

    def _open_again(self) -> None:
        """Those that were refused, in slices."""
        refused, self._refused = self._refused, {}
        for key in refused:
            self._later.add(partial(self._open_refused, key))

    def _open_refused(self, key: TopicIdPartition) -> None:
        """If it is still offline and wanted."""
        topic = self._broker.image.topic_by_id(key.topic_id)
        known = self._broker.replicas.by_id.get(key)
        if topic is None or known is None or not known.failure or self._stopped:
            return
        registration = topic.partitions[key.partition]
        self._lead(topic, key.partition, registration, self.config_of(topic.name))

    def topic_deleted(self, topic: TopicImage) -> None:
        """Its partitions answer as unknown from now on; their files are removed by a worker."""
        replicas = self._broker.replicas
        for number in topic.partitions:
            partition = replicas.by_id.get((topic.id, number))
            if partition is not None:
                replicas.remove(partition.topic_partition)
                key = TopicIdPartition(topic.id, number)
                if self._may_do_now():
                    self._remove_files(key)
                else:
                    self._later.add(partial(self._remove_files, key))

    def _remove_files(self, key: TopicIdPartition) -> None:
        try:
            work = self._broker.directory.delete_log(key)
        except OSError as error:
            log.error("the files of %s stay: %s", key, error)
            return
        self._removals.submit(
            work,
            lambda _: None,
            lambda error: log.error("removing the files of %s: %s", key, error),
        )

    def _tell_of_strays(self) -> None:
        """Logs of topics that the metadata does not know. They may be what a crash left of a
        deleted topic, or all there is left after the metadata was lost: nobody but a person can
        tell.
        """
        known = self._broker.image.topics_by_id
        for key in self._broker.directory.partitions:
            topic = known.get(key.topic_id)
            if topic is None or key.partition not in topic.partitions:
                log.warning("no topic has the log %s; it is left alone: remove it by hand", key)

    def configs_changed(self, names: Iterable[str] | None = None) -> None:
        """New settings for these topics; None: for all."""
        self._configs.clear()
        wanted = None if names is None else set(names)
        configs: dict[str, TopicConfig] = {}
        for partition in self._broker.replicas:
            name = partition.topic_partition.topic
            if partition.failure or (wanted is not None and name not in wanted):
                continue
            config = configs.get(name)
            if config is None:
                config = configs[name] = self.config_of(name)
            partition.rules = batch_rules(config)
            partition.log.configure(log_config(config, self._broker.config, self._broker.random))

    def config_of(self, name: str) -> TopicConfig:
        """A topic's settings in force. What cannot be is left out, with a line in the log: neither
        the topic nor its other settings must be lost for that.
        """
        overrides = self._broker.image.topic_config(name)
        config, problems = self._broker.topic_configs.usable(overrides)
        for problem in problems:
            log.error("a setting of topic %s is not in force: %s", name, problem)
        return config


TURN_JOBS = 16
TURN_MS = 5


class Slices:
    """A line of jobs. A job that raises is told to the loop; the rest goes on."""

    def __init__(self, clock: Clock, call_soon: Callable[[Callable[[], None]], None]) -> None:
        self._clock = clock
        self._call_soon = call_soon
        self._jobs: deque[Callable[[], None]] = deque()
        self._scheduled = False

    @property
    def idle(self) -> bool:
        return not self._jobs

    def add(self, job: Callable[[], None]) -> None:
        self._jobs.append(job)
        self._schedule()

    def _schedule(self) -> None:
        if self._jobs and not self._scheduled:
            self._scheduled = True
            self._call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        end_ms = self._clock.monotonic_ms() + TURN_MS
        try:
            for _ in range(min(TURN_JOBS, len(self._jobs))):
                self._jobs.popleft()()
                if self._clock.monotonic_ms() >= end_ms:
                    break
        finally:
            self._schedule()

    def finish(self) -> None:
        """All that is left, now."""
        while self._jobs:
            self._jobs.popleft()()


CODECS = {
    "uncompressed": CompressionType.NONE,
    "gzip": CompressionType.GZIP,
    "snappy": CompressionType.SNAPPY,
    "lz4": CompressionType.LZ4,
    "zstd": CompressionType.ZSTD,
}

GZIP_DEFAULT_LEVEL = -1


def log_config(topic: TopicConfig, broker: BrokerConfig, random: Random) -> LogConfig:
    """What the log of a new or reconfigured partition goes by; its jitter is drawn here."""
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
    """What a produced batch is held to."""
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
