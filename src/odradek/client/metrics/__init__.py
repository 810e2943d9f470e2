"""The metrics of clients by Kafka's names: what there is, and how each is read.

`metric` has the values that `metrics()` of a client returns, `templates` the form of the tables,
`network_table`, `producer_table` and `consumer_table` a row for each metric. What is counted
belongs to the objects at work: `network_client.network_metrics`, `producer.metrics`,
`consumer.metrics`.

Tests: unit/client/metrics
"""
