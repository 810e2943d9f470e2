"""What this broker leads, kept in step with the committed metadata.

Topics that appear get their logs opened or made, topics that go have theirs deleted, changed
settings reach logs and rules. Opening a damaged log takes that partition offline and no other;
one that the disk refuses for now (it is full, say) is tried again until it opens.

A few partitions are opened in the event that commits them. Of many the rest comes in slices
(`slices`): until one has come, requests for it are answered as for one that is not known, and the
answer to its creation waits. Files are removed one partition after the other, so that a large topic
leaves workers for those who wait.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial
from uuid import UUID

from odradek.broker.background import InTurn
from odradek.broker.broker import Broker
from odradek.broker.slices import Slices
from odradek.broker.topic_rules import batch_rules, log_config
from odradek.config.topic import TopicConfig
from odradek.controller.registrations import PartitionRegistration, TopicImage
from odradek.log.fence import REFUSED_FOR_NOW, LogDamaged, LogDirFailure
from odradek.log.log import Log
from odradek.model.topics import TopicIdPartition, TopicPartition

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
        config, problems = self._broker.topic_configs.in_force(overrides)
        for problem in problems:
            log.error("a setting of topic %s is not in force: %s", name, problem)
        return config
