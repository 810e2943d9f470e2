"""A data directory: its lock, its identity, its checkpoints and the logs of all its partitions.

    .lock                                 held while a process uses the directory
    meta.properties                       see `directory_identity`
    .kafka_cleanshutdown                  the last process stopped cleanly: no log needs recovery
    durable-broker-epoch                  the broker's epoch, of a life with `log.durability=fsync`
    durable-ends                          see `durable_ends`; exact while the process lives
    recovery-point-offset-checkpoint      see `directory_offsets`, as the three after it
    log-start-offset-checkpoint
    replication-offset-checkpoint
    cleaner-offset-checkpoint
    <topic id>-<partition>/               a log, see `log`; made by its first append
    <topic id>-<partition>.<n>-delete/    a deleted log whose files are being removed
    <topic id>-<partition>.<n>-damaged/   a damaged log that was set aside and fetched anew

Opening the directory reads these names and no logs, so that 10,000 logs cost nothing until they are
used. `open_log` opens a log; or a worker does, with `open_work`, then the owner calls `adopt`.

Blocking work is returned as a function for a worker and touches nothing of the owner thread's.
Periodic work is a method that the broker's timer calls. The clean-shutdown marker is removed before
the first log is opened, and written only if every log was read and flushed.

**The broker's epoch before.** A broker that registers tells the controller the epoch of its last
life if nothing that counted for a high watermark is lost with that: then it stays eligible as a
leader (KIP-966). That is so after a clean stop, whose marker has the epoch. It is so after any
other end of a life with `log.durability=fsync`, too, as only durable bytes counted, and recovery
never truncates these. Such a life writes `durable-broker-epoch`, with the content of the marker,
when it is registered; a life with `os` removes the file, and so does a directory that fails. The
controller compares the epochs, so a file of an earlier life, in a restored copy of the directory
for example, claims nothing. A copy that was made in the last life itself would: it must not be
used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from odradek.log.directory_identity import (
    META_FILE,
    MetaProperties,
    NewDirectory,
    WrongDirectory,
    read_meta_properties,
)
from odradek.log.directory_offsets import DirectoryOffsets, Work
from odradek.log.fence import Fence, LogDamaged
from odradek.log.index import IndexCache
from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.log.recovery import RecoveryStats, new_log, open_log
from odradek.log.retention import RetentionPass, delete_old_segments
from odradek.log.segment import LOG_SUFFIX
from odradek.model.env import Disk, Random
from odradek.model.topics import TopicIdPartition, new_uuid, uuid_from_text, uuid_text

LOCK_FILE = ".lock"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
DURABLE_EPOCH_FILE = "durable-broker-epoch"
NO_BROKER_EPOCH = -1
DELETE_SUFFIX = "-delete"
DAMAGED_SUFFIX = "-damaged"


def with_epoch(broker_epoch: int) -> bytes:
    """The content of Kafka's clean-shutdown marker."""
    return f'{{"version":0,"brokerEpoch":{broker_epoch}}}'.encode()


def epoch_in(marker: bytes) -> int:
    """Return the broker's epoch of a marker, if that has one."""
    found = re.search(rb'"brokerEpoch": ?"?(-?[0-9]{1,19})\b', marker)
    return int(found[1]) if found is not None else NO_BROKER_EPOCH


def partition_of(name: str) -> TopicIdPartition | None:
    """Return the partition of a directory's name, or None if it is no log's."""
    topic, _, partition = name.rpartition("-")
    if not partition.isdecimal():
        return None
    try:
        return TopicIdPartition(uuid_from_text(topic), int(partition))
    except ValueError:
        return None


def is_damaged(name: str, key: TopicIdPartition) -> bool:
    """True if this is the directory of a log of `key` that was set aside."""
    return name.startswith(f"{key}.") and name.endswith(DAMAGED_SUFFIX)


class LogDirectory:
    """A data directory in use by this process.

    `cluster_id` None: whatever the directory says, or a new one. Raises `BlockingIOError` if
    another process has it, `WrongDirectory` if it belongs to another node or cluster, `OSError`.
    """

    def __init__(
        self, disk: Disk, path: str, random: Random, *, cluster_id: str | None, node_id: int
    ) -> None:
        self.disk = disk
        self.path = path
        self.fence = Fence(path)
        self.cache = IndexCache()
        self.logs: dict[TopicIdPartition, Log] = {}
        self.problems: list[str] = []
        self.unreadable: list[tuple[Log, Exception]] = []
        """Logs that the last retention pass could not read; the caller takes them offline."""
        self.recovery = RecoveryStats()
        """Sums over the logs that were opened."""
        self._new = NewDirectory(disk, path, LOCK_FILE)
        self.is_new = False
        """True if it got its identity now."""
        try:
            self._new.make(META_FILE)
            self._unlock = disk.lock(f"{path}/{LOCK_FILE}")
        except BaseException:
            self._new.discard()
            raise
        try:
            self._new.claim()
            self.meta = self._identity(random, cluster_id, node_id)
            self._read_state()
        except BaseException:
            self._new.discard()
            self._unlock()
            raise
        self._deletions = 0

    def _identity(self, random: Random, cluster_id: str | None, node_id: int) -> MetaProperties:
        meta = read_meta_properties(self.disk, self.path)
        if meta is None:
            if any(partition_of(name) for name in self.disk.list(self.path)):
                raise WrongDirectory(
                    f"{self.path} has logs but no {META_FILE}; restore it from a backup"
                )
            cluster = cluster_id if cluster_id is not None else uuid_text(new_uuid(random))
            meta = MetaProperties(cluster, node_id, new_uuid(random))
            self.is_new = True
            self.disk.replace_file(f"{self.path}/{META_FILE}", meta.encode())
        if meta.node_id != node_id or cluster_id not in (None, meta.cluster_id):
            raise WrongDirectory(
                f"{self.path} belongs to node {meta.node_id} of cluster {meta.cluster_id}, not to "
                f"node {node_id} of cluster {cluster_id or meta.cluster_id}; choose another one"
            )
        return meta

    def _read_state(self) -> None:
        names = self.disk.list(self.path)
        self.was_clean = self._marked_clean = CLEAN_SHUTDOWN_FILE in names
        self.previous_broker_epoch = self._epoch_before(names)
        """The broker's epoch in its last life, if nothing that counted is lost since; else
        `NO_BROKER_EPOCH`."""
        self.partitions = {key: None for name in names if (key := partition_of(name)) is not None}
        self._leftovers = [name for name in names if name.endswith(DELETE_SUFFIX)]
        self.offsets = DirectoryOffsets(self.disk, self.path, self.fence, self.problems)
        self.offsets.keep_only(self.partitions)

    def _epoch_before(self, names: Sequence[str]) -> int:
        """Return the newest epoch that a file names. A start that ended before it opened a log
        leaves both: the marker of the stop before, and the epoch in which it was registered. A
        marker without an epoch is of a node alone."""
        files = [name for name in (CLEAN_SHUTDOWN_FILE, DURABLE_EPOCH_FILE) if name in names]
        epochs = [epoch_in(self.disk.read_file(f"{self.path}/{name}")) for name in files]
        if not epochs or epochs[0] == NO_BROKER_EPOCH:
            return NO_BROKER_EPOCH
        return max(epochs)

    def keep_epoch(self, epoch: int) -> Work:
        """Work: write that the broker has registered with this epoch, in a life in which only
        durable bytes count.
        """

        def work() -> None:
            self.fence.check()
            try:
                self.disk.replace_file(f"{self.path}/{DURABLE_EPOCH_FILE}", with_epoch(epoch))
            except OSError as error:
                raise self.fence.classify(error) from error
            if self.fence.failure is not None:
                self.forget_epoch()()

        return work

    def forget_epoch(self) -> Work:
        """Work: bytes that count may be lost with the end of this life."""

        def work() -> None:
            path = f"{self.path}/{DURABLE_EPOCH_FILE}"
            if self.disk.exists(path):
                self.disk.remove(path)
                self.disk.sync_directory(self.path)

        return work

    def take_problems(self) -> list[str]:
        """Return the problems found since the last call."""
        problems, self.problems = self.problems, []
        return problems

    # Logs

    def directory_of(self, key: TopicIdPartition) -> str:
        return f"{self.path}/{key}"

    def get(self, key: TopicIdPartition) -> Log | None:
        """Return a log that is open, or None."""
        return self.logs.get(key)

    def open_work(
        self,
        key: TopicIdPartition,
        config: LogConfig,
        now_ms: int,
        is_led_elsewhere: bool = False,
    ) -> Callable[[], tuple[Log, RecoveryStats]]:
        """Return the work of opening a log, or of making a new one, for a worker.

        Pass its log to `adopt`. The work raises `LogDamaged`, `OSError`.
        """
        self.fence.check()
        self._remove_marker()
        directory = self.directory_of(key)
        known, durable = self.offsets.recorded_state(key, self.was_clean)
        is_new = key not in self.partitions
        if is_new:
            self.partitions[key] = None
            if not known.is_of_new_log:
                self.disk.make_directory(directory)
                is_new = False

        def work() -> tuple[Log, RecoveryStats]:
            if is_new:
                made = new_log(
                    self.disk,
                    directory,
                    config,
                    self.fence,
                    self.cache,
                    now_ms=now_ms,
                    durable=durable,
                )
                return made, RecoveryStats()
            return open_log(
                self.disk,
                directory,
                config,
                self.fence,
                self.cache,
                now_ms=now_ms,
                known=known,
                durable=durable,
                is_led_elsewhere=is_led_elsewhere,
            )

        return work

    def _remove_marker(self) -> None:
        """Remove the clean-shutdown marker before the first log is opened.

        A start that fails earlier leaves the directory marked clean.
        """
        if self._marked_clean:
            marker = f"{self.path}/{CLEAN_SHUTDOWN_FILE}"
            if self.disk.exists(marker):  # else it was removed, but the directory was not synced
                self.disk.remove(marker)
            self.disk.sync_directory(self.path)
            self._marked_clean = False

    def adopt(self, key: TopicIdPartition, log: Log) -> Log:
        """Add a log that `open_work` has opened."""
        mark = self.offsets.high_watermark(key)
        log.high_watermark = max(log.log_start_offset, min(mark, log.log_end_offset))
        self.logs[key] = log
        return log

    def open_log(self, key: TopicIdPartition, config: LogConfig, now_ms: int) -> Log:
        """Return the log of a partition, opened or made if necessary. Blocks until recovered."""
        return self.open_and_report(key, config, now_ms)[0]

    def open_and_report(
        self,
        key: TopicIdPartition,
        config: LogConfig,
        now_ms: int,
        is_led_elsewhere: bool = False,
    ) -> tuple[Log, RecoveryStats]:
        """Return the log as `open_log` does, and what opening it found.

        If another broker leads, a recovery may leave the sync of what it read to the first flush.
        """
        log = self.logs.get(key)
        if log is not None:
            return log, RecoveryStats()
        log, found = self.open_work(key, config, now_ms, is_led_elsewhere)()
        self.recovery.add(found)
        return self.adopt(key, log), found

    def delete_log(self, key: TopicIdPartition) -> Work:
        """Rename the directory of a deleted partition; the returned work removes its files."""
        log = self.logs.pop(key, None)
        if log is not None:
            log.abandon()
        source = self.directory_of(key)
        if log is not None and not log.has_files and not self.disk.exists(source):
            self.partitions.pop(key, None)
            self.offsets.forget(key)
            return lambda: None
        self._deletions += 1
        target = f"{source}.{self._deletions}{DELETE_SUFFIX}"
        while self.disk.exists(target):
            self._deletions += 1
            target = f"{source}.{self._deletions}{DELETE_SUFFIX}"
        self.disk.rename(source, target)
        self.partitions.pop(key, None)
        self.offsets.forget(key)

        def work() -> None:
            self.disk.sync_directory(self.path)
            self.disk.remove_tree(target)

        return work

    def set_aside(self, key: TopicIdPartition) -> Work:
        """Rename the directory of a damaged log, so that a follower can fetch all of it anew.

        Run the returned work, then call `begin_anew`. The files are kept for a person to look at,
        until another log of this partition is set aside.
        """
        log = self.logs.pop(key, None)
        if log is not None:
            log.abandon()
        source = self.directory_of(key)
        older = [name for name in self.disk.list(self.path) if is_damaged(name, key)]
        if self.disk.exists(source):
            number = max([int(name.split(".")[1][: -len(DAMAGED_SUFFIX)]) for name in older] or [0])
            self.disk.rename(source, f"{source}.{number + 1}{DAMAGED_SUFFIX}")
        else:
            older = older[:-1]
        self.partitions.pop(key, None)

        def work() -> None:
            # Durable before the offsets are forgotten: without them damage looks like a torn tail.
            self.disk.sync_directory(self.path)
            for name in older:
                self.disk.remove_tree(f"{self.path}/{name}")

        return work

    def begin_anew(self, key: TopicIdPartition) -> Work:
        """Forget the offsets of a log that was set aside. After the work `open_log` makes a new
        one.
        """
        self.offsets.forget(key)
        return self.checkpoint()

    def remove_leftovers(self) -> Work:
        """Return the work that removes deleted logs that the last process left."""
        leftovers, self._leftovers = self._leftovers, []

        def work() -> None:
            for name in leftovers:
                self.disk.remove_tree(f"{self.path}/{name}")

        return work

    def size_of(self, key: TopicIdPartition) -> int:
        """Return the bytes of a partition's segments, also if its log is not open."""
        log = self.logs.get(key)
        if log is not None:
            return log.size
        directory = self.directory_of(key)
        return sum(
            self.disk.open(f"{directory}/{name}").size()
            for name in self.disk.list(directory)
            if name.endswith(LOG_SUFFIX)
        )

    # Periodic work

    def behind_recovery_point(self) -> list[Log]:
        """Return the logs whose recovery point is not at their end, which a checkpoint flushes."""
        return [log for log in self.logs.values() if log.recovery_point < log.log_end_offset]

    def expire_producers(self, monotonic_ms: int) -> int:
        """Expire producers in all logs and return how many expired."""
        return sum(
            log.producers.expire(monotonic_ms, log.config.producer_id_expiration_ms)
            for log in self.logs.values()
        )

    def retention(self, now_ms: int) -> RetentionPass | None:
        """Remove expired segments from all logs and return their deletion, or None.

        A log that cannot be read is added to `unreadable`, and the pass continues with the others.
        """
        deletions = []
        self.unreadable = []
        for log in self.logs.values():
            try:
                deletion = delete_old_segments(log, now_ms)
            except (LogDamaged, OSError) as error:
                self.fence.check()
                self.unreadable.append((log, error))
                continue
            if deletion is not None:
                deletions.append(deletion)
        return RetentionPass(deletions, self.checkpoint()) if deletions else None

    def checkpoint(self) -> Work:
        """Work: sync the durable ends, and write those of the checkpoints that changed.

        `OSError` but no `LogDirFailure`: there was no room, and the files are as they were.
        """
        return self.offsets.checkpoint(self.logs)

    def close(self, broker_epoch: int = NO_BROKER_EPOCH, *, flush: bool = True) -> None:
        """Stop cleanly: flush all logs, checkpoint, write the clean-shutdown marker, unlock.

        Blocks; with thousands of logs run a `ShutdownFlush` first. Without `flush` nothing is
        flushed. If the directory is fenced, only the lock is released. The marker is not written if
        a log was not opened, and so not recovered, since the last unclean stop, or if a log could
        not be written completely: then the next start recovers.
        """
        try:
            for log in self.logs.values():
                log.close(flush=flush)
            if self.fence.failure is None:
                self.checkpoint()()
                if self._can_mark_clean():
                    marker = f"{self.path}/{CLEAN_SHUTDOWN_FILE}"
                    self.disk.replace_file(marker, with_epoch(broker_epoch))
        finally:
            self.release()

    def _can_mark_clean(self) -> bool:
        recovered = self.was_clean or all(key in self.logs for key in self.partitions)
        return recovered and all(
            log.recovery_point == log.log_end_offset and not log.dirty for log in self.logs.values()
        )

    def release(self) -> None:
        """Release the lock and leave the directory as it is, as a crash would."""
        self.offsets.close()
        self._unlock()

    def abandon(self) -> None:
        """Release the directory after a failed start; if it is new, remove it."""
        self._new.discard()
        self.release()
