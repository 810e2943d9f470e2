"""DescribeConfigs, IncrementalAlterConfigs, AlterConfigs: topics, brokers, cluster defaults."""

from __future__ import annotations

import itertools

from interop.differential.peer import Peer
from odradek.protocol.api import alter_configs as legacy
from odradek.protocol.api.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from odradek.protocol.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.api.list_config_resources import ListConfigResourcesRequest

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
NODE = "1"
DOCUMENTATION_SINCE = 3
TYPES_SINCE = 1
Change = tuple[str, int, str | None]


def describing(
    kind: int,
    name: str,
    keys: list[str] | None = None,
    *,
    synonyms: bool = False,
    documentation: bool = False,
) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    return DescribeConfigsRequest(
        resources=[resource], include_synonyms=synonyms, include_documentation=documentation
    )


def changing(
    kind: int, name: str, *changes: Change, validate_only: bool = False
) -> IncrementalAlterConfigsRequest:
    configs = [
        AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)


def describe(peer: Peer) -> None:
    """All settings of each kind of resource; some of them; unknown resources."""
    peer.new_topic("described", retention_ms="1234", segment_bytes="2000000")
    for version in peer.each_version(DescribeConfigsRequest):
        flags = [False, True] if version >= DOCUMENTATION_SINCE else [False]
        for synonyms, documentation in itertools.product((False, True), flags):
            for kind, name in (
                (TOPIC, "described"),
                (BROKER, NODE),
                (BROKER, ""),
                (GROUP, "described"),
                (CLIENT_METRICS, "described"),
            ):
                request = describing(kind, name, synonyms=synonyms, documentation=documentation)
                label = f"v{version} {kind} {name!r}, {synonyms}, {documentation}"
                peer.call(label, request, version)
        for keys in (
            ["retention.ms"],
            ["retention.ms", "no.such.setting", "retention.ms"],
            ["no.such.setting"],
            [],
        ):
            request = describing(TOPIC, "described", keys)
            peer.call(f"v{version} only {keys}", request, version)
            request = describing(BROKER, NODE, [*keys, "node.id"] if keys else keys)
            peer.call(f"v{version} of the broker only {keys}", request, version)
        for kind, name in (
            (TOPIC, "described-unknown"),
            (TOPIC, ""),
            (TOPIC, "bad name"),
            (BROKER, "77"),
            (BROKER, "one"),
            (BROKER, "-1"),
            (0, ""),
            (3, "x"),
            (99, "x"),
            (GROUP, ""),
            (CLIENT_METRICS, ""),
        ):
            peer.call(f"v{version} {kind} {name!r}", describing(kind, name), version)
        twice = describing(TOPIC, "described", ["retention.ms"])
        twice.resources *= 2
        peer.call(f"v{version} twice", twice, version)
        peer.call(f"v{version} nothing", DescribeConfigsRequest(resources=[]), version)


TOPIC_CHANGES: list[list[Change]] = [
    [("retention.ms", SET, "5000")],
    [("retention.ms", SET, "5000")],
    [("retention.ms", DELETE, None)],
    [("retention.ms", DELETE, None)],
    [("retention.ms", DELETE, "5000")],
    [("retention.ms", SET, None)],
    [("retention.ms", SET, "soon")],
    [("retention.ms", SET, "-2")],
    [("retention.ms", SET, "")],
    [("retention.ms", APPEND, "1")],
    [("retention.ms", SUBTRACT, "1")],
    [("retention.ms", 7, "1")],
    [("no.such.setting", SET, "1")],
    [("no.such.setting", DELETE, None)],
    [("no.such.setting", APPEND, "1")],
    [("", SET, "1")],
    [("cleanup.policy", APPEND, "delete")],
    [("cleanup.policy", APPEND, None)],
    [("cleanup.policy", SUBTRACT, "compact")],
    [("cleanup.policy", APPEND, "compact")],
    [("cleanup.policy", SUBTRACT, "delete")],
    [("cleanup.policy", SET, "")],
    [("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5")],
    [("min.cleanable.dirty.ratio", SET, "1.1")],
    [("min.cleanable.dirty.ratio", SET, "0.25")],
    [("cleanup.policy", APPEND, "burn")],
    [("leader.replication.throttled.replicas", SET, "0:1")],
    [("leader.replication.throttled.replicas", APPEND, "1:1,0:1")],
    [("leader.replication.throttled.replicas", SUBTRACT, "0:1")],
    [("leader.replication.throttled.replicas", APPEND, "nonsense")],
    [("retention.ms", SET, "1"), ("retention.ms", SET, "2")],
    [("retention.ms", SET, "1"), ("retention.bytes", SET, "many")],
    [("retention.ms", SET, "1"), ("retention.bytes", SET, "77")],
    [("min.insync.replicas", SET, "3")],
    [("max.message.bytes", SET, "2000"), ("compression.type", SET, "gzip")],
    [],
]


def alter_topics(peer: Peer) -> None:
    """Each operation on a topic's settings, validated only and applied; the settings afterwards."""
    for version in peer.each_version(IncrementalAlterConfigsRequest):
        name = f"altered-v{version}"
        peer.new_topic(name)
        for number, changes in enumerate(TOPIC_CHANGES):
            for validate_only in (True, False):
                request = changing(TOPIC, name, *changes, validate_only=validate_only)
                told = "checked" if validate_only else "done"
                peer.call(f"v{version} {number} {changes}, {told}", request, version)
            await_earlier_changes(peer, name, 1_000 + number)
            request = describing(TOPIC, name, sorted({change[0] for change in changes}))  # type: ignore[assignment]
            if changes:
                peer.call(f"v{version} {number} {changes}, then", request, 4)
        for topic in (f"{name}-none", "", "bad name"):
            request = changing(TOPIC, topic, ("retention.ms", SET, "1"))
            peer.call(f"v{version} of {topic!r}", request, version)
        several(peer, version, name)


def await_earlier_changes(peer: Peer, name: str, mark: int) -> None:
    """Wait for earlier changes: metadata reach a broker in order, so a later mark is enough."""
    mark_setting = "file.delete.delay.ms"
    peer.ask(changing(TOPIC, name, (mark_setting, SET, str(mark))), 1)
    request = describing(TOPIC, name, [mark_setting])
    peer.until(lambda: peer.ask(request, 4).results[0].configs[0].value == str(mark))


def several(peer: Peer, version: int, name: str) -> None:
    """Several resources in a request: valid and invalid ones, the same twice, none."""
    good = changing(TOPIC, name, ("retention.ms", SET, "99"))
    bad = changing(TOPIC, f"{name}-none", ("retention.ms", SET, "99"))
    both = IncrementalAlterConfigsRequest(
        resources=[*good.resources, *bad.resources], validate_only=False
    )
    peer.call(f"v{version} good and bad", both, version)
    twice = IncrementalAlterConfigsRequest(
        resources=[*good.resources, *good.resources], validate_only=False
    )
    peer.call(f"v{version} twice", twice, version)
    nothing = IncrementalAlterConfigsRequest(resources=[], validate_only=False)
    peer.call(f"v{version} nothing", nothing, version)
    for kind in (0, 3, 99):
        peer.call(
            f"v{version} kind {kind}", changing(kind, name, ("retention.ms", SET, "1")), version
        )


PRINCIPAL_BUILDER = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
BROKER_CHANGES: list[list[Change]] = [
    [("log.retention.ms", SET, "700000")],
    [("log.retention.ms", SET, "never")],
    [("log.retention.ms", DELETE, None)],
    [("message.max.bytes", SET, "500000")],
    [("message.max.bytes", DELETE, None)],
    [("node.id", SET, "5")],
    [("log.dirs", SET, "/nowhere")],
    [("no.such.setting", SET, "5")],
    [("num.io.threads", SET, "0")],
    [("auto.create.topics.enable", SET, "false")],
    [("max.connections", SET, "1000")],
    [("max.connections", DELETE, None)],
    [("log.cleanup.policy", SET, "burn")],
    [("log.segment.bytes", SET, "10")],
    [("num.io.threads", SET, "12")],
    [("num.io.threads", DELETE, None)],
    [("num.io.threads", SET, "100")],
    [("log.cleaner.threads", SET, "2")],
    [("log.cleaner.threads", DELETE, None)],
    [("log.cleaner.threads", SET, "0")],
    [("background.threads", SET, "8")],
    [("background.threads", SET, "100")],
    [("background.threads", DELETE, None)],
    [("listener.security.protocol.map", SET, "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT")],
    [("listener.security.protocol.map", SET, "PLAINTEXT:SSL,CONTROLLER:PLAINTEXT")],
    [("listener.security.protocol.map", SET, "PLAINTEXT:NONE")],
    [("listener.security.protocol.map", SET, "")],
    [("listener.security.protocol.map", DELETE, None)],
    [("principal.builder.class", SET, PRINCIPAL_BUILDER)],
    [("principal.builder.class", DELETE, None)],
    [("principal.builder.class", SET, "no.such.Class")],
    [("cordoned.log.dirs", SET, "/nowhere")],
    [("cordoned.log.dirs", SET, "*,/nowhere")],
    [("cordoned.log.dirs", SET, "")],
    [("cordoned.log.dirs", DELETE, None)],
    [("sasl.kerberos.min.time.before.relogin", SET, "1000")],
    [("sasl.kerberos.min.time.before.relogin", DELETE, None)],
    [("sasl.kerberos.min.time.before.relogin", SET, "soon")],
    [("sasl.login.refresh.window.factor", SET, "0.5")],
    [("sasl.login.refresh.window.factor", DELETE, None)],
    [("sasl.enabled.mechanisms", SET, "PLAIN,GSSAPI")],
    [("sasl.enabled.mechanisms", DELETE, None)],
    [("sasl.jaas.config", SET, "secret")],
    [("sasl.jaas.config", DELETE, None)],
    [("ssl.protocol", SET, "TLSv1.2")],
    [("ssl.protocol", DELETE, None)],
    [("ssl.client.auth", SET, "maybe")],
    [("ssl.keystore.location", SET, "/nowhere")],
    [("leader.replication.throttled.rate", SET, "1000")],
    [("leader.replication.throttled.rate", DELETE, None)],
    [("leader.replication.throttled.rate", SET, "-1")],
    [("max.connections.per.ip.overrides", SET, "127.0.0.1:500,::1:600")],
    [("max.connections.per.ip.overrides", DELETE, None)],
    [("max.connections.per.ip.overrides", SET, "nonsense")],
    [("max.connection.creation.rate", SET, "0")],
    [("transaction.partition.verification.enable", SET, "false")],
    [("transaction.partition.verification.enable", DELETE, None)],
    [("group.coordinator.cached.buffer.max.bytes", SET, "5")],
    [("group.consumer.assignment.interval.ms", SET, "2000")],
    [("group.consumer.assignment.interval.ms", DELETE, None)],
    [("group.consumer.session.timeout.ms", SET, "46000")],
    [("remote.fetch.max.wait.ms", SET, "700")],
    [("remote.fetch.max.wait.ms", DELETE, None)],
    [("metric.reporters", SET, "")],
    [("metric.reporters", DELETE, None)],
    [("min.insync.replicas", SET, "2")],
    [("min.insync.replicas", SET, "0")],
    [("min.insync.replicas", DELETE, None)],
    [("min.insync.replicas", SET, "1")],
]


def alter_brokers(peer: Peer) -> None:
    """Settings of this broker and of all; the values that the broker and a topic report."""
    peer.new_topic("under-brokers")
    for version in peer.each_version(IncrementalAlterConfigsRequest):
        for target in (NODE, ""):
            for number, changes in enumerate(BROKER_CHANGES):
                for validate_only in (True, False):
                    request = changing(BROKER, target, *changes, validate_only=validate_only)
                    told = "checked" if validate_only else "done"
                    label = f"v{version} broker {target!r} {number} {changes}"
                    peer.call(f"{label}, {told}", request, version)
                mark = 10_000 * (version + 1) + 100 * len(target) + number
                await_earlier_changes(peer, "under-brokers", mark)
                keys = [change[0] for change in changes]
                request = describing(BROKER, NODE, keys, synonyms=True)  # type: ignore[assignment]
                peer.call(f"{label}, then", request, 4)
            request = describing(TOPIC, "under-brokers", ["retention.ms"], synonyms=True)  # type: ignore[assignment]
            peer.call(f"v{version} broker {target!r}, a topic then", request, 4)
        for target in ("77", "one", "-1"):
            request = changing(BROKER, target, ("message.max.bytes", SET, "500000"))
            peer.call(f"v{version} broker {target!r}", request, version)
    for target in (NODE, ""):
        peer.ask(changing(BROKER, target, ("log.retention.ms", DELETE, None)), 1)
        peer.ask(changing(BROKER, target, ("no.such.setting", DELETE, None)), 1)


def inherited(peer: Peer) -> None:
    """A topic's value with all synonyms: topic, broker, cluster, static, default."""
    peer.new_topic("heir")
    request = describing(TOPIC, "heir", ["max.message.bytes"], synonyms=True)
    levels = (
        (BROKER, "", "message.max.bytes", "800000"),
        (BROKER, NODE, "message.max.bytes", "700000"),
    )
    for number, (kind, name, key, value) in enumerate(
        [*levels, (TOPIC, "heir", "max.message.bytes", "600000")]
    ):
        peer.ask(changing(kind, name, (key, SET, value)), 1)
        await_earlier_changes(peer, "heir", 100 + number)
        peer.call(f"with {value}", request, 4)
    for number, (kind, name, key, _) in enumerate(levels):
        peer.ask(changing(kind, name, (key, DELETE, None)), 1)
        await_earlier_changes(peer, "heir", 200 + number)
        peer.call(f"without {number}", request, 4)


def replace(peer: Peer) -> None:
    """AlterConfigs: settings that are not named get their default again."""
    for version in peer.each_version(legacy.AlterConfigsRequest):
        name = f"replaced-v{version}"
        peer.new_topic(name, retention_ms="1", retention_bytes="2")
        for number, configs in enumerate(
            (
                {"retention.ms": "5"},
                {"retention.ms": "soon"},
                {"no.such.setting": "5"},
                {"retention.ms": None},
                {},
            )
        ):
            for validate_only in (True, False):
                request = replacing(TOPIC, name, configs, validate_only)  # type: ignore[arg-type]
                told = "checked" if validate_only else "done"
                peer.call(f"v{version} {configs}, {told}", request, version)
            if number % 2 == 0:
                check = describing(TOPIC, name, ["retention.ms", "retention.bytes"], synonyms=True)
                wait_for(peer, name, None if number == 4 else "5")
                peer.call(f"v{version} {configs}, then", check, 4)
        for kind, resource in ((TOPIC, "replaced-none"), (TOPIC, ""), (BROKER, "77"), (9, "x")):
            request = replacing(kind, resource, {"retention.ms": "5"}, False)
            peer.call(f"v{version} {kind} {resource!r}", request, version)
    twice = replacing(TOPIC, name, {"retention.ms": "5"}, False)
    twice.resources *= 2
    peer.call("twice", twice, version, hangs=True)


def wait_for(peer: Peer, name: str, retention_ms: str | None) -> None:
    """Wait until the topic has this value of its own, or none."""
    request = describing(TOPIC, name, ["retention.ms"])

    def there() -> bool:
        config = peer.ask(request, 4).results[0].configs[0]
        own = config.value if config.config_source == 1 else None
        return own == retention_ms

    peer.until(there)


def replacing(
    kind: int, name: str, configs: dict[str, str | None], validate_only: bool
) -> legacy.AlterConfigsRequest:
    resource = legacy.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[legacy.AlterableConfig(name=key, value=value) for key, value in configs.items()],
    )
    return legacy.AlterConfigsRequest(resources=[resource], validate_only=validate_only)


RESOURCE_CHANGES: list[tuple[int, list[Change]]] = [
    (GROUP, [("consumer.session.timeout.ms", SET, "50000")]),
    (GROUP, [("consumer.session.timeout.ms", SET, "44000")]),
    (GROUP, [("consumer.session.timeout.ms", SET, "60001")]),
    (GROUP, [("consumer.session.timeout.ms", SET, "soon")]),
    (GROUP, [("consumer.session.timeout.ms", APPEND, "46000")]),
    (GROUP, [("consumer.heartbeat.interval.ms", SET, "15001")]),
    (GROUP, [("consumer.assignment.interval.ms", SET, "15001")]),
    (GROUP, [("share.auto.offset.reset", SET, "earliest")]),
    (GROUP, [("share.auto.offset.reset", SET, "by_duration:PT1H")]),
    (GROUP, [("share.auto.offset.reset", SET, "by_duration:-PT1H")]),
    (GROUP, [("share.auto.offset.reset", SET, "none")]),
    (GROUP, [("share.isolation.level", SET, "read_committed")]),
    (GROUP, [("share.isolation.level", SET, "whatever")]),
    (GROUP, [("share.renew.acknowledge.enable", SET, "false")]),
    (GROUP, [("share.record.lock.duration.ms", SET, "14000")]),
    (GROUP, [("share.record.lock.duration.ms", SET, "16000")]),
    (GROUP, [("share.delivery.count.limit", SET, "11")]),
    (GROUP, [("share.partition.max.record.locks", SET, "4001")]),
    (GROUP, [("streams.num.standby.replicas", SET, "2")]),
    (GROUP, [("streams.num.standby.replicas", SET, "3")]),
    (GROUP, [("streams.initial.rebalance.delay.ms", SET, "0")]),
    (GROUP, [("no.such.setting", SET, "1")]),
    (GROUP, [("no.such.setting", DELETE, None)]),
    (GROUP, [("no.such.setting", APPEND, "1")]),
    (GROUP, [("consumer.session.timeout.ms", DELETE, None)]),
    (CLIENT_METRICS, [("metrics", SET, "org.apache.kafka.,b")]),
    (CLIENT_METRICS, [("metrics", APPEND, "c")]),
    (CLIENT_METRICS, [("metrics", SET, "")]),
    (CLIENT_METRICS, [("metrics", SET, "*"), ("interval.ms", SET, "100")]),
    (CLIENT_METRICS, [("interval.ms", SET, "99")]),
    (CLIENT_METRICS, [("interval.ms", SET, "3600001")]),
    (CLIENT_METRICS, [("interval.ms", SET, "soon")]),
    (CLIENT_METRICS, [("match", SET, "client_id=x.*,client_software_name = y")]),
    (CLIENT_METRICS, [("match", SET, "client_id")]),
    (CLIENT_METRICS, [("match", SET, "client_id=")]),
    (CLIENT_METRICS, [("match", SET, "client_id=(")]),
    (CLIENT_METRICS, [("match", SET, "nonsense=x")]),
    (CLIENT_METRICS, [("no.such.setting", SET, "1")]),
    (CLIENT_METRICS, [("interval.ms", DELETE, None)]),
]


def alter_others(peer: Peer) -> None:
    """Settings of groups and of client metrics: checked and done, the settings afterwards, and
    the resources that are listed meanwhile.
    """
    peer.new_topic("beside-others")
    for version in peer.each_version(IncrementalAlterConfigsRequest):
        name = f"others-v{version}"
        for number, (kind, changes) in enumerate(RESOURCE_CHANGES):
            for validate_only in (True, False):
                request = changing(kind, name, *changes, validate_only=validate_only)
                told = "checked" if validate_only else "done"
                peer.call(f"v{version} {kind} {number} {changes}, {told}", request, version)
            await_earlier_changes(peer, "beside-others", 10_000 * (version + 1) + number)
            shown = describing(kind, name, [change[0] for change in changes], synonyms=True)
            peer.call(f"v{version} {kind} {number} {changes}, then", shown, 4)
        for kind, key, value in (
            (GROUP, "share.isolation.level", "read_committed"),
            (CLIENT_METRICS, "metrics", "a"),
        ):
            request = changing(kind, "", (key, SET, value))
            peer.call(f"v{version} {kind} without a name", request, version)
    list_resources(peer, "while there are some")
    for version in peer.each_version(IncrementalAlterConfigsRequest):
        for kind in (GROUP, CLIENT_METRICS):
            names = {
                change[0] for of, changes in RESOURCE_CHANGES for change in changes if of == kind
            }
            undone = [(key, DELETE, None) for key in sorted(names)]
            peer.ask(changing(kind, f"others-v{version}", *undone), version)
    await_earlier_changes(peer, "beside-others", 1)
    list_resources(peer, "afterwards")


def list_resources(peer: Peer, label: str) -> None:
    """List resources of all types, of each type, of unknown types."""
    for version in peer.each_version(ListConfigResourcesRequest):
        peer.call(f"{label}, v{version} all", ListConfigResourcesRequest(), version)
        if version >= TYPES_SINCE:
            for types in ([TOPIC], [BROKER], [CLIENT_METRICS], [GROUP], [GROUP, TOPIC], [8], [99]):
                request = ListConfigResourcesRequest(resource_types=types)
                peer.call(f"{label}, v{version} {types}", request, version)
