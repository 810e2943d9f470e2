"""An application that reads partitions it assigned itself: every record, once, in order, from the
first one on, whatever becomes of the broker meanwhile.

Now and then it has a whim: it pauses partitions for a while (and must get nothing of them), or goes
back to where it has been before, and reads on from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from odradek.client.consumer.record import Record
from odradek.model.topics import TopicPartition
from odradek.testing.client_process import ClientProcess
from odradek.testing.engines.consuming import ConsumingApplication, ConsumingPlan
from odradek.testing.engines.seen import Seen
from odradek.testing.history import History


@dataclass(frozen=True, slots=True)
class AssignedPlan:
    """What it reads, and how often it has whims, per mille of its turns."""

    consuming: ConsumingPlan
    partitions: Sequence[TopicPartition]
    whim_rate: int = 30


class AssignedApplication(ConsumingApplication):
    """`next_offsets`: of the record that has to come next, by partition."""

    def __init__(
        self, side: ClientProcess, history: History, seen: Seen, plan: AssignedPlan
    ) -> None:
        super().__init__(side, history, seen, plan.consuming)
        self.plan = plan
        self.next_offsets = dict.fromkeys(plan.partitions, 0)
        self.calm = False
        """No more whims."""
        self._paused: dict[TopicPartition, None] = {}

    async def work(self) -> None:
        await self.ask(lambda: self.calls.assign(self.plan.partitions))
        while not self.leaving:
            records = await self.take()
            for record in records:
                self._take(record)
            await self.deal_with(records)
            if self._paused if self.calm else self.chance.chance(self.plan.whim_rate):
                await self._whim()

    def _take(self, record: Record[bytes, bytes]) -> None:
        tp, offset = record.topic_partition, record.offset
        if tp in self._paused:
            self.surprise("paused", f"handed {tp}@{offset}, and {tp} is paused")
        if offset != self.next_offsets[tp]:
            self.surprise("skipped", f"handed {tp}@{offset} after {self.next_offsets[tp] - 1}")
        self.next_offsets[tp] = offset + 1
        self.seen.add(self.name, record)

    async def _whim(self) -> None:
        tp = self.chance.pick(self.plan.partitions)
        if self._paused:
            paused, self._paused = list(self._paused), {}
            await self.ask(lambda: self.calls.resume(*paused))
        elif self.chance.chance(500):
            await self.ask(lambda: self.calls.pause(tp))
            self._paused[tp] = None
        else:
            to = self.chance.between(0, self.next_offsets[tp])
            await self.ask(lambda: self.calls.seek(tp, to))
            self.next_offsets[tp] = to

    def lag(self, ends: Mapping[TopicPartition, int]) -> list[str]:
        """Where it is not at the end yet, for a report."""
        return [
            f"{self.name}: {tp} at {offset} of {ends[tp]}"
            for tp, offset in self.next_offsets.items()
            if offset < ends[tp]
        ]
