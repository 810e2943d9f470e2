"""Runs the commands of a transcript on a `ConsumerCoordinator` and prints its effects.

    consumer topics=t,u assignors=range instance=i rack=r auto-commit=off max-poll=60000
    assigned t-0,t-1              a consumer with a manual assignment
    cluster t=3 u=2 stale         new metadata; stale: newer metadata was requested
    poll | returned | returned raising=ValueError
    answer Api error=CODE key=value …   to the oldest request of that kind; or `lost Api`
    wait 3000                     time passes; what is due happens in between
    consumed t-0=5                the application has consumed records
    commit c1 t-0=5 within=1000 | committed q1 t-0 within=1000
    subscribe u | unsubscribe u1 | close x1 within=1000 how=leave
    close x1 inside within=1000   by the listener, in the call that has not returned

Partitions are `topic-number`. The name after a command is that of its waiter, whose outcome is
printed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from odradek.client.consumer.assignor.registry import assignors
from odradek.client.consumer.batch import OffsetAndMetadata
from odradek.client.consumer.group.coordinator import ConsumerCoordinator, MembershipOperation
from odradek.client.consumer.group.member import (
    CallListener,
    Effect,
    GroupCall,
    GroupRebalanceConfig,
    Raise,
    RequestPoll,
    Resolve,
    SendGroupRequest,
    WatchTopics,
)
from odradek.client.consumer.position.subscription_state import FetchPosition, SubscriptionState
from odradek.client.errors import Disconnected, KafkaError
from odradek.client.waiter import Waiter
from odradek.config.consumer import ConsumerConfig
from odradek.config.offset_reset import LATEST
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.network_client.alarm import NEVER_MS
from odradek.protocol.schema import declaration
from transcripts.coordinator_answers import ANSWERS
from transcripts.request_lines import describe


def arguments(line: str) -> tuple[str, list[str], dict[str, str]]:
    """Split a line into its command, words, and `key=value`s."""
    command, *rest = line.split()
    words = [word for word in rest if "=" not in word]
    values = dict(word.split("=", 1) for word in rest if "=" in word)
    return command, words, values


class Jitterless:
    """Randomness that makes every back-off exact."""

    def getrandbits(self, bits: int, /) -> int:
        return 1 << (bits - 1)


def partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def joined(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(map(str, partitions)) or "nothing"


class ConsumerMachine:
    """One coordinator and its requests in flight."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.calls: list[GroupCall] = []
        self.names: dict[int, str] = {}
        self.kept: list[Waiter[Any]] = []
        self.called: CallListener | None = None

    def run(self, line: str) -> list[str]:
        """Run one command; return the lines it prints."""
        command, words, values = arguments(line)
        handler: Callable[[list[str], dict[str, str]], None] = getattr(self, f"do_{command}")
        self.output: list[str] = []
        handler(words, values)
        self.drain()
        if command not in ("consumed", "consumer"):
            self.output.append(self.state())
        return self.output

    # Commands.

    def do_consumer(self, words: list[str], values: dict[str, str]) -> None:
        given = {
            "group.id": "g",
            "group.instance.id": values.get("instance"),
            "client.rack": values.get("rack"),
            "enable.auto.commit": values.get("auto-commit", "off") == "on",
            "max.poll.interval.ms": values.get("max-poll"),
        }
        config = GroupRebalanceConfig.of(ConsumerConfig.load(given))
        self.subscriptions = SubscriptionState(LATEST)
        if "topics" in values:
            self.subscriptions.subscribe(values["topics"].split(","))
        strategy = assignors(values.get("assignors", "range").split(","))
        self.coordinator = ConsumerCoordinator(
            config, self.subscriptions, strategy, Jitterless(), self.now_ms
        )

    def do_assigned(self, words: list[str], values: dict[str, str]) -> None:
        self.subscriptions.assign_from_user(map(partition, words))

    def do_subscribe(self, words: list[str], values: dict[str, str]) -> None:
        self.subscriptions.subscribe(words)
        self.coordinator.subscription_changed(self.now_ms)

    def do_cluster(self, words: list[str], values: dict[str, str]) -> None:
        counts = {topic: int(count) for topic, count in values.items()}
        self.coordinator.cluster_seen(counts, (), self.now_ms, up_to_date="stale" not in words)

    def do_poll(self, words: list[str], values: dict[str, str]) -> None:
        self.coordinator.polled(self.now_ms)

    def do_returned(self, words: list[str], values: dict[str, str]) -> None:
        error = ValueError("by the listener") if "raising" in values else None
        self.coordinator.callback_returned(error, self.now_ms)

    def do_answer(self, words: list[str], values: dict[str, str]) -> None:
        call = self.take_call(words[0])
        code = ErrorCode[values.pop("error", "NONE")]
        response = ANSWERS[words[0]](code, values)
        self.coordinator.answered(call, response, None, self.now_ms)

    def do_lost(self, words: list[str], values: dict[str, str]) -> None:
        call = self.take_call(words[0])
        error = Disconnected("the connection was lost")
        self.coordinator.answered(call, None, error, self.now_ms)

    def do_wait(self, words: list[str], values: dict[str, str]) -> None:
        until_ms = self.now_ms + int(words[0])
        due_ms = self.coordinator.next_ms
        for _ in range(1000):
            if due_ms > until_ms:
                break
            self.now_ms = max(self.now_ms, due_ms)
            self.coordinator.ticked(self.now_ms)
            self.drain(f"{self.now_ms} ms: ")
            due_ms = self.coordinator.next_ms
        else:
            raise AssertionError("time does not go by: something stays due")
        self.now_ms = until_ms

    def do_consumed(self, words: list[str], values: dict[str, str]) -> None:
        for name, offset in values.items():
            state = self.subscriptions.state(partition(name))
            state.seek_unvalidated(FetchPosition(int(offset)))
            state.position.mark_consumed()

    def do_commit(self, words: list[str], values: dict[str, str]) -> None:
        deadline = self.deadline(values)
        offsets = {partition(name): OffsetAndMetadata(int(at)) for name, at in values.items()}
        self.name(words[0], self.coordinator.commit(offsets, self.now_ms, deadline))

    def do_committed(self, words: list[str], values: dict[str, str]) -> None:
        deadline = self.deadline(values)
        assert deadline is not None
        wanted = [partition(word) for word in words[1:]]
        self.name(words[0], self.coordinator.committed(wanted, self.now_ms, deadline))

    def do_unsubscribe(self, words: list[str], values: dict[str, str]) -> None:
        self.name(words[0], self.coordinator.unsubscribe(self.now_ms))

    def do_close(self, words: list[str], values: dict[str, str]) -> None:
        deadline = self.deadline(values)
        assert deadline is not None
        how = MembershipOperation(values.get("how", "default"))
        inside = self.called if "inside" in words else None
        self.name(words[0], self.coordinator.close(self.now_ms, deadline, how, inside))

    # Outcomes.

    def deadline(self, values: dict[str, str]) -> int | None:
        within = values.pop("within", None)
        return None if within is None else self.now_ms + int(within)

    def name(self, name: str, waiter: Waiter[Any]) -> None:
        self.names[id(waiter)] = name
        self.kept.append(waiter)

    def take_call(self, api: str) -> GroupCall:
        for call in self.calls:
            if call.builder.request_type.__name__ == f"{api}Request":
                self.calls.remove(call)
                return call
        raise AssertionError(f"no {api} is under way")

    def drain(self, when: str = "") -> None:
        for effect in self.coordinator.take_effects():
            text = self.printed(effect)
            if text:
                self.output.append(when + text)

    def printed(self, effect: Effect) -> str:
        match effect:
            case SendGroupRequest(call):
                self.calls.append(call)
                builder = call.builder
                newest = min(declaration(builder.request_type).versions[1], builder.max_version)
                to = f"broker {call.node.id}" if call.node else "any broker"
                return f"to {to}: {describe(builder.build(newest))}"
            case CallListener(occasion, partitions):
                self.called = effect
                return f"the listener is told: {occasion.value} {joined(partitions)}"
            case Raise(error):
                return f"poll raises {kind(error)}"
            case Resolve(waiter, value, error):
                effect.carry_out()
                name = self.names.get(id(waiter))
                if name is None:
                    return ""
                outcome = f"fails: {kind(error)}" if error else f"is done{found(value)}"
                return f"{name} {outcome}"
            case WatchTopics():
                return (
                    f"topics of interest: {', '.join(sorted(self.subscriptions.metadata_topics))}"
                )
            case RequestPoll():
                return "a poll is wanted"

    def state(self) -> str:
        """A line about the member, after each command."""
        member = self.coordinator.member
        who = f" as {member.generation.member_id}" if member.generation.member_id else ""
        generation = (
            "no generation"
            if member.generation.is_reset
            else (f"generation {member.generation.generation_id}")
        )
        at = f"coordinator {member.coordinator.id}" if member.coordinator else "no coordinator"
        owned = joined(sorted(self.subscriptions.assigned_partitions))
        due_ms = self.coordinator.next_ms
        due = "" if due_ms == NEVER_MS else f"; due in {due_ms - self.now_ms} ms"
        return f"({member.state.value}, {generation}{who}, {at}, owns {owned}{due})"


def kind(error: BaseException | None) -> str:
    """The class and code of an error."""
    if isinstance(error, KafkaError) and error.code is not None:
        return f"{type(error).__name__} ({error.code.name})"
    return type(error).__name__


def found(value: Any) -> str:
    """The value of a waiter, as text."""
    if not isinstance(value, dict) or not value:
        return ""
    return ": " + ", ".join(
        f"{tp}={'none' if at is None else at.offset}" for tp, at in value.items()
    )
