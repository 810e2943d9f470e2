"""Describing settings of topics and brokers: values, where they come from, what they mean."""

from __future__ import annotations

from odradek.config.broker import BrokerConfig
from odradek.config.settings import Described
from odradek.config.topic import TopicConfigs
from odradek.controller.config_resources import resource_of
from odradek.controller.decision import Refused
from odradek.controller.image import MetadataImage
from odradek.controller.registrations import ConfigResource, ResourceType
from odradek.model.errors import ErrorCode
from odradek.protocol.api.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

NO_MESSAGE = ""


def describe_configs(
    image: MetadataImage, request: DescribeConfigsRequest, broker: BrokerConfig
) -> DescribeConfigsResponse:
    """An answer for each resource. `broker` is this broker's configuration as of `image`.

    Names that are asked for and do not exist are left out; an empty list of names means all.
    """
    return DescribeConfigsResponse(
        results=[_describe(image, item, request, broker) for item in request.resources]
    )


def _describe(
    image: MetadataImage,
    item: DescribeConfigsResource,
    request: DescribeConfigsRequest,
    broker: BrokerConfig,
) -> DescribeConfigsResult:
    error, message, rows = ErrorCode.NONE, NO_MESSAGE, []
    try:
        resource = resource_of(image, item.resource_type, item.resource_name, broker)
        rows = _rows(image, resource, item.configuration_keys or None, broker)
    except Refused as refused:
        error, message = refused.error, refused.message or NO_MESSAGE
    return DescribeConfigsResult(
        error_code=error,
        error_message=message,
        resource_type=item.resource_type,
        resource_name=item.resource_name,
        configs=[_row(row, request) for row in rows],
    )


def _rows(
    image: MetadataImage,
    resource: ConfigResource,
    names: list[str] | None,
    broker: BrokerConfig,
) -> list[Described]:
    if resource.type is ResourceType.TOPIC:
        config, _ = TopicConfigs(broker).in_force(image.config(resource))
        return config.describe(names)
    if resource.name:
        return broker.describe(names)
    return broker.describe_cluster_defaults(names)


def _row(row: Described, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = row.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=row.name,
        value=row.value,
        read_only=row.read_only,
        config_source=row.source,
        is_sensitive=row.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=each.name, value=each.value, source=each.source)
            for each in synonyms
        ],
        config_type=row.type,
        documentation=row.documentation if request.include_documentation else None,
    )
