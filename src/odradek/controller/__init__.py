"""The cluster's metadata: records in a log, an image made by replaying them, and decisions.

`image` is the metadata in memory, changed only by `replay`; `records` encodes its records and
`delta` says what a commit changed. A decision takes the image and a request and returns records and
a response: `decision`, then `topics`, `replica_placement`, `configs`, `brokers`, `features`, and by
way of `partition_change` `leader_election`, `reassignments` and `alter_partition`. The active
controller has `cluster_control`: `registration`, `broker_sessions` and what follows for the
partitions, `partition_pass`. `quorum_controller` submits decisions while this node leads the
quorum; `metadata_log` commits the records, in service and over restarts, and `snapshots` keeps that
log short.

Tests: unit/controller
"""
