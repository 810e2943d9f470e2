"""The producer, without I/O.

In the order in which a record passes: `send_path` (serialize, choose a partition), `partitioner`,
`record_accumulator` with `partition_queue`, `producer_batch` and `buffer_pool`, `sender`,
`produce_request`, `batch_completion` with `transaction_manager`, `futures`. With interceptors
`intercepted_send` comes first. `producer_core` puts them together and holds the records that have
to wait; `record_input` is many records at once; `arguments` and `settings` are the configuration,
`metrics` the metrics.

Of transactions: `transaction_phases` (phases, effects of errors), `transaction_steps` (carries out
the steps), `transaction_requests`, `transaction_block` (`with producer.transaction()`).

Tests: unit/client/producer, sim, clients
"""
