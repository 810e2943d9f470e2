"""Carries out plans of `replica_plan` on any Kafka cluster, and tells what is done.

A bounded number of partitions is copied at a time. Nothing is kept outside of the cluster: a
command that was interrupted or killed leaves what is under way to the cluster, and the same command
finds it there, waits for it and goes on with the rest.

A command waits for the moves of its plan, and for those that it covers: the ones that it would plan
again. It leaves all others alone.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

import click

from odradek.cli.options import confirm
from odradek.cli.output import Listing, plural, print_stderr, report_done
from odradek.cli.replica_plan import Placement, Plan, Planner
from odradek.client.admin.results import Reassignment
from odradek.client.errors import KafkaError
from odradek.model.topics import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from odradek import Admin
    from odradek.client.admin.results import LogDirectory, Topic

Covers = Callable[[TopicPartition, Collection[int]], bool]
"""True for a move that a command waits for, by the partition and by the brokers that have a replica
or will have one."""

AT_ONCE = 50
LOOK_EVERY_S = 0.5
SAY_EVERY_S = 5.0
LOOKS_UNTIL_GIVEN_UP = 10
"""How often a move is found changed, or ended elsewhere, before it counts as given up: the node
that is asked may be behind the controller."""

AT_ONCE_OPTION = click.option(
    "--at-once",
    type=click.IntRange(1, 10_000),
    default=AT_ONCE,
    show_default=True,
    help="How many partitions are copied at a time.",
)


def present_placements(client: Admin) -> dict[TopicPartition, Placement]:
    """Return where all replicas are, or will be when the moves that are under way are done."""
    moving = client.reassignments()
    placements = {}
    for topic in client.topics(internal=True):
        for each in topic.partitions:
            key = TopicPartition(topic.name, each.partition)
            placement = Placement(each.replicas, each.leader, each.isr)
            if key in moving:
                move = moving[key]
                placement = Placement(
                    target_of(move), each.leader, each.isr, move.adding, move.removing
                )
            placements[key] = placement
    return placements


def target_of(move: Reassignment) -> tuple[int, ...]:
    """Return the replicas that a partition will have."""
    return tuple(each for each in move.replicas if each not in move.removing)


def planner(client: Admin, placements: Mapping[TopicPartition, Placement]) -> Planner:
    """Return a planner over the brokers that run and are not cordoned."""
    cordoned = cordoned_among(client.log_dirs())
    racks = {node.id: node.rack for node in client.cluster().nodes}
    open_racks = {each: rack for each, rack in racks.items() if each not in cordoned}
    return Planner(open_racks, placements, cordoned & racks.keys())


def cordoned_among(found: Mapping[int, Sequence[LogDirectory]]) -> set[int]:
    """Return the brokers that take no new partitions, from their data directories."""
    return {
        broker
        for broker, directories in found.items()
        if directories and all(each.is_cordoned for each in directories)
    }


def carry_out(
    client: Admin,
    plan: Plan,
    placements: Mapping[TopicPartition, Placement],
    covers: Covers,
    at_once: int,
    *,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Show a plan, ask, and carry it out; then wait for what it covers and elect the preferred
    leaders. Exits with an error if a partition could not be moved."""
    if not is_confirmed(plan, placements, covers, yes=yes, dry_run=dry_run, as_json=as_json):
        return
    moves = Moves(client, at_once, as_json, covers)
    moves.run(plan)
    moves.end()


def is_confirmed(
    plan: Plan,
    placements: Mapping[TopicPartition, Placement],
    covers: Covers,
    *,
    yes: bool,
    dry_run: bool,
    as_json: bool,
    cordons: int | None = None,
) -> bool:
    """Show a plan and ask for it; say that there is nothing to do if it is empty. `cordons`: the
    broker that is cordoned first."""
    if not plan and cordons is None:
        under_way = sum(
            bool(each.adding or each.removing) and covers(key, each.holders)
            for key, each in placements.items()
        )
        print_stderr(
            f"odradek: nothing is left to plan; {plural(under_way, 'partition')} under way"
            if under_way
            else "odradek: every partition is where it should be"
        )
        return not dry_run
    listings, verb = [], "Move"
    if cordons is not None:
        steps = Listing(("step", "broker"))
        steps.add("cordon", cordons)
        listings, verb = [steps], "Cordon and move" if plan else "Cordon"
    if plan:
        moves = Listing(("topic", "partition", "replicas", "new_replicas"))
        for key, replicas in plan.items():
            moves.add(key.topic, key.partition, list(placements[key].replicas), list(replicas))
        listings.append(moves)
    return confirm(listings, verb, yes=yes, dry_run=dry_run, as_json=as_json)


class Moves:
    """Carries out plans, `at_once` partitions at a time, and tells what is done.

    `covers`: the moves to wait for besides its own. `sleep` and `now_s`: the machine's, but for
    tests.
    """

    def __init__(
        self,
        client: Admin,
        at_once: int,
        as_json: bool,
        covers: Covers,
        sleep: Callable[[float], None] = time.sleep,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.moved = self.failed = 0
        self._client = client
        self._at_once = at_once
        self._as_json = as_json
        self._covers = covers
        self._sleep, self._now_s = sleep, now_s
        self._left: Plan = {}
        self._moving: Plan = {}
        """The partitions that are awaited, with the replicas that they will have."""
        self._own: set[TopicPartition] = set()
        """The awaited partitions whose move this command has begun."""
        self._looks: Counter[TopicPartition] = Counter()
        """How often a partition was found with another target, or elsewhere at the end."""
        self._said_s = now_s()

    def run(self, plan: Plan) -> None:
        """Move everything, and wait for the moves that are covered."""
        self._left = dict(plan)
        try:
            while self._look():
                self._sleep(LOOK_EVERY_S)
        except (KeyboardInterrupt, SystemExit, KafkaError):
            if self._left or self._moving:
                goes_on = " go on in the cluster" if self._moving else ""
                print_stderr(
                    f"odradek: {self._progress()}{goes_on}, "
                    f"{plural(len(self._left), 'partition')} not begun. What to do: run the same "
                    "command again, it goes on from there"
                )
            raise

    def run_until_empty(self, plan: Plan, again: Callable[[], Plan]) -> None:
        """Carry out a plan, and what `again` plans then, until that is nothing twice in a row:
        partitions that were being made at the first look are there at the second. Ends with what
        is refused or given up."""
        nothing = 0
        while nothing < 2 and not self.failed:
            self.run(plan)
            self._sleep(LOOK_EVERY_S)
            plan = again()
            nothing = 0 if plan else nothing + 1

    def end(self) -> None:
        """Elect the preferred leaders. Exits with an error if a partition could not be moved."""
        elect_preferred(self._client, self._as_json)
        if self.failed:
            raise click.ClickException(
                f"{plural(self.failed, 'partition')} could not be moved. What to do: see above, "
                "then run the command again"
            )
        if self.moved:
            print_stderr(f"odradek: {plural(self.moved, 'partition')} moved")

    def _look(self) -> bool:
        """Note what has ended, and begin what may begin; False if everything is done."""
        under_way = self._client.reassignments()
        self._note_changed(under_way)
        self._note_ended(under_way)
        awaited = {
            key: move
            for key, move in under_way.items()
            if key in self._moving or key in self._left or self._covers(key, move.replicas)
        }
        self._begin(awaited)
        for key in awaited.keys() - self._own:
            self._moving[key] = target_of(awaited[key])
        if not self._left and not self._moving:
            return False
        self._say(awaited)
        return True

    def _note_changed(self, under_way: Mapping[TopicPartition, Reassignment]) -> None:
        """Give up the moves to which another has given another target."""
        for key in sorted(self._moving.keys() & under_way.keys()):
            target = target_of(under_way[key])
            if key not in self._own and not self._covers(key, under_way[key].replicas):
                self._forget(key)
            elif key not in self._own or set(target) == set(self._moving[key]):
                del self._looks[key]
            elif self._looks[key] < LOOKS_UNTIL_GIVEN_UP:
                self._looks[key] += 1
            else:
                self._give_up(key, f"is being moved to {brokers_text(target)}")

    def _note_ended(self, under_way: Collection[TopicPartition]) -> None:
        """Note which of the moves that are not under way any more have reached their target."""
        ended = sorted(self._moving.keys() - set(under_way))
        if not ended:
            return
        present = present_replicas(self._client.topics(internal=True))
        for key in ended:
            replicas = present.get(key)
            if replicas is not None and set(replicas) == set(self._moving[key]):
                self._done(key)
            elif self._looks[key] < LOOKS_UNTIL_GIVEN_UP:
                self._looks[key] += 1
            elif replicas is None:
                self._forget(key)
                print_stderr(f"odradek: {key} does not exist any more")
            else:
                self._give_up(key, f"is on {brokers_text(replicas)}")

    def _begin(self, awaited: Mapping[TopicPartition, Reassignment]) -> None:
        """Begin as many moves as may be under way. One that is under way already gets another
        target at once."""
        again = [key for key in self._left if key in awaited]
        others = [key for key in self._left if key not in awaited]
        others = others[: self._room(awaited)] if others else others
        batch = {key: self._left[key] for key in (*again, *others)}
        if not batch:
            return
        for key, error in self._client.alter_reassignments(batch).items():
            replicas = self._left.pop(key)
            if error is None:
                self._moving[key] = replicas
                self._own.add(key)
            else:
                self._refused(key, error)

    def _room(self, awaited: Mapping[TopicPartition, Reassignment]) -> int:
        """Return how many moves may begin. Those of others that wait for a broker which does not
        run take no place: they may wait without end."""
        room = self._at_once - len(awaited)
        of_others = {key: move for key, move in awaited.items() if key not in self._own}
        if room <= 0 and of_others:
            running = {node.id for node in self._client.cluster().nodes}
            room += sum(bool(awaited_brokers({key: of_others[key]}, running)) for key in of_others)
        return max(0, room)

    def _done(self, key: TopicPartition) -> None:
        self.moved += 1
        replicas = self._forget(key)
        if self._as_json:
            report_done(
                "", as_json=True, topic=key.topic, partition=key.partition, replicas=list(replicas)
            )

    def _give_up(self, key: TopicPartition, where: str) -> None:
        """Tell of a move that another has cancelled or changed; one of this command's has failed
        then."""
        is_own = key in self._own
        text = (
            f"{key} was to be on {brokers_text(self._forget(key))}, and {where}: its move was "
            "cancelled or changed"
        )
        if is_own:
            self._refused(key, text)
        else:
            print_stderr(f"odradek: {text}")

    def _forget(self, key: TopicPartition) -> Sequence[int]:
        self._own.discard(key)
        del self._looks[key]
        return self._moving.pop(key)

    def _refused(self, key: TopicPartition, error: KafkaError | str) -> None:
        self.failed += 1
        print_stderr(f"odradek: {error}")
        if self._as_json:
            report_done(
                "", as_json=True, topic=key.topic, partition=key.partition, error=str(error)
            )

    def _progress(self) -> str:
        total = self.moved + len(self._moving) + len(self._left)
        under_way = f"{len(self._moving):,}" if self._moving else "none"
        return f"{self.moved:,} of {plural(total, 'partition')} moved, {under_way} under way"

    def _say(self, under_way: Mapping[TopicPartition, Reassignment]) -> None:
        now_s = self._now_s()
        if now_s - self._said_s >= SAY_EVERY_S:
            self._said_s = now_s
            print_stderr(
                f"odradek: {self._progress()}{self._details(under_way)} "
                "(Ctrl-C leaves those to the cluster)"
            )

    def _details(self, under_way: Mapping[TopicPartition, Reassignment]) -> str:
        try:
            running = {node.id for node in self._client.cluster().nodes}
            directories = self._client.log_dirs()
        except KafkaError:
            return ""  # A broker that restarts; only the progress would need it.
        sizes = {
            broker_id: {key: size for each in found for key, size in each.replicas.items()}
            for broker_id, found in directories.items()
        }
        copied, whole = copied_bytes(under_way, sizes)
        text = f", {copied / 1e6:,.0f} of {whole / 1e6:,.0f} MB copied" if whole else ""
        return text + waiting_text(under_way, running, self._covers)


def brokers_text(replicas: Iterable[int]) -> str:
    """Name the brokers of replicas."""
    return ", ".join(str(each) for each in replicas)


def present_replicas(topics: Iterable[Topic]) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the replicas of all partitions."""
    return {
        TopicPartition(topic.name, each.partition): each.replicas
        for topic in topics
        for each in topic.partitions
    }


def waiting_text(
    under_way: Mapping[TopicPartition, Reassignment], running: Collection[int], covers: Covers
) -> str:
    """Name the stopped brokers that moves wait for, and the command that takes another one where a
    partition is only being copied there."""
    awaited = awaited_brokers(under_way, running)
    if not awaited:
        return ""
    text = ""
    for broker_id, count in sorted(awaited.items()):
        verb = "waits" if count == 1 else "wait"
        text += f", {count:,} {verb} for broker {broker_id}, which does not run"
    text += ": start it" if len(awaited) == 1 else ": start them"
    copied = [key for key, move in under_way.items() if not set(move.adding).issubset(running)]
    if not copied:
        return text
    if all(covers(key, under_way[key].replicas) for key in copied):
        return f"{text}, or run this command again, which takes another one if it can"
    return f"{text}, or run odradek cluster grow -r 1, which takes another one if it can"


def awaited_brokers(
    under_way: Mapping[TopicPartition, Reassignment], running: Collection[int]
) -> Counter[int]:
    """Count the moves that wait for each broker that does not run: it is to copy the partition, or
    no other has what is to be copied.
    """
    awaited: Counter[int] = Counter()
    for move in under_way.values():
        sources = set(move.replicas).difference(move.adding)
        stopped = set(move.adding).difference(running)
        if sources.isdisjoint(running):
            stopped |= sources
        awaited.update(stopped)
    return awaited


def copied_bytes(
    under_way: Mapping[TopicPartition, Reassignment],
    sizes: Mapping[int, Mapping[TopicPartition, int]],
) -> tuple[int, int]:
    """The bytes that new replicas have, and those that they will have. `sizes`: of the replicas of
    each broker.
    """
    copied = whole = 0
    for key, move in under_way.items():
        known = {broker_id: sizes.get(broker_id, {}).get(key, 0) for broker_id in move.replicas}
        most = max(known.values(), default=0)
        whole += most * len(move.adding)
        copied += sum(known.get(broker_id, 0) for broker_id in move.adding)
    return copied, whole


def elect_preferred(client: Admin, as_json: bool) -> None:
    """Elect the preferred leader of each partition that another one leads."""
    wrong = [
        TopicPartition(topic.name, each.partition)
        for topic in client.topics(internal=True)
        for each in topic.partitions
        if each.leader != each.replicas[0] and each.replicas[0] in each.isr
    ]
    if not wrong:
        return
    errors = [error for error in client.elect_leaders(wrong).values() if error is not None]
    for error in errors:
        print_stderr(f"odradek: {error}")
    report_done(
        f"odradek: preferred leaders elected of {plural(len(wrong) - len(errors), 'partition')}",
        as_json=as_json,
        elected=len(wrong) - len(errors),
    )
