"""DescribeClientQuotas (key 48, versions 0 to 1): the quotas of users, client ids and addresses.

1: flexible. Entity types: `user`, `client-id`, `ip` (KIP-546, KIP-612).
"""

from __future__ import annotations

from odradek.protocol.schema import f64, field, i8, i16, i32, message, struct


@struct
class ComponentData:
    """One component of the filter."""

    entity_type: str
    match_type: i8 = field(doc="0 this name, 1 the default, 2 any name.")
    match: str | None


@message(api=48, versions=(0, 1), flexible=1)
class DescribeClientQuotasRequest:
    """Describe the entities that match all components."""

    components: list[ComponentData]
    strict: bool = field(doc="Entities with further types do not match.")


@struct
class EntityData:
    """One part of an entity; a null name is the default."""

    entity_type: str
    entity_name: str | None


@struct
class ValueData:
    """One quota."""

    key: str
    value: f64


@struct
class EntryData:
    """One entity and its quotas."""

    entity: list[EntityData]
    values: list[ValueData]


@message(api=48, versions=(0, 1), flexible=1)
class DescribeClientQuotasResponse:
    """The entities that match; null after an error."""

    throttle_time_ms: i32 = 0
    error_code: i16
    error_message: str | None = None
    entries: list[EntryData] | None
