"""Coordinators: state that clients share, kept as records of an internal topic.

    request -> operation -> OperationResult (records, responses, timers)
                 |
              append to the partition -> replay: the only code that changes the state -> timers
                 |
              the high watermark passes -> responses are sent

Modules: `runtime` (the shards of a topic), `shard` (one partition with its state), `operation`
(what an operation returns), `timers`, `answered_connection`, `records` (the codec of a topic's
records); `group` is the group coordinator, `transaction` that of transactions. Time, randomness,
disk and network are arguments.

Tests: unit/coordinator, transcripts/groups, property/test_group_model.py,
property/test_transaction_coordinator.py, sim/test_group_worlds.py, sim/test_transaction_worlds.py
"""
