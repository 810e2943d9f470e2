"""Decisions on BrokerRegistration and UnregisterBroker: brokers join a cluster and leave it.

A new incarnation of a broker takes over in this order, so that its partitions never have it in
their ISR with records that it lost:

    fence       the registration of the incarnation before, if it is not fenced
    departure   it leaves every ISR; after an unclean shutdown every ELR, too (KIP-966); replicas in
                directories that it no longer has are empty
    register    fenced, with the offset of this record as the broker's epoch

The shutdown was clean if the broker names the epoch of the incarnation before. It writes that down
as the last thing it does. With `log.durability=fsync` it also writes it down when it is registered:
nothing that counts is lost with an unclean stop then, which is as good (`log.log_directory`).

While one incarnation departs, heartbeats of it are refused (`cluster_control`). The same
incarnation may register again, to change what it told.

A registration is removed only if no partition needs the broker: its in-sync replicas stay at least
`min.insync.replicas`, and somebody else may lead it. Kafka removes any, and the records that only
this broker has are lost to the cluster. Its cordon (`cordoned.log.dirs`) is removed with it, unlike
in Kafka: a new node gets the lowest free id, and would be cordoned from its first start on.

The second broker of a cluster starts the keeping of eligible leader replicas, if all support it:
one broker alone has no use for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from odradek.config.broker import BrokerConfig
from odradek.controller.decision import ApiError, Parts
from odradek.controller.features import NOT_SUPPORTED
from odradek.controller.image import (
    ELIGIBLE_LEADER_REPLICAS_FEATURE,
    BrokerRegistration,
    Endpoint,
    MetadataImage,
    PartitionRegistration,
    ResourceType,
    TopicImage,
)
from odradek.controller.partition_change import ElectionRules
from odradek.controller.partition_pass import Departure, pass_over
from odradek.controller.records import METADATA_VERSION_FEATURE
from odradek.model.errors import ErrorCode
from odradek.protocol.api.broker_registration import BrokerRegistrationRequest
from odradek.protocol.api.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from odradek.protocol.metadata_records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    UnregisterBrokerRecord,
)

RESERVED_DIRECTORIES = 100
"""The first ids are not those of directories."""
FENCED, UNFENCED = 1, -1


def check_registration(
    image: MetadataImage, request: BrokerRegistrationRequest, *, in_session: bool
) -> None:
    """Raise `ApiError` unless the broker may register. `in_session`: its present registration is.

    The messages are for the log of the controller: the response has no room for them.
    """
    if request.cluster_id != image.cluster_id:
        raise ApiError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Broker {request.broker_id} belongs to cluster {request.cluster_id}, and this is "
            f"cluster {image.cluster_id}: give it another data directory or another address.",
        )
    if request.broker_id < 0:
        raise _invalid(f"The broker id {request.broker_id} is negative.")
    present = image.brokers.get(request.broker_id)
    if present is not None and in_session and present.incarnation_id != request.incarnation_id:
        raise ApiError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"Another broker is registered with id {request.broker_id}. If it was restarted, this "
            "ends with the session of the process before; if not, give this one another node.id.",
        )
    if request.is_migrating_zk_broker:
        raise ApiError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, "Brokers of ZooKeeper clusters cannot register."
        )
    _check_directories(image, request)
    _check_features(image, request)


def _check_directories(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    directories = request.log_dirs
    if not directories:
        raise _invalid("No directories specified in request")
    if any(directory.int < RESERVED_DIRECTORIES for directory in directories):
        raise _invalid("Reserved directory ID in request")
    if len(set(directories)) < len(directories):
        raise _invalid("Duplicate directory ID in request")
    for broker in image.brokers.values():
        foreign = set(directories).intersection(broker.log_dirs)
        if foreign and broker.id != request.broker_id:
            raise _invalid(
                f"Broker {broker.id} is already registered with directory {foreign.pop()}: a data "
                "directory was copied, or its node.id changed."
            )


def _check_features(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    supported = {
        each.name: (each.min_supported_version, each.max_supported_version)
        for each in request.features
    }
    if METADATA_VERSION_FEATURE not in supported:
        raise _invalid(f"Request features do not contain '{METADATA_VERSION_FEATURE}'")
    for name in {**supported, **image.features}:
        low, high = supported.get(name, NOT_SUPPORTED)
        level = image.features.get(name, 0)
        if not low <= level <= high:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because the broker does not support finalized version {level} "
                f"of {name}. The broker wants a version between {low} and {high}, inclusive.",
            )


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REGISTRATION, message)


def is_same_incarnation(image: MetadataImage, request: BrokerRegistrationRequest) -> bool:
    """True if the request comes from the incarnation that is registered."""
    present = image.brokers.get(request.broker_id)
    return present is not None and present.incarnation_id == request.incarnation_id


def amended(image: MetadataImage, request: BrokerRegistrationRequest) -> list[object]:
    """Return the records with which the same incarnation changes its registration."""
    present = image.brokers[request.broker_id]
    broker = _registration(
        request,
        present.epoch,
        fenced=present.fenced,
        in_controlled_shutdown=present.in_controlled_shutdown,
    )
    return [broker.record()]


def departed(
    image: MetadataImage, request: BrokerRegistrationRequest, config: Callable[[], BrokerConfig]
) -> Parts[None]:
    """Yield the records with which the incarnation before leaves its partitions."""
    present = image.brokers.get(request.broker_id)
    clean = present is not None and present.epoch == request.previous_broker_epoch
    return leaving(image, Departure(request.broker_id, clean, tuple(request.log_dirs)), config)


def leaving(
    image: MetadataImage, departure: Departure, config: Callable[[], BrokerConfig]
) -> Parts[None]:
    """Yield the records with which a broker is fenced and leaves its partitions."""
    present = image.brokers.get(departure.broker_id)
    if present is not None and not present.fenced:
        yield [fenced_record(present)]
    yield from pass_over(image, config, departure)


def registered(
    image: MetadataImage, request: BrokerRegistrationRequest, epoch: int
) -> list[object]:
    """Return the records of a new incarnation. `epoch`: the offset that the first one gets."""
    broker = _registration(request, epoch, fenced=True, in_controlled_shutdown=False)
    records: list[object] = [broker.record()]
    name = ELIGIBLE_LEADER_REPLICAS_FEATURE
    brokers = {**image.brokers, broker.id: broker}
    if (
        len(brokers) > len(image.brokers) > 0
        and name not in image.features
        and all(_supports_elr(each) for each in brokers.values())
    ):
        records.append(FeatureLevelRecord(name=name, feature_level=1))
    return records


def _supports_elr(broker: BrokerRegistration) -> bool:
    return any(
        name == ELIGIBLE_LEADER_REPLICAS_FEATURE and low <= 1 <= high
        for name, low, high in broker.features
    )


def _registration(
    request: BrokerRegistrationRequest, epoch: int, *, fenced: bool, in_controlled_shutdown: bool
) -> BrokerRegistration:
    return BrokerRegistration(
        id=request.broker_id,
        epoch=epoch,
        incarnation_id=request.incarnation_id,
        endpoints=tuple(
            Endpoint(each.name, each.host, each.port, each.security_protocol)
            for each in request.listeners
        ),
        features=tuple(
            (each.name, each.min_supported_version, each.max_supported_version)
            for each in request.features
        ),
        rack=request.rack,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
        log_dirs=tuple(request.log_dirs),
    )


def unregister(
    image: MetadataImage, request: UnregisterBrokerRequest, config: Callable[[], BrokerConfig]
) -> Parts[UnregisterBrokerResponse]:
    """Yield the records that remove a broker's registration. Raises `ApiError`.

    It leaves the ISR and the ELR of its partitions and stays among their replicas.
    """
    broker = image.brokers.get(request.broker_id)
    if broker is None:
        raise ApiError(
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            f"Broker ID {request.broker_id} is not currently registered",
        )
    if len(image.brokers) == 1:
        raise ApiError(ErrorCode.POLICY_VIOLATION, f"Broker {broker.id} is the only broker.")
    yield from pass_over(image, config, NeededBrokerCheck(broker.id))
    yield from leaving(image, Departure(broker.id, clean=False, log_dirs=None), config)
    present = image.brokers.get(broker.id)
    if present is not None and present.epoch == broker.epoch:
        yield [*uncordoned_records(image, broker.id), unregistered_record(broker)]
    return UnregisterBrokerResponse(error_code=ErrorCode.NONE)


@dataclass(frozen=True, slots=True)
class NeededBrokerCheck:
    """Finds the first partition that needs a broker which is to be removed."""

    broker_id: int

    def __call__(
        self, rules: ElectionRules, topic: TopicImage, number: int, partition: PartitionRegistration
    ) -> None:
        """Raise `ApiError` if the partition needs the broker; see `Decide`."""
        broker_id = self.broker_id
        if broker_id not in partition.replicas:
            return
        others = {*partition.isr, *partition.elr, *partition.last_known_elr} - {broker_id}
        least = rules.min_isr(topic)
        if not others:
            reason = "has no other replica with all its records"
        elif broker_id in partition.isr and len(partition.isr) <= least:
            reason = f"would have fewer in-sync replicas than min.insync.replicas={least}"
        else:
            return
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"Broker {broker_id} is not removed, because partition {topic.name}-{number} {reason}. "
            f"What to do: move its replicas first, with `odradek cluster drain {broker_id}` or "
            "kafka-reassign-partitions; or delete the topic.",
        )


def fenced_record(broker: BrokerRegistration) -> BrokerRegistrationChangeRecord:
    """Return the record that fences a broker."""
    return BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, fenced=FENCED
    )


def unregistered_record(broker: BrokerRegistration) -> UnregisterBrokerRecord:
    """Return the record that removes a registration."""
    return UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch)


def uncordoned_records(image: MetadataImage, broker_id: int) -> list[object]:
    """Return the record by which the next broker with this id is not cordoned, if this one is."""
    name = BrokerConfig.cordoned_log_dirs.name
    if name not in image.broker_config(broker_id):
        return []
    return [
        ConfigRecord(
            resource_type=ResourceType.BROKER, resource_name=str(broker_id), name=name, value=None
        )
    ]
