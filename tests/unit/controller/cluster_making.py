"""Images with brokers and topics, requests, and an environment that a test steps."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast
from uuid import UUID

from odradek.config.broker import BrokerConfig
from odradek.controller.brokers import bootstrap, register_broker
from odradek.controller.image import Endpoint, MetadataImage
from odradek.controller.topics import create_topics
from odradek.log.memory_disk import MemoryDisk
from odradek.model.env import Disk, Env, Network
from odradek.protocol.api.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)

T = TypeVar("T")
CLUSTER = "a-cluster"
CONFIG = BrokerConfig()


def broker_records(
    image: MetadataImage,
    broker_id: int,
    *,
    epoch: int = 0,
    rack: str | None = None,
    clean: bool = True,
) -> list[object]:
    """Return the records that register a broker with one directory."""
    return register_broker(
        image,
        broker_id,
        epoch=epoch,
        incarnation_id=UUID(int=1000 + broker_id),
        endpoints=[Endpoint("PLAINTEXT", "127.0.0.1", 9000 + broker_id, 0)],
        rack=rack,
        log_dirs=[UUID(int=2000 + broker_id)],
        clean=clean,
    ).records


def replay_all(image: MetadataImage, records: Sequence[object]) -> MetadataImage:
    """Replay the records and return the same image."""
    for record in records:
        image.replay(record)
    return image


def an_image(*broker_ids: int, racks: dict[int, str] | None = None) -> MetadataImage:
    """Make an image with these brokers, or one, and no topics."""
    image = MetadataImage(CLUSTER)
    replay_all(image, bootstrap(image, CONFIG))
    for broker_id in broker_ids or (1,):
        rack = (racks or {}).get(broker_id)
        replay_all(image, broker_records(image, broker_id, rack=rack))
    return image


def a_topic(
    name: str,
    partitions: int = -1,
    factor: int = -1,
    *,
    assignments: dict[int, list[int]] | list[tuple[int, list[int]]] | None = None,
    configs: dict[str, str | None] | None = None,
) -> CreatableTopic:
    """Make one topic of a request."""
    pairs = list(assignments.items()) if isinstance(assignments, dict) else assignments or []
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=number, broker_ids=brokers)
            for number, brokers in pairs
        ],
        configs=[
            CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
        ],
    )


def create(
    image: MetadataImage,
    *topics: CreatableTopic,
    validate_only: bool = False,
    config: BrokerConfig = CONFIG,
) -> dict[str, CreatableTopicResult]:
    """Decide, replay, and return the results by topic name."""
    request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    decision = create_topics(image, request, config, random.Random(7))
    replay_all(image, decision.records)
    return {result.name: result for result in decision.response.topics}


@dataclass(slots=True)
class SteppedClock:
    """Both clocks, with the time that a test sets."""

    now_ms: int = 1_700_000_000_000

    def monotonic_ms(self) -> int:
        return self.now_ms

    def monotonic_ns(self) -> int:
        return self.monotonic_ms() * 1_000_000

    def wall_ms(self) -> int:
        return self.now_ms


@dataclass(slots=True)
class SteppedOffload:
    """Work that runs when the test steps."""

    waiting: deque[Callable[[], None]] = field(default_factory=deque)

    def submit(
        self,
        work: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        def run() -> None:
            try:
                result = work()
            except Exception as error:
                failed(error)
            else:
                done(result)

        self.waiting.append(run)


class SteppedEnv:
    """An environment in which work runs only in `step` and `run_until_idle`."""

    def __init__(self, disk: Disk | None = None) -> None:
        self.clock = SteppedClock()
        self.offload = SteppedOffload()
        self.disk = disk if disk is not None else MemoryDisk()
        self.soon: deque[Callable[[], None]] = deque()
        self.env = Env(
            clock=self.clock,
            random=random.Random(3),
            network=cast("Network", cast("Any", None)),
            disk=self.disk,
            offload=self.offload,
            call_soon=self.soon.append,
        )

    def end_event(self) -> None:
        """Run what the owner thread runs after each event."""
        while self.soon:
            self.soon.popleft()()

    def step(self) -> bool:
        """Run one piece of work; return False if there is none."""
        self.end_event()
        if not self.offload.waiting:
            return False
        self.offload.waiting.popleft()()
        self.end_event()
        return True

    def run_until_idle(self) -> None:
        """Step until there is no work."""
        while self.step():
            pass
