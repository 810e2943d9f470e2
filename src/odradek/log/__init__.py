"""The log: one directory of segments per partition, in Kafka's file formats.

Read in this order: `files` and `memory` (the disk), `segment` and `index` (the formats), `log` (one
partition), `flush` (what makes bytes durable), `recovery` (what is believed after a crash),
`log_directory` (all partitions).
"""
