"""Carries out plans of `replica_plan` on any Kafka cluster, and tells what is done.

A bounded number of partitions is copied at a time. Nothing is kept outside of the cluster: a
command that was interrupted or killed leaves what is under way to the cluster, and the same command
finds it there, waits for it and goes on with the rest.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
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
    from odradek.client.admin.results import LogDirectory

AT_ONCE = 50
LOOK_EVERY_S = 0.5
SAY_EVERY_S = 5.0

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
    racks = {node.id: node.rack for node in client.cluster().nodes if node.id not in cordoned}
    return Planner(racks, placements)


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
    at_once: int,
    *,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Show a plan, ask, and carry it out; then wait for what is under way and elect the preferred
    leaders. Exits with an error if a partition could not be moved."""
    if not is_confirmed(plan, placements, yes=yes, dry_run=dry_run, as_json=as_json):
        return
    moves = Moves(client, at_once, as_json)
    moves.run(plan)
    moves.end()


def is_confirmed(
    plan: Plan,
    placements: Mapping[TopicPartition, Placement],
    *,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> bool:
    """Show a plan and ask for it; say that there is nothing to do if it is empty."""
    if not plan:
        under_way = sum(bool(each.adding or each.removing) for each in placements.values())
        print_stderr(
            f"odradek: nothing is left to plan; {plural(under_way, 'partition')} under way"
            if under_way
            else "odradek: every partition is where it should be"
        )
        return not dry_run
    listing = Listing(("topic", "partition", "replicas", "new_replicas"))
    for key, replicas in plan.items():
        listing.add(key.topic, key.partition, list(placements[key].replicas), list(replicas))
    return confirm(listing, "Move", yes=yes, dry_run=dry_run, as_json=as_json)


class Moves:
    """Carries out plans, `at_once` partitions at a time, and tells what is done.

    `sleep` and `now_s`: the machine's, but for tests.
    """

    def __init__(
        self,
        client: Admin,
        at_once: int,
        as_json: bool,
        sleep: Callable[[float], None] = time.sleep,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.moved = self.failed = 0
        self._client = client
        self._at_once = at_once
        self._as_json = as_json
        self._sleep, self._now_s = sleep, now_s
        self._left: Plan = {}
        self._moving: Plan = {}
        """The partitions under way with the replicas that they will have."""
        self._said_s = now_s()

    def run(self, plan: Plan) -> None:
        """Move everything, and wait for moves that were under way before and those of others."""
        self._left = dict(plan)
        try:
            while self._look():
                self._sleep(LOOK_EVERY_S)
        except (KeyboardInterrupt, SystemExit, KafkaError):
            if self._left or self._moving:
                print_stderr(
                    f"odradek: {self._progress()} go on in the cluster, "
                    f"{plural(len(self._left), 'partition')} not begun. What to do: run the same "
                    "command again, it goes on from there"
                )
            raise

    def run_until_empty(self, plan: Plan, again: Callable[[], Plan]) -> None:
        """Carry out a plan, and what `again` plans then, until that is nothing twice in a row:
        partitions that were being made at the first look are there at the second. Ends with what
        is refused."""
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
        """Note what is done, and begin what may begin; False if everything is done."""
        under_way = self._client.reassignments()
        for key in sorted(self._moving.keys() - under_way.keys()):
            self._done(key, self._moving.pop(key))
        self._begin(under_way)
        for key, move in under_way.items():
            self._moving.setdefault(key, target_of(move))
        if not self._left and not self._moving:
            return False
        self._say(under_way)
        return True

    def _begin(self, under_way: Collection[TopicPartition]) -> None:
        """Begin as many moves as may be under way. One that is under way already gets another
        target at once."""
        room = max(0, self._at_once - len(under_way))
        again = [key for key in self._left if key in under_way]
        others = [key for key in self._left if key not in under_way][:room]
        batch = {key: self._left[key] for key in (*again, *others)}
        if not batch:
            return
        for key, error in self._client.alter_reassignments(batch).items():
            replicas = self._left.pop(key)
            if error is None:
                self._moving[key] = replicas
            else:
                self._refused(key, error)

    def _done(self, key: TopicPartition, replicas: Sequence[int]) -> None:
        self.moved += 1
        if self._as_json:
            report_done(
                "", as_json=True, topic=key.topic, partition=key.partition, replicas=list(replicas)
            )

    def _refused(self, key: TopicPartition, error: KafkaError) -> None:
        self.failed += 1
        print_stderr(f"odradek: {error}")
        if self._as_json:
            report_done(
                "", as_json=True, topic=key.topic, partition=key.partition, error=str(error)
            )

    def _progress(self) -> str:
        total = self.moved + len(self._moving) + len(self._left)
        return (
            f"{self.moved:,} of {plural(total, 'partition')} moved, {len(self._moving):,} under way"
        )

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
        awaited = awaited_brokers(under_way, running)
        for broker_id, count in sorted(awaited.items()):
            verb = "waits" if count == 1 else "wait"
            text += f", {count:,} {verb} for broker {broker_id}, which does not run"
        if awaited:
            text += ": start it, or run this command again, which takes another one if it can"
        return text


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
        f"preferred leaders elected of {plural(len(wrong) - len(errors), 'partition')}",
        as_json=as_json,
        elected=len(wrong) - len(errors),
    )
