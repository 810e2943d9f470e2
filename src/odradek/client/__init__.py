"""The clients' side of the protocol: connections to the nodes of a cluster, cached metadata, and
calls built on them.

A seed: synchronous, for one thread. The Spark data source and the demo use it; producer, consumer
and admin clients will grow from the same two parts. `connection` and `network_client` move bytes,
`metadata` knows who leads what, `calls` are the requests a user of the cluster makes, retried where
Kafka says they may be.
"""
