"""Every accepted difference from Apache Kafka 4.3.1's answers, with its reason.

An entry that covers no difference any more fails the comparison, as an unknown difference does.
"""

from __future__ import annotations

from interop.differential.comparing import ABSENT, Deviation

SAYS_WHY = "The answer says why the batch was refused; Kafka says that in its log only."
NO_SERVER_ERROR = (
    "Kafka's decompressor throws what nothing expects, so the client is told UNKNOWN_SERVER_ERROR "
    "and tries again in vain; INVALID_RECORD says that it must not."
)
UNKNOWN_CODEC = (
    "Kafka throws on a codec that does not exist and answers UNKNOWN_SERVER_ERROR, upon which the "
    "client tries again in vain; this broker names the reason."
)
STRICT_DELTAS = (
    "Kafka stores uncompressed records whose offset deltas are not 0, 1, 2, ...; its consumers "
    "then skip or repeat records. Refused here, as Kafka itself does with wrong counts."
)
NO_GARBAGE = (
    "Kafka stops reading a gzip or lz4 stream after the last record and stores what follows it; "
    "readers that decompress the whole section cannot read such a batch. Refused here."
)
NEGATIVE_LIMIT = (
    "Kafka's log throws on a negative limit and answers UNKNOWN_SERVER_ERROR; this broker takes it "
    "as 0."
)
WHOLE_BATCHES = (
    "Kafka cuts the last batch off at the byte limit and clients throw the piece away; this broker "
    "sends whole batches only."
)
CODEC_CHECK_BEFORE_ZSTD = (
    "Below version 7 Kafka already stumbles over the codec when it looks for zstd, before it knows "
    "the log; the answer has no log start offset then."
)
UNUSED_BITS = (
    "Where the broker sets the time, Kafka writes the attributes anew without the bits that mean "
    "nothing; this broker changes the bits that it has to."
)
KEPT_BASE = (
    "A batch that is compressed anew keeps its base timestamp here; Kafka takes that of the first "
    "record, which a producer's batch has anyway."
)
NO_TIMES = (
    "Of records that have no timestamps none has the largest: offset -1. Kafka compares -1 with -1 "
    "and answers with the first record of the segment."
)
OPEN_FOR_OTHERS = (
    "An InitProducerId with an epoch that is not that of the open transaction changes nothing. "
    "Kafka aborts the transaction first, and looks at the epoch afterwards."
)
FENCED_STAYS_FENCED = (
    "After a transaction of version 1 the epoch before is that of a producer which was fenced. "
    "Kafka takes its EndTxn 5 for a repeated one and answers with the epoch of the producer that "
    "fenced it: both go on with one epoch, and one commits or aborts what the other wrote."
)
OF_NODES = (
    "Requests between brokers are taken only on the listener of nodes. Kafka takes them from every "
    "client while it has no authorizer, and never answers one without transactions."
)
ABORTS_ONLY = (
    "A client may only abort a transaction that is open. Kafka without an authorizer lets every "
    "client commit, and writes markers for nothing."
)
NOT_HERE = "A setting of something that this broker does not have."
OF_THIS_NODE = "Addresses and directories of this very node, given in another way."
NO_LOGGERS = "The levels of loggers are not settings here, so they are no resources."
ONE_LISTENER = (
    "Kafka changes its listeners while it runs; this broker listens where it was started, so the "
    "setting cannot be changed."
)
SOCKET_BUFFERS = "the operating system chooses: a fixed size switches off its own tuning"
WORKERS = "Four threads by default instead of ten: they only fsync and remove files."
TOO_MANY_PARTITIONS = (
    "More records than a batch of the metadata log holds: Kafka throws (UNKNOWN_SERVER_ERROR), "
    "this broker says POLICY_VIOLATION."
)
NO_SUCH_OPERATION = (
    "Kafka throws on an operation that does not exist (UNKNOWN_SERVER_ERROR); this broker says "
    "INVALID_REQUEST."
)
DEFAULT_NODE = (
    "This broker starts without any setting, so its node id has a default; Kafka's must be given."
)
NO_TEXT = "Kafka's text for people is empty here."
UNKNOWN_BROKER_SETTING = (
    "Kafka stores settings that nobody knows, for plugins that may; here there are none, and a "
    "misspelt name is refused instead of being ignored."
)
NOT_SERVED = (
    "Security, voters of the quorum, groups of the newer protocols (KIP-848) and share groups are "
    "not here; their keys are not listed."
)
NEWER = "This broker serves the versions of Kafka 4.4."
FEATURES = "Features of what is not here; metadata versions from before 4.0 are not read."
NOTHING_NAMED = (
    "Neither name nor id: Kafka throws (UNKNOWN_SERVER_ERROR); here it is the id of no topic."
)
RESOURCE_TWICE = (
    "Kafka throws on a resource that is named twice and never answers; this broker refuses it."
)
STRICT_DECODING = (
    "Kafka takes every negative length for null and replaces bytes that are no UTF-8. Here only -1 "
    "is null and text is UTF-8: what is malformed closes the connection."
)
NEGATIVE_EPOCH = (
    "No epoch is negative. Kafka compares -2 with the epoch it has noted for the empty log; this "
    "broker notes an epoch with its first batch and knows none before."
)
OWN_LOG = "Each broker has a metadata log of its own, with its own records, epochs and directory."
NO_CONTROLLER_LISTENER = (
    "Clients reach the controller by the listener of the broker; Kafka has another one for it."
)
NULL_RECORDS = (
    "Kafka throws on null records and never answers, so the connection hangs; this broker refuses "
    "them as it does empty ones."
)

FORGOTTEN = (
    "A member that asks again on another connection: Kafka forgets the older request, so whoever "
    "waits for its answer waits for ever; this broker answers both alike."
)


def refused_only_here(kind: str, reason: str) -> tuple[Deviation, ...]:
    """Return entries for kinds of batches that Kafka stores: the answers, and the records read
    back.
    """
    step = f"produce-*: *{kind}"
    return (
        Deviation(step, "*.error_code", reason, ours="INVALID_RECORD", kafka="NONE"),
        Deviation(step, "*.base_offset", reason, ours=-1),
        Deviation(f"{step} read back", "*.high_watermark", reason, ours=0),
        Deviation(f"{step} read back", "*.last_stable_offset", reason, ours=0),
        Deviation(f"{step} read back", "*.records.batches", reason, ours=[]),
    )


def judged_by_another_rule(kind: str, reason: str) -> tuple[Deviation, ...]:
    """Return entries for such batches where a topic's setting makes Kafka refuse or stamp them."""
    step = f"produce-topics: *{kind}"
    return (
        Deviation(step, "*.error_code", reason, ours="INVALID_RECORD", kafka="INVALID_TIMESTAMP"),
        Deviation(step, "*.record_errors", reason, ours=[]),
        Deviation(step, "*.log_append_time_ms", reason, ours=-1, kafka="<now>"),
    )


KNOWN: tuple[Deviation, ...] = (
    Deviation("transaction-states: * Ongoing, init, after", "*", OPEN_FOR_OTHERS),
    Deviation(
        "transaction-states: * of the second producer, commit v5, before*", "*", FENCED_STAYS_FENCED
    ),
    Deviation(
        "transaction-states: * of the second producer, abort v5, before*", "*", FENCED_STAYS_FENCED
    ),
    Deviation("transaction-versions: versions end v5, stale", "*", FENCED_STAYS_FENCED),
    Deviation("transaction-versions: of a broker v?", "", OF_NODES, kafka="no answer"),
    Deviation("transaction-versions: of a broker v?, verify", "*", OF_NODES),
    Deviation("transaction-markers: v? commit in transacted", "*", ABORTS_ONLY, kafka="NONE"),
    Deviation("transaction-markers: v? abort in transacted", "*", ABORTS_ONLY, kafka="NONE"),
    Deviation("produce: null records", "", NULL_RECORDS, kafka="no answer"),
    Deviation("produce*", "*.error_message", SAYS_WHY, ours="<text>", kafka=None),
    Deviation("produce-batches: *codec ?", "*.error_code", UNKNOWN_CODEC),
    Deviation("produce-batches: v[56] codec ?", "*.log_start_offset", CODEC_CHECK_BEFORE_ZSTD),
    Deviation("produce-topics: *append-time: unused attribute bits *", "*.attributes", UNUSED_BITS),
    Deviation("produce-topics: * log append time bit read back", "*.base_timestamp", KEPT_BASE),
    Deviation("produce-topics: * record byte 2 * read back", "*.base_timestamp", KEPT_BASE),
    *(
        Deviation(f"produce-batches: v* {codec} {kind}", "*.error_code", NO_SERVER_ERROR)
        for codec in ("gzip", "snappy", "lz4", "zstd")
        for kind in ("that is none", "cut")
    ),
    Deviation("produce-batches: v* snappy with garbage", "*.error_code", NO_SERVER_ERROR),
    Deviation("produce-batches: v* zstd with garbage", "*.error_code", NO_SERVER_ERROR),
    *refused_only_here("record byte 3 is 0x7f", STRICT_DELTAS),
    *refused_only_here("offset deltas wrong", STRICT_DELTAS),
    *judged_by_another_rule("record byte 3 is 0x7f", STRICT_DELTAS),
    *judged_by_another_rule("offset deltas wrong", STRICT_DELTAS),
    *refused_only_here("gzip with garbage", NO_GARBAGE),
    *refused_only_here("lz4 with garbage", NO_GARBAGE),
    Deviation("create-partitions: v? huge", "*", TOO_MANY_PARTITIONS, kafka="UNKNOWN_SERVER_ERROR"),
    Deviation("create-partitions: v? huge", "*", TOO_MANY_PARTITIONS, ours="<text>"),
    Deviation("alter-topic-configs: v? *'retention.ms', 7, *", "*", NO_SUCH_OPERATION),
    Deviation("describe-configs: *", "results*.configs.*", NOT_HERE, ours=ABSENT),
    *(
        Deviation("describe-configs: *", f"results*.configs.{name}.*", OF_THIS_NODE)
        for name in ("log.dirs", "process.roles", "listeners", "advertised.listeners")
    ),
    Deviation("*-configs: *", "*.configs.node.id.synonyms*", DEFAULT_NODE),
    Deviation("describe-configs: *", "*.configs.broker.id.synonyms*", DEFAULT_NODE),
    Deviation("describe-configs: *'described-unknown'", "*.error_message", NO_TEXT, kafka=""),
    Deviation("alter-broker-configs: *no.such.setting*", "*", UNKNOWN_BROKER_SETTING),
    Deviation("alter-broker-configs: *log.dirs*then", "*.configs.log.dirs.*", OF_THIS_NODE),
    Deviation("alter-broker-configs: *", "*.configs.ssl.keystore.location", NOT_HERE, ours=ABSENT),
    Deviation("alter-other-configs: *v1 all", "config_resources", NO_LOGGERS),
    Deviation("alter-other-configs: *v1 ?8?", "config_resources", NO_LOGGERS, ours=[]),
    Deviation("api-versions: *", "api_keys.*", NOT_SERVED, ours=ABSENT),
    Deviation("api-versions: *", "api_keys.18.max_version", NEWER),
    Deviation("api-versions: *", "api_keys.42.max_version", NEWER),
    Deviation("api-versions: *", "*_features.*", FEATURES, ours=ABSENT),
    Deviation("api-versions: *", "supported_features.metadata.version.min_version", FEATURES),
    Deviation("offset-for-leader-epoch: v? 1 epoch -2 current *", "*", NEGATIVE_EPOCH),
    Deviation("replace-configs: twice", "", RESOURCE_TWICE, kafka="no answer"),
    Deviation("frames: client id *", "", STRICT_DECODING, ours="closed", kafka="answered"),
    Deviation("bodies: * is 0xff", "", STRICT_DECODING, ours="closed", kafka="answered"),
    Deviation("frames: key 18 version *", "", NEWER),
    Deviation("metadata: v* null name and no id", "*", NOTHING_NAMED),
    Deviation("describe-configs: *", "*.background.threads.*", WORKERS),
    Deviation("alter-broker-configs: *", "*.background.threads.value", WORKERS, ours="4"),
    Deviation("alter-broker-configs: *", "*.background.threads.synonyms*.value", WORKERS, ours="4"),
    Deviation("describe-configs: *", "*.controller.listener.names.*", OF_THIS_NODE),
    Deviation("describe-configs: *", "*.controller.quorum.bootstrap.servers.*", OF_THIS_NODE),
    *(
        Deviation(
            "describe-configs: *", f"*.socket.{name}.buffer.bytes.*", SOCKET_BUFFERS, ours="-1"
        )
        for name in ("send", "receive")
    ),
    Deviation("list-offsets: v* isolation ?, 1 at -3", "*", NO_TIMES),
    Deviation("fetch: v* negative max *", "*", NEGATIVE_LIMIT),
    Deviation("fetch*", "*.records.cut", WHOLE_BATCHES, ours=0),
    *(
        Deviation("quorum: v? *cluster_metadata', ?0?*", f"*.{name}", OWN_LOG)
        for name in ("leader_epoch", "high_watermark", "log_end_offset", "replica_directory_id")
    ),
    Deviation("quorum: v2 *", "nodes*", NO_CONTROLLER_LISTENER),
    Deviation("group-asked-twice: the older *", "", FORGOTTEN, kafka="no answer"),
)
