"""From (key, version) to what is done with it: reader, handler, writer. Made at first use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from odradek.broker.apis import APIS, Api, Handle
from odradek.protocol.codec import reader, writer
from odradek.protocol.frame import response_is_flexible
from odradek.protocol.generated_writer import Part


@dataclass(frozen=True, slots=True)
class Route:
    """One version of one API."""

    api: Api
    version: int
    read: Callable[[bytes, int], Any]
    handle: Handle
    write: Callable[[Any], list[Part]]
    flexible_response: bool


_routes: Final[dict[int, Route]] = {}


def route(key: int, version: int) -> Route | None:
    """The route of a request; None if this version of this API is not served."""
    found = _routes.get(key << 16 | version)
    return found if found is not None else _new_route(key, version)


def _new_route(key: int, version: int) -> Route | None:
    api = APIS.get(key)
    if api is None or not api.min_version <= version <= api.max_version:
        return None
    made = Route(
        api,
        version,
        reader(api.request, version),
        api.handle,
        writer(api.response, version),
        response_is_flexible(key, version),
    )
    _routes[key << 16 | version] = made
    return made
