"""Long requests: handled in parts, one in a turn of the loop, so that others are served between.

A request may have 200,000 elements (`protocol.primitives`), and to handle all of them at once would
hold the broker for seconds. The frame of such a request has more than `LONG_FRAME_BYTES`.

    frame ─► decoded in slices ─► split into parts ─► a part ─► the handler ─► its response ─┐
                                                        ▲                                   │
                                                        └── the next turn ◄── merged ◄──────┘
                                                                                │ all
                                                     encoded in slices ◄────────┘

A *part* is a request of the same kind with some of the elements, which the API's handler handles
like any other. That is possible where elements are independent of each other: `REQUEST_ELEMENTS`
has these APIs, with the arrays of request and response. The parts are handled in order; their
responses may come later, and are merged in that order. Two parts of a request do not see each
other's elements: an element that is listed twice, far apart, gets two results.

Where elements belong together (one member's protocols, one commit, which is all or nothing), or
nobody needs so many, the protocol limits their number instead (`primitives.UNDIVIDED_OBJECTS_MAX`);
a commit is still decoded and encoded in slices. The partitions of a Fetch share one `max_bytes` and
a session, so a long one is no sequence of short ones: `handlers.fetch.LongFetch` takes its slices
in turn with the others. `dispatch` refuses a frame that names more partitions than the cluster has.

A short Metadata request may ask for all topics. One whose answer has more than `LONG_ANSWER`
partitions is long, too, and its parts are as large as their answers allow.

A short CreateTopics request may ask for thousands of partitions, each a record. It is long, too, if
it has several topics; one topic is always created by one decision.

The connection's next request waits until the last part is handled. At most `ACTIVE_MAX` long
requests are in progress and take turns; others wait as frames, so memory is bounded by them.

Tests: unit/broker/test_long_requests.py
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from odradek.broker.context import (
    CALLBACK_RESPONSE,
    DelayedResponse,
    NoResponse,
    RequestContext,
)
from odradek.model.env import do_nothing
from odradek.model.errors import ProtocolError
from odradek.protocol.codec import sliced_reader, sliced_writer
from odradek.protocol.schema import fields_of

if TYPE_CHECKING:
    from odradek.broker.apis import Handle
    from odradek.broker.broker import Broker
    from odradek.controller.image import MetadataImage

LONG_FRAME_BYTES: Final = 4096
ACTIVE_MAX: Final = 4
LONG_ANSWER: Final = 1_000
"""Partitions in the answer to a Metadata request that makes it long."""
PARTITIONS_OF_ONE: Final = 25
"""A new topic counts as one for so many of its partitions."""
ANSWER_PARTITIONS: Final = 500
"""Partitions in the answer to a part of it, if all topics have equally many."""
PART_ELEMENTS: Final = 100

Slices = Generator[None, None, Any]


def one_element(element: Any) -> int:
    """Count an element as one."""
    return 1


def weight_of_created(topic: Any) -> int:
    """Count a topic with many partitions, each a record, as several topics with few."""
    partitions = len(topic.assignments) or topic.num_partitions
    return max(1, int(partitions) // PARTITIONS_OF_ONE)


@dataclass(frozen=True, slots=True)
class RequestElements:
    """Where the elements of a request are, from the outer array to the inner, and the arrays of
    their results. `elements` are in a part; an element without inner ones counts as `weigh` says.
    """

    request: tuple[str, ...]
    response: tuple[str, ...]
    elements: int = PART_ELEMENTS
    weigh: Callable[[Any], int] = one_element


TOPICS_AND_PARTITIONS: Final = RequestElements(("topics", "partitions"), ("topics", "partitions"))
RESOURCES: Final = 5
"""A resource has some dozen settings."""
CREATED: Final = 20
"""A topic that is created has records of its own."""

REQUEST_ELEMENTS: dict[int, tuple[RequestElements, ...]] = {
    0: (RequestElements(("topic_data", "partition_data"), ("responses", "partition_responses")),),
    2: (TOPICS_AND_PARTITIONS,),
    3: (RequestElements(("topics",), ("topics",)),),
    8: (),
    9: (
        RequestElements(
            ("groups", "topics", "partition_indexes"), ("groups", "topics", "partitions")
        ),
        RequestElements(("topics", "partition_indexes"), ("topics", "partitions")),
    ),
    10: (RequestElements(("coordinator_keys",), ("coordinators",)),),
    15: (RequestElements(("groups",), ("groups",)),),
    19: (RequestElements(("topics",), ("topics",), CREATED, weight_of_created),),
    20: (
        RequestElements(("topics",), ("responses",), CREATED),
        RequestElements(("topic_names",), ("responses",), CREATED),
    ),
    21: (TOPICS_AND_PARTITIONS,),
    23: (TOPICS_AND_PARTITIONS,),
    32: (RequestElements(("resources",), ("results",), RESOURCES),),
    33: (RequestElements(("resources",), ("responses",), RESOURCES),),
    37: (RequestElements(("topics",), ("results",), CREATED),),
    42: (RequestElements(("groups_names",), ("results",)),),
    43: (
        RequestElements(
            ("topic_partitions", "partitions"), ("replica_election_results", "partition_result")
        ),
    ),
    44: (RequestElements(("resources",), ("responses",), RESOURCES),),
    45: (RequestElements(("topics", "partitions"), ("responses", "partitions")),),
    47: (TOPICS_AND_PARTITIONS,),
    56: (TOPICS_AND_PARTITIONS,),
    61: (RequestElements(("topics", "partition_indexes"), ("topics", "partitions")),),
    65: (RequestElements(("transactional_ids",), ("transaction_states",)),),
}
"""By API key: the first entry whose outer array is not empty applies; without any, the request is
one part.
"""

METADATA_KEY: Final = 3
CREATE_TOPICS_KEY: Final = 19
ELECT_LEADERS_KEY: Final = 43
ALTER_PARTITION_REASSIGNMENTS_KEY: Final = 45
REFUSED_WHOLE: Final = (CREATE_TOPICS_KEY, ELECT_LEADERS_KEY, ALTER_PARTITION_REASSIGNMENTS_KEY)


def has_long_answer(image: MetadataImage, version: int, request: Any) -> bool:
    """True if the answer to a Metadata request has more than `LONG_ANSWER` partitions."""
    from odradek.broker.handlers.metadata import asks_for_all

    if asks_for_all(version, request):
        return image.partition_count() > LONG_ANSWER
    found = 0
    for each in request.topics:
        topic = image.topics.get(each.name) if each.name else image.topics_by_id.get(each.topic_id)
        found += 1 if topic is None else len(topic.partitions)
    return found > LONG_ANSWER


def creates_many(request: Any) -> bool:
    """True if the topics of a CreateTopics request are too many partitions for one part."""
    return sum(map(weight_of_created, request.topics)) > CREATED and len(request.topics) > 1


def limited(key: int, version: int, broker: Broker, request: Any) -> Slices:
    """Return the request that is handled: limits hold for all its elements together."""
    if key != METADATA_KEY:
        return request
    from odradek.broker.handlers.metadata import naming_all, within_creation_limit

    named = naming_all(broker.image, version, request)
    return named if named is not None else (yield from within_creation_limit(broker, request))


def bounded(shape: RequestElements, key: int, image: MetadataImage) -> RequestElements:
    """Return where the elements of a request are: topics with many partitions are fewer in a
    part."""
    if key != METADATA_KEY:
        return shape
    mean = image.partition_count() // max(1, len(image.topics))
    elements = max(1, min(shape.elements, ANSWER_PARTITIONS // max(1, mean)))
    return RequestElements(shape.request, shape.response, elements)


def refusal(key: int, broker: Broker, request: Any) -> Handle | None:
    """Return the handler of the parts if all elements together are too many."""
    if key not in REFUSED_WHOLE:
        return None
    # Loaded here, as all handlers, for the first request that needs them.
    from odradek.broker.handlers import alter_partition_reassignments, create_topics, elect_leaders

    if key == CREATE_TOPICS_KEY:
        return create_topics.whole_refusal(broker, request)
    if key == ELECT_LEADERS_KEY:
        return elect_leaders.whole_refusal(broker, request)
    return alter_partition_reassignments.whole_refusal(broker, request)


# -- parts -----------------------------------------------------------------------------------------


def parts_of(request: Any, shape: RequestElements) -> Iterator[Any]:
    """Return requests with at most `shape.elements` elements each, in order.

    An outer element without inner ones counts as an element. The request is consumed: to free all
    of its elements at the end would take as long as some slices.
    """
    part: list[Any] = []
    left = shape.elements
    array = getattr(request, shape.request[0])
    for element, size in pieces(array, shape.request[1:], left, shape.weigh):
        if size > left and part:
            yield with_array(request, shape.request[0], part)
            part, left = [], shape.elements
        part.append(element)
        left -= size
    yield with_array(request, shape.request[0], part)


def pieces(
    array: list[Any],
    inner: tuple[str, ...],
    most: int,
    weigh: Callable[[Any], int] = one_element,
) -> Iterator[tuple[Any, int]]:
    """Return the elements of an array, with copies of those that have more than `most` inner
    elements, and the number of innermost elements of each.
    """
    array.reverse()
    while array:
        element = array.pop()
        if not inner or not getattr(element, inner[0]):
            yield element, weigh(element)
            continue
        held: list[Any] = []
        size = 0
        for each, inner_size in pieces(getattr(element, inner[0]), inner[1:], most):
            if size + inner_size > most:
                yield with_array(element, inner[0], held), size
                held, size = [], 0
            held.append(each)
            size += inner_size
        yield with_array(element, inner[0], held), size


def with_array(struct: Any, name: str, array: list[Any]) -> Any:
    """Return a copy of a struct with another array."""
    cls = type(struct)
    values = {each.name: getattr(struct, each.name) for each in fields_of(cls)}
    values[name] = array
    return cls(**values)


def merge(whole: Any, part: Any, arrays: tuple[str, ...]) -> None:
    """Add the results of a part to a response. The last outer result goes on if the part begins
    with the same one.
    """
    results, more = getattr(whole, arrays[0]), getattr(part, arrays[0])
    if arrays[1:] and results and more and is_same(results[-1], more[0], arrays[1]):
        merge(results[-1], more[0], arrays[1:])
        more = more[1:]
    results.extend(more)


def is_same(one: Any, other: Any, array: str) -> bool:
    """True if two outer results differ in their inner results only."""
    names = (each.name for each in fields_of(type(one)))
    return all(getattr(one, name) == getattr(other, name) for name in names if name != array)


# -- turns -----------------------------------------------------------------------------------------


class LongRequest:
    """One long request: a `SlicedRequest`."""

    def __init__(
        self, broker: Broker, context: RequestContext, position: int, request: Any = None
    ) -> None:
        """`request` is given if it is decoded; else its frame is decoded from `position`."""
        self.context = context
        self.resume: Callable[[], None] = do_nothing
        """Called when all parts are handled and the last response has come."""
        self._broker = broker
        self._arrays: tuple[str, ...] = ()
        self._responses: list[Any] = []
        self._missing = 0
        self._is_handled = self.is_abandoned = False
        self._waiting: list[DelayedResponse] = []
        self.slices = self._handle(context.exchange.frame, position, request)

    def abandon(self) -> None:
        """Stop, because the connection closed. Parts that wait complete as at their deadlines."""
        self.is_abandoned = True
        for each in self._waiting:
            each.operation.expire()

    def _handle(self, frame: bytes, position: int, request: Any) -> Slices:
        context = self.context
        if request is None:
            read = sliced_reader(context.route.api.request, context.version)
            request = yield from read(frame, position)
        context.exchange.frame = b""
        key = context.header.api_key
        request = yield from limited(key, context.version, self._broker, request)
        handle = refusal(key, self._broker, request) or context.route.handle
        for part in self._parts(request):
            self._responses.append(None)
            self._missing += 1
            self._handle_part(part, handle)
            yield
        context.exchange.release()
        self._is_handled = True
        if not self._missing:
            yield from self._write()

    def _parts(self, request: Any) -> Iterator[Any]:
        for shape in REQUEST_ELEMENTS[self.context.header.api_key]:
            if getattr(request, shape.request[0]):
                self._arrays = shape.response
                key = self.context.header.api_key
                return parts_of(request, bounded(shape, key, self._broker.image))
        return iter((request,))

    def _handle_part(self, part: Any, handle: Handle) -> None:
        context = self.context
        inner = RequestContext(
            context.route, context.header, context.exchange, context.metrics, context.stopwatch
        )
        inner.collect = partial(self._collected, len(self._responses) - 1)
        answer = handle(self._broker, inner, part)
        if isinstance(answer, DelayedResponse):
            if not answer.purgatory.try_complete_else_watch(answer.operation, answer.keys):
                self._waiting.append(answer)
        elif isinstance(answer, NoResponse):
            inner.no_response()
        elif answer is not CALLBACK_RESPONSE:
            inner.respond(answer)

    def _collected(self, index: int, response: Any) -> None:
        self._responses[index] = response
        self._missing -= 1
        if self._is_handled and not self._missing and not self.is_abandoned:
            self.slices = self._write()
            self.resume()

    def _write(self) -> Slices:
        context = self.context
        responses = [each for each in self._responses if each is not None]
        if not responses:
            context.no_response()
            return
        whole = responses[0]
        for number, part in enumerate(responses[1:]):
            merge(whole, part, self._arrays)
            if number % PART_ELEMENTS == 0:
                yield
        write = sliced_writer(context.route.api.response, context.version)
        context.send((yield from write(whole)))
        responses = self._responses = []
        results = getattr(whole, self._arrays[0]) if self._arrays else responses
        while results:  # To free all at once would hold the loop.
            del results[-PART_ELEMENTS:]
            yield


class SlicedRequest(Protocol):
    """A request that takes turns: a `LongRequest`, or a long Fetch."""

    context: RequestContext
    resume: Callable[[], None]
    """Set by `LongRequests`: called when there are more `slices` after they had ended."""
    slices: Generator[None, None, Any]
    """The remaining work; it ends when the request is done, or waits for an event."""
    is_abandoned: bool
    """True from the call of `abandon`: no slice is run any more."""

    def abandon(self) -> None:
        """Stop, because the connection closed."""
        ...


class LongRequests:
    """The long requests in progress, which take turns. For the owner thread only."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], None]) -> None:
        self._call_soon = call_soon
        self._active: deque[SlicedRequest] = deque()
        self._waiting: deque[SlicedRequest] = deque()
        self._is_scheduled = False

    def begin(self, request: SlicedRequest) -> None:
        """Run the first slice, unless too many are in progress; the others follow in later turns.

        Raises `ProtocolError` if that slice finds the request malformed.
        """
        exchange = request.context.exchange
        exchange.hold()
        exchange.abandoned = request.abandon
        request.resume = partial(self._continue, request)
        if len(self._active) >= ACTIVE_MAX:
            self._waiting.append(request)
        elif advance(request):
            self._continue(request)

    def _continue(self, request: SlicedRequest) -> None:
        self._active.append(request)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._take_turn)

    def _take_turn(self) -> None:
        """Run one slice of one request."""
        self._is_scheduled = False
        request = self._active.popleft()
        try:
            if advance(request):
                self._active.append(request)
        except ProtocolError as error:
            request.context.exchange.close_connection(str(error))
        except BaseException:
            request.context.exchange.close_connection("a bug in the handler")
            raise
        finally:
            if self._waiting and len(self._active) < ACTIVE_MAX:
                self._active.append(self._waiting.popleft())
            if self._active:
                self._schedule()


def advance(request: SlicedRequest) -> bool:
    """Run one slice. Return False if the request is done, or waits for an event."""
    if request.is_abandoned:
        return False
    try:
        next(request.slices)
    except StopIteration:
        return False
    return True
