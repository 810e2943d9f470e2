"""Which topics a client wants to know about.

A producer's topics are those it has used lately: each use keeps one for another five minutes. A
consumer's are those it is subscribed to, for as long as it is, or all there are (for patterns).
New ones are asked for alone, so that a client of many topics does not ask for all of them again.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.model.env import Clock

IDLE_MS = 5 * 60_000
"""metadata.max.idle.ms: how long a topic that nobody uses is remembered."""

FOREVER_MS = 1 << 62


class TopicsOfInterest:
    """Names, each until a time of the monotonic clock."""

    def __init__(self, clock: Clock, idle_ms: int = IDLE_MS) -> None:
        self.all_topics = False
        """All that the cluster has, whatever the names."""
        self._clock = clock
        self._idle_ms = idle_ms
        self._until_ms: dict[str, int] = {}
        self._new: dict[str, None] = {}

    def __contains__(self, topic: str) -> bool:
        return self.all_topics or topic in self._until_ms

    def use(self, topic: str) -> bool:
        """It is used: remember it for a while. Whether it was not known before.

        From any thread, if it was known before.
        """
        new = topic not in self._until_ms
        if new:
            self._new[topic] = None
        if self._until_ms.get(topic) != FOREVER_MS:
            self._until_ms[topic] = self._clock.monotonic_ms() + self._idle_ms
        return new

    def set(self, topics: Iterable[str]) -> bool:
        """Exactly these, until the next call; whether some were not known before."""
        wanted = dict.fromkeys(sorted(topics), FOREVER_MS)  # A set has another order every time.
        new = {topic: None for topic in wanted if topic not in self._until_ms}
        self._until_ms = wanted
        if self.all_topics:  # Who asks for all asks for none by name, and waits for none.
            self._new = {}
            return False
        self._new = {topic: None for topic in self._new if topic in wanted} | new
        return bool(new)

    def names(self) -> list[str]:
        """All names, without those that nobody used for long; they are forgotten."""
        now_ms = self._clock.monotonic_ms()
        for topic in [t for t, until in self._until_ms.items() if until <= now_ms]:
            del self._until_ms[topic]
            self._new.pop(topic, None)
        return list(self._until_ms)

    def new_names(self) -> list[str]:
        """Those that nothing was answered about yet."""
        return list(self._new)

    def answered(self, topics: Iterable[str]) -> None:
        """These were answered about, be it with an error."""
        for topic in topics:
            self._new.pop(topic, None)
