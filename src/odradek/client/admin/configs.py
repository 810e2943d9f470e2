"""Settings of topics, brokers, groups and other resources: describe, change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypedDict, Unpack

from odradek.client.admin.calls import Calls, check_broker, raise_for_code
from odradek.client.admin.results import ConfigEntry, ResourceType, Source
from odradek.client.arguments import checked_topic, text_of
from odradek.config.setting import setting_text
from odradek.protocol.api.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from odradek.protocol.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

SET, DELETE = 0, 1
NO_BROKER = -1
ALL = "all"
OF_ONE_BROKER = (ResourceType.BROKER, ResourceType.BROKER_LOGGER)


class Resource(TypedDict, total=False):
    """A resource with settings, as keywords: exactly one of these."""

    topic: str
    broker: int | Literal["all"]
    """A broker by id; "all": the defaults of brokers without a value of their own."""
    broker_logger: int
    """The log levels of a broker, by id."""
    client_metrics: str
    group: str


class ConfigCalls(Calls):
    """The calls about settings."""

    async def describe_config(self, **of: Unpack[Resource]) -> dict[str, ConfigEntry]:
        """Return the settings of a topic, a broker or another resource by name, sorted:
        `describe_config(topic="orders")`. Raises `UnknownTopicOrPartition`."""
        kind, name = resource_of(of)
        resource = DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=None
        )
        request = DescribeConfigsRequest(
            resources=[resource], include_synonyms=False, include_documentation=True
        )

        async def attempt() -> DescribeConfigsResponse:
            node_id = await self._node_for(kind, name)
            answer = await self.call(node_id, request, DescribeConfigsResponse)
            for each in answer.results:
                raise_for_code(each.error_code, resource_text(kind, name), each.error_message)
            return answer

        answer = await self.retry(attempt)
        return {
            entry.name: ConfigEntry(
                entry.name,
                entry.value,
                Source.of(entry.config_source),
                entry.read_only,
                entry.is_sensitive,
                entry.documentation or None,
            )
            for result in answer.results
            for entry in sorted(result.configs, key=lambda entry: entry.name)
        }

    async def set_config(
        self, changes: Mapping[str, object], *, validate_only: bool = False, **of: Unpack[Resource]
    ) -> None:
        """Change settings of a topic, a broker or another resource:
        `set_config({"retention.ms": 60_000}, topic="orders")`. None resets a setting to its
        default; settings not named stay. Raises `UnknownTopicOrPartition` and `InvalidConfig`."""
        kind, name = resource_of(of)
        if kind is ResourceType.TOPIC:
            await self.existing_topics([name])
        configs = [
            AlterableConfig(
                name=key,
                config_operation=DELETE if value is None else SET,
                value=None if value is None else setting_text(value),
            )
            for key, value in changes.items()
        ]
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)

        async def attempt() -> None:
            node_id = await self._node_for(kind, name)
            answer = await self.call(node_id, request, IncrementalAlterConfigsResponse)
            for each in answer.responses:
                what = f"changing {', '.join(changes)} of {resource_text(kind, name)}"
                raise_for_code(each.error_code, what, each.error_message)

        await self.retry(attempt)

    async def _node_for(self, kind: ResourceType, name: str) -> int:
        """Return the node for a request: the broker itself for a broker's settings, else any
        node."""
        if kind in OF_ONE_BROKER and name:
            image = await self.engine.cluster_image()
            node_id = int(name) if name.isdecimal() else NO_BROKER
            check_broker(image, node_id, resource_text(kind, name))
            return node_id
        return await self.engine.any_node()


def resource_of(given: Resource) -> tuple[ResourceType, str]:
    """Return type and name of a resource for the protocol; "all" brokers have an empty name. Raises
    `TypeError`."""
    if len(given) != 1 or not given.keys() <= Resource.__annotations__.keys():
        raise TypeError(
            f"give exactly one resource ({', '.join(Resource.__annotations__)}), not "
            f"{', '.join(given) or 'none'}"
        )
    ((word, name),) = given.items()
    if word == "topic":
        checked_topic(name)
    elif word in ("group", "client_metrics"):
        text_of(word, name)
    return ResourceType[word.upper()], "" if name == ALL and word == "broker" else str(name)


def resource_text(kind: ResourceType, name: str) -> str:
    """Return a resource as text for messages."""
    word = kind.name.lower().replace("_", " ")
    return f"{word} {name}" if name else f"the defaults of all {word}s"
