"""The settings of brokers, topics and clients.

Each setting is declared on one typed line. Parsing, validation, DescribeConfigs, the keyword
arguments of the clients and the reference pages follow from it.

In reading order: `setting` (a declaration) · `settings` (a set of them with values, in layers) ·
`broker` with `broker_log`, `transactions`, `replication`, `broker_connections`, `quorum`, `http`
and `without_effect` · other resources: `topic`, `group`, `client_metrics` · `client` (settings of
all clients and of the admin client, how they are loaded), `client_names` (aliases of librdkafka,
kafka-python and aiokafka), `producer`, `consumer`, `offset_reset`, `keywords` (rendered) ·
`addresses`, `durations`.

Tests: unit/config, unit/reference
"""
