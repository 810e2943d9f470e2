"""The transaction coordinator: transactional ids, their producers, and the ends of transactions.

Modules: `coordinator` (one method per request) and `transaction_shard` (the state of one partition
of `__transaction_state`); `transaction_state` (the table of states and events),
`transaction_metadata` (the state of an id), `transaction_records` (its records),
`transaction_record_codec` (from the one to the other), `ids_by_change` (the ids, in the order in
which they expire); requests:
`init_producer_id`, `add_partitions`, `end_txn`, `listing`, `id_pattern`; `markers` (the ends of
transactions, on their way to the partitions); `transaction_counters` (totals for metrics).

Tests: unit/coordinator, unit/broker/test_broker_transactions.py
"""
