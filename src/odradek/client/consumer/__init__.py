"""The consumer, without I/O: fetching, positions, group membership, and the application's poll.

In reading order: `consumer_core` (the parts, wired), `position/` (subscription, positions, offset
requests), `fetch/` (Fetch requests to records), `group/` (the consumer's side of its group),
`assignor/` (how a leader assigns partitions), `application/` (the poll loop and other calls),
`interception` (interceptors); `arguments`, `record` and `batch` are what users see, `metrics` is
what is counted. `client.blocking` and `client.aio` are the APIs over it.

Tests: unit/client/consumer, transcripts/consumer, property, clients/consumer, sim
"""
