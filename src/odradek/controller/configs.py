"""Decisions on settings of topics, brokers, groups and client metrics: IncrementalAlterConfigs,
AlterConfigs, DescribeConfigs and ListConfigResources.

IncrementalAlterConfigs sets, deletes, appends to and subtracts from single settings; the older
AlterConfigs replaces all settings of a resource. Both compute the new values of the resource, check
them as a whole, and write a record for each value that differs from the current one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from odradek.config.broker import BrokerConfig
from odradek.config.client_metrics import INTERVAL_MS, ClientMetricsConfig
from odradek.config.group import GroupConfig
from odradek.config.setting import ConfigError, ConfigType
from odradek.config.settings import DescribedConfig, Settings
from odradek.config.topic import TopicConfig, TopicConfigs
from odradek.controller.decision import ApiError, ControllerResult, check_topic_name
from odradek.controller.image import ConfigResource, MetadataImage, ResourceType, config_record
from odradek.model.errors import ErrorCode
from odradek.protocol.api import alter_configs as legacy
from odradek.protocol.api import incremental_alter_configs as incremental
from odradek.protocol.api.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from odradek.protocol.api.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    ListedConfigResource,
)
from odradek.protocol.metadata_records import ClearElrRecord

BROKER_LOGGER = 8
STORED_RESOURCES = (ResourceType.GROUP, ResourceType.CLIENT_METRICS)
"""Resources that exist by their settings alone."""


def config_resource(
    image: MetadataImage, kind: int, name: str, broker: BrokerConfig, *, alters: bool = False
) -> ConfigResource:
    """Return the resource that a request names. Raises `ApiError` if it does not exist.

    A broker describes only its own settings and the cluster defaults; `broker` is the configuration
    of this broker. The active controller alters those of all (`alters`): clients ask the broker
    itself, which sends the request on.
    """
    if kind == ResourceType.TOPIC:
        return _topic(image, name)
    if kind == ResourceType.BROKER:
        known = {broker.node_id, *image.brokers} if alters else {broker.node_id}
        return _broker(name, broker.node_id, known)
    if kind in STORED_RESOURCES:
        if not name:
            what = "Group" if kind == ResourceType.GROUP else "Client metrics subscription"
            raise _invalid_request(f"{what} name must not be empty")
        return ConfigResource(ResourceType(kind), name)
    if kind == BROKER_LOGGER:
        raise _invalid_request("Levels of loggers (resource type 8) are not in this version.")
    raise _invalid_request(f"Unknown resource type {kind}")


def _topic(image: MetadataImage, name: str) -> ConfigResource:
    check_topic_name(name)
    if name not in image.topics:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    return ConfigResource(ResourceType.TOPIC, name)


def _broker(name: str, node_id: int, known: Collection[int]) -> ConfigResource:
    if not name:
        return ConfigResource(ResourceType.BROKER, "")
    if not (name.isascii() and name.isdecimal() and len(name) <= 10):
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name[:249]}"
        )
    if int(name) not in known:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {node_id} or empty string, but received {name}",
        )
    return ConfigResource(ResourceType.BROKER, str(int(name)))


MAX_VALUE_BYTES = 32_767


class AlterConfigOpType(IntEnum):
    """The operations of IncrementalAlterConfigs on a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    """The change of one setting in a request."""

    name: str
    operation: int
    value: str | None


@dataclass(frozen=True, slots=True)
class _ResourceRequest:
    """One resource of a request. `replace`: settings that are not in it are removed."""

    kind: int
    name: str
    changes: Sequence[ConfigChange]
    replace: bool


MOST_CHANGES = 1_000
"""Settings of one resource in a request: a decision is made at once, and no kind has as many."""


class _ResourceResult(NamedTuple):
    requested: _ResourceRequest
    error: ErrorCode
    message: str | None


def incremental_alter_configs(
    image: MetadataImage,
    request: incremental.IncrementalAlterConfigsRequest,
    broker: BrokerConfig,
) -> ControllerResult[incremental.IncrementalAlterConfigsResponse]:
    """Return records for the settings that change, and a result for each resource (KIP-339).

    `broker`: this broker's configuration in the committed image.
    """
    requested = [
        _ResourceRequest(
            item.resource_type,
            item.resource_name,
            [
                ConfigChange(each.name, each.config_operation, each.value)
                for each in item.configs[: MOST_CHANGES + 1]
            ],
            False,
        )
        for item in request.resources
    ]
    records, outcomes = _alter(image, requested, broker)
    responses = [
        incremental.AlterConfigsResourceResponse(
            error_code=outcome.error,
            error_message=outcome.message,
            resource_type=outcome.requested.kind,
            resource_name=outcome.requested.name,
        )
        for outcome in outcomes
    ]
    return ControllerResult(
        [] if request.validate_only else records,
        incremental.IncrementalAlterConfigsResponse(responses=responses),
    )


def alter_configs(
    image: MetadataImage, request: legacy.AlterConfigsRequest, broker: BrokerConfig
) -> ControllerResult[legacy.AlterConfigsResponse]:
    """Like `incremental_alter_configs`, but settings that are not in the request are removed."""
    requested = [
        _ResourceRequest(
            item.resource_type,
            item.resource_name,
            [
                ConfigChange(each.name, AlterConfigOpType.SET, each.value)
                for each in item.configs[: MOST_CHANGES + 1]
            ],
            True,
        )
        for item in request.resources
    ]
    records, outcomes = _alter(image, requested, broker)
    responses = [
        legacy.AlterConfigsResourceResponse(
            error_code=outcome.error,
            error_message=outcome.message,
            resource_type=outcome.requested.kind,
            resource_name=outcome.requested.name,
        )
        for outcome in outcomes
    ]
    return ControllerResult(
        [] if request.validate_only else records, legacy.AlterConfigsResponse(responses=responses)
    )


def _alter(
    image: MetadataImage, requested: Sequence[_ResourceRequest], broker: BrokerConfig
) -> tuple[list[object], list[_ResourceResult]]:
    counts = Counter((item.kind, item.name) for item in requested)
    records: list[object] = []
    outcomes = []
    for item in requested:
        try:
            if counts[item.kind, item.name] > 1:
                raise _invalid_request("Each resource must appear at most once.")
            records += _records(image, item, broker)
        except ApiError as refused:
            outcomes.append(_ResourceResult(item, refused.error, refused.message))
        else:
            outcomes.append(_ResourceResult(item, ErrorCode.NONE, None))
    return records, outcomes


def _records(
    image: MetadataImage, requested: _ResourceRequest, broker: BrokerConfig
) -> list[object]:
    """Return the records for one resource. Raises `ApiError`."""
    _check_changes(requested.changes)
    if requested.kind == ResourceType.TOPIC and not requested.name:
        raise _invalid_request("Default topic resources are not allowed.")
    resource = config_resource(image, requested.kind, requested.name, broker, alters=True)
    current_values = image.config(resource)
    new_values = _new_values(image, resource, requested, broker)
    _check_new_values(image, resource, current_values, new_values, broker)
    _check_least_insync(resource, requested, new_values)
    changed = [
        name
        for name in sorted(current_values.keys() | new_values.keys())
        if current_values.get(name) != new_values.get(name)
    ]
    records: list[object] = [
        config_record(resource, name, new_values.get(name)) for name in changed
    ]
    if image.keeps_eligible_leader_replicas and BrokerConfig.min_insync_replicas.name in changed:
        # Replicas are eligible below the old minimum: the records since may be on fewer replicas.
        records.append(ClearElrRecord(topic_name=resource.name))
    return records


def _check_changes(changes: Sequence[ConfigChange]) -> None:
    if len(changes) > MOST_CHANGES:
        raise _invalid_request(f"More than {MOST_CHANGES} settings of one resource")
    if len({change.name for change in changes}) < len(changes):
        raise _invalid_request("Error due to duplicate config keys")
    for change in changes:
        if change.operation not in AlterConfigOpType.__members__.values():
            raise _invalid_request(
                f"Unknown operation {change.operation} on {change.name}: "
                "0 sets, 1 deletes, 2 appends, 3 subtracts"
            )
        if change.operation != AlterConfigOpType.DELETE and change.value is None:
            raise _invalid_request(f"Null value not supported for {change.name}")


def _new_values(
    image: MetadataImage,
    resource: ConfigResource,
    requested: _ResourceRequest,
    broker: BrokerConfig,
) -> dict[str, str]:
    """Return the values of the resource after the changes."""
    values = {} if requested.replace else dict(image.config(resource))
    for change in requested.changes:
        if change.operation == AlterConfigOpType.DELETE:
            values.pop(change.name, None)
        elif change.operation == AlterConfigOpType.SET:
            values[change.name] = change.value or ""
        else:
            values[change.name] = _edited_list(image, resource, change, broker)
    return values


def _edited_list(
    image: MetadataImage, resource: ConfigResource, change: ConfigChange, broker: BrokerConfig
) -> str:
    """Return a list setting with elements appended or removed. Raises `ApiError`."""
    is_list = False
    if resource.type in (ResourceType.TOPIC, ResourceType.BROKER):
        current: Settings = broker
        try:
            if resource.type is ResourceType.TOPIC:
                current = TopicConfig(broker, image.config(resource))
            setting = current.find(change.name)
        except ConfigError as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from None
        is_list = setting.kind is ConfigType.LIST
    if not is_list:  # Nor is one of a group or of client metrics, to Kafka.
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Can't {AlterConfigOpType(change.operation).name} to key {change.name} "
            "because its type is not LIST.",
        )
    parts = list(current.value(setting))
    named = [part.strip() for part in (change.value or "").split(",")]
    if change.operation == AlterConfigOpType.APPEND:
        parts += [part for part in dict.fromkeys(named) if part not in parts]
    else:
        parts = [part for part in parts if part not in named]
    return ",".join(parts)


def _check_new_values(
    image: MetadataImage,
    resource: ConfigResource,
    current_values: Mapping[str, str],
    new_values: Mapping[str, str],
    broker: BrokerConfig,
) -> None:
    """Raise `ApiError` unless the values are valid, each and together."""
    for name, value in new_values.items():
        if len(value.encode()) > MAX_VALUE_BYTES:
            raise _invalid_request(
                f"The value of {name} would be longer than the {MAX_VALUE_BYTES} bytes of a record."
            )
    try:
        if resource.type is ResourceType.TOPIC:
            TopicConfig(broker, new_values)
        elif resource.type is ResourceType.GROUP:
            GroupConfig(broker, new_values)
        elif resource.type is ResourceType.CLIENT_METRICS:
            _check_client_metrics(new_values, broker)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from None
    if resource.type is ResourceType.BROKER:
        _check_broker_values(image, resource, current_values, new_values, broker)


def _check_client_metrics(new_values: Mapping[str, str], broker: BrokerConfig) -> None:
    for name in new_values:
        if name not in ClientMetricsConfig.declared:
            raise _invalid_request(f"Unknown client metrics configuration: {name}")
    interval_ms = ClientMetricsConfig(broker, new_values).interval_ms
    if interval_ms not in INTERVAL_MS:
        raise _invalid_request(
            f"Invalid value {interval_ms} for interval.ms, interval must be between "
            f"{INTERVAL_MS[0]} and {INTERVAL_MS[-1]} (1 hour)"
        )


def _check_broker_values(
    image: MetadataImage,
    resource: ConfigResource,
    current_values: Mapping[str, str],
    new_values: Mapping[str, str],
    broker: BrokerConfig,
) -> None:
    for_all = not resource.name
    try:
        for name, value in new_values.items():
            if current_values.get(name) != value:
                BrokerConfig.check_dynamic(name, value, for_all=for_all)
        broker_id = broker.node_id if for_all else int(resource.name)
        cluster, own = image.broker_config(None), image.broker_config(broker_id)
        current = broker.with_dynamic(cluster, own)
        after = broker.with_dynamic(
            new_values if for_all else cluster, own if for_all else new_values
        )
        current.check_changed_threads(after)
        if broker_id == broker.node_id:  # Others' directories are not known here.
            after.check_cordoned_directories()
    except ConfigError as error:
        raise _invalid_request(str(error)) from None


def _check_least_insync(
    resource: ConfigResource, requested: _ResourceRequest, new_values: Mapping[str, str]
) -> None:
    """Raise `ApiError` unless `min.insync.replicas` stays one value for all brokers (see
    `brokers.bootstrap`).
    """
    if resource.type is not ResourceType.BROKER:
        return
    name = BrokerConfig.min_insync_replicas.name
    if resource.name and any(change.name == name for change in requested.changes):
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"{name} cannot be altered for one broker: it has one value for all.",
        )
    if not resource.name and name not in new_values:
        raise ApiError(
            ErrorCode.INVALID_CONFIG, f"The value of {name} for all brokers cannot be removed."
        )


def _invalid_request(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)


NO_MESSAGE = ""


def describe_configs(
    image: MetadataImage, request: DescribeConfigsRequest, broker: BrokerConfig
) -> DescribeConfigsResponse:
    """Return the settings of each resource. `broker`: this broker's configuration in `image`.

    Unknown names are left out; an empty list of names means all.
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
        resource = config_resource(image, item.resource_type, item.resource_name, broker)
        rows = _rows(image, resource, item.configuration_keys or None, broker)
    except ApiError as refused:
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
) -> list[DescribedConfig]:
    if resource.type is ResourceType.TOPIC:
        config, _ = TopicConfigs(broker).usable(image.config(resource))
        return config.describe(names)
    if resource.type is ResourceType.GROUP:
        return GroupConfig(broker, image.config(resource)).describe(names)
    if resource.type is ResourceType.CLIENT_METRICS:
        return ClientMetricsConfig(broker, image.config(resource)).describe(names)
    if resource.name:
        return broker.describe(names)
    return broker.describe_cluster_defaults(names)


def list_config_resources(
    image: MetadataImage, request: ListConfigResourcesRequest, version: int
) -> ListConfigResourcesResponse:
    """Return the resources of the requested types that have settings, or all of them.

    Version 0 knows client metrics only. Groups and client metrics are resources if a setting of
    them is set; a broker that levels of loggers could be asked of is never listed (see
    `config_resource`).
    """
    supported = {*ResourceType.__members__.values(), BROKER_LOGGER}
    if version == 0:
        supported = {ResourceType.CLIENT_METRICS}
    if not supported.issuperset(request.resource_types):
        return ListConfigResourcesResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=[]
        )
    wanted = set(request.resource_types) or supported
    found = [each for each in image.configs if each.type in STORED_RESOURCES]
    found += [ConfigResource(ResourceType.BROKER, str(broker_id)) for broker_id in image.brokers]
    found += [ConfigResource(ResourceType.TOPIC, name) for name in image.topics]
    return ListConfigResourcesResponse(
        error_code=0,
        config_resources=[
            ListedConfigResource(resource_name=each.name, resource_type=each.type)
            for each in found
            if each.type in wanted
        ],
    )


def _row(row: DescribedConfig, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
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
