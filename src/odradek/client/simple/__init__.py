"""A small synchronous client, for one thread: what the Spark data source and the demo read and
write with.

`connection` and `network_client` move bytes, `metadata` knows who leads what; `cluster`,
`range_fetcher` and `bulk_producer` are the requests a user of a cluster makes, retried where Kafka
says they may be.
"""
