"""BrokerRegistration (key 62, versions 0 to 4): a broker that starts registers with the controller.

- 1: of brokers that migrate from ZooKeeper. 2: directories (KIP-858). 3: the epoch of the last
  clean shutdown (KIP-966). 4: features whose minimum is 0 (KAFKA-17011).
"""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import field, i16, i32, i64, message, struct, u16


@struct
class RegistrationListener:
    """An address at which the broker can be reached."""

    name: str
    host: str
    port: u16
    security_protocol: i16


@struct
class RegistrationFeature:
    """A feature and the levels that the broker supports."""

    name: str
    min_supported_version: i16
    max_supported_version: i16


@message(api=62, versions=(0, 4), flexible=0)
class BrokerRegistrationRequest:
    """A broker and what it has; the same incarnation may ask again to change that."""

    broker_id: i32
    cluster_id: str
    incarnation_id: UUID
    listeners: list[RegistrationListener]
    features: list[RegistrationFeature]
    rack: str | None
    is_migrating_zk_broker: bool = field(default=False, since=1)
    log_dirs: list[UUID] = field(
        factory=list, since=2, ignorable=True, doc="Ids of the available directories."
    )
    previous_broker_epoch: i64 = field(
        default=-1, since=3, ignorable=True, doc="The epoch that ended with a clean shutdown."
    )


@message(api=62, versions=(0, 4), flexible=0)
class BrokerRegistrationResponse:
    """The broker's epoch: the offset of its registration in the metadata log."""

    throttle_time_ms: i32 = 0
    error_code: i16
    broker_epoch: i64 = -1
