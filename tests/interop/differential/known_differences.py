"""Every difference between this broker's answers and Apache Kafka 4.3.1's that stays, with its reason.

An entry that covers nothing any more fails the comparison, as an unknown difference does.
"""

from __future__ import annotations

from interop.differential.comparing import Known

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
    "Kafka stores uncompressed records whose offset deltas are not 0, 1, 2, ...; its consumers then "
    "skip or repeat records. Refused here, as Kafka itself does with wrong counts."
)
NO_GARBAGE = (
    "Kafka stops reading a gzip or lz4 stream after the last record and stores what follows it; "
    "readers that decompress the whole section cannot read such a batch. Refused here."
)
NEGATIVE_LIMIT = (
    "Kafka's log throws on a negative limit and answers UNKNOWN_SERVER_ERROR; this broker takes it as 0."
)
WHOLE_BATCHES = (
    "Kafka cuts the last batch off at the byte limit and clients throw the piece away; this broker "
    "sends whole batches only."
)
CODEC_CHECK_BEFORE_ZSTD = (
    "Below version 7 Kafka already stumbles over the codec when it looks for zstd, before it knows the "
    "log; the answer has no log start offset then."
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
    "Of records that have no timestamps none has the largest: offset -1. Kafka compares -1 with -1 and "
    "answers with the first record of the segment."
)
MIN_ISR_DEFAULT = (
    "Kafka's format writes min.insync.replicas as a default of the cluster, because eligible leader "
    "replicas need it; one broker has no use for them."
)
NULL_RECORDS = (
    "Kafka throws on null records and never answers, so the connection hangs; this broker refuses "
    "them as it does empty ones."
)


def refused_only_here(kind: str, reason: str) -> tuple[Known, ...]:
    """Batches of a kind that Kafka stores: the answers, and what is read back."""
    step = f"produce-*: *{kind}"
    return (
        Known(step, "*.error_code", reason, ours="INVALID_RECORD", kafka="NONE"),
        Known(step, "*.error_code", reason, ours="INVALID_RECORD", kafka="UNKNOWN_SERVER_ERROR"),
        Known(step, "*.error_code", reason, ours="INVALID_RECORD", kafka="INVALID_TIMESTAMP"),
        Known(step, "*.record_errors", reason, ours=[]),
        Known(step, "*.base_offset", reason, ours=-1),
        Known(step, "*.log_append_time_ms", reason, ours=-1, kafka="<now>"),
        Known(f"{step} read back", "*.high_watermark", reason, ours=0),
        Known(f"{step} read back", "*.last_stable_offset", reason, ours=0),
        Known(f"{step} read back", "*.records.batches", reason, ours=[]),
    )


KNOWN: tuple[Known, ...] = (
    Known("produce: null records", "", NULL_RECORDS, kafka="no answer"),
    Known("produce*", "*.error_message", SAYS_WHY, ours="<text>", kafka=None),
    Known("produce-batches: *codec ?", "*.error_code", UNKNOWN_CODEC),
    Known("produce-batches: v[56] codec ?", "*.log_start_offset", CODEC_CHECK_BEFORE_ZSTD),
    Known("produce-topics: append-time: unused attribute bits *", "*.attributes", UNUSED_BITS),
    Known("produce-topics: * log append time bit read back", "*.base_timestamp", KEPT_BASE),
    Known("produce-topics: * record byte 2 * read back", "*.base_timestamp", KEPT_BASE),
    *(
        Known(f"produce-batches: v* {codec} {kind}", "*.error_code", NO_SERVER_ERROR)
        for codec in ("gzip", "snappy", "lz4", "zstd")
        for kind in ("that is none", "cut")
    ),
    Known("produce-batches: v* snappy with garbage", "*.error_code", NO_SERVER_ERROR),
    Known("produce-batches: v* zstd with garbage", "*.error_code", NO_SERVER_ERROR),
    *refused_only_here("record byte 3 is 0x7f", STRICT_DELTAS),
    *refused_only_here("offset deltas wrong", STRICT_DELTAS),
    *refused_only_here("gzip with garbage", NO_GARBAGE),
    *refused_only_here("lz4 with garbage", NO_GARBAGE),
    Known("list-offsets: v* isolation ?, 1 at -3", "*", NO_TIMES),
    Known("*", "*.min.insync.replicas.*", MIN_ISR_DEFAULT),
    Known("fetch: v* negative max *", "*", NEGATIVE_LIMIT),
    Known("fetch*", "*.records.cut", WHOLE_BATCHES, ours=0),
)
