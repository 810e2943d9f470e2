"""Log compaction (`cleanup.policy=compact`): keeps the last record of each key.

`cleaner` is one pass over one log, `batch_retention` decides which records of a batch stay,
`transaction_outcomes` which are of aborted transactions, `segment_swap` replaces old segments by
compacted ones. `broker.log_cleaner` decides which log is compacted when.

Tests: unit/log/test_cleaner*.py, unit/log/test_transaction_compaction.py,
unit/log/test_log_to_clean.py, unit/log/test_swap_crashes.py, property/test_compaction_model.py,
sim/test_compaction_crashes.py, interop/test_compaction.py
"""
