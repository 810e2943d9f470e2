"""The version of each request to a node, and how versions are negotiated (KIP-35, KIP-511).

    ApiVersions, in the version that last worked (at first our newest)
        │
        ├── answered ─────────────────────► NodeApiVersions: per request the highest common version
        ├── UNSUPPORTED_VERSION, as v0 ───► again, in the highest it lists; v0 if it lists none
        └── INVALID_REQUEST ──────────────► again, in v0

The response has header v0 in every version, because the client cannot know which one to expect.
With version 5 the request names the cluster and node that the client expects; another node answers
REBOOTSTRAP_REQUIRED (KIP-1242).

A `Codec` is all that is needed to send one kind of request: its version, how to write it, and how
to read its response. There is one per node and kind of request.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any

from odradek.model.errors import ErrorCode, ProtocolError
from odradek.network_client.errors import InvalidRequest, UnsupportedVersion
from odradek.protocol.api.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from odradek.protocol.api_keys import FIRST_OWN_KEY, MESSAGES
from odradek.protocol.codec import decode, open_ended_reader, writer
from odradek.protocol.frame import decode_response_header, response_is_flexible
from odradek.protocol.generated_writer import Part
from odradek.protocol.schema import UnsupportedVersionError, declaration

API_VERSIONS = 18
NEWEST = declaration(ApiVersionsRequest).versions[1]


class Codec:
    """One kind of request in one version."""

    __slots__ = ("api_key", "flexible_response", "name", "read", "throttles", "version", "write")

    def __init__(self, request_type: type[Any], version: int) -> None:
        api = MESSAGES[declaration(request_type).api]
        self.api_key = api.key
        self.name = api.name
        self.version = version
        self.flexible_response = response_is_flexible(api.key, version)
        self.write: Callable[[Any], list[Part]] = writer(request_type, version)
        self.read: Callable[[bytes, int], Any] = open_ended_reader(api.response, version)
        self.throttles = "throttle_time_ms" in getattr(api.response, "__slots__", ())


class RequestBuilder:
    """A request that depends on its version, or needs a minimum or maximum version.

    `build(version)` is called when the version is known, just before the request is sent.
    """

    __slots__ = ("build", "max_version", "min_version", "request_type")

    def __init__(
        self,
        request_type: type[Any],
        build: Callable[[int], Any],
        *,
        min_version: int = 0,
        max_version: int = 32767,
    ) -> None:
        self.request_type = request_type
        self.build = build
        self.min_version = min_version
        self.max_version = max_version


class NodeApiVersions:
    """The versions that one node supports, from its response to ApiVersions."""

    def __init__(
        self,
        keys: Iterable[ApiVersion] = (),
        features: Iterable[FinalizedFeatureKey] = (),
        features_epoch: int = -1,
    ) -> None:
        self.ranges: dict[int, tuple[int, int]] = {
            key.api_key: (key.min_version, key.max_version) for key in keys
        }
        """Lowest and highest version by API key."""
        self.features = {each.name: each.max_version_level for each in features}
        """The levels of the features that the cluster has agreed on, as this node knew them."""
        self.features_epoch = features_epoch
        """How new `features` are; -1: they are not known."""
        self._codecs: dict[type[Any], Codec] = {}

    def codec(self, request_type: type[Any]) -> Codec:
        """Return the codec of the highest common version. Raises `UnsupportedVersion`."""
        found = self._codecs.get(request_type)
        if found is None:
            version = self.version(request_type)
            found = self._codecs[request_type] = Codec(request_type, version)
        return found

    def encode(self, request: Any) -> tuple[Codec, list[Part]]:
        """Return a request (or the one a `RequestBuilder` builds) as bytes. Raises
        `UnsupportedVersion`, and `InvalidRequest` for text without a UTF-8 form and for values that
        have another type than their field or do not fit it."""
        if type(request) is RequestBuilder:
            codec = self.codec_within(request)
            request = request.build(codec.version)
        else:
            codec = self.codec(type(request))
        try:
            return codec, codec.write(request)
        except UnsupportedVersionError as error:
            raise UnsupportedVersion(str(error)) from None
        except UnicodeEncodeError as error:
            raise InvalidRequest(
                f"{codec.name}: {error.object!a} cannot be encoded as UTF-8: {error.reason}. "
                "What to do: use names without surrogates",
                ErrorCode.INVALID_REQUEST,
            ) from None
        except (ValueError, struct.error) as error:
            raise InvalidRequest(
                f"{codec.name}: {error}. What to do: give shorter names, and whole numbers of at "
                "most 64 bits (32 for those of partitions)",
                ErrorCode.INVALID_REQUEST,
            ) from None
        except (AttributeError, TypeError) as error:
            # Arguments are seldom checked before. Raised from here, the error would also fail the
            # other requests that the connection is just sending.
            raise InvalidRequest(
                f"{codec.name}: {error}. What to do: give names, values and notes as text, and "
                "numbers as int",
                ErrorCode.INVALID_REQUEST,
            ) from error

    def codec_within(self, builder: RequestBuilder) -> Codec:
        """Return the codec of the highest common version within the builder's limits."""
        found = self.codec(builder.request_type)
        if builder.min_version <= found.version <= builder.max_version:
            return found
        version = self.version(builder.request_type, builder.min_version, builder.max_version)
        return Codec(builder.request_type, version)

    def version(self, request_type: type[Any], lowest: int = 0, highest: int = 32767) -> int:
        """Return the highest common version of a request, within limits. Raises
        `UnsupportedVersion`.
        """
        declared = declaration(request_type)
        name = MESSAGES[declared.api].name
        theirs = self.ranges.get(declared.api)
        if theirs is None and declared.api >= FIRST_OWN_KEY:
            raise UnsupportedVersion(
                f"only Odradek brokers answer {name} requests, and this broker is another one or "
                "too old. What to do: use an Odradek broker, or leave out the call"
            )
        if theirs is None:
            raise UnsupportedVersion(
                f"the broker does not know {name} requests. What to do: {UnsupportedVersion.advice}"
            )
        low = max(theirs[0], declared.versions[0], lowest)
        high = min(theirs[1], declared.versions[1], highest)
        if low > high:
            ours = f"{max(declared.versions[0], lowest)} to {min(declared.versions[1], highest)}"
            raise UnsupportedVersion(
                f"the broker knows {name} in versions {theirs[0]} to {theirs[1]}, this client "
                f"needs {ours}. What to do: {UnsupportedVersion.advice}"
            )
        return high

    def supports(self, request_type: type[Any], version: int = 0) -> bool:
        """True if the request can be sent in at least this version."""
        declared = declaration(request_type)
        theirs = self.ranges.get(declared.api)
        if theirs is None:
            return False
        high = min(theirs[1], declared.versions[1])
        return max(theirs[0], declared.versions[0]) <= high and high >= version


def decode_api_versions(frame: bytes, version: int) -> ApiVersionsResponse:
    """Return the response to ApiVersions of that version. Raises `ProtocolError`.

    A refusal that cannot be read lists no versions: librdkafka's mock cluster sends such.
    """
    _, position = decode_response_header(frame, False)
    refused = int.from_bytes(frame[position : position + 2], "big", signed=True)
    if refused != ErrorCode.UNSUPPORTED_VERSION:
        return decode(ApiVersionsResponse, version, frame, position)
    try:
        return decode(ApiVersionsResponse, 0, frame, position)
    except ProtocolError:
        return ApiVersionsResponse(error_code=refused, api_keys=[])


def next_version(answer: ApiVersionsResponse, version: int) -> int | None:
    """Return the version to try after a refusal; None if none is left."""
    if answer.error_code == ErrorCode.INVALID_REQUEST:
        lower = 0
    else:
        listed = [key.max_version for key in answer.api_keys if key.api_key == API_VERSIONS]
        lower = min(listed[0], NEWEST) if listed else 0
    return lower if lower < version else None
