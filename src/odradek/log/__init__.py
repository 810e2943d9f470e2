"""The log: one directory of segments per partition, in Kafka's file formats.

The disk: `files`, `memory_disk`. The formats: `segment`, `index`, `transaction_index`, `scan`,
`log_segments`, `leader_epochs`, `checkpoints`, `durable_ends`. One partition: `log`, `log_reader`,
`leader_batches`, `truncation`, `time_lookup`, `log_config`, `producer_state`, `open_transactions`,
`verification`, `producer_snapshot`. Durability: `flush`, `fence`, `recovery`. Deletion:
`retention`, `compaction`. All partitions of a data directory: `log_directory`,
`directory_identity`, `directory_offsets`. A reader of its files: `dump`.

Tests: unit/log, property/test_log_model.py, property/test_log_crashes.py,
property/test_log_transactions.py, property/test_compaction_model.py,
property/test_time_lookup_model.py, sim/test_broken_parts.py, sim/test_broken_removals.py
"""
