"""The cluster's metadata: records in a log, an image made by replaying them, and decisions.

`image` is the metadata in memory, changed only by `replay`; `records` encodes its records and
`delta` says what a commit changed. A decision takes the image and a request and returns records and
a response: `decision`, then `topics`, `replica_placement`, `configs`, `brokers`, `features`, and by
way of `partition_change` `leader_election` and `reassignments`. `metadata_log` commits the records,
in service and over restarts, and `snapshots` keeps that log short.

Tests: unit/controller
"""
