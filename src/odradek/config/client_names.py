"""The names of client settings in other libraries, and their meanings here.

The tables have Kafka's own names, those of librdkafka (confluent-kafka), and the keywords of
kafka-python and aiokafka. Case does not matter, and `_` means `.`: `linger_ms`, `LINGER.MS` and
`queue.buffering.max.ms` all mean `linger.ms`.

A name is one of these:

- a setting of this kind of client, or an alias of one (`ALIASES`);
- a setting without effect here (`WITHOUT_EFFECT`, or a setting or argument of another kind of
  client): a warning, so that configurations of other libraries work;
- a setting for a feature that this client does not have (`REFUSED`): an error, because the program
  relies on its effect;
- unknown: an error with the most similar name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Alias(NamedTuple):
    """The setting that an alias means, and the conversion of its values."""

    name: str
    value: Callable[[str], str] = str


def kibibytes(text: str) -> str:
    """Bytes of a size that librdkafka has in KiB."""
    return str(int(text) * 1024) if text.strip().isdecimal() else text


def system_default(text: str) -> str:
    """The size of a buffer, which is 0 in librdkafka if the operating system chooses it."""
    return "-1" if text.strip() == "0" else text


def offset_reset_name(text: str) -> str:
    """Kafka's name of a reset strategy that librdkafka names differently."""
    words = {
        "smallest": "earliest",
        "beginning": "earliest",
        "largest": "latest",
        "end": "latest",
        "error": "none",
    }
    return words.get(text.strip().lower(), text.strip())


def assignor_names(text: str) -> str:
    """The names of assignors, from names or from the class names of Java and of Python clients."""
    return ",".join(assignor_name(name.strip()) for name in text.split(",") if name.strip())


def assignor_name(name: str) -> str:
    plain = name.rpartition(".")[2].removesuffix("Assignor").removesuffix("Partition")
    short = plain.lower().replace("_", "-")
    return {"cooperativesticky": "cooperative-sticky", "round-robin": "roundrobin"}.get(
        short, short
    )


def lower(text: str) -> str:
    return text.strip().lower()


def upper(text: str) -> str:
    return text.strip().upper()


ALIASES: dict[str, Alias] = {
    # Kafka's own names of settings whose values may be written in several ways.
    "acks": Alias("acks", lambda text: "all" if text.strip() == "-1" else lower(text)),
    "auto.offset.reset": Alias("auto.offset.reset", offset_reset_name),
    "compression.type": Alias("compression.type", lower),
    "group.protocol": Alias("group.protocol", lower),
    "isolation.level": Alias("isolation.level", lower),
    "metadata.recovery.strategy": Alias("metadata.recovery.strategy", lower),
    "partition.assignment.strategy": Alias("partition.assignment.strategy", assignor_names),
    "security.protocol": Alias("security.protocol", upper),
    # librdkafka.
    "bootstrap.server": Alias("bootstrap.servers"),
    "brokers": Alias("bootstrap.servers"),
    "compression.codec": Alias("compression.type", lower),
    "fetch.message.max.bytes": Alias("max.partition.fetch.bytes"),
    "fetch.wait.max.ms": Alias("fetch.max.wait.ms"),
    "max.in.flight": Alias("max.in.flight.requests.per.connection"),
    "message.max.bytes": Alias("max.request.size"),
    "message.send.max.retries": Alias("retries"),
    "message.timeout.ms": Alias("delivery.timeout.ms"),
    "metadata.broker.list": Alias("bootstrap.servers"),
    "queue.buffering.max.kbytes": Alias("buffer.memory", kibibytes),
    "queue.buffering.max.ms": Alias("linger.ms"),
    "queued.max.messages.kbytes": Alias("prefetch.max.bytes", kibibytes),
    "request.required.acks": Alias(
        "acks", lambda text: "all" if text.strip() == "-1" else lower(text)
    ),
    "socket.receive.buffer.bytes": Alias("receive.buffer.bytes", system_default),
    "socket.send.buffer.bytes": Alias("send.buffer.bytes", system_default),
    "socket.timeout.ms": Alias("request.timeout.ms"),
    "topic.metadata.refresh.interval.ms": Alias("metadata.max.age.ms"),
    "auto.commit.enable": Alias("enable.auto.commit"),
    # This client's own arguments, and those of kafka-python and aiokafka.
    "group": Alias("group.id"),
    "max.batch.size": Alias("batch.size"),
    "rebalance.timeout.ms": Alias("max.poll.interval.ms"),
}

WITHOUT_EFFECT: frozenset[str] = frozenset(
    {
        # Kafka's.
        "auto.include.jmx.reporter",
        "client.dns.lookup",
        "config.providers",
        "enable.metrics.push",
        "internal.throw.on.fetch.stable.offset.unsupported",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "security.providers",
        "share.acknowledgement.mode",
        "share.acquire.mode",
        "transaction.two.phase.commit.enable",
        # librdkafka's.
        "allow.auto.create.topics",
        "api.version.fallback.ms",
        "api.version.request",
        "api.version.request.timeout.ms",
        "batch.num.messages",
        "broker.address.family",
        "broker.address.ttl",
        "broker.version.fallback",
        "builtin.features",
        "client.software.name",
        "client.software.version",
        "compression.level",  # Of a consumer; a producer's is that of its codec.
        "consume.callback.max.messages",
        "coordinator.query.interval.ms",
        "debug",
        "delivery.report.only.error",
        "enable.gapless.guarantee",
        "enable.random.seed",
        "enable.sparse.connections",
        "enabled.events",
        "fetch.error.backoff.ms",
        "fetch.queue.backoff.ms",
        "internal.termination.signal",
        "log.connection.close",
        "log.queue",
        "log.thread.name",
        "log.level",
        "message.copy.max.bytes",
        "metadata.request.timeout.ms",
        "offset.store.method",
        "offset.store.path",
        "offset.store.sync.interval.ms",
        "opaque",
        "plugin.library.paths",
        "produce.offset.report",
        "queue.buffering.backpressure.threshold",
        "queue.buffering.max.messages",
        "queued.min.messages",
        "queuing.strategy",
        "receive.message.max.bytes",
        "reconnect.backoff.jitter.ms",
        "socket.blocking.max.ms",
        "socket.keepalive.enable",
        "socket.max.fails",
        "socket.nagle.disable",
        "statistics.interval.ms",
        "sticky.partitioning.linger.ms",
        "topic.blacklist",
        "topic.metadata.propagation.max.ms",
        "topic.metadata.refresh.fast.cnt",
        "topic.metadata.refresh.fast.interval.ms",
        "topic.metadata.refresh.sparse",
        # kafka-python's and aiokafka's.
        "api.version",
        "api.version.auto.timeout.ms",
        "bootstrap.timeout.ms",
        "bootstrap.topics.filter",
        "enable.incremental.fetch.sessions",
        "kafka.client",
        "legacy.iterator",
        "loop",
        "max.poll.timeout.ms",
        "metric.group.prefix",
        "metrics.enabled",
        "selector",
        "sock.chunk.bytes",
        "socket.options",
        "wakeup.timeout.ms",
    }
)

REFUSED: dict[str, str] = {
    "bootstrap.controllers": "connections to controllers are not supported yet: name brokers",
    "consume.cb": "iterate over the consumer",
    "consumer.timeout.ms": "give the iteration its own end, or use consume(timeout=...)",
    "default.offset.commit.callback": "commit() raises its errors",
    "default.topic.config": "give its settings with the others",
    "dr.cb": "give on_delivery to send() or produce()",
    "dr.msg.cb": "give on_delivery to send() or produce()",
    "enable.auto.offset.store": "set enable.auto.commit=false and commit processed records",
    "enable.partition.eof": "compare position() with the end offsets",
    "error.cb": "calls raise their errors; all others are logged",
    "group.protocol.type": "groups of consumers have the type consumer",
    "group.remote.assignor": "the consumer group protocol (KIP-848) is not supported yet",
    "interceptor.classes": "give objects to the constructor of a producer or consumer as "
    "interceptors=[...], of classes derived from ProducerInterceptor or ConsumerInterceptor",
    "log.cb": "the client logs to the logger `odradek`",
    "oauth.cb": "security protocols are not supported yet",
    "offset.commit.cb": "commit() raises its errors",
    "on.delivery": "give it to send() or produce()",
    "open.cb": "the client would not call it",
    "partitioner.class": "give a function to the constructor as partitioner=...",
    "proxy.url": "proxies are not supported",
    "rebalance.cb": "give on_assign, on_revoke and on_lost to subscribe()",
    "socket.cb": "the client would not call it",
    "socks5.proxy": "proxies are not supported",
    "stats.cb": "call metrics() of the client",
    "test.mock.broker.rtt": "give brokers; odradek.testing.Broker is one for tests",
    "test.mock.num.brokers": "give brokers; odradek.testing.Broker is one for tests",
    "throttle.cb": "call metrics() of the client",
}
"""Settings of features that the clients do not have, and what to do instead."""

HARMLESS: dict[str, str] = {
    "enable.auto.offset.store": "true",
    "enable.partition.eof": "false",
    "group.protocol.type": "consumer",
    "interceptor.classes": "",
    "test.mock.broker.rtt": "0",
    "test.mock.num.brokers": "0",
}
"""The values that turn the features of some names in `REFUSED` off."""

SECURITY_PREFIXES = ("ssl.", "sasl.", "security.inter.broker.", "enable.ssl.", "enable.sasl.")
"""Prefixes of settings of security protocols. They have no effect on PLAINTEXT connections."""


def normalised(name: str) -> str:
    """The name in Kafka's form: lower case, with dots."""
    return name.strip().lower().replace("_", ".")


def alias_of(name: str) -> Alias:
    """The setting that a name means: itself, if it is not an alias."""
    plain = normalised(name)
    return ALIASES.get(plain, Alias(plain))
