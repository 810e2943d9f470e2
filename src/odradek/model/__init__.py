"""Modules for every package: environment, topics and ids, error codes. Imports no other package.

In reading order: `env` (clock, randomness, network and disk as arguments) · `topics` (names, ids) ·
`node` (id and address of a broker) · `errors` (Kafka's error codes) · `byte_ranges` (bytes that are
not copied) · `column_builders` (values to columns) · `java_hash` · for metrics: `histogram`,
`sampled_stat`, `stopwatch` · `version`.

Tests: unit/model
"""
