"""The group coordinator: the classic protocol of consumer groups, and their committed offsets.

Modules: `coordinator` (one method per request) and `group_shard` (the state of one partition of
`__consumer_offsets`); groups: `member`, `classic_group`, `join`, `rebalance`, `sync`, `heartbeat`,
`leave`, `static_members`, `listing`, `transitions` (the last changes of state); offsets: `offsets`,
`offset_commit`, `offset_deletion`, and of transactions `txn_offset_commit`, `late_offset_commits`,
`pending_offsets`; `group_records` (the records of all).

Tests: transcripts/groups, property/test_group_model.py, unit/broker/test_broker_groups.py
"""
