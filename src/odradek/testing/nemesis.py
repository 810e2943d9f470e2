"""Injects the faults of a plan into a machine and its network, and undoes them.

Each kind of fault is a method. A fault with a length is undone after it; a fault that takes the
broker down restarts it after it. `heal` ends all faults: no more errors, an ordinary disk, an
ordinary network for new connections (old ones stay as they are; clients have deadlines), and a
running broker.

Two faults flip a bit of the disk, chosen so that the outcome is known:

    durable bit   of a batch that recovery reads and that was durable: between the recovery point
                  and the durable end in `durable-ends`. The broker must notice at its next start
                  and take that partition offline. Not the leader epoch, which no checksum covers.
    derived bit   of an index or a producer snapshot. Only speed may depend on these.

Recovery does not read bytes before the recovery point. A bit flipped there is found by the reader
of the batch who checks its CRC: clients do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from odradek.log.durable_ends import DURABLE_ENDS_FILE, DurableEnd, DurableEnds
from odradek.log.log_directory import CLEAN_SHUTDOWN_FILE
from odradek.log.memory_disk import MemoryDisk
from odradek.model.topics import TopicIdPartition
from odradek.protocol import record_batch
from odradek.protocol.record_batch import RecordBatchHeader
from odradek.testing.disk import SimDisk
from odradek.testing.history import Fault
from odradek.testing.machine import DATA_DIRECTORY, SimMachine
from odradek.testing.prng import SplitMix64
from odradek.testing.process import DelayRanges
from odradek.testing.scheduler import MS
from odradek.testing.transport import Link
from odradek.testing.workload.schedule import CLUSTER_FAULTS, LINK_FAULTS, FaultPlan

OTHERS = LINK_FAULTS + CLUSTER_FAULTS
"""What does not hit one machine."""
MAX_SKEW_MS = 3_000_000
"""Less than the hour by which a record's timestamp may be ahead of the broker's clock."""
MAX_DRIFT_PPM = 50_000
SLOW_PACE = DelayRanges(
    delay_ns=(20 * MS, 400 * MS), slow_delay_ns=(400 * MS, 2_500 * MS), slow_rate=300
)


@dataclass(slots=True, eq=False)
class Nemesis:
    """Injects the faults of plans into one machine."""

    machine: SimMachine
    chance: SplitMix64
    healed: bool = False
    power_after_acks: int | None = None
    crash_client: Callable[[int], None] = lambda number: None
    damaged: Callable[[TopicIdPartition], None] = lambda key: None
    """Called when a durable byte of this partition was changed."""
    _normal_pace: DelayRanges = field(init=False)

    def __post_init__(self) -> None:
        self._normal_pace = self.machine.pace

    def plan(self, faults: Sequence[FaultPlan]) -> None:
        """Schedule the faults of this machine; those of links are left alone."""
        for fault in faults:
            if fault.machine != self.machine.number or fault.kind in OTHERS:
                continue
            self.machine.scheduler.at(fault.at_ns, "nemesis", fault.kind, self._task(fault))

    def _task(self, fault: FaultPlan) -> Callable[[], None]:
        return lambda: None if self.healed else self.inject(fault)

    def inject(self, fault: FaultPlan) -> None:
        """Inject a fault now."""
        machine = self.machine
        machine.scheduler.reach(f"fault: {fault.kind}")
        machine.history.faults.append(
            Fault(machine.scheduler.now_ns, f"nemesis: {fault.kind}", machine.host)
        )
        actions: dict[str, Callable[[FaultPlan], None]] = {
            "kill": self._kill,
            "power loss": self._power_loss,
            "crash point": self._crash_point,
            "power loss at a crash point": self._crash_point,
            "power loss after an ack": self._power_after_ack,
            "cut": self._cut,
            "half open": self._half_open,
            "stall": self._stall,
            "pause": self._pause,
            "owner stall": self._owner_stall,
            "clock drift": self._clock_drift,
            "slow disk": self._slow_disk,
            "fsync error": self._fsync_error,
            "read error": self._read_error,
            "write error": self._write_error,
            "disk full": self._disk_full,
            "clock jump": self._clock_jump,
            "stop": self._stop,
            "stop and unplug": self._stop_and_unplug,
            "client crash": lambda fault: self.crash_client(fault.number),
            "bit flip": self._bit_flip,
            "index bit flip": self._index_bit_flip,
        }
        actions[fault.kind](fault)

    def heal(self) -> None:
        """End all faults, and start the broker if it is down."""
        self.healed = True
        machine = self.machine
        machine.faults.heal()
        machine.faults.crash_after_effects = None
        machine.set_pace(DelayRanges())
        machine.clock.set_drift(0)
        machine.fabric.link = Link()
        self.power_after_acks = None
        machine.boot()

    def acked(self) -> None:
        """Handle an acknowledgement to a client: some plans fail the power after one."""
        if self.power_after_acks is None:
            return
        self.power_after_acks -= 1
        if self.power_after_acks <= 0:
            self.power_after_acks = None
            self.machine.scheduler.after(
                self.chance.between(0, 100_000), "nemesis", "power", self._power_now
            )

    # Ends of the process.

    def _kill(self, fault: FaultPlan) -> None:
        self.machine.kill()
        self.machine.restart(fault.length_ns)

    def _power_loss(self, fault: FaultPlan) -> None:
        self.machine.power_loss()
        self.machine.restart(fault.length_ns)

    def _power_now(self) -> None:
        self.machine.power_loss()
        self.machine.restart(self.chance.between(1, 2000) * MS)

    def _crash_point(self, fault: FaultPlan) -> None:
        self.machine.power_on_crash = fault.kind.startswith("power")
        self.machine.faults.crash_after_effects = fault.number % 12

    def _power_after_ack(self, fault: FaultPlan) -> None:
        self.power_after_acks = 1 + fault.number % 10

    def _pause(self, fault: FaultPlan) -> None:
        process = self.machine.process
        if process is not None:
            process.paused_until_ns = self.machine.scheduler.now_ns + fault.length_ns

    def _owner_stall(self, fault: FaultPlan) -> None:
        process = self.machine.process
        if process is not None:
            process.stalled_until_ns = self.machine.scheduler.now_ns + fault.length_ns

    def _stop(self, fault: FaultPlan) -> None:
        self._stop_then(fault, lambda clean: None)

    def _stop_and_unplug(self, fault: FaultPlan) -> None:
        """Stop, then fail the power: everything survives a clean stop. A stop that was not clean
        leaves no marker, and may lose data.
        """

        def unplug(ended: bool) -> None:
            marker = self.machine.disk.content(f"{DATA_DIRECTORY}/{CLEAN_SHUTDOWN_FILE}")
            if not (ended and marker):
                self.machine.history.lose_power(self.machine.scheduler.now_ns)
            self.machine.unplug()

        self._stop_then(fault, unplug)

    def _stop_then(self, fault: FaultPlan, act: Callable[[bool], None]) -> None:
        def ended(by_itself: bool) -> None:
            act(by_itself)
            self.machine.restart(fault.length_ns)

        patience_ns = self.chance.pick((10 * MS, 2_000 * MS, 60_000 * MS))
        self.machine.stop(patience_ns, ended)

    # Network.

    def _cut(self, fault: FaultPlan) -> None:
        for connection in self.machine.fabric.connections():
            if self.chance.chance(600):
                connection.reset()

    def _half_open(self, fault: FaultPlan) -> None:
        for connection in self.machine.fabric.connections():
            way = self.chance.below(4)
            connection.blackhole(to_server=way in (0, 2), to_client=way in (1, 2))

    def _stall(self, fault: FaultPlan) -> None:
        until_ns = self.machine.scheduler.now_ns + fault.length_ns
        for connection in self.machine.fabric.connections():
            if self.chance.chance(600):
                connection.stall(until_ns)

    # Disk and clock.

    def _bit_flip(self, fault: FaultPlan) -> None:
        """Flip a durable bit. `durable-ends` is synced first, as it is within a minute: nothing is
        guaranteed for damage and a power failure within that minute.
        """
        self.machine.kill()
        self.machine.disk.sync_file(f"{DATA_DIRECTORY}/{DURABLE_ENDS_FILE}")
        key = flip_durable_bit(self.machine.disk, DATA_DIRECTORY, self.chance)
        if key is not None:
            self.damaged(key)
        self.machine.restart(fault.length_ns)

    def _index_bit_flip(self, fault: FaultPlan) -> None:
        self.machine.kill()
        flip_derived_bit(self.machine.disk, DATA_DIRECTORY, self.chance)
        self.machine.restart(fault.length_ns)

    def _slow_disk(self, fault: FaultPlan) -> None:
        self.machine.set_pace(SLOW_PACE)
        self._undo_later(fault, lambda: self.machine.set_pace(self._normal_pace))

    def _fsync_error(self, fault: FaultPlan) -> None:
        self.machine.faults.sync_error_rate = 500
        self._restart_after(fault)

    def _read_error(self, fault: FaultPlan) -> None:
        self.machine.faults.read_error_rate = 200
        self._restart_after(fault)

    def _write_error(self, fault: FaultPlan) -> None:
        self.machine.faults.write_error_rate = 200
        self._restart_after(fault)

    def _disk_full(self, fault: FaultPlan) -> None:
        self.machine.faults.full = True
        self._undo_later(fault, self.machine.faults.heal)

    def _restart_after(self, fault: FaultPlan) -> None:
        """Heal the disk after the fault and restart the broker or the machine, as an operator
        would."""

        def operator() -> None:
            self.machine.faults.heal()
            end = self.machine.power_loss if fault.number % 2 else self.machine.kill
            end()
            self.machine.restart(self.chance.between(1, 500) * MS)

        self._undo_later(fault, operator)

    def _clock_jump(self, fault: FaultPlan) -> None:
        skew_ms = self.chance.between(-MAX_SKEW_MS, MAX_SKEW_MS)
        self.machine.clock.wall_skew_ms = skew_ms

    def _clock_drift(self, fault: FaultPlan) -> None:
        self.machine.clock.set_drift(self.chance.between(-MAX_DRIFT_PPM, MAX_DRIFT_PPM))

    def _undo_later(self, fault: FaultPlan, undo: Callable[[], None]) -> None:
        scheduler = self.machine.scheduler

        def end() -> None:
            if not self.healed:
                undo()

        scheduler.after(fault.length_ns, "nemesis", f"end of {fault.kind}", end)


LEADER_EPOCH = range(12, 16)
DERIVED = (".index", ".timeindex", ".snapshot")


def flip_durable_bit(disk: SimDisk, directory: str, chance: SplitMix64) -> TopicIdPartition | None:
    """Flip a bit of a durable batch, while no broker runs. Returns the partition, or None."""
    candidates = [
        (key, path, header)
        for key, end in durable_ends(disk, directory)
        for path, header in recovered_batches(disk, directory, key, end)
    ]
    if not candidates:
        return None
    key, path, header = chance.pick(candidates)
    at = chance.below(header.size)
    while at in LEADER_EPOCH:
        at = chance.below(header.size)
    disk.flip_bit(path, 8 * (header.position + at) + chance.below(8))
    return key


def durable_ends(disk: SimDisk, directory: str) -> list[tuple[TopicIdPartition, DurableEnd]]:
    """Return the entries of `durable-ends`, in a fixed order."""
    content = disk.content(f"{directory}/{DURABLE_ENDS_FILE}")
    copy = MemoryDisk()
    copy.make_directory("/copy")
    copy.replace_file(f"/copy/{DURABLE_ENDS_FILE}", content)
    ends = DurableEnds(copy, "/copy")
    found = [(key, ends.get(key)) for key in sorted(ends.partitions())]
    return [(key, end) for key, end in found if end is not None]


def recovered_batches(
    disk: SimDisk, directory: str, key: TopicIdPartition, end: DurableEnd
) -> list[tuple[str, RecordBatchHeader]]:
    """Return the batches of a log between its recovery point and its durable end."""
    found = []
    for path in disk.paths():
        if path.startswith(f"{directory}/{key}/") and path.endswith(".log"):
            found += [
                (path, header)
                for header in sound_batches(disk.content(path))
                if end.recovery_point <= header.base_offset and header.next_offset <= end.offset
            ]
    return found


def sound_batches(data: bytes) -> list[RecordBatchHeader]:
    """Return the batches up to the first that is damaged or torn."""
    found: list[RecordBatchHeader] = []
    with suppress(record_batch.CorruptBatch):
        found.extend(record_batch.batches(data))
    return found


def flip_derived_bit(disk: SimDisk, directory: str, chance: SplitMix64) -> str | None:
    """Flip a bit of a derived file, while no broker runs. Returns its path, or None."""
    paths = [
        path
        for path in disk.paths()
        if path.startswith(f"{directory}/")
        and path.endswith(DERIVED)
        and "__cluster_metadata" not in path
        and disk.content(path)
    ]
    if not paths:
        return None
    path = chance.pick(paths)
    disk.flip_bit(path, chance.below(8 * len(disk.content(path))))
    return path
