"""Counts of requests, by API: times, sizes and errors.

    the last reading ──── receiving, decoding, handling ──── answered, or begins to wait
        of the loop            `handling`                        │ waits: `delayed`
                                                                 ▼
                                                             answered: `total` is both

The clock is read once for each request, when it was handled; that is also where the time of the
next request of the same turn begins. So the time of a request includes receiving its bytes and
sending the response before it, and the times of all requests add up to what the loop was busy with.
A request that waits is answered by an event of a later turn, and that turn's reading is taken.

Errors are counted by error code, one for each place in a response that has one (a partition, a
group), as Kafka does. Produce and Fetch count where they set an error; the responses of the other
APIs are looked through, by paths taken from their declarations.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from odradek.model.histogram import Histogram
from odradek.model.stopwatch import Stopwatch
from odradek.protocol.schema import ArrayOf, StructOf, fields_of

FETCH_KEY: Final = 1
FETCH_FOLLOWER: Final = "FetchFollower"
"""Kafka's name for it in metrics; its consumers' one is FetchConsumer."""
ERROR_CODE: Final = "error_code"
NAMED_UNSERVED: Final = 100
"""Kinds of requests that are not served and counted by name; the keys are the client's choice."""
OTHER: Final = (-1, -1)


class ApiMetrics:
    """The counts of one API. Times are nanoseconds, sizes bytes."""

    __slots__ = (
        "answered_at_once",
        "before_wait",
        "delayed",
        "errors",
        "name",
        "request_bytes",
        "response_bytes",
        "waited",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.answered_at_once = Histogram()
        """The time of the owner thread for requests that did not wait: the whole time of those."""
        self.before_wait = Histogram()
        """The time of the owner thread for requests that waited, until they did."""
        self.delayed = Histogram()
        """The time for which requests waited that could not be answered at once."""
        self.waited = Histogram()
        """The time of those until a response was ready."""
        self.request_bytes = Histogram()
        self.response_bytes = Histogram()
        self.errors: dict[int, int] = {}
        """The number of errors by error code."""

    @property
    def handling(self) -> Histogram:
        """The time of the owner thread for requests."""
        return self.answered_at_once.plus(self.before_wait)

    @property
    def total(self) -> Histogram:
        """The time until a response was ready."""
        return self.answered_at_once.plus(self.waited)

    def error(self, code: int) -> None:
        """Count an error of a response."""
        self.errors[code] = self.errors.get(code, 0) + 1


class RequestMetrics:
    """The counts of all APIs of one broker."""

    def __init__(self, stopwatch: Stopwatch, apis: Iterable[tuple[int, str]]) -> None:
        """`apis` are the keys and names of those that are served."""
        self.stopwatch = stopwatch
        self.by_key: dict[int, ApiMetrics] = {key: ApiMetrics(name) for key, name in apis}
        """By the keys of APIs; Fetch has those of consumers."""
        self.fetch_follower = ApiMetrics(FETCH_FOLLOWER)
        """Fetches of other nodes: of followers, and of the metadata log."""
        self.between_nodes = {**self.by_key, FETCH_KEY: self.fetch_follower}
        """The same for requests on the listener of nodes."""
        self.unserved: dict[tuple[int, int], int] = {}
        """Requests whose API or version is not served, by key and version."""

    def each(self) -> list[ApiMetrics]:
        """All counts; those of other nodes' fetches are apart."""
        return [*self.by_key.values(), self.fetch_follower]

    def count_unserved(self, key: int, version: int) -> None:
        """Count a request that is not served; past `NAMED_UNSERVED` kinds as `OTHER`."""
        kind = (key, version)
        if kind not in self.unserved and len(self.unserved) >= NAMED_UNSERVED:
            kind = OTHER
        self.unserved[kind] = self.unserved.get(kind, 0) + 1


class ErrorPaths:
    """Where a struct has error codes."""

    __slots__ = ("nested", "own")

    def __init__(self, own: bool, nested: list[tuple[str, bool, ErrorPaths]]) -> None:
        self.own = own
        """True if the struct itself has one."""
        self.nested = nested
        """The fields whose structs have some: name, true for an array, and where those have."""

    def count(self, value: Any, errors: ApiMetrics) -> None:
        """Count the errors in a response, or in a part of it."""
        if self.own and value.error_code:
            errors.error(value.error_code)
        for name, is_array, paths in self.nested:
            inside = getattr(value, name)
            if not inside:
                continue
            if not is_array:
                paths.count(inside, errors)
            elif paths.nested:
                for each in inside:
                    paths.count(each, errors)
            else:
                for code in [each.error_code for each in inside if each.error_code]:
                    errors.error(code)


def error_paths(cls: type[Any]) -> ErrorPaths | None:
    """The paths to the error codes of a response; None if it has none."""
    own = False
    nested: list[tuple[str, bool, ErrorPaths]] = []
    for field in fields_of(cls):
        own = own or field.name == ERROR_CODE
        element = field.type.element if isinstance(field.type, ArrayOf) else field.type
        if isinstance(element, StructOf):
            paths = error_paths(element.cls)
            if paths is not None:
                nested.append((field.name, isinstance(field.type, ArrayOf), paths))
    return ErrorPaths(own, nested) if own or nested else None
