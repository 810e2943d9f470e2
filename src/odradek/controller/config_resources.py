"""Which resource with settings a request means."""

from __future__ import annotations

from odradek.config.broker import BrokerConfig
from odradek.controller.decision import Refused, check_topic_name
from odradek.controller.image import MetadataImage
from odradek.controller.registrations import ConfigResource, ResourceType
from odradek.model.errors import ErrorCode

NOT_HERE = {8: "broker loggers", 16: "client metrics", 32: "groups"}


def resource_of(image: MetadataImage, kind: int, name: str, broker: BrokerConfig) -> ConfigResource:
    """The resource, which exists. Raises `Refused`.

    Settings of a broker are served by that broker: `broker` is the configuration of this one.
    """
    if kind == ResourceType.TOPIC:
        return _topic(image, name)
    if kind == ResourceType.BROKER:
        return _broker(name, broker.node_id)
    if kind in NOT_HERE:
        problem = f"Settings of {NOT_HERE[kind]} (resource type {kind}) are not in this version."
    else:
        problem = f"Unknown resource type {kind}"
    raise Refused(ErrorCode.INVALID_REQUEST, problem)


def _topic(image: MetadataImage, name: str) -> ConfigResource:
    check_topic_name(name)
    if name not in image.topics:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    return ConfigResource(ResourceType.TOPIC, name)


def _broker(name: str, node_id: int) -> ConfigResource:
    if not name:
        return ConfigResource(ResourceType.BROKER, "")
    if not (name.isascii() and name.isdecimal() and len(name) <= 10):
        raise Refused(
            ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name[:249]}"
        )
    if int(name) != node_id:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {node_id} or empty string, but received {name}",
        )
    return ConfigResource(ResourceType.BROKER, str(node_id))
