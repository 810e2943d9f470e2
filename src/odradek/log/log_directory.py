"""One data directory: its lock, its identity, and the logs of all partitions in it.

    .lock                                 held while a process uses the directory
    meta.properties                       see `meta_properties`
    .kafka_cleanshutdown                  the last process stopped cleanly: no log needs recovery
    durable-ends                          see `durable_ends`
    recovery-point-offset-checkpoint      see `checkpoints`, as the two after it
    log-start-offset-checkpoint
    replication-offset-checkpoint
    cleaner-offset-checkpoint
    <topic id>-<partition>/               a log, see `log`
    <topic id>-<partition>.<n>-delete/    a deleted log whose files are being removed

Opening the directory reads this list and nothing in the logs, so that 10,000 of them cost nothing
until they are used: a log is opened by `open_log`, or by a worker with `loading` and then `adopt`.

Whatever blocks is returned as a function for a worker and touches nothing of the owner's; periodic
work is a plain method that the broker's timer calls. The clean-shutdown marker is removed before
the first log is opened, and written only when every log has been read and flushed.
"""

from __future__ import annotations

from collections.abc import Callable

from odradek.log import meta_properties
from odradek.log.directory_offsets import DirectoryOffsets
from odradek.log.fence import Fence, LogDamaged
from odradek.log.index import LoadedIndexes
from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.log.meta_properties import META_FILE, MetaProperties, WrongDirectory
from odradek.log.new_directory import NewDirectory
from odradek.log.opening import Recovery
from odradek.log.recovery import open_log
from odradek.log.retention import RetentionClock, RetentionPass, delete_old_segments
from odradek.log.segment import LOG_SUFFIX
from odradek.model.env import Disk, Random
from odradek.model.topics import TopicIdPartition, new_uuid, uuid_from_text, uuid_text

LOCK_FILE = ".lock"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
DELETE_SUFFIX = "-delete"
Work = Callable[[], None]


def partition_of(name: str) -> TopicIdPartition | None:
    """The partition a directory's name stands for; None if it is no log's."""
    topic, _, partition = name.rpartition("-")
    if not partition.isdecimal():
        return None
    try:
        return TopicIdPartition(uuid_from_text(topic), int(partition))
    except ValueError:
        return None


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
        self.cache = LoadedIndexes()
        self.logs: dict[TopicIdPartition, Log] = {}
        self.problems: list[str] = []
        self.unreadable: list[tuple[Log, Exception]] = []
        """What the last retention pass met; their partitions are to go offline."""
        self._new = NewDirectory(disk, path, LOCK_FILE)
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
        meta = meta_properties.read(self.disk, self.path)
        if meta is None:
            if any(partition_of(name) for name in self.disk.list(self.path)):
                raise WrongDirectory(
                    f"{self.path} has logs but no {META_FILE}; restore it from a backup"
                )
            cluster = cluster_id if cluster_id is not None else uuid_text(new_uuid(random))
            meta = MetaProperties(cluster, node_id, new_uuid(random))
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
        self.partitions = {key: None for name in names if (key := partition_of(name)) is not None}
        self._leftovers = [name for name in names if name.endswith(DELETE_SUFFIX)]
        self.offsets = DirectoryOffsets(self.disk, self.path, self.fence, self.problems)
        self.offsets.keep_only(self.partitions)

    def take_problems(self) -> list[str]:
        """What was met and is to be told, once."""
        problems, self.problems = self.problems, []
        return problems

    # Logs

    def directory_of(self, key: TopicIdPartition) -> str:
        return f"{self.path}/{key}"

    def get(self, key: TopicIdPartition) -> Log | None:
        """An opened log."""
        return self.logs.get(key)

    def loading(
        self, key: TopicIdPartition, config: LogConfig, now_ms: int
    ) -> Callable[[], tuple[Log, Recovery]]:
        """The work of opening a log, or making a new one. For a worker; hand the log to `adopt`.

        The work raises `LogDamaged`, or `OSError`.
        """
        self.fence.check()
        self._remove_marker()
        directory = self.directory_of(key)
        known, durable = self.offsets.known(key, self.was_clean)
        if key not in self.partitions:
            self.disk.make_directory(directory)
            self.partitions[key] = None

        def work() -> tuple[Log, Recovery]:
            return open_log(
                self.disk,
                directory,
                config,
                self.fence,
                self.cache,
                now_ms=now_ms,
                known=known,
                durable=durable,
            )

        return work

    def _remove_marker(self) -> None:
        """From the first log on. A start that fails before leaves the directory as clean as it
        was.
        """
        if self._marked_clean:
            marker = f"{self.path}/{CLEAN_SHUTDOWN_FILE}"
            if self.disk.exists(marker):  # Else it was removed, and the directory not synced.
                self.disk.remove(marker)
            self.disk.sync_directory(self.path)
            self._marked_clean = False

    def adopt(self, key: TopicIdPartition, log: Log) -> Log:
        """Take over a log that was loaded."""
        mark = self.offsets.high_watermark(key)
        log.high_watermark = max(log.log_start_offset, min(mark, log.log_end_offset))
        self.logs[key] = log
        return log

    def open_log(self, key: TopicIdPartition, config: LogConfig, now_ms: int) -> Log:
        """The log of a partition, opened or made now. Blocks as long as its recovery takes."""
        log = self.logs.get(key)
        if log is None:
            log = self.adopt(key, self.loading(key, config, now_ms)()[0])
        return log

    def delete_log(self, key: TopicIdPartition) -> Work:
        """A partition is gone: its directory is renamed now; the work removes the files."""
        log = self.logs.pop(key, None)
        if log is not None:
            log.abandon()
        source = self.directory_of(key)
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

    def remove_leftovers(self) -> Work:
        """Work: remove what was deleted when the last process ended."""
        leftovers, self._leftovers = self._leftovers, []

        def work() -> None:
            for name in leftovers:
                self.disk.remove_tree(f"{self.path}/{name}")

        return work

    def size_of(self, key: TopicIdPartition) -> int:
        """Bytes of a partition's segments, opened or not."""
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
        """Logs whose recovery point is not at their end: flush them with `checkpoint=True`."""
        return [log for log in self.logs.values() if log.recovery_point < log.log_end_offset]

    def expire_producers(self, monotonic_ms: int) -> int:
        """One pass over all logs; how many producers were forgotten."""
        return sum(
            log.producers.expire(monotonic_ms, log.config.producer_id_expiration_ms)
            for log in self.logs.values()
        )

    def retention(
        self, clock: RetentionClock, wall_ms: int, monotonic_ms: int
    ) -> RetentionPass | None:
        """One pass: what is to be deleted leaves the logs now. None if there is nothing.

        A log that cannot be looked at is one of the `unreadable`; the others have their turn.
        """
        now_ms = clock.now_ms(wall_ms, monotonic_ms)
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

    def close(self, broker_epoch: int = -1, *, flush: bool = True) -> None:
        """A clean stop: flush everything, checkpoint, leave the marker, release the lock. Blocks,
        which thousands of logs should not wait for: see `last_flush`. Not `flush`: without.

        If the directory is fenced, only the lock is released. There is no marker if a log could not
        be opened, and so was not recovered, since the last stop without one, or if not all of a log
        could be written: the next start recovers.
        """
        try:
            for log in self.logs.values():
                log.close(flush=flush)
            if self.fence.failure is None:
                self.checkpoint()()
                if self._all_is_known():
                    marker = f'{{"version":0,"brokerEpoch":{broker_epoch}}}'.encode()
                    self.disk.replace_file(f"{self.path}/{CLEAN_SHUTDOWN_FILE}", marker)
        finally:
            self.release()

    def _all_is_known(self) -> bool:
        recovered = self.was_clean or all(key in self.logs for key in self.partitions)
        return recovered and all(
            log.recovery_point == log.log_end_offset and not log.epochs.dirty
            for log in self.logs.values()
        )

    def release(self) -> None:
        """Let go of the directory and leave it as it is, as a crash would."""
        self.offsets.close()
        self._unlock()

    def abandon(self) -> None:
        """The start has failed: let go, and if the directory is new, leave nothing of it."""
        self._new.discard()
        self.release()
