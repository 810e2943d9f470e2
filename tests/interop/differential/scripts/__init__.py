"""The scripts by name: what is asked of both brokers."""

from __future__ import annotations

from collections.abc import Callable

from interop.differential.peer import Peer
from interop.differential.scripts import (
    cluster,
    committed,
    committed_ends,
    configs,
    fetch,
    frames,
    group_admin,
    groups,
    offsets,
    produce,
    topics,
)

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
    "create-topics": topics.create,
    "create-partitions": topics.create_partitions,
    "delete-topics": topics.delete,
    "describe-configs": configs.describe,
    "alter-topic-configs": configs.alter_topics,
    "alter-broker-configs": configs.alter_brokers,
    "inherited-configs": configs.inherited,
    "replace-configs": configs.replace,
    "api-versions": cluster.api_versions,
    "metadata": cluster.metadata,
    "describe-cluster": cluster.describe_cluster,
    "describe-topic-partitions": cluster.topic_partitions,
    "describe-log-dirs": cluster.log_dirs,
    "init-producer-id": cluster.init_producer_id,
    "find-coordinator": groups.find_coordinator,
    "group-strangers": groups.strangers,
    "group-lives": groups.lives,
    "group-wrong-tokens": groups.wrong_tokens,
    "group-protocols": groups.protocols,
    "group-together": groups.together,
    "group-departures": groups.departures,
    "group-static-members": groups.static_members,
    "group-limits": groups.limits,
    "group-sessions": group_admin.sessions,
    "describe-groups": group_admin.describe,
    "list-groups": group_admin.list_groups,
    "delete-groups": group_admin.delete,
    "offset-commits": committed.commits,
    "offset-commits-of-members": committed.commits_of_members,
    "offset-fetches": committed.fetches,
    "offset-deletes": committed_ends.deletes,
    "offset-ends": committed_ends.ends,
    "offset-commits-large": committed_ends.large,
    "frames": frames.frames,
    "bodies": frames.bodies,
}
