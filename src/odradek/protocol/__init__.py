"""Kafka's wire protocol and record format: bytes to values and back, for both sides of it.

`schema` declares messages, one dataclass per request or response for all its versions (`api`);
`compile` makes readers and writers of them, and `hot_produce` and `hot_fetch` are those by hand for
what is said most (see `hot_codec`). `frame` and `header` are what is around a message.
`record_batch` and its neighbours read, check, build and compress record batches.
`metadata_records` declares what the cluster's metadata log holds.

Nothing here does I/O or knows what a message means. What a peer got wrong is a `ProtocolError` (see
`model.errors`) and never anything else; nothing is allocated for a length that has not arrived.
"""
