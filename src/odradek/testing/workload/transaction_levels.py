"""The finalized level of `transaction.version`, which an operator of a simulated cluster sets.

    a new cluster has 2 ──► down to the first level ──► clients begin ──► up or down, at some times
                            (UpdateFeatures, as `kafka-features.sh` asks for it)

Most worlds keep 2. In the others transactional clients that know version 2 ask for the level, and
follow it (`transactional_producer`); our own clients do so anyhow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from odradek.controller.features import (
    TRANSACTION_VERSION,
    TRANSACTION_VERSION_FEATURE,
    UpgradeType,
)
from odradek.model.errors import ErrorCode
from odradek.protocol.api.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from odradek.testing.history import History
from odradek.testing.prng import SplitMix64
from odradek.testing.scheduler import MS
from odradek.testing.workload.cluster_client import ClusterClient

UPDATE_VERSION = 2
RETRY_MS = (20, 600)
COURSES = ((1,), (1,), (0,), (1, 2), (1, 2), (1, 2), (0, 2), (0, 1, 2), (2, 1), (2, 1, 2))
"""The levels that a world has one after the other, if it has others than the newest."""


@dataclass(frozen=True, slots=True)
class LevelChange:
    """Another level, some time after the first transactions may begin."""

    after_ns: int
    level: int


@dataclass(frozen=True, slots=True)
class LevelsPlan:
    """The level that clients find when they begin, and how it changes then."""

    first: int = TRANSACTION_VERSION
    changes: Sequence[LevelChange] = ()

    @property
    def is_newest(self) -> bool:
        """True if the level is always that of new clusters."""
        return self.first == TRANSACTION_VERSION and not self.changes

    def parts(self) -> list[str]:
        """Return the names of the optional parts."""
        return [f"level{number}" for number in range(len(self.changes))]

    def keeping(self, parts: Sequence[str]) -> LevelsPlan:
        """Return the plan with these of its optional parts only."""
        kept = [each for number, each in enumerate(self.changes) if f"level{number}" in parts]
        return replace(self, changes=kept)


NEWEST_LEVEL = LevelsPlan()


def draw_levels(chance: SplitMix64, horizon_ns: int) -> LevelsPlan:
    """Draw the levels of a seed."""
    if chance.chance(500):
        return NEWEST_LEVEL
    first, *others = chance.pick(COURSES)
    times = sorted(chance.between(0, horizon_ns) for _ in others)
    changes = [LevelChange(after, level) for after, level in zip(times, others, strict=True)]
    return LevelsPlan(first, changes)


@dataclass(slots=True, eq=False)
class SimLevelSetter:
    """Brings a cluster to the levels of a plan; calls `ready` when it has the first one."""

    client: ClusterClient
    history: History
    plan: LevelsPlan
    ready: Callable[[], None]
    level: int = TRANSACTION_VERSION
    """The last one that was acknowledged."""
    _wanted: list[LevelChange] = field(default_factory=list)

    def start(self) -> None:
        if self.plan.first == self.level:
            self.ready()
        else:
            self._want(LevelChange(0, self.plan.first))

    def begin_changes(self) -> None:
        """Change the level at the plan's times from now on."""
        for change in self.plan.changes:
            self.client.process.post(change.after_ns, "level", partial(self._want, change))

    def _want(self, change: LevelChange) -> None:
        self._wanted.append(change)
        if len(self._wanted) == 1:
            self._ask()

    def _ask(self) -> None:
        level = self._wanted[0].level
        way = UpgradeType.SAFE_DOWNGRADE if level < self.level else UpgradeType.UPGRADE
        update = FeatureUpdateKey(
            feature=TRANSACTION_VERSION_FEATURE, max_version_level=level, upgrade_type=way
        )
        request = UpdateFeaturesRequest(feature_updates=[update], timeout_ms=3_000)

        def answered(response: UpdateFeaturesResponse) -> None:
            error = ErrorCode(response.error_code)
            self._reach(f"level {level} {error.name}")
            if error is ErrorCode.NONE:
                self._have(self._wanted.pop(0))
                return
            if error is ErrorCode.INVALID_UPDATE_VERSION:
                self.history.surprise("refused", f"level {level}: {response.error_message}")
            self._again()

        self.client.call(request, UPDATE_VERSION, UpdateFeaturesResponse, answered, self._again)

    def _again(self) -> None:
        delay_ms = self.client.chance.between(*RETRY_MS)
        self.client.process.post(delay_ms * MS, "level", self._ask)

    def _have(self, change: LevelChange) -> None:
        self.level = change.level
        if self._wanted:
            self._ask()
        if change not in self.plan.changes:
            self.ready()

    def _reach(self, what: str) -> None:
        self.client.process.scheduler.reach(f"transaction: {what}")
