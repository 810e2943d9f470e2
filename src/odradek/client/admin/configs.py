"""Settings of topics, brokers and groups: describe, change."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.client.admin.calls import Calls, check
from odradek.client.admin.results import ConfigEntry, ResourceType, Source
from odradek.client.errors.answers import UnknownTopicOrPartition
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
OF_ONE_BROKER = (ResourceType.BROKER, ResourceType.BROKER_LOGGER)


class ConfigCalls(Calls):
    """The calls about settings. A broker's name is its id; "" stands for the default of all."""

    async def topic_config(self, topic: str) -> dict[str, ConfigEntry]:
        """The settings of a topic by name. `UnknownTopicOrPartition` if there is no such topic."""
        return await self.describe_config(ResourceType.TOPIC, topic)

    async def broker_config(self, broker_id: int | None = None) -> dict[str, ConfigEntry]:
        """The settings of a broker by name; None: those set for all brokers."""
        name = "" if broker_id is None else str(broker_id)
        return await self.describe_config(ResourceType.BROKER, name)

    async def describe_config(self, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
        """The settings of a resource by name, sorted."""
        resource = DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=None
        )
        request = DescribeConfigsRequest(
            resources=[resource], include_synonyms=False, include_documentation=True
        )

        async def attempt() -> DescribeConfigsResponse:
            node_id = await self._asked_about(kind, name)
            answer = await self.engine.call(node_id, request, DescribeConfigsResponse)
            for each in answer.results:
                check(each.error_code, described(kind, name), each.error_message)
            return answer

        answer = await self.retried(attempt)
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

    async def set_topic_config(
        self, topic: str, changes: Mapping[str, object], *, validate_only: bool = False
    ) -> None:
        """Change settings of a topic; None takes one back to its default. The others stay.

        `UnknownTopicOrPartition`, `InvalidConfig`.
        """
        await self.existing([topic])
        await self.alter_config(ResourceType.TOPIC, topic, changes, validate_only=validate_only)

    async def set_broker_config(
        self,
        broker_id: int | None,
        changes: Mapping[str, object],
        *,
        validate_only: bool = False,
    ) -> None:
        """Change settings of a broker, or (None) of all that have none of their own."""
        name = "" if broker_id is None else str(broker_id)
        await self.alter_config(ResourceType.BROKER, name, changes, validate_only=validate_only)

    async def alter_config(
        self,
        kind: ResourceType,
        name: str,
        changes: Mapping[str, object],
        *,
        validate_only: bool = False,
    ) -> None:
        """Change settings of a resource; None takes one back to its default."""
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
            node_id = await self._asked_about(kind, name)
            answer = await self.engine.call(node_id, request, IncrementalAlterConfigsResponse)
            for each in answer.responses:
                what = f"changing {', '.join(changes)} of {described(kind, name)}"
                check(each.error_code, what, each.error_message)

        await self.retried(attempt)

    async def _asked_about(self, kind: ResourceType, name: str) -> int:
        """The node that knows: a broker itself of its own settings, any of others."""
        if kind in OF_ONE_BROKER and name:
            image = await self.engine.cluster_image()
            if not name.isdecimal() or int(name) not in image.nodes:
                known = ", ".join(str(node_id) for node_id in sorted(image.nodes))
                raise UnknownTopicOrPartition(
                    f"{described(kind, name)}: the cluster has brokers {known}. What to do: choose "
                    "one of those."
                )
            return int(name)
        return await self.engine.any_node()


def described(kind: ResourceType, name: str) -> str:
    """A resource as people call it."""
    word = kind.name.lower().replace("_", " ")
    return f"{word} {name}" if name else f"the defaults of all {word}s"
