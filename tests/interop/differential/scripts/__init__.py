"""The scripts by name: what is asked of both brokers."""

from __future__ import annotations

from collections.abc import Callable

from interop.differential.peer import Peer
from interop.differential.scripts import fetch, offsets, produce

Script = Callable[[Peer], None]

SCRIPTS: dict[str, Script] = {
    "produce": produce.requests,
    "produce-batches": produce.batches,
    "produce-topics": produce.topic_settings,
    "produce-idempotent": produce.idempotent,
    "fetch": fetch.reading,
    "fetch-sessions": fetch.sessions,
    "fetch-deleted-topic": fetch.deleted_topic,
    "fetch-two-topics": fetch.two_topics,
    "list-offsets": offsets.list_offsets,
    "list-offsets-append-times": offsets.append_times,
    "offset-for-leader-epoch": offsets.epoch_ends,
    "delete-records": offsets.delete_records,
    "describe-producers": offsets.describe_producers,
}
