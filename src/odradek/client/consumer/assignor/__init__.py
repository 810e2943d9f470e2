"""Assignors: how a group's leader assigns partitions to the members.

`partition_assignor` (the interface), `registry` (the assignors by name), `range_roundrobin`,
`sticky` with `ownership`, `constrained` and `general`; `hash_order` is Java's order of iteration.

Tests: unit/client/consumer, golden
"""
