"""Deleting topics, by name or by id."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.controller.decision import Decision, Refused
from odradek.controller.image import MetadataImage
from odradek.controller.registrations import TopicImage
from odradek.model.errors import ErrorCode
from odradek.model.topics import ZERO_UUID
from odradek.protocol.api.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from odradek.protocol.metadata_records import RemoveTopicRecord

TOPIC_DELETION_DISABLED_SINCE = 3
TOPICS_SINCE = 6


def delete_topics(
    image: MetadataImage, request: DeleteTopicsRequest, version: int, *, enabled: bool
) -> Decision[DeleteTopicsResponse]:
    """Records for the topics that can be deleted, and an answer for each that was named.

    `version` is that of the request; `enabled` is `delete.topic.enable`. A topic that is named
    twice, also once by name and once by id, is not deleted.
    """
    asked = (
        list(request.topics)
        if version >= TOPICS_SINCE
        else [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in request.topic_names]
    )
    if not enabled:
        return Decision([], _disabled(asked, version))
    records: list[object] = []
    responses: list[DeletableTopicResult] = []
    for states, topic in _grouped(image, asked):
        if isinstance(topic, Refused):
            twice = len(states) > 1 and topic.error is not ErrorCode.INVALID_REQUEST
            responses.append(_answer(states[0], _duplicate(states[0]) if twice else topic))
        elif len(states) > 1:
            responses.append(_twice(topic, states))
        else:
            records.append(RemoveTopicRecord(topic_id=topic.id))
            responses.append(
                DeletableTopicResult(name=topic.name, topic_id=topic.id, error_code=ErrorCode.NONE)
            )
    return Decision(records, DeleteTopicsResponse(responses=responses))


def _grouped(
    image: MetadataImage, asked: Iterable[DeleteTopicState]
) -> list[tuple[list[DeleteTopicState], TopicImage | Refused]]:
    """What was asked for, with all that mean the same topic in one group."""
    groups: dict[object, tuple[list[DeleteTopicState], TopicImage | Refused]] = {}
    for state in asked:
        found = _find(image, state)
        key = found.id if isinstance(found, TopicImage) else (state.name, state.topic_id)
        groups.setdefault(key, ([], found))[0].append(state)
    return list(groups.values())


def _find(image: MetadataImage, state: DeleteTopicState) -> TopicImage | Refused:
    invalid = ErrorCode.INVALID_REQUEST
    if state.name is None and state.topic_id == ZERO_UUID:
        return Refused(invalid, "Neither topic name nor id were specified.")
    if state.name is not None and state.topic_id != ZERO_UUID:
        return Refused(invalid, "You may not specify both topic name and topic id.")
    if state.name is None:
        return image.topic_by_id(state.topic_id) or _unknown(ErrorCode.UNKNOWN_TOPIC_ID)
    return image.topic(state.name) or _unknown(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _unknown(error: ErrorCode) -> Refused:
    return Refused(error, error.text)


def _answer(state: DeleteTopicState, refused: Refused) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=state.name,
        topic_id=state.topic_id,
        error_code=refused.error,
        error_message=refused.message,
    )


def _duplicate(state: DeleteTopicState) -> Refused:
    named = "id" if state.name is None else "name"
    return Refused(ErrorCode.INVALID_REQUEST, f"Duplicate topic {named}.")


def _twice(topic: TopicImage, states: Iterable[DeleteTopicState]) -> DeletableTopicResult:
    """The answer for a topic named more than once; it says no more of it than the request did."""
    names = {state.name for state in states}
    if None not in names:
        message, name, topic_id = "Duplicate topic name.", topic.name, ZERO_UUID
    elif names == {None}:
        return DeletableTopicResult(
            name=None,
            topic_id=topic.id,
            error_code=ErrorCode.INVALID_REQUEST,
            error_message="Duplicate topic id.",
        )
    else:
        message = "The provided topic name maps to an ID that was already supplied."
        name, topic_id = topic.name, topic.id
    return DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=ErrorCode.INVALID_REQUEST, error_message=message
    )


def _disabled(asked: Iterable[DeleteTopicState], version: int) -> DeleteTopicsResponse:
    if version < TOPIC_DELETION_DISABLED_SINCE:
        error = ErrorCode.INVALID_REQUEST
    else:
        error = ErrorCode.TOPIC_DELETION_DISABLED
    refused = Refused(error, "Topic deletion is disabled: delete.topic.enable is false.")
    return DeleteTopicsResponse(responses=[_answer(state, refused) for state in asked])
